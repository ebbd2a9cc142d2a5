"""The posterior under one noise model and rank, and the sweeps that improve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models.sepca._noise import NoiseModel
from anypca.models.sepca._posterior import Loadings, Scores
from anypca.models.sepca._sweep import SweepSums, VariationalProblem
from anypca.solvers import Result, Status

# Signal ratio below which a component is pruned. With noise of unit variance and n rows, p columns a component that
# survives ends at a ratio of at least sqrt(n / p): updates of scores, loadings and ARD precisions agree at squared
# singular values of n + p + n / r + r p, which is least there. Below it a component goes to zero.
PRUNE_RATIO = 0.05
# Sweeps between two looks at the signal ratios.
SWEEPS_PER_LOOK = 5
# Nats that the bound must gain between two looks for each unit of the tolerance: components of nearly equal size turn
# for hundreds of sweeps that gain nothing.
_PLATEAU = 100.0
# Tolerances while the dispersion is open, in units of the final ones.
_ROUGH = 10.0


class Removal(NamedTuple):
    """A component that was removed."""

    iteration: int
    """Sweeps of the fit up to the removal."""
    n_components: int
    """Number of components before."""
    alpha: float
    """The prior precision of its loadings."""
    ratio: float
    """Squared loadings over their posterior variance; squared loadings alone in a joint mode."""
    reason: str
    """``"relevance"`` (pruned), ``"evidence"``, ``"share"`` or ``"sparsity"`` (no loadings left)."""


@dataclass(frozen=True, eq=False)
class State:
    """The posterior under one noise model at one rank, and how it was reached."""

    noise: NoiseModel
    problem: VariationalProblem
    null: Coefficients
    """The model without components from which the fit started."""
    result: Result[Loadings]
    local: Sequence[Any] | None = None
    """q(z), block by block; ``None`` before the first sweep."""
    weight: float = 0.0
    """Sum of the sample weights, 0 before the first sweep."""
    removals: tuple[Removal, ...] = ()
    n_sweeps: int = 0
    sums: SweepSums | None = None
    """Sums of the last sweep; ``None`` if posterior or model changed since."""

    @property
    def loadings(self) -> Loadings:
        return self.result.shared

    @property
    def n_components(self) -> int:
        return self.loadings.n_components

    @property
    def coefficients(self) -> Coefficients:
        """Posterior means of all coefficients."""
        return self.loadings.coefficients

    @property
    def score_means(self) -> Sequence[Any]:
        """Posterior means of the scores, block by block."""
        return self.noise.each(self.local, lambda scores: scores.mean)

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence."""
        return float(self.result.trace[-1])

    def with_posterior(self, loadings: Loadings, local: Sequence[Any] | None) -> State:
        """Another posterior under the same model."""
        result = Result(loadings, np.empty(0), Status.MAX_ITER, np.inf, 0)
        return replace(self, result=result, local=local, sums=None)

    def with_noise(self, noise: NoiseModel, dispersion: Floats) -> State:
        """The same posterior under another noise model, with a prior in units of the new dispersions."""
        is_same = noise is self.noise and np.array_equal(dispersion, self.loadings.dispersion)
        if is_same:  # the gamma functions in the constant take longer than a sweep
            return self
        problem = replace(self.problem, family=noise.family, constant=noise.constant(dispersion))
        units = noise_units(noise.family, dispersion)
        loadings = replace(self.loadings, dispersion=dispersion, units=units)
        moved = self.with_posterior(loadings, self.local)
        return replace(moved, noise=noise, problem=replace(problem, is_quadratic=noise.is_quadratic))

    def with_family(self, family: Family) -> State:
        """The same posterior under other parameters of the columns' families."""
        if family is self.noise.family:
            return self
        return self.with_noise(replace(self.noise, family=family), self.loadings.dispersion)

    def without(self, leaving: Ints, reason: str) -> State:
        """The state without some components."""
        k, ratio, ard = self.n_components, self.loadings.signal_ratio, self.loadings.ard_precision
        removals = tuple(
            Removal(self.n_sweeps, k - count, float(ard[component]), float(ratio[component]), reason)
            for count, component in enumerate(sorted(leaving, key=lambda c: ratio[c]))
        )
        keep = np.setdiff1d(np.arange(k), leaving)
        local = self.noise.each(self.local, lambda scores: scores.take_components(keep))
        fewer = self.with_posterior(self.loadings.take_components(keep), local)
        return replace(fewer, removals=self.removals + removals)

    def with_component(self, loading: Floats, variance: Floats) -> State:
        """The state with one more component, its scores still at their prior."""
        local = self.noise.each(self.local, Scores.with_component)
        return self.with_posterior(self.loadings.with_component(loading, variance), local)


def unswept(noise: NoiseModel, null: Coefficients, loadings: Loadings) -> State:
    """A state with a posterior of the loadings only."""
    problem = VariationalProblem(
        noise.family,
        noise.settings.fit_intercept,
        noise.constant(loadings.dispersion),
        float(np.finfo(noise.session.data.dtype).eps),
        noise.is_quadratic,
    )
    return State(noise, problem, null, Result(loadings, np.empty(0), Status.MAX_ITER, np.inf, 0))


def sweep(state: State, max_iter: int, *, rough: bool = False, holds_ard: bool = False) -> State:
    """At most ``max_iter`` sweeps after those that led here, to the tolerance of the fit or a rough one."""
    session, known = state.noise.session, state.sums
    problem = replace(state.problem, holds_ard=holds_ard)
    tol = session.tol * (_ROUGH if rough else 1.0)
    loop = session.loop(problem, max_iter=max_iter + int(known is not None), tol=tol, accelerate=False)
    loadings = problem.without_gauge(state.loadings) if known is None else state.loadings
    update = state.result.update if problem.holds_ard == state.problem.holds_ard else None
    result, local, sums = loop.run(loadings, state.local, known, update)
    before = np.empty(0) if known is None else state.result.trace[:-1]
    trace = np.concatenate([before, result.trace])
    return replace(
        state,
        problem=problem,
        result=replace(result, trace=trace, n_iter=len(trace)),
        local=local,
        weight=sums.weight,
        sums=sums,
        n_sweeps=state.n_sweeps + result.n_iter - int(known is not None),
    )


def prune(state: State, *, rough: bool = False) -> State:
    """Sweep until convergence; remove components whose signal ratio falls below the limit."""
    session, left = state.noise.session, state.noise.session.max_iter
    limit = 0.0 if state.noise.settings.is_rank_fixed else PRUNE_RATIO
    while True:
        start, before = state.n_sweeps, state.bound if len(state.result.trace) else -np.inf
        state = sweep(state, min(SWEEPS_PER_LOOK, left), rough=rough)
        left -= max(state.n_sweeps - start, 1)
        weak = np.flatnonzero(state.loadings.signal_ratio < limit)
        if weak.size:
            # A bound with fewer components may be lower, so the trace starts anew.
            state, left = state.without(weak, "relevance"), session.max_iter
        elif state.result.status is not Status.MAX_ITER or left <= 0:
            return state
        elif state.bound - before <= _PLATEAU * session.tol * (_ROUGH if rough else 1.0):
            return replace(state, result=replace(state.result, status=Status.PLATEAU))
