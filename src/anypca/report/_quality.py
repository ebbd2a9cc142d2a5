"""Quality of a fit: residuals and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.columns.reading import standardise
from anypca.interpretation import Entries, open_entries
from anypca.report._subject import Subject

#: Entries that residuals are computed for, some 100 MB of intermediate arrays, and entries for which tables are drawn
#: from the model: the standard error of a share of 5 % is then below a tenth of a percent.
_MOST_ENTRIES = 2_000_000
_MOST_DRAWN = 100_000
#: Smallest numbers of rows for residuals and for draws, also for wide tables.
_LEAST_ROWS, _LEAST_DRAWN = 100, 20
#: Draws per entry: with 19 there are 20 ranks, so that each should hold 5 % of the entries.
N_DRAWS = 19
#: Points of a calibration curve; each is the mean of a twentieth of the entries.
_N_BINS = 20
#: Number of entries listed as far from their means.
_N_WORST = 10


class Cell(NamedTuple):
    """An entry far from its fitted mean."""

    row: int
    """Among the shown rows."""
    column: int
    observed: float
    fitted: float
    residual: float
    """In standard deviations."""


class Curve(NamedTuple):
    """Mean observed against mean fitted values of one family's entries, in bins of the fitted ones."""

    family: str
    fitted: Floats
    observed: Floats
    error: Floats
    """Twice the standard error of the observed mean."""
    has_units: bool
    """The values are in standard deviations of their column, since columns have units of their own."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Residuals of the shown rows, or of the first few of them for wide tables."""

    n_rows: int
    column_share: Floats
    """Share of each column's deviance that the components explain; NaN for constant columns (n_columns,)."""
    row_deviance: Floats
    """Mean deviance of the observed entries of each row (n_rows,)."""
    row_share: Floats
    """Share of each row's deviance that the components explain (n_rows,)."""
    curves: tuple[Curve, ...]
    worst: tuple[Cell, ...]
    spread: float | None
    """Mean squared residual over its variance under the model; ``None`` where the variance is not modelled."""
    ranks: Ints | None
    """Numbers of entries with rank 0, ..., 19 among 19 draws from the model (20,)."""


def assess(subject: Subject) -> Quality | None:
    """Compare the shown rows with their distribution under the model.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Quality or None
        ``None`` for models that cannot turn scores into rows.
    """
    entries = _open(subject)
    if entries is None:
        return None
    deviance = entries.deviance(entries.eta)
    # Overflowing trial steps have a deviance of infinity, and are not taken.
    without = entries.deviance(entries.base + entries.intercept)
    null, of_rows = without.sum(axis=0), without.sum(axis=1)
    share, row_share = np.full(len(null), np.nan), np.ones(len(of_rows))
    np.divide(deviance.sum(axis=0), null, out=share, where=null > 1e-9 * len(entries.x))
    np.divide(deviance.sum(axis=1), of_rows, out=row_share, where=of_rows > 0)
    pearson = np.where(entries.seen, entries.family.pearson(entries.x, entries.eta, entries.dispersion), 0.0)
    spread = float(pearson.sum() / entries.seen.sum()) if entries.has_noise else None
    return Quality(
        n_rows=len(entries.x),
        column_share=1.0 - share,
        row_deviance=deviance.sum(axis=1) / np.maximum(entries.seen.sum(axis=1), 1),
        row_share=np.maximum(1.0 - row_share, 0.0),
        curves=tuple(_curves(entries)),
        worst=tuple(_worst(entries, pearson)),
        spread=spread,
        ranks=_ranks(entries) if entries.has_noise else None,
    )


def _open(subject: Subject) -> Entries | None:
    n = min(subject.sample.n_rows, max(_LEAST_ROWS, _MOST_ENTRIES // subject.facts.n_columns))
    companions = {name: values[:n] for name, values in subject.sample.companions.items()}
    return open_entries(subject.model, subject.sample.values[:n], subject.scores[:n], **companions)


def _curves(entries: Entries) -> list[Curve]:
    mu = entries.family.mean(entries.eta, entries.dispersion)
    curves = []
    for member, index in entries.family.member_columns(entries.x.shape[1]):
        x, m, seen = entries.x[:, index], mu[:, index], entries.seen[:, index]
        if member.has_units:  # columns in different units share a picture
            x, m = standardise(np.where(seen, x, np.nan), m)
        curves.append(Curve(member.name, *_binned(m[seen], x[seen]), member.has_units))
    return [curve for curve in curves if len(curve.fitted) > 1]


def _binned(fitted: Floats, observed: Floats) -> tuple[Floats, Floats, Floats]:
    """Means in bins of equally many entries, and twice the standard error of the observed ones."""
    order = np.argsort(fitted, kind="stable")
    parts = [part for part in np.array_split(order, _N_BINS) if len(part) > 1]
    means = np.array([fitted[part].mean() for part in parts])
    seen = np.array([observed[part].mean() for part in parts])
    error = np.array([2.0 * observed[part].std() / np.sqrt(len(part)) for part in parts])
    return means, seen, error


def _worst(entries: Entries, pearson: Floats) -> list[Cell]:
    """The entries with the largest residuals in units of their standard deviation."""
    size = pearson if entries.has_noise else _relative(entries)
    flat = np.argsort(-size, axis=None, kind="stable")[:_N_WORST]
    cells = []
    mu = entries.family.mean(entries.eta, entries.dispersion)
    for row, column in zip(*np.unravel_index(flat, size.shape), strict=True):
        observed, fitted = float(entries.x[row, column]), float(mu[row, column])
        sign = 1.0 if observed >= fitted else -1.0
        residual = sign * float(np.sqrt(size[row, column]))
        cells.append(Cell(int(row), int(column), observed, fitted, residual))
    return [cell for cell in cells if abs(cell.residual) > 0]


def _relative(entries: Entries) -> Floats:
    """Squared residuals over their mean in the column, for models without noise of their own."""
    squares = np.where(entries.seen, (entries.x - entries.eta) ** 2, 0.0)
    mean = squares.sum(axis=0) / np.maximum(entries.seen.sum(axis=0), 1)
    # Skip columns that are reproduced up to rounding.
    scale = np.where(entries.seen, entries.x, 0.0).std(axis=0)
    result = np.zeros_like(squares)
    np.divide(squares, mean, out=result, where=mean > 1e-12 * (1.0 + scale**2))
    return result


def _ranks(entries: Entries) -> Ints:
    """Ranks of entries among draws from the model, ties broken at random; uniform for a calibrated model."""
    n = min(len(entries.x), max(_LEAST_DRAWN, _MOST_DRAWN // entries.x.shape[1]))
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(entries.x), n, replace=False))
    x, eta = entries.x[rows], entries.eta[rows]
    below, equal = np.zeros(x.shape, dtype=int), np.zeros(x.shape, dtype=int)
    for _ in range(N_DRAWS):
        draw = entries.family.sample(eta, entries.dispersion, rng)
        below += draw < x
        equal += draw == x
    # Ties are broken at random: entries of few values have even ranks too.
    ranks = below + rng.integers(0, equal + 1)
    return np.bincount(ranks[entries.seen[rows]], minlength=N_DRAWS + 1)
