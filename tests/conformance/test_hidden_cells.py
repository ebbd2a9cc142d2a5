"""Hidden cells of small tables of counts are predicted at least as well as by the columns' means."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.draws import generator

from anypca import EPCA, GPCA, PLNPCA, PPCA, SPPCA, SSPPCA, VAE, PiecewisePCA, SePCA, datasets

# Root mean squared errors over those of the columns' means. Squared errors depend on the few largest entries:
# predictions that are as good as the means differ from them by some hundredths in so few cells.
LIMIT = 1.05
PACKAGED, LARGER = (
    ["oaks", "mollusk", "barents", "trichoptera"],
    ["newsgroups4", "pbmc_facs", "scrna_mixology"],
)
MODELS: dict[str, Any] = {
    "EPCA": lambda: EPCA(6),
    "EPCA of Poisson counts": lambda: EPCA(6, family="poisson"),
    "GPCA": lambda: GPCA(6, tol=1e-3),
    "PLNPCA": lambda: PLNPCA(6, tol=1e-3),
    "PPCA": lambda: PPCA(6),
    "VAE": lambda: VAE(6),
    "SePCA": SePCA,
    "SPPCA": lambda: SPPCA(6),
    "SSPPCA": lambda: SSPPCA(6),
    "PiecewisePCA": lambda: PiecewisePCA(6),
}


@cache
def sample(name: str) -> np.ndarray:
    """Return 100 rows of a stored table, and 60 of its columns with the largest totals that vary."""
    X, rng = getattr(datasets, f"load_{name}")().X, np.random.default_rng(2027)
    rows = np.sort(rng.choice(X.shape[0], min(100, X.shape[0]), replace=False))
    X = X[rows].toarray() if sp.issparse(X) else np.asarray(X)[rows]
    varied = np.flatnonzero(X.std(axis=0) > 0)
    largest = varied[np.argsort(-X[:, varied].sum(axis=0), kind="stable")][:600]
    return X[:, np.sort(rng.choice(largest, min(60, len(largest)), replace=False))].astype(float)


def check(name: str, table: str) -> None:
    X, errors = sample(table), np.zeros(2)
    for mask in range(3):
        hidden = np.random.default_rng([2027, mask]).random(X.shape) < 0.1
        left = np.where(hidden, np.nan, X)
        means = np.broadcast_to(np.nanmean(left, axis=0), X.shape)
        found = MODELS[name]().set_params(n_jobs=1).fit(left).impute(left)
        errors += [np.square(X - guess)[hidden].sum() for guess in (found, means)]
    assert errors[0] <= LIMIT**2 * errors[1], (name, table)


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "table", ["trichoptera", *(pytest.param(name, marks=pytest.mark.conformance) for name in PACKAGED)]
)
def test_hidden_cells_are_predicted_no_worse_than_by_means(name: str, table: str) -> None:
    check(name, table)


@pytest.mark.data
@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_hidden_cells_of_larger_sets() -> None:
    for table in LARGER:
        for name in MODELS:
            check(name, table)


def test_limits_of_imputed_entries_move_with_offsets() -> None:
    """Without an offset an entry stays in the usual range of its column; an exposure of 1000 lifts it."""
    rng, exposure = generator("exposure"), np.zeros(40)
    X = rng.poisson(3.0, (40, 5)).astype(float)
    X[0], exposure[0] = rng.poisson(3000.0, 5), np.log(1000.0)
    X[0, 0] = np.nan
    with_offset = EPCA(1, family="poisson", ridge=30.0).fit(X, offset=exposure)
    assert with_offset.impute(X, offset=exposure)[0, 0] > 2000.0
    column = X[1:, 0]
    reach = 3.0 * column.std() * (1 + 1e-12)
    low, high = min(column.min(), column.mean() - reach), max(column.max(), column.mean() + reach)
    assert low <= PPCA(1).fit(X).impute(X)[0, 0] <= high
