"""Training: epochs of Adam on the bound, each followed by a Newton step in the dispersion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.models._block_view import BlockView
from anypca.models.vae._model import Model
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers.adam import Adam

# Draws of the latents of each row that the bound is judged by: the differences between epochs that matter are larger
# than the noise of so many, which is the same in every epoch.
_JUDGING_DRAWS = 16
# A smaller relative gain of the bound is no progress: it is below the noise of the draws by which epochs are judged.
_LEAST_GAIN = 1e-6
# Tables with fewer rows are not split: a tenth of them would be one row.
_SMALLEST_SPLIT = 20


@dataclass(frozen=True)
class Schedule:
    """Schedule of the training; see `anypca.VAE`."""

    batch_size: int
    learning_rate_init: float
    max_iter: int
    n_iter_no_change: int
    """Epochs without progress after which training ends."""


@dataclass(frozen=True, eq=False)
class Judge:
    """The mean bound of some rows with draws that stay the same."""

    rows: BlockView
    noise: Floats
    """(draws, rows, k)."""

    def __call__(self, model: Model) -> float:
        """Bound per row, minus infinity where it is not a number."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = float(np.average(model.bound(self.rows, self.noise), weights=self.rows.weights))
        return value if np.isfinite(value) else -np.inf


def split_rows(rows: BlockView, share: float, k: int, rng: np.random.Generator) -> tuple[BlockView, Judge]:
    """Training and validation rows, which are the same if there are few rows or the share is 0."""
    n = len(rows.x)
    order = rng.permutation(n)
    n_kept = int(share * n) if n >= _SMALLEST_SPLIT else 0
    kept = rows.take(order[:n_kept]) if n_kept else rows
    if not kept.weights.sum() > 0:
        kept, n_kept = rows, 0
    noise = rng.standard_normal((_JUDGING_DRAWS, len(kept.x), k))
    return rows.take(order[n_kept:]) if n_kept else rows, Judge(kept, noise)


def train(
    start: Model,
    rows: BlockView,
    judge: Judge,
    schedule: Schedule,
    rng: np.random.Generator,
    callback: Callback,
) -> Result[Model]:
    """Train and return the model of the best epoch.

    If an epoch overflows, training resumes from the best model with half the learning rate.
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
        # The last steps left the finite range: back to the best model, at half the rate.
        if not np.isfinite(found):
            model, adam = best, Adam.start(0.5 * adam.learning_rate, best.vector.size)
        trace.append(value)
        callback(Progress(len(trace) - 1, schedule.max_iter, value, since / schedule.n_iter_no_change))
    status = Status.PLATEAU if since >= schedule.n_iter_no_change else Status.RISING
    return Result(best, np.array(trace), status, since / schedule.n_iter_no_change, len(trace))


def _epoch(
    model: Model, adam: Adam, rows: BlockView, batch_size: int, rng: np.random.Generator
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


# Step of the differences in the logarithm of the dispersion: the second difference is then right to four digits.
_STEP = 1e-2
# Largest change of the logarithm in one epoch, a third: a bad epoch does no harm, and ten good ones change the
# dispersion twentyfold.
_LONGEST = 0.3
# No dispersion falls below this fraction of that without latents: the table would be reproduced, not modelled.
_SMALLEST_FRACTION = 1e-6
# Rows for the step: hundreds of thousands of entries determine the dispersion to a per cent.
_MOST_ROWS = 4096


def improve_dispersion(model: Model, rows: BlockView, rng: np.random.Generator) -> Floats:
    """New dispersion (n_features,), shared within a family unless columns of a mixed table have their own scales."""
    members = model.family.member_columns(len(model.dispersion))
    free = [(member, columns) for member, columns in members if member.fixed_dispersion is None]
    dispersion = model.dispersion.copy()
    if not free:
        return dispersion
    first, second = _derivatives(model, rows.spread(_MOST_ROWS), rng)
    for member, columns in free:
        own, curvature = first[columns], second[columns]
        if member.dispersion_kind == "shape" or len(members) == 1:
            own, curvature = own.sum(keepdims=True), curvature.sum(keepdims=True)
        dispersion[columns] *= np.exp(_newton(own, curvature))
    return np.asarray(np.maximum(dispersion, _SMALLEST_FRACTION * model.inputs.dispersion))


def _newton(first: Floats, second: Floats) -> Floats:
    """Steps of the logarithm; where the bound is not concave they are as long as they may be, none where it is NaN."""
    step = np.where(second < 0, -first / np.where(second < 0, second, -1.0), np.sign(first) * _LONGEST)
    return np.asarray(np.nan_to_num(np.clip(step, -_LONGEST, _LONGEST), nan=0.0))


def _derivatives(model: Model, rows: BlockView, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """First and second derivatives of the bound in the log dispersion of each column, by differences."""
    found = model.encode(model.inputs.of(rows))
    z = found.mean + found.deviation * rng.standard_normal(found.mean.shape)
    eta = rows.shifted(model.decoder(z))

    def value(change: float) -> Floats:
        terms = model.family.log_likelihood(rows.x, eta, model.dispersion * np.exp(change))
        return np.asarray(rows.weights @ rows.only_observed(terms))

    low, middle, high = value(-_STEP), value(0.0), value(_STEP)
    return (high - low) / (2.0 * _STEP), (high - 2.0 * middle + low) / _STEP**2
