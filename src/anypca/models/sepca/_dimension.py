"""Neighbouring dimensions, compared by evidence; one that cannot win any more is not fitted to the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anypca._typing import Floats
from anypca.exceptions import NonFiniteError
from anypca.models.sepca._lasting import falling_from, is_fading
from anypca.models.sepca._rounds import is_settled, is_tall, with_next
from anypca.models.sepca._start import hold, with_direction
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import (
    MAX_ROUNDS,
    PATIENCE,
    converge,
    drop_faded,
    estimate,
    is_time_to_judge,
    join,
    judge,
    last_gain,
    look,
    prune,
    without,
)

# Nats by which a smaller dimension may fall behind before those below it are given up: a ratio of evidences of 20, the
# usual mark of strong evidence.
_NEAR_TIE = 3.0
# A neighbour's bound may stay below the rival's evidence by the coupling that it can expect, taken 1.5 times, and by
# four nats, which is more than a near tie.
_GENEROUS, _MARGIN = 1.5, 4.0


def compare_dimensions(state: State, seed: int) -> list[State]:
    """The fit at hand, those with fewer components, and those with more if none of the former is better."""
    # Families that only bound their expectations are pruned by the bound, which is quick; evidence and posterior come
    # from close expectations.
    if state.candidate.has_bounds and not state.problem.sharp:
        state = replace(state, problem=replace(state.problem, sharp=True), stats=None)
        # In a large table the bound has only been looked at roughly.
        state = converge(prune(state, rough=True) if state.candidate.is_large else state)
        state = _agreed(state) if is_tall(state) else state
    compared = _with_fewer(judge(drop_faded(state)))
    best = max(compared, key=lambda state: state.evidence)
    return compared + (_with_more(best, seed) if best is compared[0] else [])


def _agreed(state: State) -> State:
    """The fit to a tall table with the dispersions that close expectations give, which matter there.

    Other dimensions have theirs; one that only had those of the bound would be behind by several nats.
    """
    before: Floats | None = None
    for _ in range(MAX_ROUNDS):
        new = estimate(state)
        if is_settled(state, new):
            break
        state, before = with_next(state, new, before)
        state = converge(state, rough=True)
    return converge(state)


def _with_fewer(state: State) -> list[State]:
    """The state, then fits with one component less each, until one clearly falls behind the best so far."""
    found, best = [state], state
    while found[-1].n_components and best.evidence - found[-1].evidence <= _NEAR_TIE:
        weakest = np.array([int(np.argmin(found[-1].loadings.signal_ratio))])
        try:
            # Intercepts of answers that a component separates grow without bound, and nothing can start from there.
            with np.errstate(over="ignore"):
                fewer = _neighbour(without(found[-1], weakest, "evidence"), best)
        except NonFiniteError:
            break
        assert fewer is not None
        found.append(fewer)
        best = max(best, fewer, key=lambda state: state.evidence)
    return found


def _with_more(state: State, seed: int) -> list[State]:
    """Fits with one component more each, until one is no better than that before."""
    found: list[State] = []
    while state.n_components < state.candidate.settings.max_components:
        larger = _larger(state, seed)
        if larger is None:
            break
        found.append(larger)
        if larger.evidence <= state.evidence:
            break
        state = larger
    return found


def _larger(state: State, seed: int) -> State | None:
    """A fit with one component more; ``None`` if the residuals hold none, or if it fades."""
    start = with_direction(state, seed)
    if start is None:
        return None
    if state.candidate.has_open_dispersion:
        start = hold(start)
    larger = _neighbour(start, state, may_fade=True)
    if larger is None:
        return None
    # A component that had left has come back: the path ends where it is still true.
    removals = tuple(r for r in larger.removals if r.n_components > larger.n_components)
    return replace(larger, removals=removals)


def _neighbour(state: State, rival: State, *, may_fade: bool = False) -> State | None:
    """The state fitted with a dispersion of its own, as far as it can still reach the rival's evidence.

    ``None`` if a component faded that may.
    """
    found = _chase(state, rival, may_fade=may_fade, rough=True)
    last: Floats | None = None
    for _ in range(MAX_ROUNDS):
        if found is None:
            return None
        new = estimate(found)
        if is_settled(found, new):
            break
        before = found.bound
        start, last = with_next(found, new, last)
        found = _chase(start, rival, may_fade=may_fade, rough=True)
        found = None if found is None else judge(found)
        if found is not None and _lags(found.bound, _goal(found, rival), found.bound - before):
            break
    found = None if found is None else judge(found)
    if found is not None and found.bound > _goal(found, rival):
        found = _chase(found, rival, may_fade=may_fade, rough=False)
    return None if found is None else judge(drop_faded(found))


def _goal(state: State, rival: State) -> float:
    """The bound with which a state would come near the rival's evidence.

    What the coupling adds is known of a state that has been judged. Else it is guessed: it grows with the number of
    moves between scores and loadings, the square of the dimension.
    """
    if state.coupling:
        return rival.evidence - state.coupling - state.log_prior - _MARGIN
    moves = (state.n_components / max(rival.n_components, 1)) ** 2
    return rival.bound + (1.0 - _GENEROUS * moves) * rival.coupling - _MARGIN


def _chase(state: State, rival: State, *, may_fade: bool, rough: bool) -> State | None:
    """Sweep until convergence, or until the goal is out of reach; ``None`` when a component fades that may."""
    max_iter, looks = state.candidate.session.max_iter, 1
    state = look(state, rough=rough)
    before: Floats | None = None
    gain, goal = last_gain(state), _goal(state, rival)
    while True:
        if may_fade and is_fading(state.loadings, state.weight, before).any():
            return None
        before = falling_from(before, state.loadings.signal_ratio)
        result = state.result
        if result.converged or result.n_iter >= max_iter or _lags(state.bound, goal, gain):
            return state
        more = look(state, rough=rough)
        gain = more.bound - state.bound
        state = join(state, more)
        looks += 1
        # Sweeps see the bound alone; what the coupling adds takes about as long as one of them.
        if is_time_to_judge(looks):
            state = judge(state)
            goal = _goal(state, rival)


def _lags(value: float, goal: float, gain: float) -> bool:
    """Whether a goal is out of reach at the present gain per look."""
    return goal - value > PATIENCE * max(gain, 0.0)
