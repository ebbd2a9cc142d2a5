"""Multi-start fit of the Gaussian model: short EM runs, the best ones continued by L-BFGS."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from anypca._typing import Floats
from anypca.engine import Data, Executor, Summary
from anypca.models.piecewise._pieces import COUPLINGS, Coefficients, Pieces, contract, expand
from anypca.models.piecewise._polish import ExactLikelihood, make_chart, polish
from anypca.models.piecewise._problem import GaussianProblem, Stats
from anypca.models.piecewise._start import Sample, draw_sample, fit_leading, random_starts
from anypca.solvers import Callback, Loop, Result, Status

logger = logging.getLogger("anypca")

# A noise variance below this share of the mean variance is rounding.
_NOISE_FLOOR = 1e-10
# Enough for the starts to separate: on a hinge they then range over several hundred units of log-likelihood.
_START_STEPS = 15
_N_CONTINUED = 3
# Of those continued: steps until they are compared, before the best is taken to the end.
_COMPARE_STEPS = 50
# A piece with fewer expected rows than parameters of one column has nothing to be fitted to.
_MIN_ROWS_PER_PARAMETER = 1.0


@dataclass(frozen=True)
class Task:
    """What to fit, and how."""

    n_components: int
    coupling: str
    breakpoints: Floats
    """(K - 1,): fixed, or where the fit starts."""
    fit_breakpoints: bool
    n_init: int
    tol: float
    max_iter: int
    rng: np.random.Generator

    @property
    def n_pieces(self) -> int:
        return len(self.breakpoints) + 1


@dataclass(frozen=True)
class Fitted:
    """A fitted Gaussian model."""

    pieces: Pieces
    result: Result[Coefficients]
    stats: Stats
    """At the fitted pieces."""
    n_restarts: int
    """Starts given up because a piece lost its rows."""
    start_objectives: Floats
    """Log-likelihoods of the starts after their EM steps, on the rows they were tried on."""

    @property
    def empty(self) -> list[int]:
        """Pieces without rows, counted from 0."""
        return empty_pieces(self.stats, self.pieces.n_components)


def empty_pieces(stats: Stats, n_components: int) -> list[int]:
    """Pieces whose expected number of rows is below the number of parameters of one column."""
    least = _MIN_ROWS_PER_PARAMETER * (n_components + 1)
    least = min(least, 0.5 * stats.weight / len(stats.occupancy))
    return [int(k) for k in np.flatnonzero(stats.occupancy < least)]


def fit_gaussian(task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback) -> Fitted:
    """Fit by maximum likelihood.

    Parameters
    ----------
    task : Task
    data : Data
    executor : Executor
    summary : Summary
    callback : Callback

    Returns
    -------
    Fitted
    """
    floor = max(_NOISE_FLOOR * float(np.mean(summary.variance)), float(np.finfo(np.float64).tiny))
    if task.n_pieces == 1:
        return _fit_single(task, data, executor, summary, floor, callback)
    sample = draw_sample(data, executor, task.n_components + 1, task.rng)
    search = search_couplings(task, sample, executor, floor)
    best = search.best if sample.is_whole else replace(search.best, trace=search.best.trace[:0])
    return _finish(task, best, data, executor, floor, callback, (search.n_restarts, search.scores))


@dataclass(frozen=True)
class Found:
    """What the starts have led to."""

    best: Result[Coefficients]
    others: Sequence[Coefficients]
    """Leading starts after their EM steps, best first."""
    scores: Floats
    """Log-likelihoods of all starts, best first."""
    n_restarts: int


def search_couplings(task: Task, sample: Sample, executor: Executor, floor: float) -> Found:
    """Random starts under the wanted coupling and under all tighter ones, each handing its solution on.

    Looser couplings contain the tighter ones' solutions, yet random starts may miss them.
    """
    best: Result[Coefficients] | None = None
    n_restarts, tighter = 0, task
    for name in list(COUPLINGS)[: list(COUPLINGS).index(task.coupling) + 1]:
        step = replace(task, coupling=name)
        search = _Search(step, _problem(step, floor), sample, executor)
        scores = search.run()
        n_restarts += search.n_restarts
        best = search.choose(None if best is None else _loosen(best, tighter, step))
        tighter = step
    assert best is not None
    return Found(best, [result.shared for result in search.found[:_N_CONTINUED]], scores, n_restarts)


def _loosen(best: Result[Coefficients], tighter: Task, looser: Task) -> Result[Coefficients]:
    """A solution under a tighter coupling in the coordinates of a looser one."""
    pieces = expand(best.shared, COUPLINGS[tighter.coupling], tighter.n_components)
    return replace(best, shared=contract(pieces, COUPLINGS[looser.coupling]))


def _problem(task: Task, floor: float) -> GaussianProblem:
    return GaussianProblem(COUPLINGS[task.coupling], task.n_components, floor)


def _fit_single(
    task: Task, data: Data, executor: Executor, summary: Summary, floor: float, callback: Callback
) -> Fitted:
    """One piece is probabilistic PCA, whose maximum is known when no entry is missing."""
    principal = fit_leading(data, executor, summary, task.n_components, task.rng)[1].parameters
    maps = np.column_stack([principal.loadings, principal.mean])[None]
    start = contract(Pieces(maps, max(principal.noise, floor), np.empty(0)), COUPLINGS[task.coupling])
    before = Result(start, np.empty(0), Status.MAX_ITER, np.inf, 0)
    return _finish(task, before, data, executor, floor, callback, (0, np.empty(0)))


def _finish(
    task: Task,
    start: Result[Coefficients],
    data: Data,
    executor: Executor,
    floor: float,
    callback: Callback,
    history: tuple[int, Floats],
) -> Fitted:
    """Take the chosen start to a stationary point on the whole table."""
    problem = _problem(task, floor)
    n_left = max(task.max_iter - len(start.trace), 1)
    result = climb(problem, start.shared, data, executor, task, max_iter=n_left, callback=callback)
    result = append(start, result) if len(start.trace) else result
    stats = evaluate(problem, result.shared, data, executor)
    pieces = expand(result.shared, problem.transfer, task.n_components)
    return Fitted(pieces, result, stats, *history)


def climb(
    problem: GaussianProblem,
    start: Coefficients,
    data: Data,
    executor: Executor,
    task: Task,
    *,
    max_iter: int,
    callback: Callback | None = None,
) -> Result[Coefficients]:
    """L-BFGS from ``start``; once more from where it ended, with fresh units, if it stalled there."""
    result: Result[Coefficients] | None = None
    trace: list[float] = []
    for _ in range(3):
        point = start if result is None else result.shared
        stats = evaluate(problem, point, data, executor)
        chart = make_chart(problem, point, stats, fit_breakpoints=task.fit_breakpoints)
        size = point.matrix.size + 1 + (len(point.breakpoints) if chart.edge_unit else 0)
        likelihood = ExactLikelihood(problem, data, executor, chart, callback, max_iter)
        result = polish(likelihood, size, max_iter=max(max_iter - len(trace), 1), tol=task.tol)
        trace.extend(result.trace if not trace else result.trace[1:])
        if result.converged or len(trace) >= max_iter:
            break
    assert result is not None
    monotone = np.maximum.accumulate(np.array(trace))
    return replace(result, trace=monotone, n_iter=len(monotone))


def evaluate(problem: GaussianProblem, shared: Coefficients, data: Data, executor: Executor) -> Stats:
    """Sums of the whole table."""
    return executor.sweep(lambda block, _: problem.step(block, shared, None), data)[1]


class _Search:
    """Starts, compared on a sample of rows."""

    def __init__(self, task: Task, problem: GaussianProblem, sample: Sample, executor: Executor) -> None:
        self.task, self.problem, self.sample, self.executor = task, problem, sample, executor
        self.n_restarts = 0
        self.found: list[Result[Coefficients]] = []

    def run(self) -> Floats:
        """A few EM steps from every start; their log-likelihoods (n_init,), best first."""
        starts = self._starts()
        for start in islice(starts, self.task.n_init):
            self.found.append(self._short_run(start, starts))
        self.found.sort(key=lambda result: -result.trace[-1])
        return np.array([result.trace[-1] for result in self.found])

    def _starts(self) -> Iterator[Coefficients]:
        task = self.task
        return random_starts(
            self.sample,
            self.problem.transfer,
            task.n_components,
            task.breakpoints,
            self.problem.noise_floor,
            vary=task.fit_breakpoints,
            rng=task.rng,
        )

    def _short_run(self, start: Coefficients, others: Iterator[Coefficients]) -> Result[Coefficients]:
        """EM from a start, or from another one when a piece loses its rows on the way."""
        loop = Loop(
            self.problem,
            self.sample.data,
            self.executor,
            max_iter=_START_STEPS,
            tol=self.task.tol,
            accelerate=False,
        )
        for attempt in range(2):
            result, _, stats = loop.run(start)
            empty = empty_pieces(stats, self.task.n_components)
            if not empty or attempt:
                break
            self.n_restarts += 1
            logger.info("PiecewisePCA: piece %d lost its rows during EM; started anew", empty[0] + 1)
            start = next(others)
        return result

    def choose(self, inherited: Result[Coefficients] | None) -> Result[Coefficients]:
        """The best of the leading starts, and of a tighter coupling's solution, after some L-BFGS steps."""
        candidates = self.found[:_N_CONTINUED]
        if inherited is not None:
            candidates = [inherited, *candidates]
        climbed = [self._climb(candidate) for candidate in candidates]
        return max(climbed, key=lambda result: float(result.trace[-1]))

    def _climb(self, candidate: Result[Coefficients]) -> Result[Coefficients]:
        result = climb(
            self.problem,
            candidate.shared,
            self.sample.data,
            self.executor,
            self.task,
            max_iter=_COMPARE_STEPS,
        )
        return append(candidate, result)


def append(before: Result[Coefficients], after: Result[Coefficients]) -> Result[Coefficients]:
    """One result of two runs, the second from where the first ended."""
    trace = np.maximum.accumulate(np.concatenate([before.trace, after.trace[1:]]))
    return replace(after, trace=trace, n_iter=len(trace))
