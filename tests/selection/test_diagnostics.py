"""What makes false components is found in the residuals of a fit, and nothing else is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.diagnostics import NAMES, _counts, _real, _smooth
from scipy import sparse

from anypca import EPCA, PPCA, KernelPCA, SePCA
from anypca.datasets import make_low_rank
from anypca.selection import diagnose
from anypca.selection._residuals import leverages
from anypca.selection.diagnostics import _open
from anypca.selection.facts import Companions


def found_in(model, X, **companions):
    return {found.name for found in diagnose(model.fit(X, **companions), X, **companions) if found.is_found}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("shape", [(200, 12), (150, 40)], ids=str)
def test_power(kind, shape):
    """Each finding is there in all of five tables in which it should be."""
    for seed in range(5):
        X = _real(kind, *shape)(np.random.default_rng(seed))
        assert kind in found_in(PPCA(3), X)


@pytest.mark.parametrize("kind", NAMES)
def test_power_in_counts(kind):
    X = _counts(kind, 150, 25)(np.random.default_rng(1))
    assert kind in found_in(EPCA(3, family="negative_binomial"), X)


@pytest.mark.parametrize(
    ("family", "signal", "intercept"),
    [("gaussian", 1.0, 0.0), ("poisson", 0.5, 1.5), ("bernoulli", 1.5, 0.0), ("gamma", 0.7, 0.0)],
)
def test_false_alarms(family, signal, intercept):
    alarms = np.zeros(5)
    for seed in range(6):
        X = make_low_rank(
            120, 15, 2, family=family, signal=signal, intercept=intercept, dispersion=0.5, random_state=seed
        ).X
        alarms += [found.is_found for found in diagnose(EPCA(2, family=family).fit(X), X)]
    # At 2 % each, two in six tables have a probability of 0.6 %.
    assert alarms.max() <= 1


def test_statistics_of_white_noise_are_standard():
    """z of neighbouring and of uneven rows: mean 0 and variance 1 over tables, four standard errors wide."""
    values = []
    for seed in range(60):
        X = np.random.default_rng(seed).normal(size=(80, 10))
        values.append([found.z for found in diagnose(PPCA(1).fit(X), X)])
    z = np.array(values)[:, [1, 3]]
    assert (np.abs(z.mean(axis=0)) < 4 / np.sqrt(60)).all()
    # Squares have heavier tails than the normal distribution that their variance is taken from.
    assert ((z.std(axis=0) > 0.7) & (z.std(axis=0) < 1.5)).all()


def test_heavy_tails_of_single_entries_are_no_uneven_rows():
    for seed in range(4):
        X = np.random.default_rng(seed).standard_t(3.0, size=(150, 12))
        assert "uneven rows" not in found_in(PPCA(1), X)


def test_scores_that_are_smooth_along_the_rows_are_no_finding():
    rng = np.random.default_rng(0)
    z = _smooth(rng.normal(size=(200, 2)), 0, 0.95)
    X = z @ rng.normal(size=(2, 20)) + rng.normal(size=(200, 20))
    assert found_in(PPCA(2), X) == set()


def test_a_row_that_is_a_component_of_its_own_is_outlying():
    """Its residual is 0: only its share of the component tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    X[17] += 30.0 * rng.normal(size=20)
    found, *others = diagnose(PPCA(1).fit(X), X, row_names=[f"r{i}" for i in range(200)])
    assert found.is_found
    assert not any(other.is_found for other in others)
    assert "1 row of 200 far from the others (r17)" in found.text
    assert "student_t" in found.text


def test_two_columns_that_correlate_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    X[:, 7] = 0.8 * X[:, 21] + 0.6 * X[:, 7]
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    found = diagnose(EPCA(0, family="gaussian").fit(table), table)[2]
    assert found.is_found
    assert "c7 and c21 (+0.8" in found.text


def test_answers_that_coincide_are_named():
    X = make_low_rank(100, 12, 1, family="bernoulli", random_state=0).X
    X[:, 7], X[:, 8:10], X[3, 8:10] = X[:, 2], 0.0, 1.0
    (found,) = (f for f in diagnose(EPCA(1, family="bernoulli").fit(X), X) if f.name == "equal columns")
    # One answer in the same row of a hundred, x9 and x10, is chance.
    assert found.effect == 1.0
    assert "x3 and x8" in found.text


def test_covariates_take_a_trend_out():
    rng = np.random.default_rng(0)
    time = np.linspace(-1, 1, 150)[:, None]
    X = 3.0 * time * rng.normal(size=12) + rng.normal(size=(150, 12))
    model = EPCA(0, family="gaussian")
    assert "neighbouring rows" in found_in(model, X)
    assert found_in(model, X, covariates=time) == set()


@pytest.mark.parametrize("form", [sparse.csr_array, pd.DataFrame], ids=["sparse", "frame"])
def test_every_form_of_a_table_gives_the_same(form):
    X = make_low_rank(80, 10, 1, family="poisson", random_state=0).X
    model = EPCA(1, family="poisson").fit(X)
    expected = [found.z for found in diagnose(model, X)]
    table = form(X)
    other = EPCA(1, family="poisson").fit(table)
    # Fits to other containers end within their tolerance.
    np.testing.assert_allclose([found.z for found in diagnose(other, table)], expected, rtol=1e-2, atol=1e-2)


def test_missing_cells():
    X = make_low_rank(150, 15, 2, family="gaussian", missing=0.1, random_state=0).X
    assert found_in(PPCA(2), X) == set()


def test_leverages_are_those_of_the_hat_matrix():
    rng = np.random.default_rng(0)
    scores, fixed = rng.normal(size=(30, 2)), np.ones((30, 1))
    features = np.hstack([fixed, scores])
    hat = features @ np.linalg.pinv(features)
    own, following = leverages(fixed, scores, 0.9)
    np.testing.assert_allclose(own, np.diag(hat))
    np.testing.assert_allclose(following[:-1], np.diag(hat, 1), atol=1e-12)


def test_noise_is_without_the_directions_of_the_loadings():
    X = make_low_rank(100, 10, 2, family="gaussian", random_state=0).X
    left = _open(PPCA(2).fit(X), X, Companions())
    assert left is not None
    noise = left.noise(np.zeros(0, dtype=int))
    assert noise is not None
    np.testing.assert_allclose(noise.values @ noise.basis, 0.0, atol=1e-10)
    assert noise.n_directions == 8
    # Units of noise: what is left of a column has the variance that its directions leave.
    free = 1.0 - (noise.basis**2).sum(axis=1)
    np.testing.assert_allclose((noise.values**2).mean(axis=0), free, rtol=0.2)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(KernelPCA(2), (60, 5)), (PPCA(1), (12, 5)), (PPCA(2), (60, 4))],
    ids=["no loadings", "few rows", "few columns"],
)
def test_nothing_is_said_where_nothing_can_be(model, shape):
    X = np.random.default_rng(0).normal(size=shape)
    assert diagnose(model.fit(X), X) == ()


def test_squared_cosines_of_white_noise_are_one_over_the_directions():
    X = np.random.default_rng(6).normal(size=(300, 20))
    noise = _open(PPCA(1).fit(X), X, Companions(None, None)).noise(np.zeros(0, dtype=int))
    excess, z = noise.excess
    assert abs(z) < 3.0
    assert excess == pytest.approx(0.0, abs=0.02)


def test_tables_drawn_from_a_model_have_the_residuals_of_its_table():
    """What was fitted is in them too: the spread of residuals agrees, also in counts and with missing cells."""
    drawn = make_low_rank(
        200, 30, 3, family="negative_binomial", signal=0.7, dispersion=0.3, missing=0.1, random_state=0
    )
    model = SePCA(6, family="negative_binomial").fit(drawn.X)
    left = _open(model, drawn.X, Companions(None, None))
    spread = np.mean([(values**2).sum() for values in left.table.drawn()])
    assert spread == pytest.approx((left.values**2).sum(), rel=0.05)
    assert all((values[~left.seen] == 0).all() for values in left.table.drawn())
