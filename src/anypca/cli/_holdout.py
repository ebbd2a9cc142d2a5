"""Log-likelihood of cells that a fit has not seen, comparable between models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.cli._fitting import Runtime, fit_model
from anypca.cli._input_table import InputTable
from anypca.cli._models import ModelRequest, find_model
from anypca.engine import hide_entries, take_entries
from anypca.families import Gaussian
from anypca.models._description import describe
from anypca.selection import EntryShuffleSplit
from anypca.special import log_ndtr_difference


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log-likelihoods of held-out cells."""

    terms: Floats
    """One for each cell and split."""

    @property
    def mean(self) -> float:
        """Mean log-likelihood per cell."""
        return float(self.terms.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, from the spread of the cells; NaN where a cell has probability 0."""
        if not np.isfinite(self.terms).all():
            return float("nan")
        return float(self.terms.std() / np.sqrt(len(self.terms)))

    @property
    def n_impossible(self) -> int:
        """Cells whose probability under the fit is 0."""
        return int(np.count_nonzero(~np.isfinite(self.terms)))


def hold_out(
    model: Any, request: ModelRequest, table: InputTable, splitter: EntryShuffleSplit, runtime: Runtime
) -> HeldOut | None:
    """Hide cells, fit to the others, and score the hidden ones.

    Parameters
    ----------
    model : fitted estimator
        To the whole table: its families and its dimension are kept.
    request : ModelRequest
        What it was made of.
    table : InputTable
    splitter : EntryShuffleSplit
    runtime : Runtime

    Returns
    -------
    held_out : HeldOut or None
        None for models that cannot score cells, or need all of them.
    """
    abilities = describe(model)
    if not (abilities.has_entries and abilities.handles_missing):
        return None
    settled = dict(request.settings)
    # Models of any family take it as an object too; the others have no choice, or two names.
    if not find_model(request.name).families:
        settled["family"] = model.family_
    wanted = replace(request, n_components=max(1, int(model.n_components_)), settings=settled)
    values = table.frame.values
    terms = []
    for number, (rows, columns) in enumerate(splitter.split(values), start=1):
        hidden = replace(table, frame=replace(table.frame, values=hide_entries(values, rows, columns)))
        words = f"{request.name}, held-out cells {number} of {splitter.get_n_splits()}"
        fit = fit_model(wanted, hidden, runtime, words=words)
        terms.append(score_cells(fit.model, hidden, rows, columns, take_entries(values, rows, columns)))
    return HeldOut(np.concatenate(terms))


def score_cells(model: Any, hidden: InputTable, rows: Ints, columns: Ints, values: Floats) -> Floats:
    """Log-probabilities of cells; log-densities in columns that are not of whole numbers.

    A density of a normal distribution and a probability of a count cannot be compared. In a column of whole numbers a
    normal distribution is therefore given the probability of the interval of width 1 around the value.

    Parameters
    ----------
    model : fitted estimator
        Which has not seen the cells.
    hidden : InputTable
        With these cells missing.
    rows, columns : ndarray of int of shape (n_cells,)
    values : ndarray of shape (n_cells,)

    Returns
    -------
    terms : ndarray of shape (n_cells,)
    """
    companions, X = hidden.companions(model), hidden.as_input()
    terms = np.array(model.entry_log_likelihood(X, rows, columns, values, **companions))
    variance = _normal_variance(model, hidden.frame.n_columns)
    is_discrete = (_whole_columns(hidden, columns, values) & np.isfinite(variance))[columns]
    if is_discrete.any():
        scores = model.transform(X, **companions)
        means = np.asarray(model.inverse_transform(scores, **companions))[rows, columns][is_discrete]
        spread = np.sqrt(variance[columns[is_discrete]])
        gap = values[is_discrete] - means
        terms[is_discrete] = log_ndtr_difference((gap - 0.5) / spread, (gap + 0.5) / spread)
    return terms


def _whole_columns(hidden: InputTable, columns: Ints, values: Floats) -> Bools:
    """Columns all of whose values, hidden ones included, are whole numbers, shape (n_columns,)."""
    whole: Bools = hidden.frame.whole_columns
    whole[columns[values != np.floor(values)]] = False
    return whole


def _normal_variance(model: Any, n_columns: int) -> Floats:
    """Variance of the columns that the model takes as normal, NaN for others, shape (n_columns,)."""
    found, variance = describe(model), np.full(n_columns, np.nan)
    assert found.family is not None
    assert found.dispersion is not None
    for member, index in found.family.member_columns(n_columns):
        if isinstance(member, Gaussian):
            variance[index] = found.dispersion[index]
    return variance
