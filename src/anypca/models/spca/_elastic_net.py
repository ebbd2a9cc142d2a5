"""Sparse PCA by elastic-net regressions that alternate with a singular value decomposition."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from sklearn.linear_model import enet_path, lars_path_gram

from anypca._typing import Bools, Floats
from anypca.exceptions import ConvergenceWarning, NonFiniteError
from anypca.linalg import nearest_orthonormal
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import Gram
from anypca.solvers import Progress, Result, Status
from anypca.solvers.acceleration import Extrapolator

# A support that is left and entered again this often belongs to a cycle.
_MOST_VISITS = 8
# Violations of the optimality conditions below this share of the largest target count as rounding.
_KKT_ROUNDING = 1e-11
# Coordinate descent stops at this duality gap relative to the squares of the response; the exact solve on the support
# that follows makes up for the rest.
_GAP = 1e-10
# Ten times scikit-learn's limit: with collinear columns and a small ridge it converges slowly.
_MAX_CD_SWEEPS = 10_000

#: Coefficients b (p,) of a component and the L1 penalty that they solve its regression for, from its number, its target
#: c = G a (p,), the squared length a'G a of the response, and coefficients to start from or ``None``.
Regression = Callable[[int, Floats, float, Floats | None], tuple[Floats, float]]


class State(NamedTuple):
    """An alternation."""

    before: Floats
    """The A that B was computed for."""
    axes: Floats
    """A, orthonormal columns (n_features, n_components)."""
    coefficients: Floats
    """B, sparse columns (n_features, n_components)."""
    penalties: Floats
    """L1 penalties that B solves its regressions for (n_components,)."""
    targets: Floats
    """G A."""
    objective: float
    criterion: float


@dataclass(frozen=True)
class Alternation:
    """Minimises ``|X - X B A'|^2 + ridge |B|^2 + sum_j penalty_j |b_j|_1`` over orthonormal A, and B.

    With fixed penalties both steps are exact, so the criterion never increases. ``trace`` of the result holds
    its negative, which never decreases. With an infinite ridge the criterion is, up to a constant and a scale
    of B, ``-2 tr(A'G B) + |B|^2 + sum_j penalty_j |b_j|_1``.
    """

    gram: Gram
    matrix: Floats | None
    """H = G + ridge I, (n_features, n_features), C-contiguous; ``None`` for the identity of an infinite ridge."""
    solve: Regression
    scale: float
    """Largest eigenvalue of G: the unit of gradients."""
    session: FitContext
    """It has the limits of the fit and reports its progress."""
    free: Bools | bool = True
    """Entries of B that may differ from 0, (n_features, n_components); True for all."""

    def run(self, axes: Floats) -> Result[State]:
        """Iterate from A (n_features, n_components), extrapolating while the signs of B stay."""
        state = self.step(axes, self.gram.times(axes), None)
        method, signs = Extrapolator(), np.sign(state.coefficients)
        trace: list[float] = []
        for iteration in range(1, self.session.max_iter + 1):
            self.report(state, iteration)
            trace.append(state.objective)
            if state.criterion <= self.session.tol or iteration == self.session.max_iter:
                break
            # The map from A to the next A has a kink where signs change.
            if not np.array_equal(signs, np.sign(state.coefficients)):
                method, signs = Extrapolator(), np.sign(state.coefficients)
            state = self._extrapolate(method, state) or self.next(state)
        status = Status.CONVERGED if state.criterion <= self.session.tol else Status.MAX_ITER
        return Result(state, np.array(trace), status, state.criterion, len(trace))

    def next(self, state: State) -> State:
        """The state after one more alternation."""
        return self.step(state.axes, state.targets, state.coefficients)

    def _extrapolate(self, method: Extrapolator, state: State) -> State | None:
        """An alternation from an extrapolated A; ``None`` if it is no better, or not tried."""
        vector = method.propose(state.before.ravel(), state.axes.ravel(), np.ones(state.axes.size))
        if vector is None:
            return None
        axes = nearest_orthonormal(vector.reshape(state.axes.shape))
        trial = self.step(axes, self.gram.times(axes), state.coefficients)
        is_better = bool(trial.objective > state.objective)
        method.judge(accepted=is_better)
        return trial if is_better else None

    def step(self, axes: Floats, targets: Floats, start: Floats | None) -> State:
        """New B for A and ``targets`` = G A, then the best A for it, with the gradient in B at the new A."""
        squares = np.maximum(np.einsum("ij,ij->j", axes, targets), 0.0)
        starts = [None] * len(squares) if start is None else list(start.T)
        fits = [self.solve(j, targets[:, j], float(squares[j]), starts[j]) for j in range(len(squares))]
        B, penalties = np.column_stack([b for b, _ in fits]), np.array([penalty for _, penalty in fits])
        image = self.gram.times(B)
        best = nearest_orthonormal(image)
        targets = self.gram.times(best)
        curved = B if self.matrix is None else self.matrix @ B
        distance = np.where(self.free, kkt_distance(curved, targets, penalties, B), 0.0)
        value = np.vdot(B, curved) - 2.0 * np.vdot(best, image) + penalties @ np.abs(B).sum(axis=0)
        objective = -float(value) - (0.0 if self.matrix is None else self.gram.trace)
        return State(axes, best, B, penalties, targets, objective, float(distance.max()) / self.scale)

    def report(self, state: State, iteration: int) -> None:
        """Report the progress; raise if the objective is not finite."""
        if not np.isfinite(state.objective):
            raise NonFiniteError(
                f"the fit became non-finite ({state.objective}) at iteration {iteration}. Look for extreme values in "
                "X, or rescale its columns."
            )
        self.session.callback(Progress(iteration, self.session.max_iter, state.objective, state.criterion))


def run_counted(alternation: Alternation, axes: Floats) -> Result[State]:
    """Alternate from A with given numbers of non-zero entries.

    A regression that meets a number has a new penalty in each alternation, so there is no one criterion that all
    of them lower, and they may cycle between supports that are nearly as good. Then the supports of the best fit are
    kept, and the criterion without L1 penalty is minimised on them; the trace is of this last criterion.
    """
    session = alternation.session
    state = best = alternation.step(axes, alternation.gram.times(axes), None)
    visits: Counter[bytes] = Counter()
    support = b""
    for iteration in range(1, session.max_iter + 1):
        alternation.report(state, iteration)
        if state.criterion <= session.tol:
            trace = np.array([state.objective])
            return Result(state, trace, Status.CONVERGED, state.criterion, iteration)
        best = max(best, state, key=_without_penalty)
        last, support = support, np.packbits(state.coefficients != 0).tobytes()
        visits[support] += support != last
        if visits[support] > _MOST_VISITS or iteration >= session.max_iter // 2:
            break
        state = alternation.next(state)
    free, rest = best.coefficients != 0, max(1, session.max_iter - iteration)
    held = replace(alternation, solve=restricted(alternation.matrix, free), free=free)
    result = replace(held, session=replace(session, max_iter=rest)).run(best.axes)
    return replace(result, n_iter=iteration + result.n_iter)


def _without_penalty(state: State) -> float:
    """The objective without L1 penalties."""
    return state.objective + float(state.penalties @ np.abs(state.coefficients).sum(axis=0))


def penalised(matrix: Floats | None, penalties: Sequence[float]) -> Regression:
    """Regressions with given L1 penalties."""

    def solve(component: int, target: Floats, square: float, start: Floats | None) -> tuple[Floats, float]:
        penalty = penalties[component]
        if matrix is None:
            return soft_threshold(target, 0.5 * penalty), penalty
        return solve_elastic_net(matrix, target, penalty, square, start), penalty

    return solve


def counted(matrix: Floats | None, counts: Sequence[int]) -> Regression:
    """Regressions with given numbers of non-zero entries, whatever penalties lead to them."""

    def solve(component: int, target: Floats, square: float, start: Floats | None) -> tuple[Floats, float]:
        count = counts[component]
        if matrix is not None:
            return follow_path(matrix, target, count)
        sizes = np.abs(target)
        level = float(np.partition(sizes, -count - 1)[-count - 1]) if count < len(sizes) else 0.0
        return soft_threshold(target, level), 2.0 * level

    return solve


def restricted(matrix: Floats | None, support: Bools) -> Regression:
    """Regressions on given supports (n_features, n_components), without L1 penalty."""

    def solve(component: int, target: Floats, square: float, start: Floats | None) -> tuple[Floats, float]:
        kept = np.flatnonzero(support[:, component])
        b = np.zeros(len(target))
        b[kept] = target[kept]
        if matrix is not None:
            b[kept] = scipy.linalg.lstsq(matrix[np.ix_(kept, kept)], b[kept], check_finite=False)[0]
        return b, 0.0

    return solve


def soft_threshold(values: Floats, level: float) -> Floats:
    """Values moved towards 0 by ``level``; exactly 0 where they are smaller."""
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - level, 0.0))


def solve_elastic_net(
    matrix: Floats, target: Floats, penalty: float, square: float, start: Floats | None
) -> Floats:
    """Minimiser of ``b'H b - 2 c'b + penalty |b|_1``: coordinate descent and an exact solve on the support.

    The support and signs of ``start`` are tried first: late in an alternation they do not change any more, and one
    small linear system is the whole work. H is positive semi-definite (m, m), ``square`` the squared length of the
    response.
    """
    if 0.5 * penalty >= np.abs(target).max(initial=0.0):
        return np.zeros(len(target))
    guess = np.ones(len(target)) if penalty == 0 and start is None else start
    exact = None if guess is None else solve_on_support(matrix, target, penalty, guess)
    if exact is not None:
        return exact
    rough = _descend(matrix, target, penalty, square, start)
    exact = solve_on_support(matrix, target, penalty, rough)
    return rough if exact is None else exact


def solve_on_support(matrix: Floats, target: Floats, penalty: float, guess: Floats) -> Floats | None:
    """The minimiser of the elastic net if it has the support and signs of ``guess`` (m,); else ``None``."""
    support = np.flatnonzero(guess)
    if not len(support):
        return None
    signs = np.sign(guess[support]) if penalty > 0 else np.zeros(len(support))
    try:
        factor = scipy.linalg.cho_factor(matrix[np.ix_(support, support)], check_finite=False)
    except scipy.linalg.LinAlgError:  # collinear columns without enough ridge
        return None
    b = np.zeros(len(target))
    b[support] = scipy.linalg.cho_solve(factor, target[support] - 0.5 * penalty * signs, check_finite=False)
    slack = _KKT_ROUNDING * np.abs(target).max()
    keeps_signs = penalty == 0 or bool(np.all(np.sign(b[support]) == signs))
    return b if keeps_signs and kkt_distance(matrix @ b, target, penalty, b).max() <= slack else None


def kkt_distance(curved: Floats, target: Floats, penalty: Floats | float, b: Floats) -> Floats:
    """Distance of 0 from the subdifferential of half the problem, entry by entry, given ``curved`` = H b."""
    slope, half = curved - target, 0.5 * penalty
    inside = np.abs(slope + half * np.sign(b))
    return np.where(b != 0, inside, np.maximum(np.abs(slope) - half, 0.0))


def _descend(matrix: Floats, target: Floats, penalty: float, square: float, start: Floats | None) -> Floats:
    """The solution by scikit-learn's coordinate descent.

    Given the matrix, the target and the length of the response, it uses only the shapes of X and y.
    """
    with warnings.catch_warnings():
        # Whether the alternation ends at a stationary point is measured there, on all components at once.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, path, _ = enet_path(
            np.zeros((1, len(target)), order="F"),
            np.array([np.sqrt(square)]),
            l1_ratio=1.0,
            alphas=np.array([0.5 * penalty]),
            precompute=matrix,
            Xy=np.ascontiguousarray(target),
            coef_init=None if start is None else start.copy(),
            check_input=False,
            tol=_GAP,
            max_iter=_MAX_CD_SWEEPS,
        )
    return np.asarray(path[:, 0])


def follow_path(matrix: Floats, target: Floats, count: int) -> tuple[Floats, float]:
    """The end of the piece of the LARS path (lasso form) with ``count`` non-zero entries, and its L1 penalty.

    There are fewer only if the path ends before. H (m, m) and c (m,) as for `solve_elastic_net`.
    """
    scale = float(np.diag(matrix).max(initial=0.0))
    if scale == 0 or not target.any():
        return np.zeros(len(target)), 0.0
    n_steps = count
    while True:
        with warnings.catch_warnings():
            # Collinear columns: LARS drops one of them, which is what a sparse component wants.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Scaled because LARS compares pivots with absolute thresholds.
            levels, _, path = lars_path_gram(
                target / scale, matrix / scale, n_samples=1, max_iter=n_steps, method="lasso"
            )
        sizes = np.count_nonzero(path, axis=0)
        if sizes.max() >= count or len(levels) <= n_steps or levels[-1] <= 0.0:
            break
        n_steps *= 2  # entries left the path on the way
    reached = np.flatnonzero(sizes == count)
    index = int(reached[0]) if len(reached) else len(sizes) - 1
    b, penalty = np.asarray(path[:, index]), 2.0 * scale * float(levels[index])
    # The last step of LARS may stop short of its level if it has dropped a column.
    exact = solve_on_support(matrix, target, penalty, b)
    return b if exact is None else exact, penalty
