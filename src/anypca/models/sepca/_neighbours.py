"""Neighbouring dimensions, fitted as far as they can still win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._bilinear.dispersion import has_settled, noise_units
from anypca.models._bilinear.start import residual_directions
from anypca.models.sepca._posterior import (
    Loadings,
    Scores,
    add_component,
)
from anypca.models.sepca._sweeps import (
    MAX_ROUNDS,
    ROUND_TOLERANCE,
    START_VARIANCE,
    SWEEPS_PER_LOOK,
    State,
    Sweeps,
    is_fading,
    joined,
    means_of,
    signal_ratio,
)

# A neighbour is given up when it lags by this many times the gain of its last few sweeps.
_PATIENCE = 20.0
# How far its bound may stay below the rival's evidence: the coupling that is expected, taken generously, and a margin.
_GENEROUS, _MARGIN = 1.5, 4.0
# Squared singular values of n x p unit noise end at n + p + 2 sqrt(n p), those of components that variational PCA keeps
# begin at n + p + 2.91 sqrt(n p).
_NOISE = 2.25


def _lags(value: float, goal: float, gain: float) -> bool:
    """Whether a goal is out of reach at the present rate of gain."""
    return goal - value > _PATIENCE * max(gain, 0.0)


class Neighbours(Sweeps):
    """Fits with one component more or less than one at hand; see `Sweeps` for the parameters."""

    def _larger(self, state: State, seed: int) -> State | None:
        """A fit with one component more, from the strongest direction in the residuals; ``None`` if it fades.

        Or if that direction is no stronger than in noise.
        """
        found = residual_directions(
            self.family,
            means_of(state.loadings),
            self.visit,
            1,
            np.random.default_rng(seed),
            self._score_means(state.local),
        )
        n, p = self.session.data.n_samples, self.session.data.n_features
        if found.strength < n + p + _NOISE * np.sqrt(n * p):
            return None
        variance = START_VARIANCE * noise_units(self.family, state.loadings.dispersion)
        loadings = add_component(state.loadings, found.loadings[:, 0], variance)
        local = self._each(state.local, Scores.extended)
        if self._has_open_dispersion:
            held = self._held(loadings, local)
            loadings, local = held.loadings, held.local
        return self._neighbour(loadings, local, state, may_fade=True)

    def _neighbour(
        self, loadings: Loadings, local: Sequence[Any], rival: State, *, may_fade: bool = False
    ) -> State | None:
        """A fit of this dimension with a dispersion of its own, as far as it can still reach the rival's evidence."""
        # Bounds are chased. What the coupling will add is known at the end only; it grows with the number of moves.
        moves = (loadings.n_components / max(rival.loadings.n_components, 1)) ** 2
        goal = rival.evidence - _GENEROUS * rival.coupling * moves - _MARGIN
        state = self._chasing(loadings, local, goal, may_fade=may_fade)
        for _ in range(MAX_ROUNDS):
            if state is None:
                return None
            new = self._estimate(state)
            if has_settled(self.family, new, state.loadings.dispersion, rtol=ROUND_TOLERANCE):
                break
            before = state.bound
            state = self._chasing(
                replace(state.loadings, dispersion=new), state.local, goal, may_fade=may_fade
            )
            if state is not None and _lags(state.bound, goal, state.bound - before):
                break
        return None if state is None else self._judged(self._alive(state))

    def _chasing(
        self, loadings: Loadings, local: Sequence[Any], goal: float, *, may_fade: bool
    ) -> State | None:
        """Sweep until convergence, or until the goal is out of reach; ``None`` when a component fades."""
        state = self._run(loadings, local, max_iter=SWEEPS_PER_LOOK, tol=self.session.tol)
        ratio: Floats | None = None
        gain = SWEEPS_PER_LOOK * float(np.diff(state.result.trace[-2:]).sum())
        while True:
            before, ratio = ratio, signal_ratio(state.loadings)
            if may_fade and is_fading(ratio, before).any():
                return None
            if (
                state.result.converged
                or state.result.n_iter >= self.session.max_iter
                or _lags(state.bound, goal, gain)
            ):
                return state
            more = self._run(state.loadings, state.local, max_iter=SWEEPS_PER_LOOK, tol=self.session.tol)
            gain = more.bound - state.bound
            state = joined(state, more)
