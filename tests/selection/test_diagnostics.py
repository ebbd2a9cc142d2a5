"""What makes false components is found in the residuals of a fit, and nothing else is."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.draws import generator, seed

from anypca import EPCA, PPCA, KernelPCA
from anypca.datasets import make_low_rank
from anypca.selection import diagnose

NAMES = ("outlying rows", "neighbouring rows", "correlated noise", "uneven rows", "equal columns")


def look(model, X, **companions):
    return {found.name: found for found in diagnose(model.fit(X, **companions), X, **companions)}


def found_in(model, X, **companions):
    return {name for name, found in look(model, X, **companions).items() if found.is_found}


def smooth(x, rho):
    """Normal numbers of the same variance that correlate by ``rho`` with those in the row before."""
    x = x.copy()
    for i in range(1, len(x)):
        x[i] = rho * x[i - 1] + np.sqrt(1.0 - rho**2) * x[i]
    return x


def broken(kind, n, p, rng):
    """Noise in which one assumption does not hold, by far."""
    noise = rng.standard_normal((n, p))
    if kind == "outlying rows":
        noise[rng.choice(n, 2, replace=False)] *= 10.0
    elif kind == "neighbouring rows":
        noise = smooth(noise, 0.8)
    elif kind == "correlated noise":
        noise = smooth(noise.T, 0.9).T
    elif kind == "uneven rows":
        noise *= np.exp(0.8 * rng.standard_normal((n, 1)))
    return noise


@pytest.mark.parametrize("kind", NAMES[:4])
@pytest.mark.parametrize("shape", [(200, 12), (150, 40)], ids=str)
def test_what_is_broken_is_found(kind, shape, rng):
    eta = make_low_rank(*shape, 3, family="gaussian", random_state=rng).eta
    found = look(PPCA(3), eta + broken(kind, *shape, rng))[kind]
    assert found.is_found
    assert found.text
    assert found.z >= 2.0


@pytest.mark.parametrize("kind", NAMES[1:4])
def test_what_is_broken_in_counts_is_found(kind, rng):
    eta = 2.0 + 0.5 * make_low_rank(150, 25, 3, family="gaussian", random_state=rng).eta
    X = rng.poisson(np.exp(np.clip(eta + 0.7 * broken(kind, 150, 25, rng), None, 9.0))).astype(float)
    assert kind in found_in(EPCA(3, family="negative_binomial"), X)


def test_false_alarms_are_rare():
    """At most 2 % each: more than five in 24 tables have a probability of one in 100 000."""
    alarms = dict.fromkeys(NAMES, 0)
    for family, signal, intercept in (
        ("gaussian", 1.0, 0.0),
        ("poisson", 0.5, 1.5),
        ("bernoulli", 1.5, 0.0),
        ("gamma", 0.7, 0.0),
    ):
        for number in range(6):
            given = {"signal": signal, "intercept": intercept, "dispersion": 0.5}
            X = make_low_rank(100, 12, 2, family=family, random_state=seed(number), **given).X
            for name in found_in(EPCA(2, family=family, ridge=1.0), X):
                alarms[name] += 1
    assert max(alarms.values()) <= 5


def test_statistics_of_white_noise_are_standard():
    """z of neighbouring and of uneven rows: mean 0 and variance 1 over tables, five standard errors wide."""
    rng, values = generator("white noise"), []
    for _ in range(60):
        found = look(PPCA(1), rng.normal(size=(80, 10)))
        assert not any(each.text for each in found.values() if not each.is_found)
        values.append([found[name].z for name in ("neighbouring rows", "uneven rows")])
    z = np.array(values)
    assert (np.abs(z.mean(axis=0)) < 5 / np.sqrt(60)).all()
    # Squares have heavier tails than the normal distribution that their variance is taken from.
    assert ((z.std(axis=0) > 0.6) & (z.std(axis=0) < 1.6)).all()


def effects(X):
    return {name: found.effect for name, found in look(EPCA(0, family="gaussian"), X).items()}


def test_effects_are_what_was_put_in():
    """Of a long table without components, each in the unit that its description states."""
    rng, n, p = generator("effects"), 2000, 12
    noise = rng.normal(size=(n, p))
    assert effects(noise)["neighbouring rows"] == pytest.approx(0.0, abs=0.05)
    assert effects(smooth(noise, 0.5))["neighbouring rows"] == pytest.approx(0.5, abs=0.06)
    # Squared spread of the rows' variances, 0.5 and 1.5 in equal shares.
    uneven = noise * np.sqrt(rng.permutation(np.repeat([0.5, 1.5], n // 2)))[:, None]
    assert effects(uneven)["uneven rows"] == pytest.approx(0.25, abs=0.06)
    # The eigenvalues of one pair that correlates by 0.6 have the relative variance 2 r^2 / p.
    pair = noise.copy()
    pair[:, 3] = 0.6 * noise[:, 5] + 0.8 * noise[:, 3]
    assert effects(pair)["correlated noise"] == pytest.approx(2 * 0.36 / p, abs=0.025)
    far = noise.copy()
    far[[5, 70, 300]] *= 6.0
    # Of 2000 rows of noise hardly any is as far by chance.
    assert effects(far)["outlying rows"] in (3, 4)
    copies = rng.poisson(3.0, size=(200, 5)).astype(float)
    copies[:, 4] = copies[:, 1]
    found = look(EPCA(0, family="poisson"), copies)["equal columns"]
    assert (found.effect, found.is_found) == (1.0, True)


def test_scores_that_are_smooth_along_the_rows_are_no_neighbours(rng):
    X = smooth(rng.normal(size=(200, 2)), 0.95) @ rng.normal(size=(2, 20)) + rng.normal(size=(200, 20))
    found = look(PPCA(2), X)["neighbouring rows"]
    # 200 cosines in 18 directions: five standard errors.
    assert abs(found.effect) < 5 / np.sqrt(200 * 18)
    assert not found.is_found


def test_a_row_that_is_a_component_of_its_own_is_outlying(rng):
    """Its residual is 0: only its share of the component shows."""
    X = rng.normal(size=(200, 20))
    X[17] += 30.0 * rng.normal(size=20)
    found = diagnose(PPCA(1).fit(X), X, row_names=[f"r{i}" for i in range(200)])[0]
    assert found.is_found
    assert "r17" in found.text
    assert "student_t" in found.text


def test_two_columns_that_correlate_are_named(rng):
    X = rng.normal(size=(200, 30))
    X[:, 7] = 0.8 * X[:, 21] + 0.6 * X[:, 7]
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    found = look(EPCA(0, family="gaussian"), table)["correlated noise"]
    assert found.is_found
    assert "c7 and c21 (+0." in found.text
    # Fisher's transformation of the correlation, 1.1, with 200 rows and its standard error.
    assert found.z == pytest.approx(np.arctanh(0.8) * np.sqrt(196), abs=6.0)


def test_answers_that_coincide_are_named(rng):
    X = make_low_rank(100, 12, 1, family="bernoulli", random_state=rng).X
    X[:, 7], X[:, 8:10], X[3, 8:10] = X[:, 2], 0.0, 1.0
    found = look(EPCA(1, family="bernoulli"), X)["equal columns"]
    # One answer in the same row of a hundred, x9 and x10, is chance.
    assert found.effect == 1.0
    assert "x3 and x8" in found.text


def test_covariates_take_a_trend_out(rng):
    time = np.linspace(-1, 1, 150)[:, None]
    X = 3.0 * time * rng.choice([-1.0, 1.0], size=12) + rng.normal(size=(150, 12))
    model = EPCA(0, family="gaussian")
    assert look(model, X)["neighbouring rows"].is_found
    found = look(model, X, covariates=time)["neighbouring rows"]
    assert abs(found.effect) < 5 / np.sqrt(150 * 12)
    assert not found.is_found


@pytest.mark.parametrize("form", [sparse.csr_array, pd.DataFrame], ids=["sparse", "frame"])
def test_every_form_of_a_table_gives_the_same(form, rng):
    X = make_low_rank(80, 10, 1, family="poisson", random_state=rng).X
    model = EPCA(1, family="poisson", tol=1e-8)
    first, second = ([found.z for found in look(model, table).values()] for table in (X, form(X)))
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(KernelPCA(2), (60, 5)), (PPCA(1), (12, 5)), (PPCA(2), (60, 4))],
    ids=["no loadings", "few rows", "few columns"],
)
def test_nothing_is_reported_if_nothing_can_be_found(model, shape, rng):
    X = rng.normal(size=shape)
    assert diagnose(model.fit(X), X) == ()


def test_sorted_rows_are_a_note_and_no_warning(rng):
    """Rows sorted by a class correlate with their neighbours; nothing is wrong with them."""
    group = np.repeat([0, 1, 2], 60)
    X = 2.0 * rng.normal(size=(3, 12))[group] + rng.normal(size=(180, 12))
    found = look(PPCA(1), X)["neighbouring rows"]
    assert found.is_found
    assert not found.is_warning
    assert "group" in found.text


@pytest.mark.parametrize(
    ("family", "has_remedy"), [("gaussian", True), ("negative_binomial", False), ("log_normal", False)]
)
def test_remedies_suit_the_families(family, has_remedy, rng):
    X = 1.0 + rng.poisson(20.0, size=(200, 15))
    X[5] *= 10.0
    found = look(EPCA(0, family=family), X)
    assert found["outlying rows"].is_found
    assert any("student_t" in each.text for each in found.values()) == has_remedy


def test_parts_of_one_column_are_not_compared(rng):
    """Every two categories exclude each other; a finding names two columns."""
    group = rng.integers(0, 4, 300)
    labels = np.array(list("ABCD"))
    noise = rng.integers(0, 4, (300, 5))
    codes = np.where(rng.random((300, 5)) < 0.6, group[:, None], noise)
    table = pd.DataFrame(labels[codes], columns=[f"question{j}" for j in range(5)])
    found = look(EPCA(0), table)["correlated noise"]
    assert found.is_found
    first, second = re.findall(r"question\d", found.text)
    assert first != second
