"""Choices of settings by entries that were hidden: what hides them, and how well a model predicts them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import check_data
from anypca.engine.entries import hide_entries, take_entries
from anypca.exceptions import ConvergenceWarning

# A tenth, as is usual: enough entries to compare settings by, and hardly less to fit with.
_HIDDEN_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class HiddenEntries:
    """A table without some of its entries, and these."""

    table: Any
    """Of the kind of the table that was given, NaN where entries are hidden."""
    rows: Ints
    columns: Ints
    values: Floats

    def fitted(self, model: Any, *, sample_weight: Any, companions: Mapping[str, Any]) -> Any:
        """The model, fitted to what is left; how the fit ended is not told."""
        with warnings.catch_warnings():
            # A trial that stopped early predicts as well as it can; the fit that is kept says how it ended.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(self.table, sample_weight=sample_weight, **companions)

    def log_likelihood(self, model: Any, companions: Mapping[str, Any]) -> Floats:
        """Log-likelihood of each hidden entry under a model fitted to what is left, shape (n_entries,)."""
        return np.asarray(
            model.entry_log_likelihood(self.table, self.rows, self.columns, self.values, **companions)
        )


def hide(X: Any, seed: int, parameter: str) -> HiddenEntries:
    """Hide a tenth of the observed entries.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
    seed : int
        Of the entries that are hidden.
    parameter : str
        What is chosen by them, for the error message.

    Raises
    ------
    TypeError
        For Dask arrays.
    """
    data, rng = check_data(X), np.random.default_rng(seed)
    if data.is_distributed:
        raise TypeError(
            f"{parameter} is chosen by hidden entries, which a Dask array cannot have; X must be in this process. "
            "Pass X.compute(), or give a number."
        )
    rows, columns = [], []
    for block in data.blocks:
        table = block.read()
        observed = np.ones(table.x.shape, dtype=bool) if table.observed is None else table.observed
        picked = np.argwhere(observed & (rng.random(table.x.shape) < _HIDDEN_SHARE))
        rows.append(picked[:, 0] + block.start)
        columns.append(picked[:, 1])
    row, column = np.concatenate(rows), np.concatenate(columns)
    return HiddenEntries(hide_entries(X, row, column), row, column, take_entries(X, row, column))
