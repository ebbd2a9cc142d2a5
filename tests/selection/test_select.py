"""Choosing ranks: the right answer where it is known, tables, paths, the user's forms of a table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from tests.draws import generator, seed
from tests.selection.tables import flat_noise

from anypca import EPCA, PLNPCA, PPCA
from anypca.datasets import make_low_rank
from anypca.selection import (
    EntryKFold,
    EntryShuffleSplit,
    compare_ranks,
    entry_cross_validate,
    rank_path,
    select_rank,
)

REALS = flat_noise(generator("select"), 3)
COUNTS = make_low_rank(80, 12, 2, family="poisson", intercept=1.5, random_state=seed()).X


@pytest.mark.parametrize("criterion", ["aic", "bic", "mdl", "icl", "marginal_bic", "held_out"])
@pytest.mark.parametrize("truth", [1, 3])
def test_ppca_finds_the_rank(criterion, truth, rng):
    table = flat_noise(rng, truth)
    chosen = select_rank(PPCA(n_jobs=1), table, ranks=range(1, 6), criterion=criterion, cv=4)
    assert chosen.best_rank == truth
    assert chosen.best_estimator_.n_components_ == truth
    if criterion != "held_out":
        assert chosen.best_rank_by("bic") == truth


@pytest.mark.parametrize(
    "model", [EPCA(family="poisson", n_jobs=1), PLNPCA(n_jobs=1)], ids=["epca", "plnpca"]
)
def test_models_of_counts_find_the_rank(model):
    assert select_rank(model, COUNTS, ranks=[1, 2, 3]).best_rank == 2


def test_held_out_entries_find_the_rank_of_counts():
    model = EPCA(family="poisson", ridge=1.0, n_jobs=1)
    found = select_rank(model, COUNTS, ranks=[0, 1, 2], criterion="held_out", cv=EntryKFold(3))
    assert found.best_rank == 2
    assert found.best_estimator_.n_components == 2


def test_no_component_is_found_in_noise(rng):
    model = EPCA(family="gaussian", ridge=1.0, n_jobs=1)
    for options in ({}, {"criterion": "held_out", "cv": 3}):
        assert select_rank(model, flat_noise(rng, 0), ranks=range(3), **options).best_rank == 0


def test_the_table():
    found = select_rank(PPCA(n_jobs=1), REALS, ranks=[4, 1, 3, 3], criterion="bic")
    assert found.ranks == (1, 3, 4)
    frame = found.to_frame()
    assert list(frame.index) == [1, 3, 4]
    wanted = {"n_components", "log_likelihood", "n_parameters", "converged", "aic", "bic", "mdl", "icl"}
    assert wanted <= set(frame)
    np.testing.assert_array_equal(frame["bic"], found.values)
    assert frame["bic"].idxmin() == found.best_rank == found.best_rank_by("bic")
    assert found.standard_errors is None
    assert "PPCA" not in repr(found), "the model is not part of the line that is printed"
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.best_rank = 1
    with pytest.raises(ValueError, match=r"'evidence'.*aic, bic"):
        found.best_rank_by("evidence")


def test_one_standard_error_prefers_the_smaller_rank(rng):
    """Over tables with weak components: the smallest rank whose loss is within one error of the lowest."""
    for _ in range(3):
        X = rng.normal(size=(40, 1)) @ rng.normal(size=(1, 8)) + rng.normal(size=(40, 8))
        given = {"ranks": range(1, 5), "criterion": "held_out", "cv": 4}
        lowest = select_rank(PPCA(n_jobs=1), X, **given)
        careful = select_rank(PPCA(n_jobs=1), X, one_standard_error=True, **given)
        values, errors = lowest.values, lowest.standard_errors
        np.testing.assert_array_equal(values, careful.values)
        best = values.argmin()
        assert lowest.best_rank == lowest.ranks[best]
        expected = lowest.ranks[int(np.flatnonzero(values <= values[best] + errors[best])[0])]
        assert careful.best_rank == expected == careful.best_estimator_.n_components
        np.testing.assert_allclose(lowest.fold_losses.std(axis=0, ddof=1) / 2, errors, rtol=1e-12)
    assert select_rank(PPCA(n_jobs=1), X, **(given | {"cv": EntryShuffleSplit()})).standard_errors is None


@pytest.mark.parametrize("form", ["sparse", "dask"])
def test_every_form_of_a_table_gives_the_same(form):
    if form == "dask":
        table = pytest.importorskip("dask.array").from_array(COUNTS, chunks=(40, 12))
    else:
        table = sparse.csr_array(COUNTS)
    model = EPCA(family="poisson", ridge=1.0, n_jobs=1)
    found, expected = (select_rank(model, X, ranks=[1, 2], criterion="bic") for X in (table, COUNTS))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)


@pytest.mark.parametrize("estimator", [PPCA(n_jobs=1), PLNPCA(n_jobs=1)], ids=["ppca", "plnpca"])
def test_a_path_has_the_fits_of_its_ranks(estimator):
    models = rank_path(estimator, COUNTS, [2, 1])
    assert [model.n_components_ for model in models] == [1, 2]
    (alone,) = rank_path(estimator, COUNTS, 1)
    np.testing.assert_allclose(models[0].components_, alone.components_, rtol=1e-3, atol=1e-4)


def test_default_ranks_follow_the_sides_of_the_table(rng):
    for p, expected in ((15, 10), (4, 3), (1, 1)):
        models = rank_path(PPCA(n_jobs=1), rng.normal(size=(30, p)))
        assert [model.n_components for model in models] == list(range(1, expected + 1))


def test_a_found_ridge_is_that_of_the_chosen_model_only():
    model = EPCA(family="poisson", ridge="auto", n_jobs=1)
    found = select_rank(model, COUNTS, ranks=[1, 2])
    expected = select_rank(EPCA(family="poisson", ridge=1.0, n_jobs=1), COUNTS, ranks=[1, 2])
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
    assert found.best_estimator_.ridge == "auto"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"ranks": []}, ValueError, "ranks is empty"),
        ({"ranks": [1, 2.5]}, TypeError, "ranks.*2.5"),
        ({"ranks": [17]}, ValueError, r"16.*got 17"),
        ({"one_standard_error": True}, ValueError, "criterion='held_out'"),
        (
            {"one_standard_error": True, "criterion": "held_out", "cv": EntryShuffleSplit()},
            ValueError,
            "two splits",
        ),
        ({"cv": "rows"}, TypeError, "cv must be an EntryKFold"),
    ],
    ids=["no-rank", "fraction", "too-large", "no-error", "one-split", "cv"],
)
def test_bad_arguments(given, error, message):
    with pytest.raises(error, match=message):
        select_rank(PPCA(n_jobs=1), REALS, **given)


def test_an_estimator_without_a_rank():
    with pytest.raises(TypeError, match=r"StandardScaler.*EPCA\(\)"):
        select_rank(StandardScaler(), REALS)


# ------------------------------------------------------------------------------------- text and categories


@pytest.fixture(scope="module")
def labelled():
    """One component in numbers, categories, answers, and amounts with zeros that have nothing to do with it."""
    rng = generator("labelled")
    z = rng.normal(size=120)
    frame = pd.DataFrame({f"x{j}": 2.0 * z + rng.normal(size=120) for j in range(4)})
    frame["colour"] = np.array(["red", "green", "blue"])[np.digitize(z, [-0.5, 0.5])]
    frame["smokes"] = np.where(z + 0.5 * rng.normal(size=120) > 0, "yes", "no")
    frame["rain"] = np.where(rng.random(120) < 0.4, 0.0, np.round(np.exp(rng.normal(size=120)), 2))
    return frame


@pytest.mark.parametrize("criterion", ["marginal_bic", "held_out"])
def test_select_rank_takes_text(labelled, criterion):
    chosen = select_rank(EPCA(), labelled, ranks=[0, 1], criterion=criterion, cv=3)
    assert chosen.best_rank == 1
    # The model is that of the user's table and returns its labels.
    assert chosen.best_estimator_.transform(labelled).shape == (120, 1)
    assert set(chosen.best_estimator_.impute(labelled)["colour"]) == {"red", "green", "blue"}


def test_hidden_entries_of_columns_in_parts_have_their_own_families(labelled):
    numbers = labelled[["rain", "x0", "x1"]].assign(bit=(labelled["smokes"] == "yes").astype(float))
    numbers = numbers[["rain", "bit", "x0", "x1"]]
    given = {"rain": "zero_inflated_log_normal", "bit": "bernoulli", "default": "gaussian"}
    auto, insisted = (
        entry_cross_validate(EPCA(1, family=family), numbers, cv=3).l_miss for family in ("auto", given)
    )
    assert auto == pytest.approx(insisted, abs=0.1)


def test_compare_ranks_takes_text(labelled):
    found = compare_ranks(labelled, ["parallel", "bic"], max_rank=3)
    assert set(found.ranks) == {"parallel", "bic"}
    assert min(found.ranks.values()) >= 1
