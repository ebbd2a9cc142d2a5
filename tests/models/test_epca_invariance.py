"""What must not change a fit: containers, blocks, threads, order, repetition; and what follows from a seed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.engine import data as engine_data
from anypca.models._bilinear.alternating import AlternatingNewton
from anypca.models._bilinear.problem import BilinearProblem
from anypca.solvers import Status

N, P = 80, 8
# Tight enough that different paths to the optimum end in the same numbers; without a dispersion to estimate.
TIGHT = {"tol": 1e-9, "max_iter": 2000, "n_jobs": 1}
FAMILIES = ["gaussian", "poisson", "bernoulli", "negative_binomial(3)", "gamma(2)"]
# Loadings are known to this multiple of the scaled gradient at which a fit ends. Rows and columns are stepped in turn,
# so a sweep leaves up to 0.95 of an error in these tables and the error is 20 times the step; a column holds
# its part of it, sqrt(P) times the mean, over a curvature of a third or more.
CONDITION = 100.0


def draw(family: str, **changes: Any) -> np.ndarray:
    settings = {"signal": 0.8, "dispersion": 0.5, "random_state": 0, **changes}
    return make_low_rank(N, P, 2, family=family, **settings).X


def fit(X: Any, family: str = "poisson", **changes: Any) -> EPCA:
    companions = {k: changes.pop(k) for k in ("sample_weight", "offset", "covariates") if k in changes}
    return EPCA(2, family=family, **{**TIGHT, **changes}).fit(X, **companions)


def reach(model: EPCA) -> float:
    """The scaled gradient at which a converged fit has ended, at most.

    A step gains half the squared gradient. The loop may end above ``tol`` where that drowns in the rounding of the
    objective: 16 units in the last place of its sums, which in these tables are up to four times the objective.
    """
    if model.status_ == Status.CONVERGED.value:
        return float(model.tol)
    rounding = 16 * np.finfo(float).eps * 4 * abs(model.objective_trace_[-1])
    return float(np.sqrt(2 * rounding / (N * P)))


def accuracy(*models: EPCA) -> float:
    """How closely the loadings of fits of the same table agree, whatever the way to them."""
    return CONDITION * max(reach(model) for model in models)


def assert_same(found: EPCA, expected: EPCA) -> None:
    """Everything that is reported agrees as far as the fits went."""
    tol = accuracy(found, expected)
    scale = np.sqrt(expected.explained_variance_[0])
    np.testing.assert_allclose(found.components_, expected.components_, rtol=0, atol=tol)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=tol * (1 + scale))
    np.testing.assert_allclose(found.dispersion_, expected.dispersion_, rtol=tol)
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=10 * tol)
    np.testing.assert_allclose(
        found.explained_deviance_ratio_, expected.explained_deviance_ratio_, rtol=0, atol=tol
    )
    # Its error is of second order in that of the parameters, of first order in that of the dispersions, plus rounding.
    rtol = 1e-12 + tol**2 + np.abs(found.dispersion_ - expected.dispersion_).max()
    np.testing.assert_allclose(found.objective_trace_[-1], expected.objective_trace_[-1], rtol=rtol)


def assert_same_scores(found: Any, expected: Any, tol: float) -> None:
    """A row's score is known from its own P entries only, hence to about sqrt(N) times less than a loading."""
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=10 * tol)


# Containers


def _memmap(X: np.ndarray, folder: Path) -> np.memmap:
    np.save(folder / "table.npy", X)
    return np.load(folder / "table.npy", mmap_mode="r")


CONTAINERS = {
    "fortran": lambda X, _: np.asfortranarray(X),
    "csr": lambda X, _: sp.csr_array(X),
    "csc": lambda X, _: sp.csc_array(X),
    "csr-matrix": lambda X, _: sp.csr_matrix(X),
    "memmap": _memmap,
    "dask": lambda X, _: da.from_array(X, chunks=(30, -1)),
    "pandas": lambda X, _: pd.DataFrame(X, columns=[f"c{j}" for j in range(P)]),
    "polars": lambda X, _: pl.DataFrame(X, schema=[f"c{j}" for j in range(P)]),
    "list": lambda X, _: X.tolist(),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS.keys())
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
def test_containers_agree(container: Any, missing: float, tmp_path: Path) -> None:
    X = draw("poisson", missing=missing)
    expected = fit(X)
    table = container(X, tmp_path)
    found = fit(table)
    assert_same(found, expected)
    tol = accuracy(found, expected)
    assert_same_scores(found.transform(table), expected.transform(X), tol)
    np.testing.assert_allclose(found.score_samples(table), expected.score_samples(X), rtol=tol)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("family", ["poisson", "binomial(50)"])
def test_integers_take_the_way_of_products_to_the_same_end(family: str, container: Any) -> None:
    X = np.minimum(draw("poisson"), 50.0)
    assert_same(fit(container(X.astype(np.int64)), family), fit(X, family))


@pytest.mark.parametrize("family", FAMILIES)
def test_single_precision_is_close(family: str) -> None:
    X = draw(family)
    exact, found = fit(X, family), EPCA(2, family=family, n_jobs=1).fit(X.astype(np.float32))
    np.testing.assert_allclose(found.components_, exact.components_, rtol=0, atol=2e-2)
    np.testing.assert_allclose(found.intercept_, exact.intercept_, rtol=0, atol=2e-2)
    np.testing.assert_allclose(found.objective_trace_[-1], exact.objective_trace_[-1], rtol=1e-5)
    assert found.transform(X.astype(np.float32)).dtype == np.float32
    assert found.transform(X).dtype == np.float64


# Blocks and threads


# A dispersion that is estimated between rounds depends on how far the rounds went.
@pytest.mark.parametrize("family", ["gaussian(0.5)", *FAMILIES[1:], "mixed"])
@pytest.mark.parametrize(
    "companion", ["none", "missing", "sample_weight", "offset", "covariates", "entry_weight"]
)
def test_rough_sweeps_lead_to_the_same_optimum(
    family: str, companion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    families = (
        ["poisson", "bernoulli", "gaussian(0.5)", "gamma(2)"] * (P // 4) if family == "mixed" else family
    )
    X = draw(families, missing=0.2 if companion == "missing" else 0.0)
    given = {
        "sample_weight": rng.integers(1, 4, N).astype(float),
        "offset": 0.3 * rng.standard_normal((N, P)),
        "covariates": rng.standard_normal((N, 1)),
        "entry_weight": rng.uniform(0.5, 1.5, (N, P)),
    }
    chosen = {name: value for name, value in given.items() if name == companion}
    rough = EPCA(2, family=families, **TIGHT).fit(X, **chosen)
    monkeypatch.setattr(BilinearProblem, "rough", lambda self: None)
    exact = EPCA(2, family=families, **TIGHT).fit(X, **chosen)
    assert_same(rough, exact)
    assert np.all(np.diff(rough.objective_trace_) >= -np.abs(1e-13 * rough.objective_trace_[1:]))


def test_a_single_precision_table_ends_in_double_precision() -> None:
    X = draw("gamma(2)").astype(np.float32)
    found, expected = fit(X, "gamma(2)"), fit(X.astype(float), "gamma(2)")
    tol = accuracy(found, expected)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=0, atol=tol)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=2 * tol)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.0, 0.0), (1e12, 0.0), (1.0, 1e7)], ids=["usual", "huge", "far"]
)
def test_tables_that_single_precision_cannot_hold_have_no_rough_sweeps(
    scale: float, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    precisions = []
    monkeypatch.setattr(
        BilinearProblem,
        "step",
        lambda self, *a: precisions.append(self.precision) or AlternatingNewton.step(self, *a),
    )
    EPCA(2, family="gaussian(1)", n_jobs=1).fit(scale * draw("gaussian") + shift)
    assert ("float32" in precisions) == (scale == 1.0 and shift == 0.0)
    assert [precision for precision in precisions if precision][-1] == "float64"


@pytest.mark.parametrize("family", [*FAMILIES, "auto"])
def test_blocks_do_not_matter(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("poisson" if family == "auto" else family)
    expected = fit(X, family)
    monkeypatch.setattr(engine_data, "default_block_rows", lambda n_features, itemsize: 7)
    found = fit(X, family)
    assert_same(found, expected)
    assert_same_scores(found.transform(X), expected.transform(X), accuracy(found, expected))


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_do_not_matter(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_data, "default_block_rows", lambda n_features, itemsize: 11)
    X = draw(family)
    assert_same(fit(X, family, n_jobs=3), fit(X, family, n_jobs=1))


def test_chunks_of_dask_do_not_matter() -> None:
    X = draw("poisson")
    whole, parts = (fit(da.from_array(X, chunks=(rows, -1))) for rows in (N, 13))
    assert_same(parts, whole)


# Weights


@pytest.mark.parametrize("family", [*FAMILIES, "negative_binomial", "gamma"])
def test_weight_two_is_the_row_twice(family: str) -> None:
    X = draw(family)
    twice = np.arange(N) % 3 == 0
    weighted = fit(X, family, sample_weight=np.where(twice, 2.0, 1.0))
    assert_same(fit(np.vstack([X, X[twice]]), family), weighted)


@pytest.mark.parametrize("family", [*FAMILIES, "negative_binomial", "gamma"])
def test_weight_zero_is_no_row(family: str) -> None:
    X = draw(family)
    kept = np.arange(N) % 4 != 0
    assert_same(fit(X, family, sample_weight=kept.astype(float)), fit(X[kept], family))


def test_equal_weights_scale_the_ridge() -> None:
    # Weights of 4 quadruple the likelihood and the penalty on the scores, not that on the loadings: the nuclear
    # norm of the predictor then weighs twice the ridge, where four times would be the same model.
    X = draw("poisson")
    weighted, plain = fit(X, ridge=2.0, sample_weight=np.full(N, 4.0)), fit(X, ridge=1.0)
    tol = accuracy(weighted, plain)
    np.testing.assert_allclose(weighted.components_, plain.components_, rtol=0, atol=tol)
    np.testing.assert_allclose(weighted.intercept_, plain.intercept_, rtol=0, atol=tol)


# Order


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_may_be_permuted(family: str) -> None:
    X = draw(family, missing=0.1)
    order = np.random.default_rng(1).permutation(N)
    first, second = fit(X, family), fit(X[order], family)
    assert_same(second, first)
    assert_same_scores(second.transform(X[order]), first.transform(X)[order], accuracy(first, second))


@pytest.mark.parametrize("family", FAMILIES)
def test_columns_may_be_permuted(family: str) -> None:
    X = draw(family)
    order = np.random.default_rng(1).permutation(P)
    first, second = fit(X, family), fit(X[:, order], family)
    tol = accuracy(first, second)
    np.testing.assert_allclose(second.components_, first.components_[:, order], rtol=0, atol=tol)
    np.testing.assert_allclose(second.intercept_, first.intercept_[order], rtol=0, atol=tol)


@pytest.mark.parametrize("unit", [1e-4, 100.0, 1e6])
@pytest.mark.parametrize("penalty", ["ridge", "l1"])
def test_units_of_measurements_do_not_matter(unit: float, penalty: str) -> None:
    X = draw("gaussian", missing=0.1)
    plain, scaled = (fit(table, "gaussian", score_penalty=penalty, tol=1e-7) for table in (X, unit * X))
    np.testing.assert_allclose(scaled.components_, plain.components_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(scaled.dispersion_, unit**2 * plain.dispersion_, rtol=1e-4)
    np.testing.assert_allclose(
        scaled.transform(unit * X), unit * plain.transform(X), rtol=0, atol=unit * 1e-3
    )
    np.testing.assert_allclose(
        scaled.explained_deviance_ratio_, plain.explained_deviance_ratio_, rtol=0, atol=1e-5
    )


# Rows on their own


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("penalty", ["ridge", "l1"])
def test_a_row_does_not_depend_on_its_neighbours(family: str, penalty: str) -> None:
    X = draw(family, missing=0.1)
    model = EPCA(2, family=family, score_penalty=penalty, n_jobs=1, max_iter=3000).fit(X)
    together, std = model.transform(X, return_std=True)
    for i in (0, 17, N - 1):
        alone, alone_std = model.transform(X[i : i + 1], return_std=True)
        np.testing.assert_allclose(together[i : i + 1], alone, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(std[i : i + 1], alone_std, rtol=1e-9)
    half = np.arange(0, N, 2)
    np.testing.assert_allclose(model.transform(X[half]), together[half], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_new_scores_of_the_training_rows_are_their_old_ones(family: str) -> None:
    X = draw(family, missing=0.1)
    model = fit(X, family)
    scores, tol = model.transform(X), 10 * accuracy(model)
    np.testing.assert_allclose((scores**2).mean(axis=0), model.explained_variance_, rtol=tol)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=tol * np.abs(scores).max())
    moments = scores.T @ scores / N
    assert abs(moments[0, 1]) <= tol * moments[0, 0]
    # Its rows start where the fit has left them, and end at the same optimum.
    np.testing.assert_allclose(fit(X, family).fit_transform(X), scores, rtol=1e-9, atol=1e-9)


# Copies


def test_same_seed_same_bits() -> None:
    X = draw("poisson")
    one, other = (EPCA(2, family="poisson", random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.objective_trace_, other.objective_trace_)
    np.testing.assert_array_equal(one.sample(5, random_state=1), other.sample(5, random_state=1))


def test_seeds_lead_to_the_same_optimum() -> None:
    X = draw("poisson")
    assert_same(fit(X, random_state=5), fit(X, random_state=np.random.RandomState(8)))


def test_pickle_and_clone() -> None:
    X = draw("poisson", missing=0.1)
    model = EPCA(2, family="poisson", ridge=0.5).fit(X)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")


def test_refitting_forgets() -> None:
    X = draw("poisson")
    model = fit(draw("poisson", random_state=9)[:, :5])
    model.fit(X)
    np.testing.assert_array_equal(model.components_, fit(X).components_)


def test_fit_leaves_its_input_alone() -> None:
    X = draw("poisson", missing=0.2)
    before, weights = X.copy(), np.linspace(0.5, 2.0, N)
    weights_before = weights.copy()
    fit(X, sample_weight=weights, tol=1e-4)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(weights, weights_before)
