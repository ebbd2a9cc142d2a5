"""Sweeps of the variational posterior: from one state to the next, with fewer components or another dispersion.

Numbers below that are not derived were set by hand; their comments say what they trade.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.exceptions import NonFiniteError
from anypca.families import Family
from anypca.models._bilinear.dispersion import noise_units
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._coupling import CouplingSums, coupling_gain, relevance_cost, residual_gain
from anypca.models.sepca._lasting import component_cost, falling_from, idle_component, is_fading
from anypca.models.sepca._leaps import Memory
from anypca.models.sepca._noise import Residuals
from anypca.models.sepca._posterior import Loadings, VariationalStats, drop_components
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._scores import Scores
from anypca.models.sepca._state import State
from anypca.models.sepca._strides import Stride, is_answering
from anypca.solvers import Status, Update

# Looks after which a state is first judged on its way.
_FIRST_JUDGED = 4
# What is still to come is a few times the gain of the last look, since gains fall from look to look.
PATIENCE = 20.0
# Signal ratio from which on a component is taken to last: that of the edge of noise in a square table.
_SURVIVING_RATIO = 1.0
# Sweeps between two looks at the components: enough to see at what rate a ratio falls, and few enough that not many are
# wasted on components that have faded meanwhile.
_SWEEPS_PER_LOOK = 3
# Leaps that are tried before a plain sweep: the second knows what the first met.
_LEAPS = 2
# Sweeps that bring rows from their prior near to what given loadings make of them.
_ROW_SWEEPS = 3
# Nats between two looks below which loose pruning ends. Components of about the same size turn for hundreds of sweeps
# more, which is left to the fit that is kept; a choice of the dimension takes three nats.
_NEGLIGIBLE = 0.05
# The same to an entry, where close expectations take over: bounds of rare events are off by a thousandth and more.
_NEGLIGIBLE_SHARE = 1e-5
# Rounds of fit and dispersion. Two to five are usual; a limit, so that rounds cannot go on in circles.
MAX_ROUNDS = 12
# Pruning may take this many times ``max_iter`` sweeps, since each of up to twenty components may leave on its own.
_MAX_PRUNING = 20


def look(state: State, *, rough: bool = False, is_held: bool = False) -> State:
    """Sweeps until the components are to be looked at again, with the relevance held where asked for.

    Each starts from where the last ones were heading to, or where the bound is not larger there from the last one.
    """
    is_ready = state.stats is not None and state.problem.single == (rough and state.candidate.is_large)
    if is_ready:
        # The trace of a look begins where the last one ended.
        state = replace(state, result=replace(state.result, trace=state.result.trace[-1:], n_iter=1))
    else:
        state = _sweep(state, 1, rough=rough, is_held=is_held)
    for _ in range(_SWEEPS_PER_LOOK - int(not is_ready)):
        if state.result.status is not Status.MAX_ITER:
            break
        state = join(state, _next(state, rough=rough, is_held=is_held))
    return state


def _next(state: State, *, rough: bool, is_held: bool) -> State:
    """One sweep on, from where the updates up to now are heading to if that gains more than the next update would."""
    is_plain = not state.n_components or state.loadings.sparsity > 0
    if is_plain or state.stats is None or state.problem.hold_relevance != is_held:
        return _sweep(state, 2, rough=rough, is_held=is_held)
    if state.problem.single and state.stride is not None and not is_held:
        return _strided(state, state.stride, rough=rough)
    problem, here = state.problem, state.loadings
    to = (state.result.update or problem.update(here, state.stats)).shared
    mapping = problem.mapping_of(to)
    memory = state.memory.with_update(here.mean, problem.gradient(here, state.stats), mapping)
    stride, information = None, state.stats.information
    for _ in range(_LEAPS):
        mean = memory.leap(to) if stride is None else None
        if mean is None:
            break
        there = to.with_posterior(mean, to.precision, **to.known)
        there = there if is_held else problem.with_best_relevance(there)
        trial = _tried(state, there, rough=rough, is_held=is_held)
        if trial is not None and trial.bound > state.bound + memory.gain(to):
            trace = np.array([state.bound, trial.bound])
            result = replace(trial.result, trace=trace, n_iter=len(trace))
            return replace(trial, result=result, memory=memory.taken())
        state = replace(state, n_sweeps=state.n_sweeps + 1)
        memory = memory.missed(mean, None if trial is None else _gradient(trial))
        # In single precision strides take the place of leaps that fail for the columns' precisions.
        is_due = problem.single and problem.fit_intercept and not is_held
        stride = Stride() if is_due and is_answering(here, information) else None
    after = _sweep(state, 2, rough=rough, is_held=is_held)
    # Repaired updates end in coordinates of their own.
    turn = problem.mapping_of(after.loadings) @ np.linalg.inv(mapping)
    memory = memory.in_coordinates(turn) if after.result.n_iter > 1 else Memory()
    return replace(after, memory=memory, stride=stride)


def _strided(state: State, stride: Stride, *, rough: bool) -> State:
    """One sweep on, with longer steps where these gain."""
    if stride.length > 1.0:
        with suppress(NonFiniteError):
            trial = _sweep(state, 2, rough=rough, length=stride.length)
            if trial.bound > state.bound:
                return replace(trial, stride=stride.gained(trial.bound - state.bound))
        state = replace(state, n_sweeps=state.n_sweeps + 1)
    after = _sweep(state, 2, rough=rough, length=1.0)
    if after.result.status is Status.STALLED:
        return replace(_sweep(state, 2, rough=rough), stride=None)
    return replace(after, stride=stride.rested(after.result.criterion))


def _tried(state: State, there: Loadings, *, rough: bool, is_held: bool) -> State | None:
    """One sweep from loadings that lie ahead; ``None`` if they are out of all range."""
    try:
        return _run(state, there, None, None, 1, rough=rough, is_held=is_held)
    except NonFiniteError:
        return None


def _gradient(state: State) -> Floats | None:
    return None if state.stats is None else state.problem.gradient(state.loadings, state.stats)


def _sweep(
    state: State, max_iter: int, *, rough: bool = False, is_held: bool = False, length: float | None = None
) -> State:
    """At most ``max_iter`` sweeps, to the tolerance of the fit or a rough one, with steps of a given length."""
    # Bounds of sweeps in another precision are not to be compared.
    is_single = rough and state.candidate.is_large
    known = state.stats if state.problem.single == is_single else None
    # The scores at hand are in the coordinates of these loadings already.
    loadings = replace(state.loadings, change=None) if known is None else state.loadings
    is_same = state.problem.hold_relevance == is_held and state.problem.stride == length
    update = state.result.update if is_same and known is not None else None
    return _run(state, loadings, known, update, max_iter, rough=rough, is_held=is_held, length=length)


def _run(
    state: State,
    loadings: Loadings,
    known: VariationalStats | None,
    update: Update[Loadings] | None,
    max_iter: int,
    *,
    rough: bool,
    is_held: bool,
    length: float | None = None,
) -> State:
    """Sweeps from given loadings, with the statistics and the update of the last one where they are known."""
    tol = state.candidate.rough_tolerance if rough else None
    single = rough and state.candidate.is_large
    problem = replace(state.problem, hold_relevance=is_held, single=single, stride=length)
    loop = state.candidate.session.loop(problem, max_iter=max_iter, tol=tol, accelerate=False)
    result, local, stats = loop.run(loadings, state.local, known, update)
    return replace(
        state,
        problem=problem,
        result=result,
        local=local,
        weight=stats.weight,
        stats=stats,
        n_sweeps=state.n_sweeps + result.n_iter - int(known is not None),
        memory=Memory(),
        coupling=0.0,
    )


def solve_rows(state: State) -> State:
    """The rows solved, nearly, under loadings that stay as they are."""
    for _ in range(_ROW_SWEEPS):
        state = _sweep(state, 1)
        state = state.moved(state.loadings, state.local)
    return state


def last_gain(state: State) -> float:
    """What the sweeps of a look would gain at the rate of the last one."""
    return _SWEEPS_PER_LOOK * float(np.diff(state.result.trace[-2:]).sum())


def join(before: State, after: State) -> State:
    """The later of two runs of the same model, with the trace of both."""
    trace = np.concatenate([before.result.trace, after.result.trace[1:]])
    return replace(after, result=replace(after.result, trace=trace, n_iter=len(trace)))


def converge(state: State, *, rough: bool = False, is_held: bool = False) -> State:
    """Sweeps until convergence, with the relevance held where asked for."""
    limit = state.candidate.session.max_iter
    if state.loadings.sparsity > 0 or not state.n_components:
        return _sweep(state, limit, rough=rough, is_held=is_held)
    state = look(state, rough=rough, is_held=is_held)
    while not state.result.converged and 1 < state.result.n_iter < limit:
        state = join(state, look(state, rough=rough, is_held=is_held))
    return state


def prune(state: State, *, loose: bool = False, rough: bool = False) -> State:
    """Sweep until convergence, looking at the components now and then and removing those without signal.

    With ``rough`` it is that of a rough fit. With ``loose`` sweeps end as soon as they gain little; a component may
    then still be on its way out.
    """
    before: Floats | None = None
    state, looks, tried = look(state, rough=rough), 1, np.inf
    while state.n_components:
        ratio = state.loadings.signal_ratio
        weak = np.flatnonzero(is_fading(state.loadings, state.weight, before))
        if weak.size:
            # The components that stay have a trace of their own: a bound with fewer components may be lower.
            state = look(without(state, weak, "relevance"), rough=rough)
            before, looks, tried = np.delete(ratio, weak), 1, np.inf
            continue
        if _has_ended(state):
            break
        before = falling_from(before, ratio)
        more = look(state, rough=rough)
        gain = more.bound - state.bound
        state, looks = join(state, more), looks + 1
        if loose and gain < _negligible(state) and (state.loadings.signal_ratio > _SURVIVING_RATIO).all():
            return state
        weakest = float(state.loadings.signal_ratio.min())
        # In a large table a component that has grown since it was worth its place is not tried again.
        if not is_time_to_judge(looks) or (state.candidate.is_large and weakest > tried):
            continue
        fewer, tried = _without_idle(state, gain, rough=rough), weakest
        if fewer is not None:
            state, before, looks, tried = fewer, None, 1, np.inf
    return join(state, converge(state, rough=rough))


def _negligible(state: State) -> float:
    """Gain of a look below which loose pruning ends, sooner where close expectations take over from bounds."""
    is_bound = state.candidate.is_sharpened and not state.problem.sharp
    return max(_NEGLIGIBLE, _NEGLIGIBLE_SHARE * state.candidate.n_entries) if is_bound else _NEGLIGIBLE


def _without_idle(state: State, gain: float, *, rough: bool) -> State | None:
    """The state without its weakest component, if that is near the edge of noise and not worth its place.

    There components stand for hundreds of sweeps before they fade. What the present gain per look may lead to is
    granted to the component.
    """
    weakest = idle_component(state.loadings, state.weight)
    granted = PATIENCE * max(gain, 0.0)
    if weakest is None or component_cost(state.loadings, state.weight, weakest) <= granted:
        return None
    fewer = look(without(state, np.array([weakest]), "evidence"), rough=rough)
    # More components have more coupling; what speaks for fewer beside the bound is the cost of a relevance.
    if fewer.bound + relevance_cost(1, len(state.loadings.mean)) <= state.bound + granted:
        return None
    return fewer if judge(fewer).evidence > judge(state).evidence + granted else None


def is_time_to_judge(looks: int) -> bool:
    """Whether the evidence is worth the time of a sweep: after 4 looks, then after twice as many each time."""
    return looks >= _FIRST_JUDGED and looks & (looks - 1) == 0


def _has_ended(state: State) -> bool:
    """Whether more looks at the components would not change them: nothing moves, or there were enough."""
    result, limit = state.result, _MAX_PRUNING * state.candidate.session.max_iter
    return result.converged or result.n_iter <= 1 or state.n_sweeps > limit


def drop_faded(state: State) -> State:
    """A converged state without the components that have faded while it converged."""
    while (faded := np.flatnonzero(is_fading(state.loadings, state.weight, None))).size:
        state = converge(without(state, faded, "relevance"))
    return state


def without(state: State, leaving: Ints, reason: str) -> State:
    """The same state without some components."""
    k, ratio, alpha = state.n_components, state.loadings.signal_ratio, state.loadings.alpha
    removals = tuple(
        Removal(state.n_sweeps, k - count, float(alpha[component]), float(ratio[component]), reason)
        for count, component in enumerate(sorted(leaving, key=lambda c: ratio[c]))
    )
    keep = np.setdiff1d(np.arange(k), leaving)
    local = state.candidate.each(state.local, lambda scores: scores.take(keep))
    return replace(
        state.moved(drop_components(state.loadings, keep), local), removals=state.removals + removals
    )


def residuals(state: State) -> Residuals:
    """The state as dispersions are estimated from it."""
    return Residuals(state.candidate, state.problem, state.loadings, state.local, state.weight)


def estimate(state: State) -> Floats:
    """Dispersions that the state's residuals call for, shape (n_features,)."""
    return residuals(state).dispersions()


def with_dispersion(state: State, dispersion: Floats) -> State:
    """The same posterior, from which sweeps go on with other dispersions, and a prior in their units."""
    # The gamma functions in the constant take longer than a sweep, so it is kept where the dispersion stays.
    if np.array_equal(dispersion, state.loadings.dispersion):
        return state.moved(state.loadings, state.local)
    return with_candidate(state, state.candidate, dispersion)


def with_family(state: State, family: Family) -> State:
    """The same posterior, from which sweeps go on with other parameters of the columns' families."""
    if family is state.candidate.family:
        return state
    return with_candidate(state, replace(state.candidate, family=family), state.loadings.dispersion)


def with_candidate(state: State, candidate: Candidate, dispersion: Floats) -> State:
    """The same posterior, from which sweeps go on under another candidate with these dispersions."""
    constant = candidate.constant(dispersion)
    problem = replace(state.problem, family=candidate.family, constant=constant)
    units = noise_units(candidate.family, dispersion)
    moved = state.moved(replace(state.loadings, dispersion=dispersion, units=units), state.local)
    return replace(moved, candidate=candidate, problem=problem)


def judge(state: State) -> State:
    """The state with all of its evidence."""
    if state.coupling:
        return state
    loose, loadings = residuals(state).looseness(), state.loadings
    if state.n_components == 0:
        return replace(state, coupling=loose)
    sums = coupling_sums(state)
    gain = coupling_gain(loadings, sums) + residual_gain(loadings, sums.unknown, state.weight)
    cost = relevance_cost(state.n_components, len(loadings.mean))
    return replace(state, coupling=gain - cost + loose)


def coupling_sums(state: State) -> CouplingSums:
    """What the coupling of scores and loadings needs to know of the rows."""
    problem, loadings = state.problem, replace(state.loadings, change=None)

    def visit(block: Block, scores: Scores) -> CouplingSums:
        return problem.coupling(block, loadings, scores)

    found: CouplingSums = state.candidate.session.sum(visit, state.local)
    return found
