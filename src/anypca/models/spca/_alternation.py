"""Alternating sparse regressions and a singular value decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.exceptions import NonFiniteError
from anypca.models.spca._product import Product
from anypca.models.spca._regression import Regression, kkt_distance
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers._acceleration import QuasiNewton


class Pair(NamedTuple):
    """The two matrices of the criterion."""

    axes: Floats
    """A, orthonormal columns (n_features, n_components)."""
    coefficients: Floats
    """B, sparse columns (n_features, n_components)."""
    penalties: Floats
    """L1 penalties that B solves its regressions for (n_components,)."""


class _State(NamedTuple):
    before: Floats
    """The A that B was computed for."""
    pair: Pair
    targets: Floats
    """G A, for the new A."""
    objective: float
    criterion: float


@dataclass(frozen=True)
class Alternation:
    """Minimises ``|X - X B A'|^2 + ridge |B|^2 + sum_j penalty_j |b_j|_1`` over orthonormal A, and B.

    With fixed penalties both steps are exact, so the criterion never increases. ``trace`` of the result holds
    its negative, which never decreases. With an infinite ridge the criterion is, up to a constant and a scale
    of B, ``-2 tr(A'G B) + |B|^2 + sum_j penalty_j |b_j|_1``.
    """

    product: Product
    regression: Regression
    scale: float
    """Largest eigenvalue of G: the unit of gradients."""
    max_iter: int
    tol: float
    callback: Callback
    constant: float = 0.0
    """What the criterion holds besides the terms in A and B: the trace of G with a finite ridge."""

    def run(self, axes: Floats) -> Result[Pair]:
        """Iterate from A.

        Parameters
        ----------
        axes : ndarray of shape (n_features, n_components)

        Returns
        -------
        Result of Pair
            Its trace has one entry, the last, when the regressions choose their penalties anew in each step:
            then there is no criterion that all steps share.
        """
        state = self._step(axes, self.product.times(axes), None)
        trace: list[float] = []
        accelerator = _Accelerator()
        status = Status.MAX_ITER
        for iteration in range(1, self.max_iter + 1):
            self._check_finite(state.objective, iteration)
            trace.append(state.objective)
            self.callback(Progress(iteration, self.max_iter, state.objective, state.criterion))
            if state.criterion <= self.tol:
                status = Status.CONVERGED
                break
            if iteration < self.max_iter:
                state = self._extrapolate(accelerator, state) or self._plain(state)
        values = np.array(trace if self.regression.has_fixed_penalties else trace[-1:])
        return Result(state.pair, values, status, state.criterion, len(trace))

    def _plain(self, state: _State) -> _State:
        """The next alternation."""
        return self._step(state.pair.axes, state.targets, state.pair.coefficients)

    def _extrapolate(self, accelerator: _Accelerator, state: _State) -> _State | None:
        """An alternation from where the last ones point to; ``None`` when it is no better, or not tried."""
        if not self.regression.has_fixed_penalties:
            return None
        axes = accelerator.propose(state)
        if axes is None:
            return None
        trial = self._step(axes, self.product.times(axes), state.pair.coefficients)
        is_better = bool(trial.objective > state.objective)
        accelerator.method.judge(accepted=is_better)
        return trial if is_better else None

    def _step(self, axes: Floats, targets: Floats, start: Floats | None) -> _State:
        """New B for the given A, then the best A for it; the gradient is that of B at the new A."""
        squares = np.maximum(np.einsum("ij,ij->j", axes, targets), 0.0)
        fits = [
            self.regression.fit(j, targets[:, j], float(squares[j]), None if start is None else start[:, j])
            for j in range(axes.shape[1])
        ]
        B = np.column_stack([fit.coefficients for fit in fits])
        penalties = np.array([fit.penalty for fit in fits])
        image = self.product.times(B)
        best = nearest_orthonormal(image)
        targets = self.product.times(best)
        curved = self.regression.curved(B)
        distance = float(kkt_distance(curved, targets, penalties, B).max())
        value = self.constant - 2.0 * np.vdot(best, image) + np.vdot(B, curved) + penalties @ np.abs(B).sum(0)
        return _State(axes, Pair(best, B, penalties), targets, -float(value), distance / self.scale)

    @staticmethod
    def _check_finite(value: float, iteration: int) -> None:
        if not np.isfinite(value):
            raise NonFiniteError(
                f"the fit became non-finite ({value}) at iteration {iteration}. Look for extreme values in X, or "
                "rescale its columns."
            )


class _Accelerator:
    """Extrapolates A while the signs of B stay: where they change, the map from A to the next A has a kink."""

    def __init__(self) -> None:
        self.method = QuasiNewton()
        self._signs: Floats | None = None

    def propose(self, state: _State) -> Floats | None:
        """Orthonormal columns (n_features, n_components), or ``None`` for a plain step."""
        signs = np.sign(state.pair.coefficients)
        if self._signs is None or not np.array_equal(signs, self._signs):
            self.method, self._signs = QuasiNewton(), signs
        before, after = state.before.ravel(), state.pair.axes.ravel()
        vector = self.method.propose(before, after, np.ones_like(before))
        return None if vector is None else nearest_orthonormal(vector.reshape(state.before.shape))


def nearest_orthonormal(matrix: Floats) -> Floats:
    """The matrix with orthonormal columns that has the largest inner product with the given one."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)
