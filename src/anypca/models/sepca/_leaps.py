"""Where the loadings of sweeps in a row are heading to: limited-memory BFGS around the columns' own Newton steps.

A sweep solves every column beside rows that stand still. How the gradient of the bound changed along the last steps,
with the rows moving, tells what the columns' precisions do not: how rows and columns hold on to each other.

A sweep ends in new latent coordinates. Where components have nearly the same size these turn far for small changes of
the loadings, and along no straight line; so earlier steps are brought to the coordinates of the last one first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anypca._typing import Floats
from anypca.linalg import packed_times
from anypca.models.sepca._posterior import Loadings
from anypca.solvers.bfgs import Pair, is_concave_along, two_loop

# Steps that are remembered. Four tables of counts and measurements took the same sweeps, to a tenth, with 5 to 16.
_DEPTH = 8
# Coefficients above which fewer are kept: they would take more memory than the posterior itself.
_MANY, _LESS_DEPTH = 2**20, 2
# Smallest cosine between a step and the decrease of the gradient that counts as curvature: far above rounding.
_LEAST_CURVATURE = 1e-6
# Longest leap in units of the update: at first, at most, and at least. Most that succeed have a length of 1 to 5, or of
# hundreds where columns nearly repeat each other; where components fade long ones fail. With 10 at first 6 of 35 small
# tables ended more than a nat below the same fits with Anderson's extrapolation, with 3 it was 2 of them.
_FIRST_REACH, _MOST_REACH, _LEAST_REACH = 3.0, 1000.0, 2.0
# How the reach changes after a leap that gained and one that did not.
_FARTHER, _LESS_FAR = 2.0, 0.25


@dataclass(frozen=True, eq=False)
class Memory:
    """The last steps of a run of sweeps, in the coordinates that the last update ended in."""

    pairs: tuple[Pair, ...] = ()
    """Steps and decreases of the gradient along them, oldest first; (n_features, m) each."""
    last: tuple[Floats, Floats] | None = None
    """Means of the coefficients before the last update, and the gradient of the bound there."""
    reach: float = _FIRST_REACH
    """Longest leap, in units of the update."""

    def with_update(self, here: Floats, gradient: Floats, mapping: Floats) -> Memory:
        """Beside an update, whose change of coordinates takes coefficients from here to there by ``mapping``."""
        memory, point = self.in_coordinates(mapping), (here @ mapping.T, gradient @ np.linalg.inv(mapping))
        return replace(memory._with_step(*point), last=point)

    def in_coordinates(self, mapping: Floats) -> Memory:
        """The same in new latent coordinates: gradients change inversely to coefficients."""
        forth, back = mapping.T, np.linalg.inv(mapping)
        pairs = tuple((step @ forth, change @ back) for step, change in self.pairs)
        last = None if self.last is None else (self.last[0] @ forth, self.last[1] @ back)
        return Memory(pairs, last, self.reach)

    def leap(self, to: Loadings) -> Floats | None:
        """Means at which the gradient would vanish, shape (n_features, m); ``None`` where nothing tells."""
        if self.last is None or not self.pairs:
            return None
        start, gradient = self.last
        step = two_loop(gradient, self.pairs, solve=partial(packed_times, to.packed_covariance), longest=1.0)
        longer = _length(step, to) / max(_length(to.mean - start, to), np.finfo(float).tiny)
        found = start + min(1.0, self.reach / max(longer, np.finfo(float).tiny)) * step
        return found if np.isfinite(found).all() else None

    def gain(self, to: Loadings) -> float:
        """What the update itself gains beside rows that stand still, if the bound bends as its precision says."""
        if self.last is None:
            return 0.0
        start, gradient = self.last
        return 0.5 * float(np.vdot(gradient, to.mean - start))

    def taken(self) -> Memory:
        """After a leap that gained more than the update does."""
        return replace(self, reach=min(_FARTHER * self.reach, _MOST_REACH))

    def missed(self, there: Floats, gradient: Floats | None) -> Memory:
        """After a leap that did not, with the gradient at its end; ``None`` where there is none."""
        shorter = replace(self, reach=max(_LESS_FAR * self.reach, _LEAST_REACH))
        return replace(shorter, pairs=()) if gradient is None else shorter._with_step(there, gradient)

    def _with_step(self, end: Floats, gradient: Floats) -> Memory:
        """With what a step from the last point tells. Where the bound is not concave along it all is forgotten.

        The way then leads out of a saddle, and to no maximum that earlier steps could know of.
        """
        if self.last is None:
            return self
        pair = end - self.last[0], self.last[1] - gradient
        if not is_concave_along(pair, _LEAST_CURVATURE):
            return replace(self, pairs=())
        depth = _DEPTH if end.size <= _MANY else _LESS_DEPTH
        return replace(self, pairs=(*self.pairs, pair)[-depth:])


def _length(step: Floats, at: Loadings) -> float:
    """Of a step, in units of the posterior."""
    return float(np.sqrt(np.vdot(step, packed_times(at.precision, step))))
