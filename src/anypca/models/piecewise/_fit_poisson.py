"""Multi-start fit of the count model: Gaussian fits to log counts, the best ones continued on the bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, Summary, check_data, summarise
from anypca.models.piecewise._fit import Fitted, Task, fit_gaussian, search_couplings
from anypca.models.piecewise._pieces import COUPLINGS, Coefficients, Pieces, expand
from anypca.models.piecewise._poisson_problem import CountStats, PoissonProblem
from anypca.models.piecewise._poisson_rows import Scores
from anypca.models.piecewise._start import draw_sample
from anypca.solvers import Callback, Loop, Progress, Result

# Of the candidates: sweeps until they are compared.
_COMPARE_SWEEPS = 10
_N_CANDIDATES = 3
# Added to counts before the logarithm; between the 3/8 of Anscombe's and the 1 of common use.
_PSEUDO_COUNT = 0.5
_NOISE_FLOOR = 1e-6
_MOST_ROWS = 5000


@dataclass(frozen=True)
class FittedCounts:
    """A fitted count model."""

    pieces: Pieces
    result: Result[Coefficients]
    stats: CountStats
    n_restarts: int
    start_objectives: Floats

    @property
    def empty(self) -> list[int]:
        """Pieces without rows, counted from 0."""
        least = min(self.pieces.n_components + 1.0, 0.5 * self.stats.weight / len(self.stats.occupancy))
        return [int(k) for k in np.flatnonzero(self.stats.occupancy < least)]


def fit_poisson(
    task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback
) -> FittedCounts:
    """Maximise the variational bound.

    Parameters
    ----------
    task : Task
    data : Data
    executor : Executor
    summary : Summary
    callback : Callback

    Returns
    -------
    FittedCounts
    """
    counts, logs = _tables(data, executor, task.rng)
    candidates, scores, n_restarts = _candidates(task, logs, executor)
    problem = PoissonProblem(COUPLINGS[task.coupling], task.n_components)
    best = candidates[0]
    if len(candidates) > 1:
        tried = [
            _loop(problem, counts, executor, task, _COMPARE_SWEEPS).run(start)[0] for start in candidates
        ]
        best = max(tried, key=lambda result: float(result.trace[-1])).shared
    result, _, stats = _loop(problem, data, executor, task, task.max_iter, callback).run(best)
    pieces = expand(result.shared, problem.transfer, task.n_components)
    return FittedCounts(pieces, result, stats, n_restarts, scores)


def _silent(progress: Progress) -> None:
    """Starts are not reported."""


def _loop(
    problem: PoissonProblem,
    data: Data,
    executor: Executor,
    task: Task,
    max_iter: int,
    callback: Callback = _silent,
) -> Loop[Coefficients, Scores, CountStats]:
    return Loop(problem, data, executor, max_iter=max_iter, tol=task.tol, callback=callback)


def _candidates(task: Task, logs: Data, executor: Executor) -> tuple[list[Coefficients], Floats, int]:
    """Coefficients of Gaussian fits to the log counts, log-likelihoods of the starts, and the restarts."""
    summary = summarise(logs, executor)
    missing = summary.has_missing
    blocks = tuple(replace(block, may_miss=missing) for block in logs.blocks)
    logs = replace(logs, may_miss=missing, blocks=blocks)
    if task.n_pieces == 1:
        fitted: Fitted = fit_gaussian(task, logs, executor, summary, _silent)
        return [_as_counts(fitted.result.shared)], np.empty(0), 0
    sample = draw_sample(logs, executor, task.n_components + 1, task.rng)
    floor = max(_NOISE_FLOOR * float(np.mean(summary.variance)), float(np.finfo(np.float64).tiny))
    found = search_couplings(task, sample, executor, floor)
    starts = [found.best.shared, *found.others][:_N_CANDIDATES]
    return [_as_counts(start) for start in starts], found.scores, found.n_restarts


def _as_counts(start: Coefficients) -> Coefficients:
    """Without the noise, which counts do not have."""
    return replace(start, noise=1.0)


def _tables(data: Data, executor: Executor, rng: np.random.Generator) -> tuple[Data, Data]:
    """Rows on which starts are tried: their counts, and the logarithms less the offsets."""
    chosen = np.ones(data.n_samples, dtype=bool)
    if data.n_samples > _MOST_ROWS:
        chosen[:] = False
        chosen[rng.choice(data.n_samples, _MOST_ROWS, replace=False)] = True

    def visit(block: Block, _: Any) -> tuple[tuple[Floats, Floats, Floats], float]:
        table = block.read()
        y = table.x.astype(np.float64, copy=False)
        if table.observed is not None:
            y[~table.observed] = np.nan
        offset = block.offset()
        shift = np.zeros((block.n_rows, 1)) if offset is None else offset.astype(np.float64)
        weight = np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64)
        keep = chosen[block.start : block.stop]
        return (y[keep], shift[keep], weight[keep]), 0.0

    parts = executor.gather(executor.sweep(visit, data)[0])
    y, shift, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
    given = weight if data.has_weights else None
    logs = check_data(np.log(y + _PSEUDO_COUNT) - shift, sample_weight=given)
    if chosen.all() and not data.is_distributed:
        return data, logs
    return check_data(
        y, sample_weight=given, offset=shift if shift.shape[1] == y.shape[1] else shift[:, 0]
    ), logs
