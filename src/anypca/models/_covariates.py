"""Covariates: frames and text as numbers, centred and scaled, with a normal prior on their coefficients."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import listed, quoted
from anypca.columns import categories_of, cells_of, labels_of, named_columns
from anypca.columns.labels import BOOLEAN, DATES
from anypca.engine import Block, Data
from anypca.exceptions import DataConversionWarning
from anypca.families import Family, Ordinal
from anypca.models._context import FitContext

# Variances below this share of the mean square are rounding of a constant, as of 1e-10 of its size.
_CONSTANT = 1e-20
# Distance below which standardised covariates are the same level; two levels are at least 2 apart.
_SAME = 1e-3
# Columns that a warning of separated levels names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Column:
    """A covariate as a user gives it."""

    name: str
    levels: tuple[Any, ...] | None = None
    """Of text; the first is the reference. ``None`` for numbers."""
    is_left_out: bool = False
    """Whether it has another text in every row, which names rows."""

    @property
    def names(self) -> list[str]:
        """Of the numeric columns that it becomes."""
        if self.is_left_out:
            return []
        return [self.name] if self.levels is None else [f"{self.name}={level}" for level in self.levels[1:]]


@dataclass(frozen=True, eq=False)
class Covariates:
    """The covariates of a fit.

    Parameters
    ----------
    columns : tuple of Column, or None
        The columns of the user's frame; ``None`` for arrays of numbers.
    centre, scale : ndarray of shape (n_covariates,)
        Models are fitted to ``(covariates - centre) / scale``.
    """

    columns: tuple[Column, ...] | None
    centre: Floats
    scale: Floats

    @property
    def names(self) -> list[str]:
        """Names of the numeric columns."""
        if self.columns is None:
            return [str(number) for number in range(len(self.centre))]
        return [name for column in self.columns for name in column.names]

    @classmethod
    def of(cls, columns: tuple[Column, ...] | None, session: FitContext, *, is_centred: bool) -> Covariates:
        """Centres and scales from the rows of a table with their weights.

        Without an intercept (``is_centred=False``) the centre is zero and the scale is the root mean square.
        """
        if session.data.n_covariates == 0:
            return cls(columns, np.zeros(0), np.ones(0))
        total = session.sum(lambda block, _: np.append(block.weights @ block.covariates, block.weights.sum()))
        mean = total[:-1] / total[-1]
        centre = mean if is_centred else np.zeros_like(mean)

        def squares(block: Block, _: Any) -> Floats:
            return np.asarray(block.weights @ (block.covariates.astype(float) - centre) ** 2)

        variance = np.asarray(session.sum(squares)) / total[-1]
        is_constant = variance <= _CONSTANT * mean**2
        scale = np.sqrt(np.where(is_constant, 1.0, variance))
        return cls(columns, centre, scale)

    def encode(self, covariates: Any) -> Any:
        """New rows as an array of numbers; text by the levels of the fit."""
        return encode_covariates(covariates, self.columns)[0]

    def standardise(self, data: Data) -> Data:
        """The table with centred and scaled covariates."""
        if data.n_covariates == 0:
            return data
        change = partial(_standardise_block, centre=self.centre, scale=self.scale)
        if data.is_distributed:
            from anypca.engine.dask import change_blocks  # dask is optional

            return replace(data, blocks=change_blocks(data.blocks, change))
        return replace(data, blocks=tuple(change(block) for block in data.blocks))

    def intercept(self, intercept: Floats, coef: Floats) -> Floats:
        """The intercept (n_features,) in the user's units, from intercept and coefficients of the fit."""
        return np.asarray(intercept - coef @ (self.centre / self.scale))

    def restore_units(self, draws: Any) -> None:
        """Change draws of ``intercept`` and ``coef`` (chain, draw, covariate, feature) to the user's units in place."""
        coef = draws["coef"].values / self.scale[:, None]
        draws["coef"].values[...] = coef
        if "intercept" in draws:
            draws["intercept"].values[...] -= np.einsum("cdkj,k->cdj", coef, self.centre)


def _standardise_block(block: Block, centre: Floats, scale: Floats) -> Block:
    values = (block.covariates.astype(float) - centre) / scale
    return replace(block, covariates=values.astype(block.dtype))


def encode_covariates(
    covariates: Any, known: tuple[Column, ...] | None = None
) -> tuple[Any, tuple[Column, ...] | None]:
    """Covariates as numbers.

    Parameters
    ----------
    covariates : array-like, data frame, dict of columns, or None
    known : tuple of Column, optional
        The columns of the fit; the numbers of their levels are used.

    Returns
    -------
    values : array-like or None
        Frames, dicts and arrays of text become arrays of shape (n_samples, n_covariates); else as they are.
    columns : tuple of Column or None
        The columns of frames, dicts and arrays of text.

    Raises
    ------
    ValueError
        If a column is missing, a cell of text is empty, or a level did not occur in fit.
    """
    table = _columns_of(covariates)
    if table is None:
        return covariates, None
    columns = tuple(_describe(name, cells) for name, cells in table) if known is None else known
    by_name = dict(table)
    lacking = [column.name for column in columns if column.name not in by_name and not column.is_left_out]
    if lacking:
        raise ValueError(f"covariates need the columns of fit; {quoted(lacking)} is missing. Add it.")
    parts = [_encode(column, by_name[column.name]) for column in columns if not column.is_left_out]
    n_rows = len(table[0][1]) if table else 0
    return np.hstack([np.empty((n_rows, 0)), *parts]), columns


def covariates_for(model: Any, covariates: Any) -> Any:
    """Covariates of new rows as numbers, by the levels of a fitted model."""
    known = getattr(model, "_covariates", None)
    return covariates if known is None else known.encode(covariates)


def _columns_of(covariates: Any) -> list[tuple[str, Any]] | None:
    """Names and columns of a frame, a dict or an array of text; ``None`` for numbers."""
    if isinstance(covariates, Mapping):
        return [(str(name), np.asarray(values)) for name, values in covariates.items()]
    if isinstance(covariates, list | tuple):
        covariates = np.asarray(covariates)
    if isinstance(covariates, np.ndarray):
        if covariates.dtype.kind not in "OUS" or covariates.ndim not in (1, 2):
            return None
        table = covariates.astype(object).reshape(len(covariates), -1)
        return [(f"x{j}", table[:, j]) for j in range(table.shape[1])]
    if hasattr(covariates, "dask"):
        return None
    if getattr(covariates, "ndim", 2) == 1 and getattr(covariates, "name", None) is not None:
        covariates = covariates.to_frame()  # a named series
    return named_columns(covariates)


def _describe(name: str, column: Any) -> Column:
    """Whether a column holds numbers or text, and its levels."""
    labels = None if getattr(column.dtype, "kind", "O") in "iufb" else labels_of(column)
    if labels is None or labels == BOOLEAN:
        return Column(name)
    if labels == DATES:
        raise ValueError(
            f"covariates: column {name!r} holds dates. Make numbers of them, such as days since the first."
        )
    used = {cell for cell in cells_of(column) if cell is not None}
    declared = categories_of(column)
    levels = tuple(sorted(used, key=str) if declared is None else [c for c in declared[0] if c in used])
    if len(levels) == len(column) > 2:
        warnings.warn(
            f"covariates: column {name!r} has another text in every row, which names rows, and is left out.",
            DataConversionWarning,
            stacklevel=6,
        )
        return Column(name, is_left_out=True)
    if len(levels) < 2:
        raise ValueError(
            f"covariates: all rows of column {name!r} have the value {levels[0]!r}. Leave it out."
        )
    return Column(name, levels)


def _encode(column: Column, values: Any) -> Floats:
    """A column as numbers, text as indicators of its levels but the first; shape (n_samples, .)."""
    if column.levels is None and getattr(values.dtype, "kind", "O") in "iufb":
        return np.asarray(values, dtype=float)[:, None]
    cells = cells_of(values)
    if column.levels is None:
        return np.array([_number(cell, row, column.name) for row, cell in enumerate(cells)])[:, None]
    for row, cell in enumerate(cells):
        if cell not in column.levels:
            what = "has no value" if cell is None else f"is {cell!r}, which did not occur in fit"
            raise ValueError(
                f"covariates: row {row} of column {column.name!r} {what}. Use one of {quoted(column.levels)} "
                "or leave the row out."
            )
    return np.array([[float(cell == level) for level in column.levels[1:]] for cell in cells])


def _number(cell: Any, row: int, name: str) -> float:
    try:
        return np.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        raise ValueError(
            f"covariates: row {row} of column {name!r} is {cell!r}, and others are numbers. Write numbers or labels."
        ) from None


def prior_precision(coef_scale: float | None, n_covariates: int, units: Floats) -> Floats:
    """Precisions of the normal prior on coefficients of standardised covariates, (n_features, n_covariates).

    Parameters
    ----------
    coef_scale : float or None
        Standard deviation on the scale of the predictor; None, 0 and infinity mean no prior.
    n_covariates : int
    units : ndarray of shape (n_features,)
        Squared units of the predictor of each column.
    """
    scale = np.inf if not coef_scale else float(coef_scale)
    return np.asarray(np.repeat(1.0 / (scale**2 * units)[:, None], n_covariates, axis=1))


def warn_separated(covariates: Covariates, family: Family, session: FitContext) -> None:
    """Warn if a column has the same extreme value, as no counts, in all rows of a level of a covariate."""
    groups = _levels(covariates, session)
    if not groups:
        return

    def sums(block: Block, _: Any) -> Floats:
        table = block.read()
        seen = np.ones(table.x.shape) if table.observed is None else table.observed.astype(float)
        member = np.column_stack(
            [
                np.abs(block.covariates[:, columns] - values).max(axis=1) < _SAME
                for _, columns, values in groups
            ]
        )
        weighted = member * block.weights[:, None]
        return np.stack([weighted.T @ np.where(seen > 0, table.x, 0.0), weighted.T @ seen])

    total, count = session.sum(sums)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    summary = session.summary
    is_extreme = np.zeros(mean.shape, dtype=bool)
    is_bound = (mean == summary.minimum) | (mean == summary.maximum)
    for member, columns in family.member_columns(mean.shape[1]):
        if isinstance(member, Ordinal):  # its cut points are estimated later
            is_extreme[:, columns] = is_bound[:, columns]
            continue
        with np.errstate(all="ignore"):
            is_extreme[:, columns] = np.isinf(member.link(mean[:, columns]))
    is_extreme &= (summary.minimum < summary.maximum) & (count > 0)
    names = session.data.feature_names
    separated = [
        f"{column if names is None else repr(names[column])} ({groups[level][0]})"
        for level, column in zip(*np.nonzero(is_extreme), strict=True)
    ]
    if separated:
        warnings.warn(
            f"covariates separate columns: {listed(separated, most=_MOST_NAMED)}. All entries of the column in rows of "
            "that level are the smallest or largest possible value, and maximum likelihood estimates are infinite. The "
            "prior on coefficients (coef_scale) keeps them finite; join levels to estimate them from data.",
            UserWarning,
            stacklevel=6,
        )


def _levels(covariates: Covariates, session: FitContext) -> list[tuple[str, list[int], Floats]]:
    """Levels of text and of covariates with two values: a label, and the standardised values of some columns."""
    found: list[tuple[str, list[int], Floats]] = []
    centre, scale = covariates.centre, covariates.scale
    start, spans = 0, []
    for column in covariates.columns or [Column(name) for name in covariates.names]:
        spans.append((column, list(range(start, start + len(column.names)))))
        start += len(column.names)
    two = _two_values(session, len(centre))
    for column, at in spans:
        if column.levels is not None:
            for number, level in enumerate(column.levels):
                indicator = np.array([float(number == j + 1) for j in range(len(at))])
                found.append((f"{column.name}={level}", at, (indicator - centre[at]) / scale[at]))
        elif at and two[at[0]] is not None:
            for value in two[at[0]]:  # type: ignore[union-attr]
                shown = value * scale[at[0]] + centre[at[0]]
                found.append((f"{column.name}={shown:.6g}", at, np.array([value])))
    return found


def _two_values(session: FitContext, n_covariates: int) -> list[Sequence[float] | None]:
    """The two values of each covariate that has no others, ``None`` for the rest."""
    kept: list[set[float]] = [set() for _ in range(n_covariates)]
    # Three different values of each block are enough to decide.
    for part in session.gather(lambda block: [np.unique(column)[:3] for column in block.covariates.T]):
        for known, values in zip(kept, part, strict=True):
            known.update(values.tolist())
    return [sorted(values) if len(values) == 2 else None for values in kept]
