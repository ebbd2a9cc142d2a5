"""Models of some of the columns of a table: fitted without them, reported with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import anypca
from anypca import EPCA, GPCA, SePCA
from anypca.families.forms import Constant, Copy, Excluded, Recoded
from anypca.selection import entry_cross_validate

N = 60


def make_counts(n_columns=6):
    rng = np.random.default_rng(0)
    return rng.poisson(np.exp(rng.normal(size=(N, 1)) @ rng.normal(size=(1, n_columns)) + 1)).astype(float)


def make_wide(X):
    """The table with a running number in front, and behind it a constant and twice its second column plus 1."""
    return np.column_stack([np.arange(float(N)), X, np.full(N, 3.0), 1.0 + 2.0 * X[:, 1]])


def families(plain, n_columns=6):
    return [Excluded(reason="running numbers"), *[plain] * n_columns, Constant(3.0), Copy(2, 1.0, 2.0)]


MODELS = [
    pytest.param(EPCA(1, family="poisson", tol=1e-8), id="EPCA"),
    pytest.param(SePCA(3, family="poisson", tol=1e-6), id="SePCA"),
    pytest.param(GPCA(1, family="poisson", tol=1e-7), id="GPCA"),
]
each_model = pytest.mark.parametrize("model", MODELS)


def fit_both(model, X):
    """The model of the columns that matter, and that of the wide table."""
    plain = anypca_clone(model).fit(X)
    wide = anypca_clone(model).set_params(family=families(model.family)).fit(make_wide(X))
    return plain, wide


def anypca_clone(model):
    from sklearn.base import clone

    return clone(model)


@each_model
def test_columns_that_are_left_out_change_nothing(model):
    X = make_counts()
    plain, wide = fit_both(model, X)
    kept = slice(1, 7)
    assert wide.n_features_in_ == 9
    assert wide.components_.shape == (plain.n_components_, 9)
    assert_allclose(wide.components_[:, kept], plain.components_, rtol=1e-10)
    assert_array_equal(wide.components_[:, [0, 7, 8]], 0.0)
    assert_allclose(wide.intercept_[kept], plain.intercept_, rtol=1e-10)
    assert_allclose(wide.transform(make_wide(X)), plain.transform(X), rtol=1e-10)
    assert_allclose(wide.score_samples(make_wide(X)), plain.score_samples(X), rtol=1e-10)


@each_model
def test_all_columns_come_back(model):
    X = make_counts()
    plain, wide = fit_both(model, X)
    scores = plain.transform(X)
    means, expected = wide.inverse_transform(scores), plain.inverse_transform(scores)
    assert_allclose(means[:, 1:7], expected, rtol=1e-10)
    assert_allclose(means[:, [0, 7]], np.tile([29.5, 3.0], (N, 1)))
    assert_allclose(means[:, 8], 1.0 + 2.0 * expected[:, 1], rtol=1e-10)
    drawn = wide.sample(5, random_state=0)
    assert_array_equal(drawn[:, 8], 1.0 + 2.0 * drawn[:, 2])
    assert_array_equal(drawn[:, 7], 3.0)


@each_model
def test_holes_are_filled_and_the_rest_is_kept(model):
    X = make_counts()
    _, wide = fit_both(model, X)
    holes = make_wide(X)
    holes[3, [0, 2, 7, 8]] = np.nan
    filled = wide.impute(holes)
    is_seen = ~np.isnan(holes)
    assert_array_equal(filled[is_seen], holes[is_seen])
    assert_allclose(filled[3, 8], 1.0 + 2.0 * filled[3, 2])
    assert_allclose(filled[3, [0, 7]], [29.5, 3.0])


def test_deviations_of_what_is_filled_in():
    X = make_counts()
    _, wide = fit_both(MODELS[1].values[0], X)
    holes = make_wide(X)
    holes[3, [0, 2, 7, 8]] = np.nan
    std = wide.impute(holes, return_std=True)[1]
    assert_allclose(std[3, [0, 7]], [np.arange(N).std(), 0.0])
    assert_allclose(std[3, 8], 2.0 * std[3, 2])
    assert_array_equal(std[~np.isnan(holes)], 0.0)


def test_entries_are_named_by_columns_of_the_table():
    X = make_counts()
    plain, wide = fit_both(MODELS[1].values[0], X)
    rows, columns = np.array([4, 4, 4, 9]), np.array([0, 1, 7, 3])
    found = wide.entry_log_likelihood(make_wide(X), rows, columns, make_wide(X)[rows, columns])
    expected = plain.entry_log_likelihood(X, rows[[1, 3]], columns[[1, 3]] - 1, X[[4, 9], [0, 2]])
    assert_allclose(found[[1, 3]], expected, rtol=1e-9)
    assert_array_equal(found[[0, 2]], 0.0)
    mean, _ = wide.entry_posterior(make_wide(X), np.array([4, 4]), np.array([2, 8]))
    assert mean[0] == mean[1]


@pytest.mark.parametrize("make", [sparse.csr_array, "dask", "memmap"], ids=str)
def test_containers_agree(make, tmp_path):
    X = make_wide(make_counts())
    model = EPCA(1, family=families("poisson"), tol=1e-8)
    if make == "dask":
        table = pytest.importorskip("dask.array").from_array(X, chunks=(20, 4))
    elif make == "memmap":
        np.save(tmp_path / "x.npy", X)
        table = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        table = make(X)
    expected = anypca_clone(model).fit(X)
    # Blocks differ, hence the order of sums; the stop leaves a relative error of about the root of tol.
    assert_allclose(model.fit(table).components_, expected.components_, rtol=1e-4, atol=1e-4)


@each_model
def test_saved_models_are_the_same(model, tmp_path):
    X = make_counts()
    _, wide = fit_both(model, X)
    anypca.save(wide, tmp_path / "model")
    again = anypca.load(tmp_path / "model")
    assert again.layout_ == wide.layout_
    assert_array_equal(
        again.inverse_transform(again.transform(make_wide(X))),
        wide.inverse_transform(wide.transform(make_wide(X))),
    )


@each_model
def test_reports_and_pictures(model, tmp_path):
    pandas = pytest.importorskip("pandas")
    plotting = pytest.importorskip("anypca.plotting")
    frame = pandas.DataFrame(make_wide(make_counts()), columns=[f"c{j}" for j in range(9)])
    wide = anypca_clone(model).set_params(family=families(model.family)).fit(frame)
    wide.report(tmp_path / "report.html", frame)
    assert "running numbers" in (tmp_path / "report.html").read_text(encoding="utf-8")
    scores = wide.transform(frame)
    plotting.plot_loadings(wide)
    if wide.n_components_ > 1:
        plotting.plot_biplot(wide, scores)
    plotting.plot_fitted(wide, frame)


def test_two_values_are_recoded():
    rng = np.random.default_rng(1)
    answers = (rng.random((N, 5)) < 1 / (1 + np.exp(-2 * rng.normal(size=(N, 1))))).astype(float)
    plain = EPCA(1, family="bernoulli", tol=1e-8).fit(answers)
    coded = answers.copy()
    coded[:, 2] = np.where(answers[:, 2] == 1.0, 7.0, 4.0)
    model = EPCA(
        1, family=["bernoulli", "bernoulli", Recoded((4, 7)), "bernoulli", "bernoulli"], tol=1e-8
    ).fit(coded)
    assert_allclose(model.components_, plain.components_, rtol=1e-10)
    means, expected = (m.inverse_transform(plain.transform(answers))[:, 2] for m in (model, plain))
    assert_allclose(means, 4.0 + 3.0 * expected, rtol=1e-10)
    assert set(model.sample(40, random_state=0)[:, 2]) == {4.0, 7.0}


def test_errors_name_the_column_of_the_table():
    X = make_wide(make_counts())
    bad = X.copy()
    bad[5, 3] = -1.0
    with pytest.raises(ValueError, match=r"X\[5, 3\] is -1"):
        EPCA(1, family=families("poisson")).fit(bad)
    model = EPCA(1, family=families("poisson")).fit(X)
    with pytest.raises(ValueError, match=r"X\[5, 3\] is -1"):
        model.transform(bad)


def test_columns_can_be_excluded_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_wide(make_counts())[:, :7], columns=["id", *"abcdef"])
    model = EPCA(1, family={"id": "excluded", "default": "poisson"}).fit(frame)
    assert model.layout_.names == tuple("abcdef")
    assert model.describe().column_families(list(frame))[0].family == "excluded"


def test_selection_lays_out_alike():
    X = make_wide(make_counts())
    scores = entry_cross_validate(EPCA(1, family=families("poisson")), X, cv=2)
    assert np.isfinite(scores.l_miss)


def test_a_table_of_nothing_but_names_says_so():
    names = pd.DataFrame({"first": [f"n{i}" for i in range(30)], "second": [f"m{i}" for i in range(30)]})
    with pytest.raises(ValueError, match=r"every column of X is left out .*'first', 'second'.*names"):
        SePCA().fit(names)


def test_numbers_beside_names_are_kept_whatever_they_look_like():
    numbered = pd.DataFrame({"name": [f"n{i}" for i in range(30)], "number": np.arange(30.0)})
    model = SePCA().fit(numbered)
    assert list(model.layout_.left_out) == [0]
    assert model.n_components_ == 0


def test_hidden_cells_of_a_table_with_all_columns_left_out_are_refused():
    with pytest.raises(ValueError, match="every column of X is left out"):
        EPCA(1, family="excluded").fit(make_counts())
