"""Sweeps of the variational posterior: from one state to the next, with fewer components or another dispersion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._bilinear.dispersion import has_settled
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._coupling import CouplingSums, coupling_gain
from anypca.models.sepca._posterior import Loadings, Scores, drop_components
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._removal import Removal
from anypca.solvers import Result

# A component whose loadings are this small a fraction of their posterior variance has no signal.
PRUNE_RATIO = 0.05
_FADING_RATIO, _FADING_RATE = 0.3, 0.7
# A component that survives ends with squared loadings of about their posterior variance or more.
_SURVIVING_RATIO = 1.0
# Sweeps between two looks at the components.
_SWEEPS_PER_LOOK = 3
# Nats between two looks below which loose pruning ends: components of about the same size turn for hundreds of sweeps
# more, which is left to the fit that is kept.
_NEGLIGIBLE = 0.05
MAX_ROUNDS = 8
ROUND_TOLERANCE = 0.02
_MAX_HELD_ROUNDS = 25
_LOOSE_TOLERANCE = 1e-3
_MAX_PRUNING = 20


@dataclass(frozen=True, eq=False)
class State:
    """The posterior of a candidate at one dimension, and the way that led there."""

    candidate: Candidate
    problem: VariationalProblem
    """Of the last sweeps, or of those to come."""
    null: Coefficients
    """The model without components from which the fit was started."""
    result: Result[Loadings]
    local: Sequence[Any] | None
    """q(z), block by block; ``None`` before the first sweep."""
    weight: float = 0.0
    """Sum of the sample weights, 0 before the first sweep."""
    removals: tuple[Removal, ...] = ()
    n_sweeps: int = 0
    coupling: float = 0.0
    """What the coupling of scores and loadings adds to the bound once it is judged; see `coupling_gain`."""

    @property
    def loadings(self) -> Loadings:
        return self.result.shared

    @property
    def n_components(self) -> int:
        return self.loadings.n_components

    @property
    def means(self) -> Coefficients:
        """Posterior means of all coefficients."""
        return self.loadings.coefficients

    @property
    def score_means(self) -> Sequence[Any]:
        """Posterior means of the scores, block by block."""
        return self.candidate.each(self.local, lambda scores: scores.mean)

    @property
    def bound(self) -> float:
        return float(self.result.trace[-1])

    @property
    def evidence(self) -> float:
        return self.bound + self.coupling

    def moved(self, loadings: Loadings, local: Sequence[Any] | None) -> State:
        """Another posterior, from which sweeps are to go on."""
        return replace(self, result=replace(self.result, shared=loadings), local=local)


def signal_ratio(loadings: Loadings) -> Floats:
    """Squared loadings over their posterior variance, shape (k,)."""
    k = loadings.n_components
    squared = (loadings.mean[:, :k] ** 2 / loadings.unit_column).sum(axis=0)
    variance = np.einsum("jaa->ja", loadings.covariance[:, :k, :k])
    ratio: Floats = squared / (variance / loadings.unit_column).sum(axis=0)
    return ratio


def is_fading(ratio: Floats, before: Floats | None) -> Bools:
    """Components without signal: nothing left, or little and less than at the last look, shape (k,)."""
    fading: Bools = ratio < PRUNE_RATIO
    if before is not None:
        fading |= (ratio < _FADING_RATIO) & (ratio < _FADING_RATE * before)
    return fading


def look(state: State, *, is_held: bool = False) -> State:
    """Sweeps until the components are to be looked at again, with the relevance held where asked for."""
    return _sweep(state, _SWEEPS_PER_LOOK, is_held=is_held)


def _sweep(state: State, max_iter: int, *, tol: float | None = None, is_held: bool = False) -> State:
    """At most so many sweeps, to the tolerance of the fit or another one."""
    problem = replace(state.problem, hold_relevance=is_held)
    loop = state.candidate.session.loop(problem, max_iter=max_iter, tol=tol, accelerate=False)
    # The scores at hand are in the coordinates of these loadings already.
    result, local, stats = loop.run(replace(state.loadings, change=None), state.local)
    return replace(
        state,
        problem=problem,
        result=result,
        local=local,
        weight=stats.weight,
        n_sweeps=state.n_sweeps + result.n_iter,
        coupling=0.0,
    )


def last_gain(state: State) -> float:
    """What the sweeps of a look would gain at the rate of the last one."""
    return _SWEEPS_PER_LOOK * float(np.diff(state.result.trace[-2:]).sum())


def join(before: State, after: State) -> State:
    """The later of two runs of the same model, with the trace of both."""
    trace = np.concatenate([before.result.trace, after.result.trace[1:]])
    return replace(after, result=replace(after.result, trace=trace, n_iter=len(trace)))


def converge(state: State, *, loose: bool = False) -> State:
    """Sweeps until convergence."""
    session = state.candidate.session
    tol = max(session.tol, _LOOSE_TOLERANCE) if loose else None
    return _sweep(state, session.max_iter, tol=tol)


def prune(state: State, *, loose: bool = False) -> State:
    """Sweep, removing components without signal, to convergence of what is left.

    ``loose``: or until that hardly gains. A component may then still be on its way out.
    """
    before: Floats | None = None
    state = look(state)
    while state.n_components:
        ratio = signal_ratio(state.loadings)
        weak = np.flatnonzero(is_fading(ratio, before))
        if weak.size:
            state = look(without(state, weak, "relevance"))
            before = np.delete(ratio, weak)
            continue
        if _has_ended(state):
            break
        before = ratio
        more = look(state)
        gain = more.bound - state.bound
        state = join(state, more)
        if loose and gain < _NEGLIGIBLE and (signal_ratio(state.loadings) > _SURVIVING_RATIO).all():
            return state
    return join(state, converge(state))


def _has_ended(state: State) -> bool:
    """Whether more looks at the components would not change them."""
    result, limit = state.result, _MAX_PRUNING * state.candidate.session.max_iter
    return result.converged or result.n_iter <= 1 or state.n_sweeps > limit


def drop_faded(state: State) -> State:
    """A converged state without components that have faded on the way."""
    while (faded := np.flatnonzero(is_fading(signal_ratio(state.loadings), None))).size:
        state = converge(without(state, faded, "relevance"))
    return state


def without(state: State, leaving: Ints, reason: str) -> State:
    """The same state without some components."""
    k, ratio, alpha = state.n_components, signal_ratio(state.loadings), state.loadings.alpha
    removals = tuple(
        Removal(state.n_sweeps, k - count, float(alpha[component]), float(ratio[component]), reason)
        for count, component in enumerate(sorted(leaving, key=lambda c: ratio[c]))
    )
    keep = np.setdiff1d(np.arange(k), leaving)
    local = state.candidate.each(state.local, lambda scores: scores.take(keep))
    return replace(
        state.moved(drop_components(state.loadings, keep), local), removals=state.removals + removals
    )


def hold(state: State) -> State:
    """Dispersion and posterior with the same relevance for all components.

    A dispersion that covers for a component makes it fade before it has shown its worth; the two are therefore
    brought into agreement before the component is judged.
    """
    alpha = np.full(state.n_components, state.loadings.alpha.min(initial=np.inf))
    state = state.moved(replace(state.loadings, alpha=alpha), state.local)
    for _ in range(_MAX_HELD_ROUNDS):
        state = look(state, is_held=True)
        new = estimate(state)
        settled = is_settled(state, new)
        state = with_dispersion(state, new)
        if settled:
            break
    return state


def estimate(state: State) -> Floats:
    """Dispersions that the state's residuals call for, shape (n_features,)."""
    return state.candidate.estimate(state.means, state.score_means, state.weight)


def is_settled(state: State, dispersion: Floats, *, rtol: float = ROUND_TOLERANCE) -> bool:
    """Whether new dispersions are about those that the state was fitted with."""
    return has_settled(state.candidate.family, dispersion, state.loadings.dispersion, rtol=rtol)


def with_dispersion(state: State, dispersion: Floats) -> State:
    """The same posterior, from which sweeps go on with other dispersions."""
    problem = state.problem
    # The constant's gamma functions take longer than a sweep.
    if not np.array_equal(dispersion, state.loadings.dispersion):
        constant = state.candidate.visit.log_base(state.candidate.family, dispersion)
        problem = replace(problem, constant=constant)
    loadings = replace(state.loadings, dispersion=dispersion)
    return replace(state.moved(loadings, state.local), problem=problem)


def judge(state: State) -> State:
    """The state with all of its evidence."""
    if state.n_components == 0:
        return state
    problem, loadings = state.problem, replace(state.loadings, change=None)

    def visit(block: Block, scores: Scores) -> CouplingSums:
        return problem.coupling(block, loadings, scores)

    sums = state.candidate.session.sum(visit, state.local)
    return replace(state, coupling=coupling_gain(loadings, sums))
