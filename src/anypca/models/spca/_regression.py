"""Sparse regressions of one component: minimise ``b'H b - 2 c'b + penalty |b|_1``.

In elastic-net form H = G + ridge I and c = G a, the least squares fit of the score X a by X b. The limit of an
infinite ridge, after rescaling b, is H = I: soft thresholding.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from sklearn.linear_model import enet_path, lars_path_gram

from anypca._typing import Bools, Floats
from anypca.exceptions import ConvergenceWarning
from anypca.models.spca._path import walk_path

# Violations of the optimality conditions below this share of the largest target count as rounding.
_KKT_ROUNDING = 1e-11
# Coordinate descent stops at this duality gap relative to the squares of the response. The exact solve on the
# support that follows makes up for the rest.
_GAP = 1e-10
# Ten times scikit-learn's limit: with collinear columns and a small ridge it converges slowly.
_MAX_CD_SWEEPS = 10_000


class Fit(NamedTuple):
    """A sparse regression."""

    coefficients: Floats
    """b, (n_features,), with exact zeros."""
    penalty: float
    """The L1 penalty that it solves the problem for."""


@dataclass(frozen=True)
class Regression(ABC):
    """How the coefficients of a component are found."""

    matrix: Floats | None
    """H = G + ridge I, (n_features, n_features), C-contiguous; ``None`` for the identity of an infinite ridge."""

    @abstractmethod
    def fit(self, component: int, target: Floats, square: float, start: Floats | None) -> Fit:
        """Coefficients of one component.

        Parameters
        ----------
        component : int
            Its number.
        target : ndarray of shape (n_features,)
            c = G a.
        square : float
            a' G a, the squared length of the response.
        start : ndarray of shape (n_features,) or None
            Coefficients to start from.
        """

    def curved(self, coefficients: Floats) -> Floats:
        """``H @ coefficients``, (n_features, m)."""
        return coefficients if self.matrix is None else np.asarray(self.matrix @ coefficients)

    @property
    def free(self) -> Bools | bool:
        """Entries that may differ from 0, (n_features, n_components); True for all."""
        return True


@dataclass(frozen=True)
class Penalised(Regression):
    """Given L1 penalties: by coordinate descent from warm starts and an exact solve on the support."""

    penalties: Sequence[float]

    def fit(self, component: int, target: Floats, square: float, start: Floats | None) -> Fit:
        penalty = self.penalties[component]
        if self.matrix is None:
            return Fit(soft_threshold(target, 0.5 * penalty), penalty)
        return Fit(solve_elastic_net(self.matrix, target, penalty, square, start), penalty)


@dataclass(frozen=True)
class Counted(Regression):
    """Given numbers of non-zero entries, whatever penalties lead to them: on the path of the penalties."""

    counts: Sequence[int]

    def fit(self, component: int, target: Floats, square: float, start: Floats | None) -> Fit:
        count = self.counts[component]
        if self.matrix is not None:
            return solve_counted(self.matrix, target, count, start)
        sizes = np.abs(target)
        level = float(np.partition(sizes, -count - 1)[-count - 1]) if count < len(sizes) else 0.0
        return Fit(soft_threshold(target, level), 2.0 * level)


@dataclass(frozen=True)
class Restricted(Regression):
    """Given supports, no L1 penalty."""

    support: Bools

    @property
    def free(self) -> Bools:
        return self.support

    def fit(self, component: int, target: Floats, square: float, start: Floats | None) -> Fit:
        kept = np.flatnonzero(self.support[:, component])
        b = np.zeros(len(target))
        b[kept] = target[kept]
        if self.matrix is not None:
            b[kept] = scipy.linalg.lstsq(self.matrix[np.ix_(kept, kept)], b[kept], check_finite=False)[0]
        return Fit(b, 0.0)


def soft_threshold(values: Floats, level: float) -> Floats:
    """Values moved towards 0 by ``level``; exactly 0 where they are smaller."""
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - level, 0.0))


def solve_elastic_net(
    matrix: Floats, target: Floats, penalty: float, square: float, start: Floats | None
) -> Floats:
    """Minimiser of ``b'H b - 2 c'b + penalty |b|_1``.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        H, positive semi-definite.
    target : ndarray of shape (m,)
        c.
    penalty : float
    square : float
        Squared length of the response that c comes from.
    start : ndarray of shape (m,) or None
        Its support and signs are tried first: late in an alternation they do not change any more, and one
        small linear system is the whole work.

    Returns
    -------
    ndarray of shape (m,)
    """
    if 0.5 * penalty >= np.abs(target).max(initial=0.0):
        return np.zeros(len(target))
    guess = np.ones(len(target)) if penalty == 0 and start is None else start
    if guess is not None:
        exact = solve_on_support(matrix, target, penalty, guess)
        if exact is not None:
            return exact
    rough = _descend(matrix, target, penalty, square, start)
    exact = solve_on_support(matrix, target, penalty, rough)
    return rough if exact is None else exact


def solve_on_support(matrix: Floats, target: Floats, penalty: float, guess: Floats) -> Floats | None:
    """The minimiser, if its support and signs are those of ``guess``; else ``None``.

    Parameters
    ----------
    matrix, target, penalty
        As for `solve_elastic_net`.
    guess : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (m,) or None
    """
    support = np.flatnonzero(guess)
    if not len(support):
        return None
    signs = np.sign(guess[support]) if penalty > 0 else np.zeros(len(support))
    right = target[support] - 0.5 * penalty * signs
    try:
        factor = scipy.linalg.cho_factor(matrix[np.ix_(support, support)], check_finite=False)
    except scipy.linalg.LinAlgError:  # collinear columns without enough ridge
        return None
    b = np.zeros(len(target))
    b[support] = scipy.linalg.cho_solve(factor, right, check_finite=False)
    slack = _KKT_ROUNDING * np.abs(target).max()
    keeps_signs = penalty == 0 or bool(np.all(np.sign(b[support]) == signs))
    return b if keeps_signs and kkt_distance(matrix @ b, target, penalty, b).max() <= slack else None


def kkt_distance(curved: Floats, target: Floats, penalty: Floats | float, b: Floats) -> Floats:
    """How far 0 is from the subdifferential of half the problem, entry by entry.

    Parameters
    ----------
    curved : ndarray
        H b.
    target : ndarray
        c.
    penalty : float or ndarray
        Must broadcast against b.
    b : ndarray

    Returns
    -------
    ndarray
        In the shape of b.
    """
    slope = curved - target
    half = 0.5 * penalty
    inside = np.abs(slope + half * np.sign(b))
    return np.where(b != 0, inside, np.maximum(np.abs(slope) - half, 0.0))


def _descend(matrix: Floats, target: Floats, penalty: float, square: float, start: Floats | None) -> Floats:
    """The solution by scikit-learn's coordinate descent.

    With the matrix, the target and the length of the response given, it takes from X and y no more than
    shapes; the tests compare with a run on real rows.
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


def solve_counted(matrix: Floats, target: Floats, count: int, start: Floats | None) -> Fit:
    """The end of a piece of the path on which ``count`` entries differ from 0.

    Parameters
    ----------
    matrix, target
        As for `solve_elastic_net`.
    count : int
    start : ndarray of shape (m,) or None
        If the path has a piece with its support and signs, this is the one; else the first, as LARS finds it.

    Returns
    -------
    Fit
        With fewer non-zero entries only where the path ends before.
    """
    found = walk_path(matrix, target, count, start) if target.any() else None
    return follow_path(matrix, target, count) if found is None else Fit(found[0], 2.0 * found[1])


def follow_path(matrix: Floats, target: Floats, count: int) -> Fit:
    """The end of the piece of the LARS path (lasso form) on which ``count`` entries differ from 0.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    target : ndarray of shape (m,)
    count : int

    Returns
    -------
    Fit
        With fewer non-zero entries only where the path ends before.
    """
    scale = float(np.diag(matrix).max(initial=0.0))
    if scale == 0 or not target.any():
        return Fit(np.zeros(len(target)), 0.0)
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
        is_whole = len(levels) <= n_steps or levels[-1] <= 0.0
        if sizes.max() >= count or is_whole:
            break
        n_steps *= 2  # entries left the path on the way
    reached = np.flatnonzero(sizes == count)
    index = int(reached[0]) if len(reached) else len(sizes) - 1
    b, penalty = np.asarray(path[:, index]), 2.0 * scale * float(levels[index])
    # The last step of LARS stops short of the level that it tells where it has dropped a column.
    exact = None if len(reached) else solve_on_support(matrix, target, penalty, b)
    return Fit(b if exact is None else exact, penalty)
