"""Entries of a table that are asked for, and their log-likelihood at the fitted predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family


def check_entries(rows: Any, columns: Any, n_features: int) -> tuple[Ints, Ints]:
    """Places of entries as two arrays of integers.

    Raises
    ------
    ValueError
        If they are not pairs of integers.
    IndexError
        If a column is outside of the table.
    """
    row, column = (np.asarray(values) for values in (rows, columns))
    if row.ndim != 1 or row.shape != column.shape:
        raise ValueError(
            f"rows and columns name entries in pairs, one of each; got shapes {row.shape} and {column.shape}."
        )
    if row.size and not all(np.issubdtype(values.dtype, np.integer) for values in (row, column)):
        raise ValueError(
            f"rows and columns of entries must be integers; got {row.dtype} and {column.dtype}. "
            "np.nonzero(np.isnan(X)) gives those of missing entries."
        )
    row, column = row.astype(int), column.astype(int)
    outside = (column < 0) | (column >= n_features)
    if outside.any():
        raise IndexError(f"column {int(column[outside][0])} is outside of the table, which has {n_features}.")
    return row, column


def entries_of(block: Block, rows: Ints) -> Ints:
    """Which entries lie in a block, given the rows of all (in any order)."""
    return np.flatnonzero((rows >= block.start) & (rows < block.stop))


def in_order(found: Sequence[tuple[Ints, Floats]], n_entries: int) -> Floats:
    """What blocks say of their entries (places and values), in the order in which they were asked for.

    Raises
    ------
    IndexError
        If some entry lies in no block.
    """
    places = np.concatenate([place for place, _ in found])
    if len(places) < n_entries:
        missing = int(np.setdiff1d(np.arange(n_entries), places)[0])
        raise IndexError(
            f"entry {missing} of {n_entries} lies in no row of X: give row numbers from 0 to n_samples - 1."
        )
    values = np.concatenate([value for _, value in found])
    result = np.empty_like(values)
    result[places] = values
    return result


class EntryLikelihood:
    """Mixin of models in which entries are independent given a predictor that the scores decide.

    A subclass is a `LatentModel` and writes ``_predict_block`` and ``_noise``.
    """

    def _predict_block(self, block: Block, scores: Floats) -> Floats:
        """eta (rows, n_features) of the rows of a block, given their scores."""
        raise NotImplementedError

    def _noise(self) -> tuple[Family, Floats]:
        """The family of the entries given eta, and its dispersion, shape (n_features,)."""
        raise NotImplementedError

    def entry_log_likelihood(
        self,
        X: Any,
        rows: Ints,
        columns: Ints,
        values: Floats,
        *,
        offset: Any = None,
        covariates: Any = None,
    ) -> Floats:
        """Log-likelihood of values at some entries, given the scores that the observed entries of X decide.

        The scores are plugged in: ``log p(value | eta)`` with all constants, at the predictor and the dispersion
        of the fit. Values that X does not show are thereby predicted; their uncertainty is that of the family alone.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Entries that are to be predicted are missing here.
        rows, columns : ndarray of int of shape (n_entries,)
            Where the values belong.
        values : ndarray of shape (n_entries,)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_entries,)
        """
        rows, columns = check_entries(rows, columns, self.n_features_in_)  # type: ignore[attr-defined]
        values = np.broadcast_to(np.asarray(values, dtype=float), rows.shape)
        scores, companions = self._plug_in_scores(X, offset, covariates)
        family, dispersion = self._noise()

        def visit(block: Block) -> tuple[Ints, Floats]:
            part = entries_of(block, rows)
            eta = self._predict_block(block, scores[block.start : block.stop])
            terms = np.empty(len(part))
            for member, index in family.member_columns(len(dispersion)):
                of = np.isin(columns[part], index)
                row, column = rows[part][of] - block.start, columns[part][of]
                terms[of] = member.log_likelihood(values[part][of], eta[row, column], dispersion[column])
            return part, terms

        return in_order(self._map_rows(visit, X, **companions), len(rows))  # type: ignore[attr-defined]

    def plug_in_log_likelihood(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Log-likelihood of the observed entries of each row at its own scores, with all constants.

        The scores are plugged in, not integrated out as in ``score_samples``: this is the fit of the predictor to
        the entries it was fitted to, and grows with every component.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores, companions = self._plug_in_scores(X, offset, covariates)
        family, dispersion = self._noise()

        def visit(block: Block) -> Floats:
            table = block.read()
            eta = self._predict_block(block, scores[block.start : block.stop])
            terms = family.log_likelihood(table.x.astype(np.float64, copy=False), eta, dispersion)
            totals: Floats = np.sum(terms, axis=1, where=True if table.observed is None else table.observed)
            return totals

        return np.concatenate(self._map_rows(visit, X, **companions))  # type: ignore[attr-defined]

    def _plug_in_scores(self, X: Any, offset: Any, covariates: Any) -> tuple[Floats, dict[str, Any]]:
        """Scores of rows in float64, and the arguments that came with them (not all models take them)."""
        given = {"offset": offset, "covariates": covariates}
        companions = {name: value for name, value in given.items() if value is not None}
        scores = self.transform(X, **companions)  # type: ignore[attr-defined]
        return np.asarray(scores, dtype=np.float64), companions
