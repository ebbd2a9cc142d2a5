"""How far predictions of missing entries may be believed, found by hiding entries that are known.

Maximum likelihood describes the entries that it has seen better than others: on small tables with few large entries its
predictions are too bold, with errors of up to four times those of the columns' means. Entries are therefore hidden from
trial fits, and the slope of what was hidden on what is predicted, both as deviations from the columns' means, is what
predictions are multiplied with. Beyond what nearly all entries of a column hold there is another slope, for all columns
together: a column with a single large entry tells nothing of the next one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.engine.entries import mix
from anypca.models._session import Session

# Entries beyond which a table is large enough for its fit to be believed: a trial would take as long as the fit.
_MOST_ENTRIES = 1_000_000
# Entries of a fold beyond which one of the folds tells enough.
_ENOUGH = 30_000
# Every entry is hidden once. With two folds trials see half of a table, and their slopes are those of worse fits.
N_FOLDS = 3
# How well trials are solved: predictions of hidden entries differ by far more than what a better fit would change.
TOL = 1e-2
MAX_ITER = 100
# A slope is lowered by so many of its standard errors: few large entries decide it, and boldness costs more than
# caution. On 19 samples of seven tables of counts the errors of PPCA were 0.94 to 2.84 of those of means without
# slopes, at most 1.11 with them, and at most 1.003 with this.
_CAUTION = 1.0
# The same of the slope beyond the bulk of columns, which rests on fewer entries yet, and the share of entries that are
# above the bulk of a column, and below. On samples of eight tables of counts the errors of five models, over all masks
# of a table, were up to 1.42 of those of means without that slope, 1.16, 1.02 and 1.00 with one, two and three standard
# errors; good predictions lose by it (0.23 became 0.33).
_FAR_CAUTION = 3.0
_BEYOND = 0.05
# Fewest entries above the bulk of a column, and below, whatever their share: fewer do not show what the next large one
# is worth. A column of 44 counts with 500, 1173 and 2671 among them had a bulk up to 500. On the worst of six masks of
# that table the errors of PiecewisePCA, PPCA and EPCA over those of means went from 2.1, 1.1 and 0.4 to 1.1, 0.9 and
# 0.4; over all masks of 50 rows of five other tables they rose by 0.05 at most.
_FEWEST_BEYOND = 6.0

_is_on: ContextVar[bool] = ContextVar("is_on", default=True)


class Calibration(NamedTuple):
    """How far predictions of missing entries may be believed; nothing where they stay as they are."""

    slope: Floats | None = None
    """Of entries on their predictions within the bulk of each column, between 0 and 1 (p,)."""
    far: tuple[float, Floats, Floats] | None = None
    """The same beyond it, of all columns, and where the bulk of each column begins and ends (p,)."""


class HiddenEntries(NamedTuple):
    """Entries that were hidden from trials: deviations from the means of what was left, in units of their columns."""

    found: Floats
    """What was hidden, 0 elsewhere (n, p)."""
    predicted: Floats
    """What was predicted, 0 elsewhere (n, p)."""


@contextmanager
def without_calibration() -> Iterator[None]:
    """Inside, fits are not calibrated: for those that are not asked for expectations of missing entries."""
    token = _is_on.set(False)
    try:
        yield
    finally:
        _is_on.reset(token)


def calibrate(model: Any, session: Session) -> Calibration:
    """Slopes of entries on their predictions, for each column of the model.

    Parameters
    ----------
    model : fitted estimator
        In the columns of the model, with ``n_components_`` and, if it has a choice of families, ``family_``.
    session : Session
        Of the fit.

    Returns
    -------
    Calibration
        Without slopes where predictions stay as they are: in tables that are complete or large, or have offsets or
        covariates, whose rows are not to be compared with the columns' means; and in tables that are too small for
        trials.
    """
    data = session.data
    is_asked = _is_on.get() and model.n_components_ and session.summary.has_missing
    if not is_asked or data.n_covariates or data.n_samples * data.n_features > _MOST_ENTRIES:
        return Calibration()
    parts = session.gather(_read)
    if any(part is None for part in parts):
        return Calibration()
    x, weight, entry = (np.concatenate(part) for part in zip(*parts, strict=True))
    settings = {
        "n_components": min(model.n_components_, *x.shape),
        "resolution": None,
        "random_state": 0,
        "family": vars(model).get("family_"),
        "tol": max(TOL, session.tol),
        "max_iter": min(MAX_ITER, session.max_iter),
        "n_jobs": 1,
        "verbose": 0,
        "warm_start": False,
        "init": None,
    }
    known = model.get_params(deep=False)
    if vars(model).get("bound_") is not None:
        settings["bound"] = model.bound_
    trial = clone(model).set_params(**{name: settings[name] for name in settings if name in known})
    with warnings.catch_warnings(), without_calibration():
        # A trial that stopped early predicts as well as it can; the fit that is kept says how it ended.
        warnings.simplefilter("ignore")
        try:
            hidden = _hide(trial, x, weight, entry)
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return (
                Calibration()
            )  # two thirds of the table are too little for a fit, and tell nothing of that of all of it
    mean, unit = _moments(x, weight)
    low, high = _bulk(x, weight, mean)
    slope, far = slopes(hidden, weight, (low - mean) / unit, (high - mean) / unit)
    return Calibration(slope, (far, low, high))


def _read(block: Block) -> tuple[Floats, Floats, Floats] | None:
    """Values, weights of rows and weights of entries of a block; None where it has offsets."""
    if block.offset() is not None:
        return None
    keep, entry, x = block.weights > 0, block.entry_weight(), block.values()
    ones = np.ones(x.shape) if entry is None else entry
    return x[keep].astype(float), block.weights[keep], ones[keep].astype(float)


def _hide(trial: Any, x: Floats, weight: Floats, entry: Floats) -> HiddenEntries:
    """Fit what each fold leaves, and predict what it hides."""
    numbers, seen = entry_numbers(x, weight), ~np.isnan(x)
    unit = _moments(x, weight)[1]
    found, predicted = np.zeros(x.shape), np.zeros(x.shape)
    weights = {} if np.all(entry == 1.0) else {"entry_weight": entry}
    for fold in range(N_FOLDS if seen.sum() < N_FOLDS * _ENOUGH else 1):
        hidden = hidden_in(numbers, fold, seen)
        left = np.where(hidden, np.nan, x)
        mean = _column_means(left, weight)
        fitted = clone(trial).fit(left, sample_weight=weight, **weights)
        found[hidden] = ((x - mean) / unit)[hidden]
        predicted[hidden] = ((fitted.impute(left) - mean) / unit)[hidden]
    return HiddenEntries(found, predicted)


def slopes(hidden: HiddenEntries, weight: Floats, low: Floats, high: Floats) -> tuple[Floats, float]:
    """Slopes of the columns (p,) between ``low`` and ``high``, in their units, and that of all columns beyond."""
    found, predicted = hidden
    bulk = np.clip(predicted, low, high)
    slope = _slopes(found, bulk, weight)
    beyond = predicted - bulk
    squares = float(np.sum(weight @ beyond**2))
    if squares == 0.0:
        return slope, 0.0
    rest = found - slope * bulk
    far = float(np.sum(weight @ (rest * beyond))) / squares
    error = np.sqrt(np.sum(weight @ (beyond * (rest - far * beyond)) ** 2)) / squares
    return slope, float(np.clip(far - _FAR_CAUTION * error, 0.0, 1.0))


def _slopes(found: Floats, predicted: Floats, weight: Floats) -> Floats:
    """Slopes of the columns (p,), drawn to that of all as if each had an average column's entries besides its own."""
    products, squares = weight @ (found * predicted), weight @ predicted**2
    products, squares = products + products.mean(), squares + squares.mean()
    squares = np.maximum(squares, np.finfo(float).tiny)
    slope = np.clip(products / squares, 0.0, 1.0)
    noise = weight @ (predicted * (found - slope * predicted)) ** 2
    error = np.sqrt(noise + noise.mean() / len(noise)) / squares
    return np.asarray(np.clip(products / squares - _CAUTION * error, 0.0, 1.0))


def _moments(x: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Weighted means and standard deviations of the columns (p,), 1 for those that do not vary."""
    mean = _column_means(x, weight)
    unit = np.sqrt(_column_means((x - mean) ** 2, weight))
    return mean, np.where(unit > 0, unit, 1.0)


def _bulk(x: Floats, weight: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Between what all but a few entries of each column lie, with its mean inside (p,) each."""
    low, high = mean.copy(), mean.copy()
    for j in range(x.shape[1]):
        seen = np.flatnonzero(~np.isnan(x[:, j]))
        order = seen[np.argsort(x[seen, j], kind="stable")]
        if len(order) == 0:
            continue
        total = weight[order].sum()
        beyond = min(max(_BEYOND, _FEWEST_BEYOND / total), 0.5)
        # Shares agree up to rounding, which depends on the order of rows.
        share = np.round(np.cumsum(weight[order]) / total, 9)
        ends = x[order[np.searchsorted(share, np.round([beyond, 1.0 - beyond], 9))], j]
        low[j], high[j] = min(ends[0], mean[j]), max(ends[1], mean[j])
    return low, high


def _column_means(x: Floats, weight: Floats) -> Floats:
    """Weighted means of the columns, NaN left out (p,)."""
    seen = ~np.isnan(x)
    return np.asarray((weight @ np.where(seen, x, 0.0)) / np.maximum(weight @ seen, np.finfo(float).tiny))


def hidden_in(numbers: npt.NDArray[np.uint64], fold: int, seen: Bools) -> Bools:
    """Entries hidden in a fold (n, p); every row and column keeps an entry at least."""
    hidden = (numbers % np.uint64(N_FOLDS) == fold) & seen
    hidden[:, ~(seen & ~hidden).any(axis=0)] = False
    hidden[~(seen & ~hidden).any(axis=1)] = False
    return np.asarray(hidden)


def entry_numbers(x: Floats, weight: Floats) -> npt.NDArray[np.uint64]:
    """A number for each entry (n, p) that does not hang on the order of rows and columns, nor on units.

    It is made of the ranks of entries in their columns alone: equal rows have the same, and a row of weight 2 is two
    rows. Rows and columns get sums that tell them apart, in two rounds, each of the ranks and of the other's sums.
    """
    seen, share = ~np.isnan(x), np.zeros(x.shape)
    for j in range(x.shape[1]):
        values, place = np.unique(x[seen[:, j], j], return_inverse=True)
        totals = np.cumsum(np.bincount(place, weight[seen[:, j]], minlength=len(values)))
        share[seen[:, j], j] = (totals / totals[-1] if len(totals) else totals)[place]
    total = weight.sum()
    columns = weight @ np.sin(5.0 * share) / total
    rows = np.sin(7.0 * share + 11.0 * columns).mean(axis=1)
    columns = weight @ np.cos(3.0 * share + 13.0 * rows[:, None]) / total
    # Sums agree up to rounding, which depends on the order of their terms.
    of_rows, of_columns = (
        mix(np.round(1e7 * sums).astype(np.int64).astype(np.uint64)) for sums in (rows, columns)
    )
    return mix(np.add.outer(of_rows, of_columns))
