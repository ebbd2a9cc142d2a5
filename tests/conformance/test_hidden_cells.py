"""Hidden cells of small tables of counts are predicted at least as well as by the columns' means."""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from anypca import EPCA, GPCA, PLNPCA, PPCA, SPPCA, SSPPCA, VAE, PiecewisePCA, SePCA, datasets
from anypca.families import Family, Gaussian, resolve_family
from anypca.models._row_model import Expectations, usual_range

N_ROWS, N_COLUMNS, N_COMPONENTS = 100, 60, 6
# Root mean squared errors over those of the columns' means, over three sets of hidden cells. Squared errors hang on the
# few largest entries: predictions that are in truth as good as the means differ from them by some hundredths in so few
# cells. Written down before these samples were looked at.
LIMIT = 1.05
TABLES = ["oaks", "newsgroups4", "pbmc_facs", "scrna_mixology", "mollusk", "barents", "trichoptera"]
QUICK = ["EPCA", "GPCA", "PLNPCA", "PPCA"]
N_MASKS = 3
MODELS = {
    "EPCA": lambda: EPCA(N_COMPONENTS),
    "EPCA of Poisson counts": lambda: EPCA(N_COMPONENTS, family="poisson"),
    "GPCA": lambda: GPCA(N_COMPONENTS, tol=1e-3),
    "PLNPCA": lambda: PLNPCA(N_COMPONENTS, tol=1e-3),
    "PPCA": lambda: PPCA(N_COMPONENTS),
    "VAE": lambda: VAE(N_COMPONENTS),
}
SLOW = {
    "SePCA": SePCA,
    "SPPCA": lambda: SPPCA(N_COMPONENTS),
    "SSPPCA": lambda: SSPPCA(N_COMPONENTS),
    "PiecewisePCA": lambda: PiecewisePCA(N_COMPONENTS),
}


needs_data = pytest.mark.skipif(
    "ANYPCA_DATA" not in os.environ, reason="set ANYPCA_DATA to the folder of the stored tables"
)


@cache
def sample(name: str) -> np.ndarray:
    """Some rows of a stored table, and some of its columns with the largest totals that vary."""
    X = getattr(datasets, f"load_{name}")().X
    rng = np.random.default_rng(2027)
    rows = np.sort(rng.choice(X.shape[0], min(N_ROWS, X.shape[0]), replace=False))
    X = X[rows].toarray() if sp.issparse(X) else np.asarray(X)[rows]
    varied = np.flatnonzero(X.std(axis=0) > 0)
    largest = varied[np.argsort(-X[:, varied].sum(axis=0), kind="stable")][:600]
    return X[:, np.sort(rng.choice(largest, min(N_COLUMNS, len(largest)), replace=False))].astype(float)


def known(family: Family, dispersion: np.ndarray) -> Any:
    """What the limits ask a model for."""
    return SimpleNamespace(family=family, dispersion=dispersion)


def relative_error(make: Any, X: np.ndarray) -> float:
    """Root mean squared error of predicted cells over that of the columns' means; a tenth of the cells is hidden."""
    errors = np.zeros(2)
    for mask in range(N_MASKS):
        hidden = np.random.default_rng([2027, mask]).random(X.shape) < 0.1
        left = np.where(hidden, np.nan, X)
        means = np.broadcast_to(np.nanmean(left, axis=0), X.shape)
        found = make().set_params(n_jobs=1).fit(left).impute(left)
        errors += [np.square(X - guess)[hidden].sum() for guess in (found, means)]
    return float(np.sqrt(errors[0] / errors[1]))


@needs_data
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", QUICK)
def test_hidden_cells_are_predicted_no_worse_than_by_means(name: str) -> None:
    assert relative_error(MODELS[name], sample("newsgroups4")) <= LIMIT


@needs_data
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["EPCA of Poisson counts", "PPCA"])
def test_no_single_count_is_predicted_absurdly(name: str) -> None:
    assert relative_error(MODELS[name], sample("trichoptera")) <= LIMIT


@pytest.mark.conformance
@needs_data
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*MODELS, *SLOW])
@pytest.mark.parametrize("table", TABLES)
def test_hidden_cells_of_every_table(name: str, table: str) -> None:
    assert relative_error({**MODELS, **SLOW}[name], sample(table)) <= LIMIT


@pytest.mark.parametrize(
    ("family", "is_cut"),
    [
        ("gaussian", True),
        ("poisson", True),
        ("log_normal", True),
        ("bernoulli", False),
        ("binomial(9)", False),
    ],
)
def test_expectations_without_bounds_of_their_own_have_a_usual_range(family: str, is_cut: bool) -> None:
    mean, high = np.array([1.0, 5.0]), np.array([9.0, 5.0])
    found = usual_range(known(resolve_family(family, 2), np.ones(2)), mean, np.array([4.0, 0.0]), mean, high)
    np.testing.assert_array_equal(
        found, [[-5.0, 5.0], [9.0, 5.0]] if is_cut else [[-np.inf] * 2, [np.inf] * 2]
    )


def test_expectations_are_believed_within_their_limits() -> None:
    usual = Expectations(0.0, 10.0, mean=4.0, slope=0.5, far=0.25, bulk=(2.0, 6.0))
    np.testing.assert_array_equal(usual.believed(np.array([-50.0, 3.0, 8.0, 50.0])), [2.5, 3.5, 5.5, 6.0])


def test_a_column_that_is_reproduced_has_no_limits() -> None:
    found = usual_range(known(Gaussian(), np.array([1e-9, 0.5])), *[np.ones(2)] * 4)
    np.testing.assert_array_equal(found, [[-np.inf, -2.0], [np.inf, 4.0]])


def test_offsets_lift_the_limits() -> None:
    """An exposure a thousand times that of the others has a count a thousand times theirs."""
    rng = np.random.default_rng(0)
    X, exposure = rng.poisson(3.0, (40, 5)).astype(float), np.zeros(40)
    X[0], exposure[0] = rng.poisson(3000.0, 5), np.log(1000.0)
    X[0, 0] = np.nan
    with_offset = EPCA(1, family="poisson", ridge=30.0).fit(X, offset=exposure)
    assert with_offset.impute(X, offset=exposure)[0, 0] > 2000.0
    plain = PPCA(1).fit(X)
    column = X[1:, 0]
    reach = 3.0 * column.std() * (1 + 1e-12)
    low, high = min(column.min(), column.mean() - reach), max(column.max(), column.mean() + reach)
    assert low <= plain.impute(X)[0, 0] <= high
    assert plain._row_model().family == Gaussian()
