"""Training by Adam in small batches, judged by rows that it does not see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.models.vae._bound import Model
from anypca.models.vae._dispersion import improve_dispersion
from anypca.models.vae._rows import Rows
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers.adam import Adam

# Draws of the latents of each row that the bound is judged by: the differences between epochs that matter are larger
# than the noise of so many, which is the same in every epoch.
_JUDGING_DRAWS = 16
# A smaller relative gain of the bound is no progress.
_LEAST_GAIN = 1e-6
# Tables with fewer rows are not split: a tenth of them would be one row.
_SMALLEST_SPLIT = 20


@dataclass(frozen=True)
class Schedule:
    """How long and how fast is trained; see `anypca.VAE`."""

    batch_size: int
    learning_rate_init: float
    max_iter: int
    n_iter_no_change: int
    """Epochs without progress after which training ends."""


@dataclass(frozen=True, eq=False)
class Judge:
    """The mean bound of some rows with draws that stay the same."""

    rows: Rows
    noise: Floats
    """(draws, rows, k)."""

    def __call__(self, model: Model) -> float:
        """Bound per row, minus infinity where it is not a number."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = float(np.average(model.bound(self.rows, self.noise), weights=self.rows.weights))
        return value if np.isfinite(value) else -np.inf


def split_rows(rows: Rows, share: float, k: int, rng: np.random.Generator) -> tuple[Rows, Judge]:
    """Rows to train with and rows to judge by, which are the same when there are few or the share is 0."""
    n = len(rows.x)
    order = rng.permutation(n)
    n_kept = int(share * n) if n >= _SMALLEST_SPLIT else 0
    kept = rows.take(order[:n_kept]) if n_kept else rows
    if not kept.weights.sum() > 0:
        kept, n_kept = rows, 0
    noise = rng.standard_normal((_JUDGING_DRAWS, len(kept.x), k))
    return rows.take(order[n_kept:]) if n_kept else rows, Judge(kept, noise)


def train(
    start: Model, rows: Rows, judge: Judge, schedule: Schedule, rng: np.random.Generator, callback: Callback
) -> Result[Model]:
    """The model of the best epoch.

    Where an epoch leads to infinite numbers, training goes on from the best model with half the learning rate.
    """
    best, value, since = start, judge(start), 0
    model, adam = start, Adam.start(schedule.learning_rate_init, start.vector.size)
    trace = [value]
    while len(trace) <= schedule.max_iter and since < schedule.n_iter_no_change:
        model, adam = _epoch(model, adam, rows, schedule.batch_size, rng)
        found = judge(model)
        is_better = found > value + _LEAST_GAIN * abs(value)
        best, value = (model, found) if is_better else (best, value)
        since = 0 if is_better else since + 1
        if not np.isfinite(found):
            model, adam = best, Adam.start(0.5 * adam.learning_rate, best.vector.size)
        trace.append(value)
        callback(Progress(len(trace) - 1, schedule.max_iter, value, since / schedule.n_iter_no_change))
    status = Status.PLATEAU if since >= schedule.n_iter_no_change else Status.RISING
    return Result(best, np.array(trace), status, since / schedule.n_iter_no_change, len(trace))


def _epoch(
    model: Model, adam: Adam, rows: Rows, batch_size: int, rng: np.random.Generator
) -> tuple[Model, Adam]:
    """One pass over the rows in random order, then a step of the dispersion."""
    n, k = len(rows.x), model.decoder.n_inputs
    order = rng.permutation(n)
    vector = model.vector
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for part in np.array_split(order, max(1, round(n / batch_size))):
            batch = rows.take(part)
            gradient = model.with_vector(vector).gradient(batch, rng.standard_normal((len(part), k)))
            if not np.isfinite(gradient).all():
                break
            adam = adam.after(gradient / len(part))
            vector = vector + adam.step
        model = model.with_vector(vector)
        return replace(model, dispersion=improve_dispersion(model, rows, rng)), adam
