"""KernelPCA: reference values, approximations, kinds of input, extremes."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from anypca import KernelPCA
from anypca.datasets import load_bibliometrics
from anypca.models.kernel._embedding import fourier_map
from anypca.models.kernel._kernels import Kernel

FOLDER = os.environ.get("ANYPCA_DATA", "")
needs_data = pytest.mark.skipif(
    not Path(FOLDER or "/nonexistent").is_dir(), reason="ANYPCA_DATA names no folder of data files"
)
K = 3
METHODS = {
    "exact": {},
    "rff": {"method": "rff", "n_basis": 200, "random_state": 0},
    "nystroem": {"method": "nystroem", "n_basis": 60, "random_state": 0},
}
all_methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def make_table(n=150, p=5, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(rng.random(n) < 0.5, 1.0, 3.0)
    plane = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.hstack([plane, rng.standard_normal((n, p - 2)) * 0.3]) + 2.0


def product_kernel(x, y, power=1):
    """A kernel as users write them, for two rows."""
    return float(x @ y) ** power


def assert_same_up_to_sign(scores, reference, atol):
    signs = np.sign(np.sum(scores * reference, axis=0))
    np.testing.assert_allclose(scores * signs, reference, atol=atol)


@needs_data
def test_reference_scores_of_the_bibliometrics():
    X = load_bibliometrics("standardized").X
    points = np.load(Path(FOLDER) / "bibliometrics_reference.npz")["kpca_points"]
    model = KernelPCA(2, gamma=1 / 16).fit(X)
    assert_same_up_to_sign(model.transform(X), points, atol=1e-5)


def test_linear_kernel_gives_the_scores_of_pca():
    X, new = make_table(), make_table(20, seed=1)
    model, pca = KernelPCA(K, kernel="linear").fit(X), PCA(K).fit(X)
    assert_same_up_to_sign(model.transform(X), pca.transform(X), atol=1e-8)
    assert_same_up_to_sign(
        np.vstack([model.transform(X), model.transform(new)]),
        np.vstack([pca.transform(X), pca.transform(new)]),
        atol=1e-8,
    )
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-9)
    assert model.gamma_ is None


def test_linear_kernel_with_landmarks_is_pca_too():
    """Five columns: any six landmarks span all rows."""
    X = make_table() + 1000.0
    model = KernelPCA(K, kernel="linear", method="nystroem", n_basis=20, random_state=0).fit(X)
    assert_same_up_to_sign(model.transform(X), PCA(K).fit_transform(X), atol=1e-6)


KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.3}, {"kernel": "rbf", "gamma": 0.3}),
    "polynomial": (
        {"kernel": "polynomial", "gamma": 0.1, "degree": 2, "coef0": 1.0},
        {"kernel": "poly", "gamma": 0.1, "degree": 2, "coef0": 1.0},
    ),
    "cosine": ({"kernel": "cosine"}, {"kernel": "cosine"}),
    "laplacian": ({"kernel": "laplacian", "gamma": 0.3}, {"kernel": laplacian_kernel}),
    "callable": (
        {"kernel": product_kernel, "kernel_params": {"power": 2}},
        {"kernel": "poly", "gamma": 1.0, "degree": 2, "coef0": 0.0},
    ),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("eigen_solver", ["auto", "dense", "arpack"])
def test_exact_equals_scikit_learn(name, eigen_solver):
    X, new = make_table(80), make_table(20, seed=1)
    ours, theirs = KERNELS[name]
    model = KernelPCA(K, eigen_solver=eigen_solver, **ours).fit(X)
    if callable(theirs["kernel"]):  # as a matrix: their functions take one pair at a time
        kernel = theirs["kernel"]
        reference = Reference(K, kernel="precomputed").fit(kernel(X, gamma=0.3))
        expected = reference.transform(kernel(new, X, gamma=0.3))
    else:
        reference = Reference(K, **theirs).fit(X)
        expected = reference.transform(new)
    np.testing.assert_allclose(model.eigenvalues_, reference.eigenvalues_, rtol=1e-9)
    assert_same_up_to_sign(model.transform(new), expected, atol=1e-8 * np.abs(expected).max())


def test_randomized_solver_is_close():
    X = make_table(300)
    exact, fast = KernelPCA(K).fit(X), KernelPCA(K, eigen_solver="randomized", random_state=0).fit(X)
    np.testing.assert_allclose(fast.eigenvalues_, exact.eigenvalues_, rtol=1e-3)


def test_precomputed_kernel():
    X, new = make_table(), make_table(20, seed=1)
    values, new_values = rbf_kernel(X, gamma=0.3), rbf_kernel(new, X, gamma=0.3)
    before = values.copy()
    model, rows = KernelPCA(K, kernel="precomputed").fit(values), KernelPCA(K, gamma=0.3).fit(X)
    np.testing.assert_allclose(model.transform(new_values), rows.transform(new), atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_ratio_, rows.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_array_equal(values, before)
    assert not hasattr(model, "score_samples")


def subspace_error(model, exact, X):
    """Sine of the largest angle between the spans of the scores."""
    return np.sin(scipy.linalg.subspace_angles(model.transform(X), exact.transform(X)).max())


@pytest.mark.parametrize(
    ("method", "kernel", "sizes", "last"),
    [
        ("rff", "rbf", (20, 130, 800), 0.2),
        ("rff", "laplacian", (20, 130, 800), 0.3),
        ("nystroem", "rbf", (10, 40, 120), 1e-3),
        ("nystroem", "laplacian", (20, 60, 140), 0.05),
        ("nystroem", "polynomial", (5, 15, 60), 1e-6),
    ],
)
def test_approximations_converge_to_the_exact_subspace(method, kernel, sizes, last):
    X = make_table()
    exact = KernelPCA(2, kernel=kernel).fit(X)

    def error(n_basis, seed):
        model = KernelPCA(2, kernel=kernel, method=method, n_basis=n_basis, random_state=seed).fit(X)
        return subspace_error(model, exact, X)

    errors = [np.mean([error(size, seed) for seed in range(4)]) for size in sizes]
    assert errors[0] > 1.2 * errors[1] > 1.2**2 * errors[2]
    assert errors[2] < last


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "linear", "cosine", product_kernel])
def test_all_rows_as_landmarks_are_exact(kernel):
    X, new = make_table(60), make_table(10, seed=1)
    exact = KernelPCA(K, kernel=kernel).fit(X)
    model = KernelPCA(K, kernel=kernel, method="nystroem", n_basis=10_000).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6)
    expected = exact.transform(new)
    assert_same_up_to_sign(model.transform(new), expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(model.score(new), exact.score(new), rtol=1e-4)


def test_few_landmarks_do_not_claim_more_than_there_is():
    X = make_table()
    exact = KernelPCA(2, kernel="laplacian").fit(X)
    for n_basis in (2, 10, 50):
        model = KernelPCA(2, kernel="laplacian", method="nystroem", n_basis=n_basis, random_state=0).fit(X)
        assert model.explained_variance_ratio_[0] < exact.explained_variance_ratio_[0]


@pytest.mark.parametrize(("kernel", "exact"), [("rbf", rbf_kernel), ("laplacian", laplacian_kernel)])
def test_inner_products_of_random_features_are_the_kernel(kernel, exact):
    X = make_table(30)
    features = fourier_map(Kernel(kernel, {"gamma": 0.2}), 5, 40_000, np.random.default_rng(0)).features(X)
    np.testing.assert_allclose(features @ features.T, exact(X, gamma=0.2), atol=0.03)


@all_methods
def test_scores_are_centred_and_uncorrelated(method):
    X = make_table()
    model = KernelPCA(K, **method).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(Z.T @ Z, np.diag(model.eigenvalues_), atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, Z.var(axis=0, ddof=1), rtol=1e-8)
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert 0 < model.explained_variance_ratio_.sum() <= 1
    np.testing.assert_array_equal(model.fit_transform(X), Z)


@all_methods
def test_all_components_explain_everything(method):
    X = make_table(40)
    model = KernelPCA(**method).fit(X)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), 0.0, atol=1e-9)


@all_methods
def test_score_falls_away_from_the_rows(method):
    X = make_table()
    model = KernelPCA(K, **method).fit(X)
    scores, squares = model.transform(X), model._embedding.squares(X)
    np.testing.assert_allclose(model.score_samples(X), np.sum(scores**2, axis=1) - squares, atol=1e-10)
    np.testing.assert_allclose(squares.sum() * model.explained_variance_ratio_, model.eigenvalues_, rtol=1e-6)
    assert model.score(X + 20.0) < model.score(X) < 0


class TestGamma:
    def test_rules(self):
        X = make_table()
        distances = scipy.spatial.distance.pdist(X)
        assert KernelPCA(1).fit(X).gamma_ == pytest.approx(0.5 / np.median(distances) ** 2)
        assert KernelPCA(1, gamma="scale").fit(X).gamma_ == pytest.approx(1 / (5 * X.var()))
        assert KernelPCA(1, gamma=None).fit(X).gamma_ == 1 / 5
        assert KernelPCA(1, gamma=0.7).fit(X).gamma_ == 0.7
        blocks = scipy.spatial.distance.pdist(X, "cityblock")
        assert KernelPCA(1, kernel="laplacian").fit(X).gamma_ == pytest.approx(1 / np.median(blocks))
        assert KernelPCA(1, kernel="polynomial").fit(X).gamma_ == pytest.approx(1 / (5 * X.var()))

    def test_median_heeds_the_units(self):
        X = make_table()
        np.testing.assert_allclose(
            KernelPCA(K).fit(1000.0 * X).eigenvalues_, KernelPCA(K).fit(X).eigenvalues_, rtol=1e-9
        )

    def test_repeated_rows_do_not_narrow_the_kernel(self):
        X = np.vstack([np.zeros((200, 2)), make_table(50)[:, :2]])
        assert np.median(scipy.spatial.distance.pdist(X)) == 0
        assert 0 < KernelPCA(1).fit(X).gamma_ < 10


@all_methods
def test_preimages_of_training_rows_are_near_them(method):
    X = make_table()
    model = KernelPCA(20, fit_inverse_transform=True, alpha=1e-3, **method).fit(X)
    rebuilt = model.inverse_transform(model.transform(X))
    assert np.mean((rebuilt - X) ** 2) < 0.05 * X.var(axis=0).mean()


def test_exact_preimage_equals_scikit_learn_on_centred_rows():
    X = make_table()
    X -= X.mean(axis=0)
    model = KernelPCA(K, gamma=0.3, fit_inverse_transform=True, alpha=0.1).fit(X)
    reference = Reference(K, kernel="rbf", gamma=0.3, fit_inverse_transform=True, alpha=0.1).fit(X)
    Z = reference.transform(X)
    Z *= np.sign(np.sum(Z * model.transform(X), axis=0))
    np.testing.assert_allclose(model.inverse_transform(Z), reference.inverse_transform(Z), atol=1e-7)


def test_preimage_adds_the_mean():
    X = make_table() + 50.0
    model = KernelPCA(5, kernel="linear", fit_inverse_transform=True, alpha=1e-6).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-4)


def as_memmap(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def as_dask(X, folder):
    return pytest.importorskip("dask.array").from_array(X, chunks=(40, -1))


KINDS = {
    "csr": lambda X, _: scipy.sparse.csr_array(X),
    "csc matrix": lambda X, _: scipy.sparse.csc_matrix(X),
    "memmap": as_memmap,
    "dask": as_dask,
    "pandas": lambda X, _: pytest.importorskip("pandas").DataFrame(X),
}


@all_methods
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables_agree(kind, method, tmp_path):
    X = make_table(90)
    X[X < 1.5] = 0.0
    table = KINDS[kind](X, tmp_path)
    settings = {"fit_inverse_transform": True, **method}
    dense, other = KernelPCA(K, **settings).fit(X), KernelPCA(K, **settings).fit(table)
    Z = dense.transform(X)
    np.testing.assert_allclose(other.transform(table), Z, atol=1e-8)
    np.testing.assert_allclose(other.inverse_transform(Z), dense.inverse_transform(Z), atol=1e-6)
    np.testing.assert_allclose(other.score(table), dense.score(X), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "linear", "cosine", product_kernel])
def test_sparse_rows_in_every_kernel(kernel):
    X = make_table(40)
    X[X < 1.5] = 0.0
    dense, sparse = (
        KernelPCA(2, kernel=kernel).fit(X),
        KernelPCA(2, kernel=kernel).fit(scipy.sparse.csr_array(X)),
    )
    expected = dense.transform(X)
    np.testing.assert_allclose(sparse.transform(X), expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["rff", "nystroem"])
def test_blocks_and_chunks_do_not_matter(method, monkeypatch):
    X = make_table(3000)
    settings = {"method": method, "n_basis": 50, "random_state": 0, "fit_inverse_transform": True}
    whole = KernelPCA(K, n_jobs=1, **settings).fit(X)
    monkeypatch.setattr("anypca.engine.data._BLOCK_ENTRIES", 2000)
    monkeypatch.setattr("anypca.models.kernel._read._CHUNK_BYTES", 8 * 50 * 37)
    cut = KernelPCA(K, n_jobs=2, **settings).fit(X)
    Z = whole.transform(X)
    np.testing.assert_allclose(cut.transform(X), Z, atol=1e-9)
    np.testing.assert_allclose(cut.inverse_transform(Z), whole.inverse_transform(Z), atol=1e-7)


def test_large_means_do_not_cancel():
    """The centred Gram matrix of features far from 0."""
    X = make_table(200) + 1e4
    exact = KernelPCA(K, kernel="linear").fit(X - X.mean(axis=0))
    model = KernelPCA(K, kernel="linear", method="nystroem", n_basis=50, random_state=0).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-4)


@all_methods
def test_single_precision_is_close_and_kept(method):
    X = make_table()
    double = KernelPCA(K, fit_inverse_transform=True, **method).fit(X)
    single = KernelPCA(K, fit_inverse_transform=True, **method).fit(X.astype(np.float32))
    scores = single.transform(X.astype(np.float32))
    assert scores.dtype == single.inverse_transform(scores).dtype == np.float32
    expected = double.transform(X)
    # The largest coefficient fixes a sign, and rounding decides where two are about as large.
    signs = np.sign(np.einsum("ik,ik->k", scores, expected))
    np.testing.assert_allclose(scores * signs, expected, atol=2e-4)


@all_methods
def test_same_seed_same_result(method):
    X = make_table()
    np.testing.assert_array_equal(
        KernelPCA(K, **method).fit(X).transform(X), KernelPCA(K, **method).fit(X).transform(X)
    )


class TestExtremes:
    @all_methods
    def test_constant_column_changes_nothing(self, method):
        X = make_table()
        wide = np.column_stack([X, np.full(len(X), 3.0)])
        if method.get("method") == "rff":  # other frequencies are drawn for another number of columns
            assert KernelPCA(K, **method).fit(wide).explained_variance_ratio_.sum() > 0.1
            return
        np.testing.assert_allclose(
            KernelPCA(K, **method).fit(wide).transform(wide),
            KernelPCA(K, **method).fit(X).transform(X),
            atol=1e-8,
        )

    @all_methods
    def test_duplicated_columns(self, method):
        X = make_table()
        model = KernelPCA(K, **method).fit(np.hstack([X, X]))
        assert np.isfinite(model.transform(np.hstack([X, X]))).all()
        if not method:  # all squared distances double, and so does their median
            np.testing.assert_allclose(model.eigenvalues_, KernelPCA(K).fit(X).eigenvalues_, rtol=1e-9)

    @all_methods
    @pytest.mark.parametrize("n", [2, 4])
    def test_few_rows(self, method, n):
        X = make_table(n)
        model = KernelPCA(**method).fit(X)
        assert 1 <= model.n_components_ <= n
        with pytest.raises(ValueError, match=f"n_components=9 is more than .*Choose at most {n}"):
            KernelPCA(9, **method).fit(X)

    @all_methods
    def test_as_many_components_as_rows(self, method):
        """One of them is 0, since features are centred."""
        X = make_table(4)
        Z = KernelPCA(4, **method).fit_transform(X)
        np.testing.assert_allclose(Z[:, 3], 0.0, atol=1e-7)

    @all_methods
    def test_constant_table(self, method):
        X = np.ones((250, 3))
        model = KernelPCA(2, fit_inverse_transform=True, **method).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, 0.0, atol=1e-12)
        np.testing.assert_allclose(model.explained_variance_ratio_, 0.0, atol=1e-12)
        np.testing.assert_allclose(model.transform(X), 0.0, atol=1e-6)
        np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-6)

    @pytest.mark.parametrize("kernel", ["rbf", "cosine", "polynomial", "linear"])
    def test_all_zero_rows(self, kernel):
        X = make_table(50)
        X[:5] = 0.0
        model = KernelPCA(2, kernel=kernel).fit(X)
        scores = model.transform(np.zeros((1, 5)))
        np.testing.assert_allclose(
            scores, model.transform(X)[:1], atol=1e-9 * np.abs(model.transform(X)).max()
        )
        assert np.isfinite(model.score(np.zeros((1, 5))))


def negative_kernel(x, y):
    return -float(x @ y)


BAD = {
    "kernel": ({"kernel": "poly"}, "Did you mean 'polynomial'"),
    "method": ({"method": "fourier"}, "Did you mean 'rff'"),
    "gamma": ({"gamma": "mean"}, "Did you mean 'median'"),
    "negative gamma": ({"gamma": -1.0}, "'gamma' parameter"),
    "no frequencies": (
        {"kernel": "polynomial", "method": "rff"},
        "needs a kernel of differences, 'laplacian', 'rbf'; got 'polynomial'. Use method='nystroem'",
    ),
    "function": ({"kernel": product_kernel, "method": "rff"}, "needs a kernel of differences"),
    "parameters": ({"kernel_params": {"gamma": 1}}, "kernel_params are for a function"),
    "square": ({"kernel": "precomputed"}, r"square matrix.*X has shape \(150, 5\)"),
    "precomputed": ({"kernel": "precomputed", "method": "rff"}, "nothing to approximate"),
    "no rows": ({"kernel": "precomputed", "fit_inverse_transform": True}, "needs rows to learn from"),
    "basis": ({"method": "rff", "n_basis": 0}, "'n_basis' parameter"),
    "few features": (
        {"method": "rff", "n_basis": 4, "n_components": 5},
        r"n_components=5 is more than min\(n_basis, n_samples\) allows. Choose at most 4",
    ),
    "indefinite": (
        {"kernel": negative_kernel, "method": "nystroem", "n_basis": 20},
        "not positive semi-definite",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), BAD.values(), ids=BAD)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelPCA(**parameters).fit(make_table())


def test_asymmetric_kernel_values():
    values = np.eye(3)
    values[0, 2] = 0.5
    with pytest.raises(ValueError, match=r"symmetric matrix; X\[0, 2\] is 0.5 and X\[2, 0\] is 0"):
        KernelPCA(1, kernel="precomputed").fit(values)


def test_inverse_must_be_asked_for():
    model = KernelPCA(2)
    with pytest.raises(NotFittedError):
        model.inverse_transform(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="fit_inverse_transform=True"):
        model.fit(make_table()).inverse_transform(np.zeros((1, 2)))


@all_methods
def test_missing_entries_are_refused_by_name(method):
    X = make_table()
    bad = X.copy()
    bad[70, 3] = np.nan
    with pytest.raises(ValueError, match=r"X\[70, 3\] is NaN; KernelPCA needs every entry.*impute"):
        KernelPCA(2, **method).fit(bad)
    with pytest.raises(ValueError, match=r"X\[70, 3\] is NaN"):
        KernelPCA(2, **method).fit(X).transform(bad)
    assert not KernelPCA(**method).__sklearn_tags__().input_tags.allow_nan


def test_names_of_columns_and_scores():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_table(), columns=list("abcde"))
    model = KernelPCA(2).set_output(transform="pandas").fit(frame)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.transform(frame).columns.tolist() == ["kernelpca0", "kernelpca1"]


@all_methods
def test_copies(method):
    X = make_table()
    model = KernelPCA(2, fit_inverse_transform=True, **method).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    np.testing.assert_array_equal(
        copy.inverse_transform(np.zeros((1, 2))), model.inverse_transform(np.zeros((1, 2)))
    )
    assert clone(model).get_params() == model.get_params()
