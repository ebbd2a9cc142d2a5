"""Extrapolation of a fixed-point iteration from its recent steps."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats

_DEPTH = 8
_WARM_UP = 2


class Anderson:
    """Anderson extrapolation of ``x -> g(x)``, restarted when a proposal is rejected.

    The combination of the last steps whose residual ``g(x) - x`` is smallest (in a given metric) predicts the
    fixed point. The caller decides by its objective whether a proposal is accepted; after a rejection the memory
    is dropped and extrapolation pauses for a growing number of steps, so that a problem on which it does not
    help costs few wasted sweeps.
    """

    def __init__(self, depth: int = _DEPTH) -> None:
        self.depth = depth
        self._points: list[Floats] = []
        self._images: list[Floats] = []
        self._pause = _WARM_UP
        self._penalty = 1

    def propose(self, x: Floats, image: Floats, metric: Floats) -> Floats | None:
        """An extrapolated point from the newest pair, or ``None`` while there is too little memory."""
        self._points = [*self._points[-self.depth :], x]
        self._images = [*self._images[-self.depth :], image]
        if self._pause > 0:
            self._pause -= 1
            return None
        if len(self._points) < 2:
            return None
        images = np.stack(self._images)
        residuals = (images - np.stack(self._points)) * metric
        differences = np.diff(residuals, axis=0)
        gram = differences @ differences.T
        # A relative ridge keeps nearly parallel differences from producing huge coefficients.
        gram[np.diag_indices_from(gram)] *= 1.0 + 1e-8
        gram[np.diag_indices_from(gram)] += 1e-14 * np.trace(gram) + np.finfo(float).tiny
        weights = np.linalg.solve(gram, differences @ residuals[-1])
        candidate = image - weights @ np.diff(images, axis=0)
        return candidate if np.all(np.isfinite(candidate)) else None

    def judge(self, *, accepted: bool) -> None:
        """Tell whether the last proposal was taken."""
        if accepted:
            self._penalty = 1
            return
        self._points, self._images = [], []
        self._pause = _WARM_UP * self._penalty
        self._penalty = min(2 * self._penalty, 8)
