"""Alternating sparse regressions and a singular value decomposition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.exceptions import NonFiniteError
from anypca.linalg import nearest_orthonormal
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import Gram
from anypca.models.spca._regression import Counted, Regression, Restricted, kkt_distance
from anypca.solvers import Progress, Result, Status
from anypca.solvers.acceleration import Extrapolator

# A support that is left and entered again this often belongs to a round that has no end; alternations that settle
# rarely come back to one more than once or twice.
_MOST_VISITS = 8


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

    @property
    def sizes(self) -> Floats:
        """L1 norms of the columns of B (n_components,)."""
        return np.asarray(np.abs(self.pair.coefficients).sum(axis=0))


@dataclass(frozen=True)
class Alternation:
    """Minimises ``|X - X B A'|^2 + ridge |B|^2 + sum_j penalty_j |b_j|_1`` over orthonormal A, and B.

    With fixed penalties both steps are exact, so the criterion never increases. ``trace`` of the result holds
    its negative, which never decreases. With an infinite ridge the criterion is, up to a constant and a scale
    of B, ``-2 tr(A'G B) + |B|^2 + sum_j penalty_j |b_j|_1``.
    """

    gram: Gram
    regression: Regression
    scale: float
    """Largest eigenvalue of G: the unit of gradients."""
    session: FitContext
    """It has the limits of the fit and reports its progress."""

    @property
    def constant(self) -> float:
        """What the criterion holds besides the terms in A and B."""
        return 0.0 if self.regression.matrix is None else self.gram.trace

    def run(self, axes: Floats) -> Result[Pair]:
        """Iterate from A.

        Parameters
        ----------
        axes : ndarray of shape (n_features, n_components)

        Returns
        -------
        Result of Pair
        """
        state = self.first(axes)
        trace: list[float] = []
        accelerator = _Accelerator()
        status, max_iter = Status.MAX_ITER, self.session.max_iter
        for iteration in range(1, max_iter + 1):
            self.report(state, iteration)
            trace.append(state.objective)
            if state.criterion <= self.session.tol:
                status = Status.CONVERGED
                break
            if iteration < max_iter:
                state = self._extrapolate(accelerator, state) or self.next(state)
        return Result(state.pair, np.array(trace), status, state.criterion, len(trace))

    def first(self, axes: Floats) -> _State:
        """The first alternation from A."""
        return self._step(axes, self.gram.times(axes), None)

    def next(self, state: _State) -> _State:
        """The state after one more alternation."""
        return self._step(state.pair.axes, state.targets, state.pair.coefficients)

    def _extrapolate(self, accelerator: _Accelerator, state: _State) -> _State | None:
        """An alternation from where the last ones point to; ``None`` when it is no better, or not tried."""
        axes = accelerator.propose(state)
        if axes is None:
            return None
        trial = self._step(axes, self.gram.times(axes), state.pair.coefficients)
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
        image = self.gram.times(B)
        best = nearest_orthonormal(image)
        targets = self.gram.times(best)
        curved = self.regression.curved(B)
        distance = np.where(self.regression.free, kkt_distance(curved, targets, penalties, B), 0.0)
        value = self.constant - 2.0 * np.vdot(best, image) + np.vdot(B, curved) + penalties @ np.abs(B).sum(0)
        return _State(
            axes, Pair(best, B, penalties), targets, -float(value), float(distance.max()) / self.scale
        )

    def report(self, state: _State, iteration: int) -> None:
        """Tell the progress; raise if the objective is not finite."""
        if not np.isfinite(state.objective):
            raise NonFiniteError(
                f"the fit became non-finite ({state.objective}) at iteration {iteration}. Look for extreme values in "
                "X, or rescale its columns."
            )
        self.session.callback(Progress(iteration, self.session.max_iter, state.objective, state.criterion))


def run_counted(alternation: Alternation, regression: Counted, axes: Floats) -> Result[Pair]:
    """Alternate with given numbers of non-zero entries.

    A regression that meets a number has a new penalty in each alternation, so there is no one criterion that all
    of them lower, and they may go round between supports that are nearly as good. Then the supports of the best
    fit are kept, and the criterion without L1 penalty is minimised on them.

    Parameters
    ----------
    alternation : Alternation
        Its regression is not used.
    regression : Counted
    axes : ndarray of shape (n_features, n_components)
        A to start from.

    Returns
    -------
    Result of Pair
        Its trace is that of the last criterion; one entry where the alternations settled by themselves.
    """
    session = alternation.session
    counted = replace(alternation, regression=regression)
    state = best = counted.first(axes)
    visits: Counter[bytes] = Counter()
    support = b""
    for iteration in range(1, session.max_iter + 1):
        counted.report(state, iteration)
        if state.criterion <= session.tol:
            trace = np.array([state.objective])
            return Result(state.pair, trace, Status.CONVERGED, state.criterion, iteration)
        best = max(
            best,
            state,
            key=lambda candidate: candidate.pair.penalties @ candidate.sizes + candidate.objective,
        )
        last, support = support, np.packbits(state.pair.coefficients != 0).tobytes()
        visits[support] += support != last
        if visits[support] > _MOST_VISITS or iteration >= session.max_iter // 2:
            break
        state = counted.next(state)
    held = Restricted(regression.matrix, best.pair.coefficients != 0)
    rest = replace(session, max_iter=max(1, session.max_iter - iteration))
    result = replace(alternation, regression=held, session=rest).run(best.pair.axes)
    return replace(result, n_iter=iteration + result.n_iter)


class _Accelerator:
    """Extrapolates A while the signs of B stay: where they change, the map from A to the next A has a kink."""

    def __init__(self) -> None:
        self.method = Extrapolator()
        self._signs: Floats | None = None

    def propose(self, state: _State) -> Floats | None:
        """Orthonormal columns (n_features, n_components), or ``None`` for a plain step."""
        signs = np.sign(state.pair.coefficients)
        if self._signs is None or not np.array_equal(signs, self._signs):
            self.method, self._signs = Extrapolator(), signs
        before, after = state.before.ravel(), state.pair.axes.ravel()
        vector = self.method.propose(before, after, np.ones_like(before))
        return None if vector is None else nearest_orthonormal(vector.reshape(state.before.shape))
