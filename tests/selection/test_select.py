"""Choosing ranks: paths, tables, the right answer where it is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy import sparse

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank
from anypca.plotting import plot_rank_selection
from anypca.plotting._common import VERMILLION
from anypca.selection import EntryKFold, EntryShuffleSplit, rank_path, select_rank


def gaussian(k, n=120, p=15, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + 0.7 * rng.normal(size=(n, p))


REALS = gaussian(3)
COUNTS = make_low_rank(120, 15, 2, family="poisson", intercept=1.0, random_state=0).X


@pytest.mark.parametrize("criterion", ["bic", "mdl", "icl"])
@pytest.mark.parametrize("truth", [1, 3])
def test_ppca_finds_the_rank(criterion, truth):
    table = gaussian(truth, n=300)
    chosen = select_rank(PPCA(n_jobs=1), table, ranks=range(1, 7), criterion=criterion)
    assert chosen.best_rank == truth
    assert chosen.best_estimator_.n_components_ == truth
    assert chosen.best_rank_by("aic") >= truth, "AIC is not consistent: it may choose too many"


@pytest.mark.parametrize("truth", [1, 3])
def test_held_out_entries_find_the_rank_of_reals(truth):
    found = select_rank(PPCA(n_jobs=1), gaussian(truth), ranks=range(1, 6), criterion="held_out", cv=3)
    assert found.best_rank == truth


def test_held_out_entries_find_the_rank_of_counts():
    model = EPCA(family="poisson", n_jobs=1, tol=1e-3)
    found = select_rank(model, COUNTS, ranks=range(5), criterion="held_out", cv=EntryKFold(3))
    assert found.best_rank == 2
    assert found.best_estimator_.n_components == 2


def test_no_component_is_found_in_noise():
    noise = np.random.default_rng(0).poisson(3.0, size=(80, 10))
    model = EPCA(family="poisson", n_jobs=1, tol=1e-3)
    assert select_rank(model, noise, ranks=range(3)).best_rank == 0
    assert select_rank(model, noise, ranks=range(3), criterion="held_out", cv=3).best_rank == 0


@pytest.mark.parametrize(
    "model",
    [EPCA(family="poisson", n_jobs=1), PLNPCA(n_jobs=1)],
    ids=["epca", "plnpca"],
)
def test_models_of_counts_find_the_rank(model):
    assert select_rank(model, COUNTS, ranks=[1, 2, 3, 4]).best_rank == 2


def test_evidence_of_pruned_fits():
    """Limits above the dimension that a model chooses for itself give that dimension."""
    found = select_rank(SePCA(family="gaussian", n_jobs=1), REALS, ranks=[1, 3, 5], criterion="evidence")
    assert [row["n_components"] for row in found.rows] == [1, 3, 3]
    assert found.best_estimator_.n_components_ == 3


def test_pieces():
    model = PiecewisePCA(n_pieces=1, n_init=1, n_jobs=1)
    assert select_rank(model, REALS, ranks=[2, 3, 4], criterion="bic").best_rank == 3


def test_the_table():
    found = select_rank(PPCA(n_jobs=1), REALS, ranks=[4, 1, 3, 3], criterion="bic")
    assert found.ranks == (1, 3, 4)
    frame = found.to_frame()
    assert list(frame.index) == [1, 3, 4]
    assert {"n_components", "log_likelihood", "n_parameters", "converged", "aic", "bic", "mdl", "icl"} <= set(
        frame
    )
    np.testing.assert_array_equal(frame["bic"], found.values)
    assert frame["bic"].idxmin() == found.best_rank == found.best_rank_by("bic")
    assert found.standard_errors is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.best_rank = 1
    with pytest.raises(ValueError, match="no criterion 'evidence'; it has aic, bic"):
        found.best_rank_by("evidence")


def test_one_standard_error_prefers_the_smaller_rank():
    given = {"ranks": range(1, 6), "criterion": "held_out", "cv": 4}
    lowest = select_rank(PPCA(n_jobs=1), REALS, **given)
    careful = select_rank(PPCA(n_jobs=1), REALS, one_standard_error=True, **given)
    values, errors = lowest.values, lowest.standard_errors
    np.testing.assert_array_equal(values, careful.values)
    best = values.argmin()
    expected = lowest.ranks[int(np.flatnonzero(values <= values[best] + errors[best])[0])]
    assert careful.best_rank == expected <= lowest.best_rank
    np.testing.assert_allclose(lowest.fold_losses.std(axis=0, ddof=1) / 2, errors, rtol=1e-12)


def test_one_standard_error_by_hand(monkeypatch):
    """Losses 5, 3.1, 3.05, 3.0 with an error of 0.2 at the lowest: rank 2 is within it."""
    folds = np.array([[4.8, 5.2], [3.0, 3.2], [3.0, 3.1], [2.8, 3.2]]).T
    monkeypatch.setattr(
        "anypca.selection.select.cross_validate_ranks", lambda *_: (-100 * folds, np.full(2, 100.0))
    )
    given = {"ranks": range(1, 5), "criterion": "held_out"}
    assert select_rank(PPCA(n_jobs=1), REALS, **given).best_rank == 4
    assert select_rank(PPCA(n_jobs=1), REALS, one_standard_error=True, **given).best_rank == 2


def test_sparse_equals_dense():
    model = EPCA(family="poisson", n_jobs=1)
    dense, other = (select_rank(model, X, ranks=[1, 2]) for X in (COUNTS, sparse.csr_array(COUNTS)))
    np.testing.assert_allclose(dense.values, other.values, rtol=1e-6)


def test_criteria_of_dask_arrays():
    array = pytest.importorskip("dask.array")
    found = select_rank(PPCA(n_jobs=1), array.from_array(REALS, chunks=(40, 15)), ranks=[2, 3, 4])
    expected = select_rank(PPCA(n_jobs=1), REALS, ranks=[2, 3, 4])
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)


def test_paths():
    models = rank_path(PPCA(n_jobs=1), REALS, [3, 1])
    assert [model.n_components_ for model in models] == [1, 3]
    assert len(rank_path(PPCA(n_jobs=1), REALS)) == 10
    assert len(rank_path(PPCA(n_jobs=1), REALS[:, :4])) == 3
    (model,) = rank_path(PPCA(n_jobs=1), REALS, 2)
    np.testing.assert_allclose(model.components_, PPCA(2, n_jobs=1).fit(REALS).components_, rtol=1e-10)


def test_a_model_with_a_path_of_its_own_is_asked_for_it(monkeypatch):
    asked = []
    original = PLNPCA.path

    def path(self, X, ranks, **companions):
        asked.append(list(ranks))
        return original(self, X, ranks, **companions)

    monkeypatch.setattr(PLNPCA, "path", path)
    models = rank_path(PLNPCA(n_jobs=1), COUNTS, [1, 2], offset=np.zeros(len(COUNTS)))
    assert asked == [[1, 2]]
    assert [model.n_components_ for model in models] == [1, 2]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"ranks": []}, ValueError, "ranks is empty"),
        ({"ranks": [1, 2.5]}, TypeError, "ranks must be integers.*2.5"),
        ({"ranks": [True]}, TypeError, "ranks must be integers.*True"),
        ({"ranks": [16]}, ValueError, r"from 0 to min\(n_samples, n_features\) = 15; got 16"),
        ({"ranks": [-1]}, ValueError, "got -1"),
        ({"criterion": "bicc"}, ValueError, "Did you mean 'bic'"),
        ({"one_standard_error": True}, ValueError, "needs criterion='held_out'"),
        (
            {"one_standard_error": True, "criterion": "held_out", "cv": EntryShuffleSplit()},
            ValueError,
            "at least two splits",
        ),
        ({"cv": "rows"}, TypeError, "cv must be an EntryKFold"),
    ],
    ids=["no-rank", "fraction", "true", "too-large", "negative", "criterion", "no-error", "one-split", "cv"],
)
def test_bad_arguments(given, error, message):
    with pytest.raises(error, match=message):
        select_rank(PPCA(n_jobs=1), REALS, **given)


def test_an_estimator_without_a_rank():
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(TypeError, match="StandardScaler has no parameter that sets a rank"):
        select_rank(StandardScaler(), REALS)


def test_the_picture_shows_the_values_and_the_choice():
    found = select_rank(PPCA(n_jobs=1), REALS, ranks=[1, 2, 3, 4], criterion="bic")
    ax = found.plot()
    curve, choice = ax.lines
    np.testing.assert_array_equal(curve.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(curve.get_ydata(), found.values)
    assert list(choice.get_xdata()) == [3]
    assert choice.get_ydata()[0] == found.values[2]
    assert to_hex(choice.get_markeredgecolor()).upper() == VERMILLION
    assert ax.get_ylabel() == "BIC"
    assert ax.get_title() == "chosen: 3"


def test_the_picture_of_held_out_entries_shows_splits_and_errors():
    found = select_rank(
        PPCA(n_jobs=1), REALS, ranks=[1, 2, 3], criterion="held_out", cv=4, one_standard_error=True
    )
    ax = plot_rank_selection(found)
    assert plot_rank_selection(found, ax) is ax
    ax = plot_rank_selection(found)
    drawn = [line.get_ydata() for line in ax.lines]
    for losses in found.fold_losses:
        assert any(np.array_equal(losses, line) for line in drawn)
    (bars,) = ax.collections
    heights = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(heights, 2 * found.standard_errors, rtol=1e-9)
    lowest = int(found.values.argmin())
    limit = found.values[lowest] + found.standard_errors[lowest]
    assert any(np.allclose(line, limit) for line in drawn), "the line of the rule"
