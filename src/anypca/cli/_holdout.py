"""Log-likelihood of cells that a fit has not seen, comparable between models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.cli._models import ModelRequest
from anypca.cli._session import Runtime, fit_model
from anypca.cli._table import Table
from anypca.engine import hide_entries, take_entries
from anypca.families import Gaussian, families
from anypca.selection import EntryShuffleSplit
from anypca.special import log_ndtr_difference


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log-likelihoods of held-out cells."""

    terms: Floats
    """One for each cell and split."""

    @property
    def mean(self) -> float:
        """Per cell."""
        return float(self.terms.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean, from the spread of the cells; NaN where a cell was held impossible."""
        if not np.isfinite(self.terms).all():
            return float("nan")
        return float(self.terms.std() / np.sqrt(len(self.terms)))

    @property
    def n_impossible(self) -> int:
        """Cells whose probability under the fit is 0."""
        return int(np.count_nonzero(~np.isfinite(self.terms)))


def hold_out(
    model: Any, request: ModelRequest, table: Table, splitter: EntryShuffleSplit, runtime: Runtime
) -> HeldOut | None:
    """Hide cells, fit to the others, and score the hidden ones.

    Parameters
    ----------
    model : fitted estimator
        To the whole table: its families and its dimension are kept.
    request : ModelRequest
        What it was made of.
    table : Table
    splitter : EntryShuffleSplit
    runtime : Runtime

    Returns
    -------
    held_out : HeldOut or None
        None for models that cannot score cells, or need all of them.
    """
    if not _is_scorable(model):
        return None
    settled = dict(request.settings)
    if "family" in model.get_params(deep=False) and hasattr(model, "family_"):
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


def score_cells(model: Any, hidden: Table, rows: Ints, columns: Ints, values: Floats) -> Floats:
    """Log-probabilities of cells; log-densities in columns that are not of whole numbers.

    A density of a normal distribution and a probability of a count cannot be compared. In a column of whole numbers a
    normal distribution is therefore given the probability of the interval of width 1 around the value.

    Parameters
    ----------
    model : fitted estimator
        Which has not seen the cells.
    hidden : Table
        With these cells missing.
    rows, columns : ndarray of int of shape (n_cells,)
    values : ndarray of shape (n_cells,)

    Returns
    -------
    terms : ndarray of shape (n_cells,)
    """
    companions = hidden.companions(model.transform)
    X = hidden.as_input()
    terms = _plug_in(model, X, (rows, columns), values, companions)
    variance = _normal_variance(model, hidden.frame.n_columns)
    is_discrete = (_whole_columns(hidden, columns, values) & np.isfinite(variance))[columns]
    if is_discrete.any():
        scores = model.transform(X, **companions)
        means = np.asarray(model.inverse_transform(scores, **companions))[rows, columns][is_discrete]
        spread = np.sqrt(variance[columns[is_discrete]])
        gap = values[is_discrete] - means
        terms[is_discrete] = log_ndtr_difference((gap - 0.5) / spread, (gap + 0.5) / spread)
    return terms


def _is_scorable(model: Any) -> bool:
    """Whether a model gives single cells a probability, and can be fitted without some of them."""
    has_family = hasattr(model, "entry_log_likelihood") or hasattr(model, "family_")
    return has_family and bool(model.__sklearn_tags__().input_tags.allow_nan)


def _plug_in(
    model: Any, X: Any, where: tuple[Ints, Ints], values: Floats, companions: dict[str, Any]
) -> Floats:
    """Log-likelihoods of cells given the scores of their rows."""
    if hasattr(model, "entry_log_likelihood"):
        return np.array(model.entry_log_likelihood(X, *where, values, **companions))
    eta = np.asarray(model.transform(X)) @ model.components_ + model.intercept_
    cells = np.ones(eta.shape)  # 1 is in the support of every family
    cells[where] = values
    return np.array(
        model.family_.log_likelihood(cells, eta, np.broadcast_to(model.dispersion_, eta.shape[1]))
    )[where]


def _whole_columns(hidden: Table, columns: Ints, values: Floats) -> Bools:
    """Columns all of whose values, hidden ones included, are whole numbers, shape (n_columns,)."""
    whole: Bools = hidden.frame.whole_columns
    whole[columns[values != np.floor(values)]] = False
    return whole


def _normal_variance(model: Any, n_columns: int) -> Floats:
    """Variance of the columns that the model takes as normal, NaN for others, shape (n_columns,)."""
    variance = np.full(n_columns, np.nan)
    noise = getattr(model, "dispersion_", getattr(model, "noise_variance_", None))
    if noise is None:
        return variance
    family = getattr(model, "family_", getattr(model, "family", "gaussian"))
    family = families.create(family) if isinstance(family, str) else family
    for member, index in family.member_columns(n_columns):
        if isinstance(member, Gaussian):
            variance[index] = np.broadcast_to(noise, n_columns)[index]
    return variance
