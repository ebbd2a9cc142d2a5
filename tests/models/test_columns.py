"""Models of some columns of a table and of columns of different families: fitted without some, reported with all."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.draws import generator
from tests.models.tables import is_monotone

import anypca
from anypca import EPCA, GPCA, SePCA
from anypca.columns import column_forms
from anypca.columns.forms import Constant, Copy, Excluded, Recoded
from anypca.datasets import make_low_rank
from anypca.families import families

N = 60
COUNTS = make_low_rank(N, 6, 1, family="poisson", signal=0.8, random_state=generator("columns")).X + 0.0
#: A running number in front, and behind a constant and twice the second column plus 1.
WIDE = np.column_stack([np.arange(float(N)), COUNTS, np.full(N, 3.0), 1.0 + 2.0 * COUNTS[:, 1]])
FORMS = [Excluded(reason="running numbers"), *["poisson"] * 6, Constant(3.0), Copy(2, 1.0, 2.0)]
KEPT, DROPPED = slice(1, 7), [0, 7, 8]
MODELS: dict[str, Any] = {
    "EPCA": EPCA(1, family="poisson", tol=1e-8, n_jobs=1),
    "SePCA": SePCA(1, family="poisson", tol=1e-6, n_jobs=1),
    "GPCA": GPCA(1, family="poisson", tol=1e-7, n_jobs=1),
}
each_model = pytest.mark.parametrize("name", MODELS)


@cache
def fitted(name: str) -> tuple[Any, Any]:
    """Return the model of the columns that matter, and the model of the wide table."""
    wide = clone(MODELS[name]).set_params(family=FORMS)
    return clone(MODELS[name]).fit(COUNTS), wide.fit(WIDE)


@each_model
def test_columns_outside_of_the_model_change_nothing(name: str) -> None:
    plain, wide = fitted(name)
    assert wide.n_features_in_ == 9
    assert_allclose(wide.components_[:, KEPT], plain.components_, rtol=1e-10)
    assert_array_equal(wide.components_[:, DROPPED], 0.0)
    assert_allclose(wide.intercept_[KEPT], plain.intercept_, rtol=1e-10)
    assert_allclose(wide.transform(WIDE), plain.transform(COUNTS), rtol=1e-10)
    assert_allclose(wide.score_samples(WIDE), plain.score_samples(COUNTS), rtol=1e-10)


@each_model
def test_all_columns_come_back(name: str, tmp_path: Path) -> None:
    plain, wide = fitted(name)
    scores = plain.transform(COUNTS)
    means, expected = wide.inverse_transform(scores), plain.inverse_transform(scores)
    assert_allclose(means[:, KEPT], expected, rtol=1e-10)
    assert_allclose(means[:, [0, 7]], np.tile([(N - 1) / 2, 3.0], (N, 1)))
    assert_allclose(means[:, 8], 1.0 + 2.0 * expected[:, 1], rtol=1e-10)
    drawn = wide.sample(5, random_state=0)
    assert_array_equal(drawn[:, [7, 8]], np.column_stack([np.full(5, 3.0), 1.0 + 2.0 * drawn[:, 2]]))
    holes = WIDE.copy()
    holes[3, [0, 2, 7, 8]] = np.nan
    filled, seen = wide.impute(holes), ~np.isnan(holes)
    assert_array_equal(filled[seen], holes[seen])
    assert_allclose(filled[3, [0, 7, 8]], [(N - 1) / 2, 3.0, 1.0 + 2.0 * filled[3, 2]])
    anypca.save(wide, tmp_path / "model")
    again = anypca.load(tmp_path / "model")
    assert again.layout_ == wide.layout_
    assert_array_equal(again.inverse_transform(scores), means)


def test_entries_and_deviations_are_in_columns_of_the_table() -> None:
    plain, wide = fitted("SePCA")
    holes = WIDE.copy()
    holes[3, [0, 2, 7, 8]] = np.nan
    std = wide.impute(holes, return_std=True)[1]
    assert_allclose(std[3, [0, 7, 8]], [np.arange(N).std(), 0.0, 2.0 * std[3, 2]])
    assert_array_equal(std[~np.isnan(holes)], 0.0)
    rows, columns = np.array([4, 4, 4, 9]), np.array([0, 1, 7, 3])
    found = wide.entry_log_likelihood(WIDE, rows, columns, WIDE[rows, columns])
    expected = plain.entry_log_likelihood(COUNTS, [4, 9], [0, 2], COUNTS[[4, 9], [0, 2]])
    assert_allclose(found, [0.0, expected[0], 0.0, expected[1]], rtol=1e-9)
    mean, _ = wide.entry_posterior(WIDE, np.array([4, 4]), np.array([2, 8]))
    assert mean[0] == mean[1]


def test_two_values_are_recoded() -> None:
    answers = (
        make_low_rank(N, 5, 1, family="bernoulli", signal=1.0, random_state=generator("answers")).X + 0.0
    )
    plain = EPCA(1, family="bernoulli", tol=1e-8).fit(answers)
    coded = answers.copy()
    coded[:, 2] = np.where(answers[:, 2] == 1.0, 7.0, 4.0)
    kinds = ["bernoulli", "bernoulli", Recoded((4, 7)), "bernoulli", "bernoulli"]
    model = EPCA(1, family=kinds, tol=1e-8).fit(coded)
    assert_allclose(model.components_, plain.components_, rtol=1e-10)
    means, expected = (m.inverse_transform(plain.transform(answers))[:, 2] for m in (model, plain))
    assert_allclose(means, 4.0 + 3.0 * expected, rtol=1e-10)
    assert set(model.sample(200, random_state=0)[:, 2]) == {4.0, 7.0}


def test_errors_name_the_column_of_the_table() -> None:
    bad = WIDE.copy()
    bad[5, 3] = -1.0
    for method in (EPCA(1, family=FORMS).fit, fitted("EPCA")[1].transform):
        with pytest.raises(ValueError, match=r"X\[5, 3\] is -1"):
            method(bad)
    with pytest.raises(ValueError, match="every column of X is left out"):
        EPCA(1, family="excluded").fit(COUNTS)


def test_columns_can_be_excluded_by_name_and_names_are() -> None:
    frame = pd.DataFrame(WIDE[:, :7], columns=["id", *"abcdef"])
    model = EPCA(1, family={"id": "excluded", "default": "poisson"}).fit(frame)
    assert model.layout_.names == tuple("abcdef")
    assert model.describe().column_families(list(frame))[0].family == "excluded"
    names = pd.DataFrame({"first": [f"n{i}" for i in range(N)], "second": [f"m{i}" for i in range(N)]})
    with pytest.raises(ValueError, match=r"'first', 'second'.*names"):
        SePCA().fit(names)
    assert list(SePCA().fit(names[["first"]].assign(number=np.arange(N) % 7.0)).layout_.dropped) == [0]


# ------------------------------------------------------------------------------ columns of several families

KINDS = ["poisson", "bernoulli", "gaussian", "gamma"]


def mixed_table(
    repeats: int, rng: np.random.Generator, n: int = 300
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Draw one component behind columns of every kind; Gaussian variance 6.25, gamma dispersion 0.4."""
    scores, kinds = rng.normal(size=n), KINDS * repeats
    eta = 0.7 * np.outer(scores, rng.choice([-1, 1], len(kinds)) * rng.uniform(0.7, 1.3, len(kinds))) + 0.3
    draw = {
        "poisson": lambda e: rng.poisson(np.exp(e)),
        "bernoulli": lambda e: rng.random(n) < 1 / (1 + np.exp(-e)),
        "gaussian": lambda e: 5 * (e + 0.5 * rng.normal(size=n)),
        "gamma": lambda e: np.exp(e) * rng.gamma(2.5, 0.4, size=n),
    }
    return (
        np.column_stack([draw[kind](eta[:, j]) for j, kind in enumerate(kinds)]).astype(float),
        kinds,
        scores,
    )


@pytest.mark.parametrize("model", [EPCA(1, ridge=1.0), SePCA(max_components=3)], ids=["EPCA", "SePCA"])
def test_dispersions_and_scores_are_recovered(model: Any, rng: np.random.Generator) -> None:
    X, kinds, scores = mixed_table(4, rng)
    model.set_params(family=kinds).fit(X)
    assert model.n_components_ == 1
    assert_array_equal(model.dispersion_.reshape(4, 4)[:, :2], 1.0)
    assert_allclose(model.dispersion_[2::4], 6.25, rtol=0.4)
    assert_allclose(model.dispersion_[3::4], 0.4, rtol=0.4)
    assert abs(np.corrcoef(model.transform(X)[:, 0], scores)[0, 1]) > 0.9


def test_units_of_measurements_beside_counts_and_answers_do_not_matter(rng: np.random.Generator) -> None:
    X, kinds, _ = mixed_table(3, rng, 150)
    units = np.where([kind in ("gaussian", "gamma") for kind in kinds], 1000.0, 1.0)
    loading_units = np.where([kind == "gaussian" for kind in kinds], 1000.0, 1.0)
    plain, large = (SePCA(3, family=kinds, n_jobs=1, tol=1e-6).fit(table) for table in (X, X * units))
    assert plain.n_components_ == large.n_components_
    assert_allclose(large.components_ / loading_units, plain.components_, atol=5e-3)
    assert_allclose(large.dispersion_ / loading_units**2, plain.dispersion_, rtol=1e-2)


def test_strengths_do_not_depend_on_units(rng: np.random.Generator) -> None:
    X = rng.normal(size=(80, 1)) @ rng.normal(size=(1, 6)) + 0.5 * rng.normal(size=(80, 6))
    factor = np.array([1.0, 1000.0, 1.0, 0.01, 1.0, 1.0])
    first, second = (SePCA(2, family="gaussian", n_jobs=1).fit(x).describe() for x in (X, X * factor))
    sign = np.sign(second.loadings[0, 0] * first.loadings[0, 0])  # the largest loading is positive
    assert_allclose(sign * second.strengths, first.strengths, rtol=1e-4, atol=1e-4)
    assert_allclose(sign * second.loadings / factor, first.loadings, rtol=1e-4, atol=1e-4)


def test_all_families_in_one_table(rng: np.random.Generator) -> None:
    n, columns, kinds = 60, [], []
    scores = rng.normal(size=n)
    for name in families:
        kinds.append(families[name].examples()[0])
        columns.append(kinds[-1].sample(0.3 + 0.8 * scores, 0.4, rng))
    for name in column_forms:
        kinds.append(column_forms[name].examples()[0])
        draws = [part.sample(0.3 + 0.8 * scores, 0.4, rng) for part in kinds[-1].parts]
        means = np.full((n, len(draws)), 0.5)
        columns.append(kinds[-1].draw(np.column_stack(draws), means, rng) if draws else np.arange(float(n)))
    columns += [np.full(n, 4.0), 2.0 * columns[0], np.where(scores > 0, 2.0, 1.0)]
    kinds += [Constant(4.0), Copy(0, 0.0, 2.0), Recoded((1.0, 2.0))]
    X = np.column_stack(columns)
    X[::7, ::3] = np.nan
    model = SePCA(1, family=kinds, tol=1e-2).fit(X)
    assert is_monotone(model.objective_trace_, 1e-7)
    assert abs(np.corrcoef(model.transform(X)[:, 0], scores)[0, 1]) > 0.8
    for table in (
        model.impute(X),
        model.sample(5, random_state=0),
        model.inverse_transform(model.transform(X)),
    ):
        assert table.shape[1] == len(kinds)
        assert np.isfinite(table).all()
    assert np.isfinite(model.evidence_)


def test_copies_of_copies_and_of_sums_are_dropped(rng):
    """Columns that are equal up to rounding form chains: a copy of a copy, a copy of a sum."""
    base = rng.normal(size=(71, 3))
    for exponent in np.linspace(-7.5, -5.5, 9):
        noise = 10.0**exponent * rng.normal(size=(71, 3))
        close = base[:, :1] + np.cumsum(noise, axis=1)
        total = base[:, 1:].sum(axis=1, keepdims=True)
        table = np.hstack([base, close, total, 2 * total])[:, rng.permutation(8)]
        filled = SePCA(n_components=1).fit(table).impute(table)
        np.testing.assert_array_equal(filled, table)
