"""What must not change a fit, for all models of matrices: containers, order, weights, threads, precision, units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.draws import seed
from tests.models.tables import (
    assert_equal_up_to_signs,
    draw_active,
    draw_counts,
    draw_eta,
    draw_real,
    is_monotone,
    punch,
)

from anypca import EPCA, GPCA, GSPPCA, PLNPCA, PPCA, SPCA, SSPCA, KernelPCA
from anypca.exceptions import ConvergenceWarning


@dataclass(frozen=True)
class Case:
    """A model, a table for it, and how closely two fits that end at one optimum agree, relative to the scores."""

    model: Any
    draw: Callable[[np.random.Generator], np.ndarray]
    tol: float


def _with_gaps(draw: Callable[[np.random.Generator], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda rng: punch(draw(rng), 0.15, rng)


def _answers(rng: np.random.Generator) -> np.ndarray:
    return (rng.random((80, 8)) < 1 / (1 + np.exp(-1.5 * (draw_eta(rng) - 1.0)))).astype(float)


def _amounts(rng: np.random.Generator) -> np.ndarray:
    return np.exp(draw_eta(rng)) * rng.gamma(4.0, 0.25, (80, 8))


def _mixed(rng: np.random.Generator) -> np.ndarray:
    eta = draw_eta(rng)
    return np.hstack([rng.poisson(np.exp(eta[:, :4])), eta[:, 4:] + 0.3 * rng.standard_normal((80, 4))])


# Rounding may keep tight fits above tol, at the same optimum.
pytestmark = pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")

_TIGHT = {"tol": 1e-9, "max_iter": 3000}
CASES = {
    "PPCA": Case(PPCA(3), draw_real, 1e-8),
    "PPCA-gaps": Case(PPCA(3, tol=1e-9), _with_gaps(draw_real), 1e-6),
    "EPCA-gaussian": Case(EPCA(2, family="gaussian(0.25)", **_TIGHT), draw_real, 1e-5),
    "EPCA-poisson": Case(EPCA(2, family="poisson", **_TIGHT), draw_counts, 1e-5),
    "EPCA-gaps": Case(EPCA(2, family="poisson", **_TIGHT), _with_gaps(draw_counts), 1e-5),
    "EPCA-bernoulli": Case(EPCA(2, family="bernoulli", **_TIGHT), _answers, 1e-5),
    "EPCA-gamma": Case(EPCA(2, family="gamma(4)", **_TIGHT), _amounts, 1e-5),
    "EPCA-mixed": Case(EPCA(2, family=["poisson"] * 4 + ["gaussian(0.09)"] * 4, **_TIGHT), _mixed, 1e-5),
    "PLNPCA": Case(PLNPCA(2, tol=1e-8, max_iter=5000), draw_counts, 1e-4),
    "PLNPCA-gaps": Case(PLNPCA(2, tol=1e-8, max_iter=5000), _with_gaps(draw_counts), 1e-4),
    "GPCA": Case(GPCA(2, family="poisson", bound=3.0, tol=1e-8), draw_counts, 1e-4),
    "GPCA-gaps": Case(GPCA(2, family="poisson", bound=3.0, tol=1e-8), _with_gaps(draw_counts), 1e-4),
    "GSPPCA": Case(GSPPCA(3, n_features_to_select=8), draw_active, 1e-6),
    "SPCA": Case(SPCA(3, penalty=20.0, ridge=1.0), draw_active, 1e-5),
    "SPCA-soft": Case(SPCA(3, penalty=[150.0, 60.0, 25.0], ridge=np.inf), draw_active, 1e-5),
    "SPCA-eigen": Case(SPCA(2, n_nonzero=8, method="eigen"), draw_active, 1e-6),
    "SSPCA": Case(SSPCA(3, n_features_to_select=8), draw_active, 1e-6),
    "KernelPCA": Case(KernelPCA(3), draw_real, 1e-6),
    "KernelPCA-nystroem": Case(
        KernelPCA(3, method="nystroem", n_basis=40, random_state=0, fit_inverse_transform=True),
        draw_real,
        1e-6,
    ),
    "KernelPCA-rff": Case(
        KernelPCA(3, method="rff", n_basis=60, random_state=0, fit_inverse_transform=True), draw_real, 1e-6
    ),
}
ITERATES = [name for name in CASES if not name.startswith("Kernel") and name not in ("PPCA", "SPCA-eigen")]
LINEAR = [name for name in CASES if not name.startswith("Kernel")]
TAKES_GAPS = ["PPCA", "EPCA", "PLNPCA", "GPCA"]
cases = pytest.mark.parametrize("name", CASES)


def fit(case: Case, X: Any, *, n_jobs: int = 1, **companions: Any) -> Any:
    return clone(case.model).set_params(n_jobs=n_jobs).fit(X, **companions)


def assert_same(found: Any, expected: Any, X: Any, case: Case, table: Any = None) -> None:
    """Scores, their way back, densities and reported shares agree; ``table`` is X in another container."""
    table = X if table is None else table
    scores = expected.transform(X)
    scale = np.abs(scores).max()
    np.testing.assert_allclose(found.transform(table), scores, rtol=0, atol=case.tol * scale)
    for name in ("explained_variance_", "explained_deviance_ratio_", "dispersion_", "noise_variance_"):
        if hasattr(expected, name):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=20 * case.tol, err_msg=name
            )
    np.testing.assert_allclose(found.score(table), expected.score(X), rtol=20 * case.tol)
    if has_way_back(expected):
        back = expected.inverse_transform(scores)
        atol = 10 * case.tol * np.abs(back).max()
        np.testing.assert_allclose(found.inverse_transform(scores), back, rtol=0, atol=atol)
    if np.isnan(X).any():
        filled = expected.impute(X)
        np.testing.assert_allclose(found.impute(table), filled, rtol=0, atol=100 * case.tol * filled.max())


def has_way_back(model: Any) -> bool:
    return getattr(model, "fit_inverse_transform", True)


def _memmap(X: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "table.npy", X)
    return np.load(folder / "table.npy", mmap_mode="r")


CONTAINERS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "fortran": lambda X, _: np.asfortranarray(X),
    "csr": lambda X, _: sp.csr_array(X),
    "csc-matrix": lambda X, _: sp.csc_matrix(X),
    "memmap": _memmap,
    "dask": lambda X, _: da.from_array(X, chunks=(17, -1)),
    "pandas": lambda X, _: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "polars": lambda X, _: pl.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])]),
    "list": lambda X, _: X.tolist(),
}


@cases
def test_containers_agree(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    case = CASES[name]
    X = case.draw(rng)
    if not name.startswith(("EPCA", "PLNPCA", "GPCA")):
        X = np.where(np.abs(X) < 0.5, 0.0, X)
    expected = fit(case, X)
    for container in CONTAINERS if name in ("PPCA", "EPCA-gaussian") else ("csr", "dask", "pandas"):
        table = CONTAINERS[container](X, tmp_path)
        assert_same(fit(case, table), expected, X, case, table)


@cases
def test_single_precision_is_close_and_kept(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    double, single = (clone(case.model).set_params(n_jobs=1) for _ in range(2))
    if "tol" in double.get_params():
        double.set_params(tol=1e-6), single.set_params(tol=1e-6)
    double.fit(X), single.fit(X.astype(np.float32))
    scores, expected = single.transform(X.astype(np.float32)), double.transform(X)
    assert scores.dtype == np.float32
    assert single.transform(X).dtype == np.float64
    assert_equal_up_to_signs(scores, expected, atol=5e-3 * np.abs(expected).max())
    if has_way_back(single):
        assert single.inverse_transform(scores).dtype == np.float32


@pytest.mark.parametrize("name", LINEAR)
def test_integer_weights_are_numbers_of_copies(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    # Rows of weight 0 count in what is imputed: see the next test.
    weight = rng.integers(int("gaps" in name), 3, len(X))
    weighted = fit(case, X, sample_weight=weight.astype(float))
    assert_same(fit(case, np.repeat(X, weight, axis=0)), weighted, X, case)


def test_rows_of_weight_zero_do_not_widen_imputed_values(rng: np.random.Generator) -> None:
    X = draw_real(rng)
    far = np.vstack([X, 1e3 * X[:1]])
    plain, weighted = PPCA(3).fit(X), PPCA(3).fit(far, sample_weight=np.append(np.ones(len(X)), 0.0))
    new = 500.0 * X[:1]
    new[0, np.abs(new[0]).argmax()] = np.nan
    np.testing.assert_allclose(weighted.impute(new), plain.impute(new), rtol=1e-6)


@cases
def test_the_order_of_rows_and_columns_does_not_matter(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    if "method" in case.model.get_params() and name.startswith("Kernel"):
        rows = np.arange(len(X))  # landmarks are drawn by their places, frequencies by columns
        columns = np.arange(X.shape[1]) if name.endswith("rff") else columns
    if isinstance(case.model.get_params().get("family"), list):
        columns = np.arange(X.shape[1])
    plain, moved = fit(case, X), fit(case, X[rows][:, columns])
    scores = plain.transform(X)
    found = moved.transform(X[:, columns])
    assert_equal_up_to_signs(found, scores, atol=case.tol * np.abs(scores).max())
    np.testing.assert_allclose(moved.score(X[:, columns]), plain.score(X), rtol=20 * case.tol)


@pytest.mark.parametrize("name", [name for name in CASES if "-gaps" in name or name not in TAKES_GAPS])
def test_a_row_does_not_depend_on_its_neighbours(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    model = fit(case, X)
    scores, densities = model.transform(X), model.score_samples(X)
    np.testing.assert_allclose(model.score(X), densities.mean(), rtol=1e-9)
    for i in (0, 17, len(X) - 1):
        atol = 1e-8 * np.abs(scores).max()
        np.testing.assert_allclose(model.transform(X[i : i + 1])[0], scores[i], rtol=0, atol=atol)
        np.testing.assert_allclose(
            model.score_samples(X[i : i + 1])[0], densities[i], rtol=1e-8, atol=1e-8 * np.abs(densities).max()
        )


THREADED = {
    "PPCA": Case(PPCA(3, tol=1e-7), _with_gaps(lambda rng: draw_real(rng, 1500, 60)), 1e-5),
    "EPCA": Case(EPCA(2, family="poisson", tol=1e-8), lambda rng: draw_counts(rng, 1500, 60), 1e-4),
    "GPCA": Case(
        GPCA(2, family="poisson", bound=3.0, tol=1e-7), lambda rng: draw_counts(rng, 1500, 60), 1e-4
    ),
    "SPCA": Case(SPCA(3, n_nonzero=5), lambda rng: draw_active(rng, 1500, 60, 20), 1e-5),
    "GSPPCA": Case(GSPPCA(3), lambda rng: draw_active(rng, 1500, 60, 20), 1e-5),
    "KernelPCA": Case(
        KernelPCA(3, method="nystroem", n_basis=40), lambda rng: draw_real(rng, 1500, 60), 1e-5
    ),
}


@pytest.mark.parametrize("name", THREADED)
def test_threads_do_not_matter(name: str, rng: np.random.Generator) -> None:
    case = THREADED[name]
    X = case.draw(rng)
    if "random_state" in case.model.get_params():
        case.model.set_params(random_state=seed(0))
    assert_same(fit(case, X, n_jobs=3), fit(case, X, n_jobs=1), X, case)


UNITS = {
    "PPCA": PPCA(3, tol=1e-7),
    "EPCA": EPCA(2, family="gaussian", tol=1e-7, max_iter=3000),
    "EPCA-l1": EPCA(2, family="gaussian", score_penalty="l1", tol=1e-7, max_iter=5000),
    "EPCA-group": EPCA(2, family="gaussian", loading_penalty="group", tol=1e-7, max_iter=5000),
    "GPCA-l1": GPCA(2, family="gaussian", penalty="l1", tol=1e-7, max_iter=5000),
    "GSPPCA": GSPPCA(3),
    "SPCA": SPCA(3, n_nonzero=5, ridge=np.inf),
    "SSPCA": SSPCA(3, n_features_to_select=8),
}


@pytest.mark.parametrize("unit", [1e-5, 1e5])
@pytest.mark.parametrize("name", UNITS)
def test_units_of_measurements_do_not_matter(name: str, unit: float, rng: np.random.Generator) -> None:
    X = draw_active(rng)
    if name.startswith(tuple(TAKES_GAPS)):
        X = punch(X, 0.1, rng)
    plain, scaled = (clone(UNITS[name]).set_params(n_jobs=1).fit(table) for table in (X, unit * X))
    scores = plain.transform(X)
    np.testing.assert_allclose(
        scaled.transform(unit * X), unit * scores, rtol=0, atol=1e-3 * unit * np.abs(scores).max()
    )
    np.testing.assert_allclose(
        scaled.explained_deviance_ratio_, plain.explained_deviance_ratio_, rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("name", ITERATES)
def test_traces_rise_and_running_out_of_iterations_warns(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    model = clone(case.model).set_params(n_jobs=1, tol=1e-6).fit(X)
    assert model.converged_
    assert is_monotone(model.objective_trace_)
    with pytest.warns(ConvergenceWarning, match=r"stopped at max_iter"):
        short = clone(case.model).set_params(max_iter=1, tol=1e-12).fit(X)
    assert not short.converged_
    assert short.n_iter_ <= 1


@cases
def test_reported_form(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    X = case.draw(rng)
    model = fit(case, X)
    shares = model.explained_deviance_ratio_
    assert np.all(shares >= 0)
    assert shares.sum() <= 1 + 1e-12
    assert model.n_components_ == len(shares)
    assert model.transform(X).shape == (len(X), len(shares))
    names = [f"{type(model).__name__.lower()}{k}" for k in range(len(shares))]
    assert list(model.get_feature_names_out()) == names
    # Loadings of mixed tables have unit length in units of the columns' noise.
    if name in LINEAR and name != "EPCA-mixed":
        U = model.components_
        np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1.0, rtol=1e-9)
