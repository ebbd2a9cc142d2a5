"""Where the loadings of sweeps in a row are heading to: Anderson's extrapolation of their fixed point.

A sweep ends in new latent coordinates. Where components have nearly the same size these turn far for small changes of
the loadings, and along no straight line; so earlier sweeps are brought to the coordinates of the last one first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.linalg import packed_diagonal
from anypca.models.sepca._posterior import Loadings

# Sweeps that are remembered beside the last one. Five tables of counts, words and measurements took the same sweeps, to
# some per cent, with 2 to 8.
_DEPTH = 5
# Coefficients above which fewer are kept: they would take more memory than the posterior itself.
_MANY, _LESS_DEPTH = 2**20, 2
# Part of a difference that counts as told by the others: far above rounding.
_RIDGE = 1e-8
# Longest extrapolation in units of the sweep's own step: what remains where each step leaves 99 % of the way.
_LONGEST = 100.0


class Step(NamedTuple):
    """Means of the coefficients before a sweep's update, and what the update adds; (n_features, m) each."""

    start: Floats
    way: Floats

    def in_coordinates(self, mapping: Floats) -> Step:
        """The same in new latent coordinates."""
        return Step(self.start @ mapping.T, self.way @ mapping.T)


@dataclass(frozen=True, eq=False)
class Memory:
    """The last updates of a run of sweeps."""

    steps: tuple[Step, ...] = ()
    """Oldest first, in the coordinates that the last update ended in."""
    is_paused: bool = True
    """The next update is to be taken as it is."""

    def with_update(self, here: Loadings, to: Loadings, mapping: Floats) -> Memory:
        """Beside an update, whose change of coordinates takes coefficients from here to there by ``mapping``."""
        start = here.mean @ mapping.T
        known = [step.in_coordinates(mapping) for step in self.steps]
        depth = _DEPTH if start.size <= _MANY else _LESS_DEPTH
        return Memory((*known, Step(start, to.mean - start))[-depth - 1 :], self.is_paused)

    def without_oldest(self) -> Memory:
        """After an extrapolation that failed: what led there is forgotten, and the next update taken as it is."""
        return Memory(self.steps[len(self.steps) // 2 + 1 :])

    def ready(self) -> Memory:
        """After an update that was taken as it is."""
        return Memory(self.steps, is_paused=False)

    def extrapolated(self, to: Loadings) -> Floats | None:
        """Means at which the way of an update would vanish, shape (n_features, m); ``None`` where nothing tells."""
        if self.is_paused or len(self.steps) < 2:
            return None
        weight = np.sqrt(to.precision[:, packed_diagonal(to.mean.shape[1])])
        last = self.steps[-1]
        # Differences of neighbours, each with the same length.
        pairs = [
            Step(b.start - a.start, b.way - a.way) for a, b in zip(self.steps, self.steps[1:], strict=False)
        ]
        bends = np.stack([(weight * pair.way).ravel() for pair in pairs])
        size = np.sqrt(np.einsum("ia,ia->i", bends, bends))
        if not (size > 0).all():
            return None
        gram = bends @ bends.T / np.outer(size, size) + _RIDGE * np.eye(len(size))
        shares = np.linalg.solve(gram, bends @ (weight * last.way).ravel() / size) / size
        step = last.way - sum(
            share * (pair.start + pair.way) for share, pair in zip(shares, pairs, strict=True)
        )
        longer = float(np.linalg.norm(weight * step)) / max(
            float(np.linalg.norm(weight * last.way)), np.finfo(float).tiny
        )
        found = last.start + min(1.0, _LONGEST / max(longer, np.finfo(float).tiny)) * step
        return found if np.isfinite(found).all() else None

    def leads_on(self, mean: Floats, to: Loadings) -> bool:
        """Whether means lie ahead of the last update, not behind it.

        Where updates grow from sweep to sweep they lead away from a saddle, at which their way would vanish too.
        """
        last, precision = self.steps[-1], to.precision[:, packed_diagonal(to.mean.shape[1])]
        return float(np.sum(precision * (mean - last.start) * last.way)) > 0.0
