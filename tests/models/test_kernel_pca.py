"""KernelPCA: scikit-learn's answers, approximations that converge to them, kernels, ways back, odd tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from tests.draws import seed
from tests.models.tables import assert_equal_up_to_signs

from anypca import KernelPCA

K = 3
METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "rff": {"method": "rff", "n_basis": 200, "random_state": seed()},
    "nystroem": {"method": "nystroem", "n_basis": 60, "random_state": seed()},
}
all_methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def make_table(rng: np.random.Generator, n: int = 150, p: int = 5) -> np.ndarray:
    """Two rings and columns of noise."""
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(np.arange(n) % 2 == 0, 1.0, 3.0)
    plane = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.hstack([plane, rng.standard_normal((n, p - 2)) * 0.3]) + 2.0


def product_kernel(x: np.ndarray, y: np.ndarray, power: int = 1) -> float:
    """A kernel as users write them, for two rows."""
    return float(x @ y) ** power


# Known answers


@pytest.mark.parametrize("method", [{}, {"method": "nystroem", "n_basis": 20}], ids=["exact", "nystroem"])
def test_linear_kernels_give_principal_components(method: dict[str, Any], rng: np.random.Generator) -> None:
    """Five columns: any six landmarks span all rows."""
    X, new = make_table(rng) + 1000.0, make_table(rng, 20) + 1000.0
    model, pca = KernelPCA(K, kernel="linear", random_state=seed(), **method).fit(X), PCA(K).fit(X)
    for table in (X, new):
        assert_equal_up_to_signs(model.transform(table), pca.transform(table), atol=1e-5)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-5)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-5)
    assert model.gamma_ is None


KERNELS: dict[str, Any] = {
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
@pytest.mark.parametrize("eigen_solver", ["auto", "dense", "arpack", "randomized"])
def test_exact_equals_scikit_learn(name: str, eigen_solver: str, rng: np.random.Generator) -> None:
    X, new = make_table(rng, 80), make_table(rng, 20)
    ours, theirs = KERNELS[name]
    model = KernelPCA(K, eigen_solver=eigen_solver, random_state=seed(), **ours).fit(X)
    if callable(theirs["kernel"]):  # as a matrix: their functions take one pair at a time
        reference = Reference(K, kernel="precomputed").fit(theirs["kernel"](X, gamma=0.3))
        expected = reference.transform(theirs["kernel"](new, X, gamma=0.3))
    else:
        reference = Reference(K, **theirs).fit(X)
        expected = reference.transform(new)
    exact = eigen_solver != "randomized"
    np.testing.assert_allclose(model.eigenvalues_, reference.eigenvalues_, rtol=1e-8 if exact else 0.05)
    if exact:
        assert_equal_up_to_signs(model.transform(new), expected, atol=1e-7 * np.abs(expected).max())
        table = sp.csr_array(np.where(X < 1.5, 0.0, X))
        sparse, dense = (KernelPCA(K, **ours).fit(each) for each in (table, table.toarray()))
        expected = dense.transform(table.toarray())
        assert_equal_up_to_signs(sparse.transform(table), expected, atol=1e-7 * np.abs(expected).max())


def test_precomputed_kernels(rng: np.random.Generator) -> None:
    X, new = make_table(rng), make_table(rng, 20)
    values, before = rbf_kernel(X, gamma=0.3), rbf_kernel(X, gamma=0.3)
    model, rows = KernelPCA(K, kernel="precomputed").fit(values), KernelPCA(K, gamma=0.3).fit(X)
    found = model.transform(rbf_kernel(new, X, gamma=0.3))
    np.testing.assert_allclose(found, rows.transform(new), atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, rows.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_array_equal(values, before)
    assert not hasattr(model, "score_samples")


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "linear", "cosine", product_kernel])
def test_all_rows_as_landmarks_are_exact(kernel: Any, rng: np.random.Generator) -> None:
    X, new = make_table(rng, 60), make_table(rng, 10)
    exact = KernelPCA(K, kernel=kernel).fit(X)
    model = KernelPCA(K, kernel=kernel, method="nystroem", n_basis=10_000).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-5)
    expected = exact.transform(new)
    assert_equal_up_to_signs(model.transform(new), expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(model.score(new), exact.score(new), rtol=1e-3)
    few = KernelPCA(2, kernel=kernel, method="nystroem", n_basis=4, random_state=seed()).fit(X)
    assert few.explained_variance_ratio_.sum() <= exact.explained_variance_ratio_[:2].sum() * (1 + 1e-9)


@pytest.mark.parametrize(
    ("method", "kernel", "n_basis", "most"),
    [
        ("rff", "rbf", 700, 0.4),
        ("rff", "laplacian", 700, 0.5),
        ("nystroem", "rbf", 120, 1e-2),
        ("nystroem", "laplacian", 140, 0.1),
        ("nystroem", "polynomial", 60, 1e-4),
    ],
)
def test_approximations_converge_to_the_exact_subspace(
    method: str, kernel: str, n_basis: int, most: float, rng: np.random.Generator
) -> None:
    X = make_table(rng)
    exact = KernelPCA(2, kernel=kernel).fit(X)
    errors = []
    for size in (n_basis // 25, n_basis):
        model = KernelPCA(2, kernel=kernel, method=method, n_basis=size, random_state=seed()).fit(X)
        angles = scipy.linalg.subspace_angles(model.transform(X), exact.transform(X))
        errors.append(np.sin(angles.max()))
    assert errors[1] < errors[0]
    assert errors[1] < most


@pytest.mark.parametrize(("kernel", "exact"), [("rbf", rbf_kernel), ("laplacian", laplacian_kernel)])
def test_inner_products_of_random_features_are_the_kernel(
    kernel: str, exact: Any, rng: np.random.Generator
) -> None:
    """All scores of few rows have the centred kernel as their inner products."""
    X, centring, found = make_table(rng, 30), np.eye(30) - 1.0 / 30, []
    for s in range(10):
        model = KernelPCA(30, kernel=kernel, gamma=0.2, method="rff", n_basis=400, random_state=seed(s)).fit(
            X
        )
        scores = model.transform(X)
        found.append(scores @ scores.T)
    error = np.mean(found, axis=0) - centring @ exact(X, gamma=0.2) @ centring
    # Means of 4000 products of cosines, of a variance below 1.
    assert np.sqrt(np.mean(error**2)) < 2 / np.sqrt(4000)


@all_methods
def test_scores_are_principal_components_of_features(
    method: dict[str, Any], rng: np.random.Generator
) -> None:
    X = make_table(rng)
    model = KernelPCA(K, **method).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(Z.T @ Z, np.diag(model.eigenvalues_), atol=1e-7)
    np.testing.assert_allclose(model.explained_variance_, Z.var(axis=0, ddof=1), rtol=1e-7)
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert model.score(X + 20.0) < model.score(X) < 0
    # Squared distances from the mean are what is explained and what is not.
    total = (Z**2).sum(axis=1) - model.score_samples(X)
    np.testing.assert_allclose(total.sum() * model.explained_variance_ratio_, model.eigenvalues_, rtol=1e-6)
    everything = KernelPCA(**method).fit(X[:40])
    np.testing.assert_allclose(everything.explained_variance_ratio_.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(everything.score_samples(X[:40]), 0.0, atol=1e-8)


def test_rules_of_gamma(rng: np.random.Generator) -> None:
    X = make_table(rng)
    assert KernelPCA(1).fit(X).gamma_ == pytest.approx(0.5 / np.median(pdist(X)) ** 2)
    assert KernelPCA(1, gamma="scale").fit(X).gamma_ == pytest.approx(1 / (5 * X.var()))
    assert KernelPCA(1, gamma=None).fit(X).gamma_ == 1 / 5
    assert KernelPCA(1, gamma=0.7).fit(X).gamma_ == 0.7
    blocks = pdist(X, "cityblock")
    assert KernelPCA(1, kernel="laplacian").fit(X).gamma_ == pytest.approx(1 / np.median(blocks))
    assert KernelPCA(1, kernel="polynomial").fit(X).gamma_ == pytest.approx(1 / (5 * X.var()))
    units = KernelPCA(K).fit(1000.0 * X)
    np.testing.assert_allclose(units.eigenvalues_, KernelPCA(K).fit(X).eigenvalues_, rtol=1e-8)
    copies = np.vstack([np.zeros((200, 2)), X[:50, :2]])  # most distances are 0
    assert 0 < KernelPCA(1).fit(copies).gamma_ < 10


# The way back


@all_methods
def test_preimages_of_training_rows_are_near_them(method: dict[str, Any], rng: np.random.Generator) -> None:
    X = make_table(rng)
    model = KernelPCA(20, fit_inverse_transform=True, alpha=1e-3, **method).fit(X)
    rebuilt = model.inverse_transform(model.transform(X))
    assert np.mean((rebuilt - X) ** 2) < 0.1 * X.var(axis=0).mean()


def test_exact_preimages_equal_scikit_learn_on_centred_rows(rng: np.random.Generator) -> None:
    X = make_table(rng)
    X -= X.mean(axis=0)
    model = KernelPCA(K, gamma=0.3, fit_inverse_transform=True, alpha=0.1).fit(X)
    reference = Reference(K, kernel="rbf", gamma=0.3, fit_inverse_transform=True, alpha=0.1).fit(X)
    Z = reference.transform(X)
    signs = np.sign(np.sum(Z * model.transform(X), axis=0))
    np.testing.assert_allclose(model.inverse_transform(Z * signs), reference.inverse_transform(Z), atol=1e-6)
    moved = KernelPCA(K, gamma=0.3, fit_inverse_transform=True, alpha=0.1).fit(X + 50.0)
    np.testing.assert_allclose(
        moved.inverse_transform(Z * signs), reference.inverse_transform(Z) + 50.0, atol=1e-6
    )


# Odd tables


@all_methods
def test_constant_and_copied_columns(method: dict[str, Any], rng: np.random.Generator) -> None:
    X = make_table(rng)
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    model, padded = KernelPCA(K, **method).fit(X), KernelPCA(K, **method).fit(wide)
    double = KernelPCA(K, **method).fit(np.hstack([X, X]))
    if method.get("method") == "rff":  # other frequencies are drawn for another number of columns
        assert np.isfinite(padded.transform(wide)).all()
        assert np.isfinite(double.transform(np.hstack([X, X]))).all()
        return
    assert_equal_up_to_signs(padded.transform(wide), model.transform(X), atol=1e-7)
    # All squared distances double, and so does their median.
    np.testing.assert_allclose(double.eigenvalues_, model.eigenvalues_, rtol=1e-6)


def negative_kernel(x: np.ndarray, y: np.ndarray) -> float:
    return -float(x @ y)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no frequencies": ({"kernel": "polynomial", "method": "rff"}, "got 'polynomial'. Use method='nystroem'"),
    "function": ({"kernel": product_kernel, "method": "rff"}, "needs a kernel of differences"),
    "parameters": ({"kernel_params": {"gamma": 1}}, "kernel_params are for a function"),
    "square": ({"kernel": "precomputed"}, r"square matrix.*X has shape \(150, 5\)"),
    "precomputed": ({"kernel": "precomputed", "method": "rff"}, "nothing to approximate"),
    "no rows": ({"kernel": "precomputed", "fit_inverse_transform": True}, "needs rows to learn from"),
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
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=message):
        KernelPCA(**parameters).fit(make_table(rng))


def test_asymmetric_kernels_and_ways_back_that_were_not_fitted(rng: np.random.Generator) -> None:
    values = np.eye(3)
    values[0, 2] = 0.5
    with pytest.raises(ValueError, match=r"symmetric matrix; X\[0, 2\] is 0.5 and X\[2, 0\] is 0"):
        KernelPCA(1, kernel="precomputed").fit(values)
    with pytest.raises(NotFittedError):
        KernelPCA(2).inverse_transform(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="fit_inverse_transform=True"):
        KernelPCA(2).fit(make_table(rng)).inverse_transform(np.zeros((1, 2)))
