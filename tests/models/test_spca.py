"""SPCA: reference values, the criterion, sparsity, kinds of input."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anypca import SPCA
from anypca.engine import check_data
from anypca.exceptions import ConvergenceWarning
from anypca.models._gaussian.gram import StoredGram
from anypca.models._session import open_session
from anypca.models.spca._alternation import Alternation
from anypca.models.spca._regression import Counted, Penalised

FOLDER = os.environ.get("ANYPCA_DATA", "")
needs_data = pytest.mark.skipif(
    not Path(FOLDER or "/nonexistent").is_dir(), reason="ANYPCA_DATA names no folder of data files"
)
COUNTS = [7, 4, 4, 1, 1, 1]


def make_table(n=120, seed=0, noise=0.2):
    """Three scores, each behind its own columns, and two columns of noise."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, 3)) * [3.0, 2.0, 1.2]
    pattern = np.zeros((3, 12))
    pattern[0, :5], pattern[1, 5:8], pattern[2, 8:10] = 1.0, [1, -1, 1], [1, 1]
    return scores @ pattern + noise * rng.standard_normal((n, 12)) + rng.uniform(-3, 3, 12)


def pitprops():
    return np.load(Path(FOLDER) / "pitprops.npz")


def criterion(X, model, B, A):
    """The criterion by its definition."""
    Xc = X - X.mean(axis=0)
    fit = np.sum((Xc - Xc @ B @ A.T) ** 2) + model.ridge * np.sum(B**2)
    return fit + model.penalty_ @ np.abs(B).sum(axis=0)


def assert_same_up_to_sign(components, reference, atol):
    signs = np.sign(np.sum(components * reference, axis=1))
    np.testing.assert_allclose(components * signs[:, None], reference, atol=atol)


@needs_data
class TestPitprops:
    def test_loadings_equal_the_converged_reference(self):
        data = pitprops()
        model = SPCA(6, penalty=data["spca_para"], input="gram").fit(data["R"])
        assert_same_up_to_sign(model.components_, data["spca_loadings_elasticnet_tight"].T, atol=2e-6)
        assert model.n_nonzero_.tolist() == COUNTS
        assert model.converged_

    def test_adjusted_variances(self):
        data = pitprops()
        model = SPCA(6, penalty=data["spca_para"], input="gram").fit(data["R"])
        np.testing.assert_allclose(
            100 * model.explained_variance_ratio_, [28.0, 14.0, 13.3, 7.4, 6.8, 6.2], atol=0.1
        )
        np.testing.assert_allclose(model.explained_variance_ratio_, data["spca_pev_tight"], atol=1e-6)

    def test_counts_of_nonzero_loadings(self):
        model = SPCA(6, n_nonzero=COUNTS, input="gram").fit(pitprops()["R"])
        assert model.n_nonzero_.tolist() == COUNTS
        assert model.converged_

    def test_counted_alternation_takes_the_steps_of_the_reference(self):
        """The stored loadings were taken where no entry moved by 1e-3, after 46 alternations."""
        data = pitprops()
        G = data["R"]
        regression = Counted(G + 1e-6 * np.eye(13), COUNTS)
        with open_session(check_data(G), 1, max_iter=46) as session:
            counted = Alternation(StoredGram(G), regression, 1.0, session)
            state = counted.first(np.linalg.eigh(G)[1][:, ::-1][:, :6])
            for _ in range(45):
                state = counted.next(state)
        B = state.pair.coefficients
        components = (B / np.linalg.norm(B, axis=0)).T
        assert_same_up_to_sign(components, data["spca_loadings_varnum_744111"].T, atol=1e-10)

    def test_a_table_with_these_correlations_gives_the_same_loadings(self):
        data = pitprops()
        R = data["R"]
        rng = np.random.default_rng(0)
        white = np.linalg.qr(np.column_stack([np.ones(180), rng.standard_normal((180, 13))]))[0][:, 1:]
        X = white @ np.linalg.cholesky(R).T + 5.0  # centred cross products are R
        model = SPCA(6, penalty=data["spca_para"]).fit(X)
        reference = SPCA(6, penalty=data["spca_para"], input="gram").fit(R)
        np.testing.assert_allclose(model.components_, reference.components_, atol=1e-6)
        np.testing.assert_allclose(model.mean_, 5.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(60, 8), (15, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("ridge", [1e-6, np.inf])
def test_without_penalty_components_are_principal(shape, ridge):
    X = np.random.default_rng(0).standard_normal(shape) * np.linspace(3, 1, shape[1])
    model, pca = SPCA(4, ridge=ridge).fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(model.components_ @ pca.components_.T), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), pca.inverse_transform(pca.transform(X)), atol=1e-9
    )


@pytest.mark.parametrize("ridge", [1e-6, 1.0, np.inf])
def test_a_small_penalty_changes_little(ridge):
    X = make_table()
    plain, penalised = SPCA(3, ridge=ridge).fit(X), SPCA(3, ridge=ridge, penalty=1e-7).fit(X)
    np.testing.assert_allclose(penalised.components_, plain.components_, atol=1e-6)


@pytest.mark.parametrize("ridge", [1e-6, 0.5, np.inf])
@pytest.mark.parametrize("penalty", [3.0, [20.0, 5.0, 0.0]], ids=["one", "each"])
def test_objective_never_decreases(ridge, penalty):
    X = np.random.default_rng(3).standard_normal((80, 10)) @ np.random.default_rng(4).standard_normal(
        (10, 10)
    )
    model = SPCA(3, penalty=penalty, ridge=ridge, tol=1e-10).fit(X)
    trace = model.objective_trace_
    assert len(trace) == model.n_iter_ > 3
    assert np.diff(trace).min() >= -1e-12 * np.abs(trace).max()
    assert model.converged_


def alternation_of(X, model):
    """The matrices behind a fitted model, by one more regression and decomposition from its components."""
    G = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))
    A = np.linalg.eigh(G)[1][:, ::-1][:, : model.n_components_]
    H = G + model.ridge * np.eye(len(G))
    with open_session(check_data(X), 1, max_iter=3000, tol=1e-7) as session:
        regression = Penalised(H, model.penalty_.tolist())
        return G, Alternation(StoredGram(G), regression, 1.0, session).run(A)


def test_traced_objective_is_the_negative_criterion():
    X = make_table()
    model = SPCA(3, penalty=[40.0, 30.0, 20.0]).fit(X)
    _, run = alternation_of(X, model)
    pair = run.shared
    np.testing.assert_allclose(run.trace[-1], -criterion(X, model, pair.coefficients, pair.axes), rtol=1e-10)
    np.testing.assert_allclose(model.objective_trace_[-1], run.trace[-1], rtol=1e-9)


def test_no_step_from_the_solution_improves_the_criterion():
    X = make_table()
    model = SPCA(3, penalty=[40.0, 30.0, 20.0]).fit(X)
    pair = alternation_of(X, model)[1].shared
    best = criterion(X, model, pair.coefficients, pair.axes)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            B = pair.coefficients + size * rng.standard_normal(pair.coefficients.shape)
            A = np.linalg.qr(pair.axes + size * rng.standard_normal(pair.axes.shape))[0]
            assert criterion(X, model, B, pair.axes) > best
            assert criterion(X, model, pair.coefficients, A) > best


@pytest.mark.parametrize("ridge", [1e-6, 1.0, np.inf])
def test_finds_the_columns_behind_each_score(ridge):
    model = SPCA(n_nonzero=[5, 3, 2], ridge=ridge).fit(make_table())
    supports = [np.flatnonzero(row).tolist() for row in model.components_]
    assert supports == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert len(model.objective_trace_) == 1
    assert model.converged_


def test_numbers_are_met_where_alternations_go_round():
    """Columns that can stand in for one another: supports come back, and the best is kept."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((200, 12))
    X = np.hstack([X, X[:, :4]])
    model = SPCA(3, n_nonzero=4).fit(X)
    assert model.n_nonzero_.tolist() == [4, 4, 4]
    assert model.converged_
    assert model.n_iter_ > len(model.objective_trace_)
    assert np.diff(model.objective_trace_).min(initial=0.0) >= -1e-12 * np.abs(model.objective_trace_).max()
    np.testing.assert_array_equal(model.penalty_, 0.0)


@pytest.mark.parametrize("ridge", [1e-6, np.inf])
def test_one_number_serves_all_components(ridge):
    X = make_table()
    np.testing.assert_array_equal(
        SPCA(3, n_nonzero=2, ridge=ridge).fit(X).components_,
        SPCA(n_nonzero=[2, 2, 2], ridge=ridge).fit(X).components_,
    )
    np.testing.assert_array_equal(
        SPCA(3, penalty=9.0, ridge=ridge).fit(X).components_,
        SPCA(penalty=[9.0, 9.0, 9.0], ridge=ridge).fit(X).components_,
    )


def test_components_are_unit_sparse_and_signed():
    model = SPCA(3, penalty=60.0).fit(make_table())
    U = model.components_
    np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1.0, rtol=1e-12)
    assert (U[np.arange(3), np.abs(U).argmax(axis=1)] > 0).all()
    assert (model.n_nonzero_ < 12).all()
    assert not np.any(np.signbit(U) & (U == 0))
    np.testing.assert_array_equal(model.n_nonzero_, np.count_nonzero(U, axis=1))


def test_larger_penalties_leave_fewer_loadings():
    X = make_table(noise=1.0)
    counts = [SPCA(1, penalty=penalty).fit(X).n_nonzero_[0] for penalty in (0.0, 10.0, 100.0, 1000.0)]
    assert counts[0] == 12
    assert all(after <= before for before, after in itertools.pairwise(counts))
    assert counts[-1] < 6


def test_adjusted_variance_is_that_of_residuals():
    X = make_table(noise=1.0)
    model = SPCA(3, penalty=100.0).fit(X)
    Z = model.transform(X)
    expected = []
    for j in range(3):
        rest = Z[:, j] - Z[:, :j] @ np.linalg.lstsq(Z[:, :j], Z[:, j])[0] if j else Z[:, 0]
        expected.append(rest @ rest / (len(X) - 1))
    np.testing.assert_allclose(model.explained_variance_, expected, rtol=1e-9)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, np.array(expected) / X.var(axis=0, ddof=1).sum(), rtol=1e-9
    )


def test_scores_and_the_way_back():
    X = make_table()
    model = SPCA(3, penalty=60.0).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ model.components_.T, atol=1e-10)
    rebuilt = model.inverse_transform(Z)
    Xc = X - X.mean(axis=0)
    best = Z @ np.linalg.lstsq(Z, Xc)[0] + X.mean(axis=0)
    np.testing.assert_allclose(rebuilt, best, atol=1e-9)
    np.testing.assert_allclose(model.transform(rebuilt), Z, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), -np.sum((X - best) ** 2, axis=1), atol=1e-9)
    np.testing.assert_allclose(model.score(X), -np.mean(np.sum((X - best) ** 2, axis=1)), rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e-6, np.inf])
def test_weight_counts_rows(ridge):
    X = make_table()
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = SPCA(3, penalty=60.0, ridge=ridge).fit(X, sample_weight=weight)
    repeated = SPCA(3, penalty=60.0, ridge=ridge).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-6)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-6)


def test_columns_may_be_permuted():
    X = make_table(noise=0.5)
    order = np.random.default_rng(1).permutation(12)
    plain, permuted = SPCA(3, penalty=60.0).fit(X), SPCA(3, penalty=60.0).fit(X[:, order])
    np.testing.assert_allclose(np.abs(permuted.components_), np.abs(plain.components_[:, order]), atol=1e-6)


def as_memmap(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def as_dask(X, folder):
    return pytest.importorskip("dask.array").from_array(X, chunks=(50, -1))


KINDS = {
    "csr": lambda X, _: scipy.sparse.csr_array(X),
    "csc matrix": lambda X, _: scipy.sparse.csc_matrix(X),
    "memmap": as_memmap,
    "dask": as_dask,
    "pandas": lambda X, _: pytest.importorskip("pandas").DataFrame(X),
}
SETTINGS = {
    "penalty": {"penalty": 60.0},
    "counts": {"n_nonzero": [5, 3, 2]},
    "soft": {"penalty": [500.0, 300.0, 150.0], "ridge": np.inf},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables_agree(kind, setting, tmp_path):
    X = make_table()
    X[np.abs(X) < 0.5] = 0.0
    table = KINDS[kind](X, tmp_path)
    dense, other = SPCA(3, **setting).fit(X), SPCA(3, **setting).fit(table)
    np.testing.assert_allclose(other.components_, dense.components_, atol=1e-9)
    np.testing.assert_allclose(other.transform(table), dense.transform(X), atol=1e-9)
    np.testing.assert_allclose(other.score(table), dense.score(X), rtol=1e-9)


def test_rows_and_matrix_give_the_same(monkeypatch):
    """With an infinite ridge the matrix of inner products is not needed."""
    X = np.random.default_rng(0).standard_normal((30, 200)) * np.linspace(3, 1, 200)
    by_matrix = SPCA(3, n_nonzero=20, ridge=np.inf).fit(X)
    monkeypatch.setattr("anypca.models.spca._start._SMALL_GRAM", 10)
    by_rows = SPCA(3, n_nonzero=20, ridge=np.inf).fit(X)
    np.testing.assert_allclose(by_rows.components_, by_matrix.components_, atol=1e-8)
    np.testing.assert_allclose(by_rows.explained_variance_, by_matrix.explained_variance_, rtol=1e-8)


def test_many_columns_with_an_infinite_ridge():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 12_000))
    X[:, :50] += 4.0 * rng.standard_normal((30, 1))
    model = SPCA(1, n_nonzero=50, ridge=np.inf).fit(X)
    assert np.flatnonzero(model.components_[0]).tolist() == list(range(50))
    with pytest.raises(ValueError, match=r"X has 12000 columns.*Use ridge=numpy.inf"):
        SPCA(1, n_nonzero=50).fit(X)


def test_single_precision_is_close_and_kept():
    X = make_table()
    double, single = SPCA(3, penalty=60.0).fit(X), SPCA(3, penalty=60.0).fit(X.astype(np.float32))
    np.testing.assert_allclose(single.components_, double.components_, atol=1e-5)
    scores = single.transform(X.astype(np.float32))
    assert scores.dtype == single.inverse_transform(scores).dtype == np.float32


class TestExtremes:
    def test_constant_column_has_no_loading(self):
        X = np.column_stack([make_table(), np.full(120, 7.0)])
        for setting in SETTINGS.values():
            assert not SPCA(3, **setting).fit(X).components_[:, -1].any()

    def test_duplicated_columns_share_a_component(self):
        X = make_table()
        twice = np.hstack([X, X[:, :5]])
        model = SPCA(3, penalty=60.0).fit(twice)
        assert model.converged_
        plain = SPCA(3, penalty=60.0).fit(X)
        first = model.transform(twice)[:, 0]
        assert abs(np.corrcoef(first, plain.transform(X)[:, 0])[0, 1]) > 0.999

    def test_fewer_rows_than_columns(self):
        X = make_table(6)
        model = SPCA(2, penalty=1.0).fit(X)
        assert model.components_.shape == (2, 12)
        assert model.converged_
        assert 0 < model.explained_variance_ratio_.sum() <= 1 + 1e-9

    def test_more_components_than_rows(self):
        with pytest.raises(
            ValueError, match=r"n_components=5 is more than min\(n_samples, n_features\).* Choose at most 4"
        ):
            SPCA(5).fit(make_table(4))

    def test_default_number_of_components_is_the_rank(self):
        X = make_table()
        assert SPCA().fit(X).n_components_ == 12
        assert SPCA().fit(X[:5]).n_components_ == 4
        assert SPCA().fit(np.hstack([X, X])).n_components_ == 12

    def test_all_zero_rows(self):
        X = make_table()
        X[:3] = 0.0
        model = SPCA(3, penalty=60.0).fit(X)
        np.testing.assert_allclose(
            model.transform(np.zeros((1, 12))), -model.mean_[None] @ model.components_.T
        )

    def test_constant_table(self):
        with pytest.warns(UserWarning, match="all loadings of component"):
            model = SPCA(1, penalty=1.0).fit(np.ones((10, 3)))
        np.testing.assert_array_equal(model.components_, 0.0)
        np.testing.assert_array_equal(model.explained_variance_ratio_, 0.0)

    def test_too_large_a_penalty_is_told(self):
        with pytest.warns(UserWarning, match=r"component\(s\) 1 are 0: the penalty is too large"):
            model = SPCA(penalty=[1.0, 1e9]).fit(make_table())
        assert model.n_nonzero_[1] == 0
        assert np.isfinite(model.inverse_transform(model.transform(make_table()))).all()

    def test_counts_that_cannot_be_met_are_told(self):
        X = make_table(6)
        with pytest.warns(UserWarning, match="fewer than asked for.*Increase ridge"):
            SPCA(1, n_nonzero=10, ridge=0.0).fit(X)

    def test_unfinished_fits_are_told(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model = SPCA(3, penalty=60.0, max_iter=2).fit(make_table())
        assert not model.converged_
        assert model.n_iter_ == 2


BAD = {
    "both": ({"n_nonzero": 2, "penalty": 1.0}, "not both"),
    "too many": ({"n_nonzero": 13}, "integers from 1 to the number of columns, 12; got 13"),
    "fraction": ({"n_nonzero": [2.5, 2]}, "integers from 1"),
    "length": ({"n_components": 3, "n_nonzero": [2, 2]}, "one for each of the 3 components"),
    "negative": ({"penalty": [1.0, -1.0]}, "finite and >= 0"),
    "nan": ({"penalty": [1.0, np.nan]}, "finite and >= 0"),
    "ridge": ({"ridge": -1.0}, "'ridge' parameter"),
    "input": ({"input": "grams"}, "Did you mean 'gram'"),
    "components": ({"n_components": 0}, "'n_components' parameter"),
}


@pytest.mark.parametrize(("parameters", "message"), BAD.values(), ids=BAD)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SPCA(**parameters).fit(make_table())


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((3, 4)), r"square matrix; X has shape \(3, 4\)"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), r"symmetric matrix; X\[0, 1\] is 0.5 and X\[1, 0\] is 0.2"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
    ],
    ids=["shape", "symmetry", "sign"],
)
def test_bad_matrices_of_inner_products(matrix, message):
    with pytest.raises(ValueError, match=message):
        SPCA(1, input="gram").fit(matrix)


def test_inner_products_have_no_rows():
    G = np.cov(make_table().T)
    with pytest.raises(ValueError, match="no rows to transform"):
        SPCA(2, input="gram").fit_transform(G)
    with pytest.raises(ValueError, match="sample_weight is for rows"):
        SPCA(2, input="gram").fit(G, sample_weight=np.ones(12))


def test_missing_entries_are_refused_by_name():
    X = make_table()
    bad = X.copy()
    bad[70, 3] = np.nan
    with pytest.raises(ValueError, match=r"X\[70, 3\] is NaN; SPCA needs every entry.*impute"):
        SPCA(2).fit(bad)
    with pytest.raises(ValueError, match=r"X\[70, 3\] is NaN"):
        SPCA(2).fit(X).transform(bad)
    assert not SPCA().__sklearn_tags__().input_tags.allow_nan


def test_names_of_columns_and_scores():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_table(), columns=[f"v{j}" for j in range(12)])
    model = SPCA(2, penalty=60.0).set_output(transform="pandas").fit(frame)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.transform(frame).columns.tolist() == ["spca0", "spca1"]
    bad = frame.copy()
    bad.iloc[4, 2] = np.nan
    with pytest.raises(ValueError, match=r"X\[4, 2\] \(column 'v2'\) is NaN"):
        SPCA(2).fit(bad)
    gram = frame.cov()
    assert SPCA(2, input="gram").fit(gram).feature_names_in_.tolist() == list(frame.columns)


def test_copies_pipelines_and_searches():
    X = make_table()
    model = SPCA(2, penalty=60.0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SPCA(3)), {"spca__n_nonzero": [1, 3]}, cv=3, error_score="raise"
    ).fit(X)
    assert search.best_params_ == {"spca__n_nonzero": 3}
