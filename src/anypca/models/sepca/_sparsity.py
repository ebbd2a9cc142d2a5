"""The price of a non-zero loading, chosen by entries that were hidden."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from anypca.engine import check_data
from anypca.engine.entries import hide_entries, take_entries
from anypca.exceptions import ConvergenceWarning

#: Prices tried besides none, each twice the last. A loading stays if its square exceeds 8 prices of its variance: up to
#: 1/2 nothing becomes zero, and a price of 8 keeps loadings of more than 8 standard errors only.
PRICES = (1.0, 2.0, 4.0, 8.0)
# A tenth, as is usual: enough entries to compare prices by, and hardly less to fit with.
_HIDDEN_SHARE = 0.1
# Of the entries that are hidden. A constant, so that the price does not depend on ``random_state``; its value is
# arbitrary.
_SEED = 20


def choose_sparsity(estimator: Any, X: Any, *, sample_weight: Any, offset: Any, covariates: Any) -> float:
    """The largest price whose fit has components left and predicts hidden entries as well as the best.

    As well is: within one standard error of the difference.

    Parameters
    ----------
    estimator : SePCA
        With its settings; it is not changed.
    X : table of shape (n_samples, n_features)
        In this process, not a Dask array.
    sample_weight, offset, covariates : as in ``fit``

    Returns
    -------
    float
    """
    rows, columns, values = _held_out(X)
    hidden = hide_entries(X, rows, columns)
    companions = {"offset": offset, "covariates": covariates}

    def losses(price: float, rank: int | None) -> tuple[Any, Any]:
        model = clone(estimator).set_params(sparsity=price, max_components=rank, verbose=0)
        with warnings.catch_warnings():
            # A trial that stopped early predicts as well as it can; the fit that is kept says how it ended.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(hidden, sample_weight=sample_weight, **companions)
        return -model.entry_log_likelihood(hidden, rows, columns, values, **companions), model

    free, model = losses(0.0, estimator.max_components)
    found = {0.0: free}
    for price in PRICES:
        # The dimension is chosen before the price matters; the first fit's need not be looked for again.
        loss, priced = losses(price, model.n_components_)
        # Whether there are components is for the evidence to say, the price says which loadings are zero.
        if priced.n_components_ or not model.n_components_:
            found[price] = loss
    best = min(found.values(), key=np.mean)

    def is_near(loss: Any) -> bool:
        excess = loss - best
        return bool(excess.mean() <= excess.std() / np.sqrt(len(excess)))

    return max(price for price, loss in found.items() if is_near(loss))


def _held_out(X: Any) -> tuple[Any, Any, Any]:
    """A tenth of the observed entries, in row order, with their values."""
    data = check_data(X)
    rng = np.random.default_rng(_SEED)
    rows, columns = [], []
    for block in data.blocks:
        table = block.read()
        observed = np.ones(table.x.shape, dtype=bool) if table.observed is None else table.observed
        picked = np.argwhere(observed & (rng.random(table.x.shape) < _HIDDEN_SHARE))
        rows.append(picked[:, 0] + block.start)
        columns.append(picked[:, 1])
    row, column = np.concatenate(rows), np.concatenate(columns)
    return row, column, take_entries(X, row, column)
