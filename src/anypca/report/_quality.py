"""How well the fitted means, and the spread around them, describe the entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family, Gaussian
from anypca.plotting._reading import standardise
from anypca.report._subject import Subject

#: Entries that residuals are computed for, some 100 MB of intermediate arrays, and entries for which tables are drawn
#: from the model: the standard error of a share of 5 % is then below a tenth of a percent.
_MOST_ENTRIES = 2_000_000
_MOST_DRAWN = 100_000
#: However wide the table: residuals of fewer rows tell nothing of a column, draws of fewer nothing of the spread.
_LEAST_ROWS, _LEAST_DRAWN = 100, 20
#: Draws per entry: with 19 there are 20 ranks, so that each should hold 5 % of the entries.
N_DRAWS = 19
#: Points of a calibration curve: a bend shows, and each is the mean of a twentieth of the entries.
_N_BINS = 20
#: Entries listed as far from their means: as many as are looked at one by one.
_N_WORST = 10
#: Newton steps for one intercept per column. Each is bounded, since a column of zeros has its optimum at infinity; 15
#: steps of 3 reach a factor of exp(45), beyond all means that occur, and Newton's method needs few near the optimum.
_STEPS, _LONGEST_STEP = 15, 3.0


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
    curves: tuple[Curve, ...]
    worst: tuple[Cell, ...]
    spread: float | None
    """Mean squared residual over its variance under the model; ``None`` where the variance is not modelled."""
    ranks: Ints | None
    """How many entries have the rank 0, ..., 19 among 19 draws from the model (20,)."""


@dataclass(frozen=True, eq=False)
class _Entries:
    """Observed entries with their predictor, the missing ones replaced by 1, which every family supports."""

    family: Family
    x: Floats
    seen: Bools
    eta: Floats
    base: Floats
    """The predictor without components, up to one constant per column."""
    dispersion: Floats
    has_noise: bool
    """Whether the dispersion is the model's, rather than 1 for want of a better one."""

    def deviance(self, eta: Floats) -> Floats:
        """Deviance of each entry, 0 where missing."""
        return np.where(self.seen, self.family.deviance(self.x, eta, self.dispersion), 0.0)


def assess(subject: Subject) -> Quality | None:
    """Compare the shown rows with what the model says of them.

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
    null = entries.deviance(entries.base + _intercept(entries)).sum(axis=0)
    share = np.full(len(null), np.nan)
    np.divide(deviance.sum(axis=0), null, out=share, where=null > 1e-9 * len(entries.x))
    pearson = np.where(entries.seen, entries.family.pearson(entries.x, entries.eta, entries.dispersion), 0.0)
    spread = float(pearson.sum() / entries.seen.sum()) if entries.has_noise else None
    return Quality(
        n_rows=len(entries.x),
        column_share=1.0 - share,
        row_deviance=deviance.sum(axis=1) / np.maximum(entries.seen.sum(axis=1), 1),
        curves=tuple(_curves(entries)),
        worst=tuple(_worst(entries, pearson)),
        spread=spread,
        ranks=_ranks(entries) if entries.has_noise else None,
    )


def _open(subject: Subject) -> _Entries | None:
    n = min(subject.sample.n_rows, max(_LEAST_ROWS, _MOST_ENTRIES // subject.facts.n_columns))
    values, scores, model = subject.sample.values[:n], subject.scores[:n], subject.description
    eta, base = subject.predict(scores), subject.predict(np.zeros_like(scores))
    if eta is None or base is None:
        return None
    values = subject.layout.split(values)
    seen, family = ~np.isnan(values), model.family or Gaussian()
    # A table that the components reproduce exactly has a noise of 0, in units of which nothing can be told.
    has_noise = model.dispersion is not None and bool((model.dispersion > 0).all())
    dispersion = np.asarray(model.dispersion) if has_noise else np.ones(eta.shape[1])
    return _Entries(family, np.where(seen, values, 1.0), seen, eta, base, dispersion, has_noise)


def _intercept(entries: _Entries) -> Floats:
    """The constant of each column that fits best without components (n_columns,), by Newton steps."""
    shift = np.zeros(entries.x.shape[1])
    longest = np.full(len(shift), _LONGEST_STEP)
    for member, index in entries.family.member_columns(len(shift)):
        if isinstance(member, Gaussian):  # steps are exact whatever their length
            longest[index] = np.inf
    for _ in range(_STEPS):
        found = entries.family.evaluate(entries.x, entries.base + shift, entries.dispersion, order=2)
        assert found.gradient is not None
        assert found.curvature is not None
        slope = np.where(entries.seen, found.gradient, 0.0).sum(axis=0)
        curvature = np.where(entries.seen, found.curvature, 0.0).sum(axis=0)
        step = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        shift = shift + np.minimum(np.maximum(step, -longest), longest)
    return shift


def _curves(entries: _Entries) -> list[Curve]:
    mu = entries.family.mean(entries.eta, entries.dispersion)
    curves = []
    for member, index in entries.family.member_columns(entries.x.shape[1]):
        x, m, seen = entries.x[:, index], mu[:, index], entries.seen[:, index]
        if member.has_units:  # columns in different units share a picture
            x, m = standardise(np.where(seen, x, np.nan), m)
        curves.append(Curve(member.name, *_binned(m[seen], x[seen]), member.has_units))
    return curves


def _binned(fitted: Floats, observed: Floats) -> tuple[Floats, Floats, Floats]:
    """Means in bins of equally many entries, and twice the standard error of the observed ones."""
    order = np.argsort(fitted, kind="stable")
    parts = [part for part in np.array_split(order, _N_BINS) if len(part) > 1]
    means = np.array([fitted[part].mean() for part in parts])
    seen = np.array([observed[part].mean() for part in parts])
    error = np.array([2.0 * observed[part].std() / np.sqrt(len(part)) for part in parts])
    return means, seen, error


def _worst(entries: _Entries, pearson: Floats) -> list[Cell]:
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


def _relative(entries: _Entries) -> Floats:
    """Squared residuals over their mean in the column, for models without noise of their own."""
    squares = np.where(entries.seen, (entries.x - entries.eta) ** 2, 0.0)
    mean = squares.sum(axis=0) / np.maximum(entries.seen.sum(axis=0), 1)
    # A column that is reproduced up to rounding has no residual worth telling.
    scale = np.where(entries.seen, entries.x, 0.0).std(axis=0)
    result = np.zeros_like(squares)
    np.divide(squares, mean, out=result, where=mean > 1e-12 * (1.0 + scale**2))
    return result


def _ranks(entries: _Entries) -> Ints:
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
    ranks = below + rng.integers(0, equal + 1)
    return np.bincount(ranks[entries.seen[rows]], minlength=N_DRAWS + 1)
