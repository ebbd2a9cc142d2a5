r"""Exact block descent for structured sparse PCA.

Minimise over scores U (n, d) and loadings V (p, d), whose columns are split into groups g,

.. math:: f = \frac{1}{2 n p} \|X - U V^\top\|^2 + \lambda \sum_g \Omega(V_g), \qquad
          \Omega(V_g) = \Big(\sum_j \|V_{jg}\|^a\Big)^{1/a}

subject to :math:`\|U_g\|_F^2 \le d_g` (``ball``) or :math:`U_g^\top U_g = I` (``orthogonal``). Every column of U is a
combination of columns of X, U = X A: rows enter only through products with G = X'X, and A (p, d) replaces U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from anypca._typing import Bools, Floats, Ints
from anypca.linalg import symmetric_power
from anypca.priors import Group

# Rows below this share of the longest one, or of a column of mean length, may be set to zero under the quasi-norm: its
# reweighting approaches zero and never reaches it. They are only where that does not raise the objective, so that the
# value decides how soon, not which.
_SMALLEST_ROW = 1e-4
# At the largest penalty loadings vanish in exact arithmetic; with this margin, far above rounding, in any.
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class Design:
    """What is minimised."""

    times: Callable[[Floats], Floats]
    """``G @ columns`` for G = X'X, (p, m) from (p, m)."""
    trace: float
    """Of G."""
    n_rows: float
    groups: Sequence[Ints]
    """Components of each group; together all of them."""
    constraint: str = "ball"
    """Or ``"orthogonal"``."""
    exponent: float = 1.0
    """a, in (0, 1]."""

    @cached_property
    def others(self) -> list[Ints]:
        """Components outside of each group."""
        everything = np.concatenate(self.groups)
        return [np.setdiff1d(everything, group) for group in self.groups]

    def price(self, penalty: float, n_features: int) -> float:
        """c = n p lambda."""
        return self.n_rows * n_features * penalty


@dataclass(frozen=True, eq=False)
class State:
    """A point."""

    weights: Floats
    """A, with U = X A, shape (p, d)."""
    image: Floats
    """G A, shape (p, d)."""
    loadings: Floats
    """V, shape (p, d)."""

    @property
    def gram(self) -> Floats:
        """U'U, shape (d, d)."""
        gram = self.weights.T @ self.image
        return np.asarray(0.5 * (gram + gram.T))

    @property
    def support(self) -> Bools:
        """Variables with loadings in some group, (p,)."""
        return np.asarray(self.loadings.any(axis=1))


@dataclass(frozen=True)
class Limits:
    """When a descent ends."""

    max_iter: int
    tol: float
    """On the relative change of the loadings in a sweep: both steps being exact minima over their block, loadings that
    do not change are stationary."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    state: State
    trace: Floats
    """f after each sweep, never increasing, (n_iter,)."""
    change: float
    """Of the loadings in the last sweep, relative to their size."""


def objective(design: Design, state: State, penalty: float) -> float:
    """f at a point."""
    V, p = state.loadings, len(state.loadings)
    distance = design.trace - 2.0 * np.vdot(V, state.image) + np.vdot(V.T @ V, state.gram)
    sizes = [_size(np.linalg.norm(V[:, group], axis=1), design.exponent) for group in design.groups]
    return float(0.5 * distance / (design.n_rows * p) + penalty * sum(sizes))


def largest_penalty(design: Design, column_norms: Floats) -> float:
    """A penalty from which on all loadings are zero; for a = 1 the smallest one."""
    widest = max(len(group) for group in design.groups) if design.constraint == "ball" else 1
    return (1.0 + _MARGIN) * float(np.sqrt(widest) * column_norms.max() / (design.n_rows * len(column_norms)))


def descend(
    design: Design,
    state: State,
    penalty: float,
    limits: Limits,
    *,
    supports: Sequence[Bools] | None = None,
    report: Callable[[int, float, float], None] | None = None,
) -> Descent:
    """Alternate over loadings and scores of all groups until the loadings converge.

    Parameters
    ----------
    design : Design
    state : State
    penalty : float
        lambda.
    limits : Limits
    supports : sequence of ndarray of bool of shape (p,) or None
        Of each group, its rows that may differ from zero; all by default.
    report : callable or None
        Called with iteration, objective and change.

    Returns
    -------
    Descent
    """
    trace, change = [], np.inf
    for iteration in range(1, limits.max_iter + 1):
        before = state.loadings
        for number in range(len(design.groups)):
            state = _step_loadings(design, state, number, penalty, supports)
            state = _step_scores(design, state, number)
        trace.append(objective(design, state, penalty))
        size = float(np.linalg.norm(state.loadings))
        change = float(np.linalg.norm(state.loadings - before)) / size if size > 0 else 0.0
        if report is not None:
            report(iteration, trace[-1], change)
        if change <= limits.tol:
            break
    return Descent(state, np.array(trace), change)


def _step_loadings(
    design: Design, state: State, number: int, penalty: float, supports: Sequence[Bools] | None
) -> State:
    """The best loadings of a group given everything else."""
    V, gram = state.loadings, state.gram
    group, others = design.groups[number], design.others[number]
    target = state.image[:, group] - V[:, others] @ gram[np.ix_(others, group)]
    own, price = gram[np.ix_(group, group)], design.price(penalty, len(V))
    if design.exponent < 1.0:
        shortest = _SMALLEST_ROW * float(np.sqrt(design.trace / len(V)))
        new = _reweighted(target, own, V[:, group], price, design.exponent, shortest)
    else:
        new = shrink_rows(target, own, price)
    loadings = V.copy()
    loadings[:, group] = new if supports is None else np.where(supports[number][:, None], new, 0.0)
    return replace(state, loadings=loadings)


def _reweighted(
    target: Floats, gram: Floats, current: Floats, price: float, exponent: float, shortest: float
) -> Floats:
    """Rows of the quadratic majoriser of the quasi-norm at the current loadings.

    ``(gram + price / eta_j) v_j = target_j`` with ``eta_j = |v_j|^(2 - a) Omega^(a - 1)`` at the current rows: f does
    not rise. Rows of length 0 stay, and those below ``shortest`` may become so.
    """
    lengths = np.linalg.norm(current, axis=1)
    found = np.zeros_like(target)
    used = np.flatnonzero(lengths)
    if not len(used):
        return found
    factor = price * _size(lengths, exponent) ** (1.0 - exponent)
    with np.errstate(over="ignore"):  # a row that is nearly zero has an infinite ridge, and vanishes
        ridge = factor * lengths[used] ** (exponent - 2.0)
    b, v = target[used], current[used]
    values, basis = directions(gram)
    found[used] = ((b @ basis) / (values + ridge[:, None])) @ basis.T
    worth = 0.5 * np.einsum("jk,kl,jl->j", v, gram, v) - (b * v).sum(axis=1)
    worth += 0.5 * factor * lengths[used] ** exponent
    is_small = lengths[used] < max(_SMALLEST_ROW * lengths.max(), shortest)
    found[used[is_small & (worth >= 0.0)]] = 0.0
    return found


def _size(lengths: Floats, exponent: float) -> float:
    """``(sum_j lengths_j^a)^(1/a)``."""
    return float((lengths**exponent).sum() ** (1.0 / exponent))


def _step_scores(design: Design, state: State, number: int) -> State:
    """The best scores of a group given everything else; they stay while the group has no loadings."""
    V, A = state.loadings, state.weights
    group, others = design.groups[number], design.others[number]
    own = V[:, group]
    if not own.any():
        return state
    # R_g V_g = X C: what the other groups leave, projected on the loadings of this one.
    C = own - A[:, others] @ (V[:, others].T @ own)
    image = design.times(C)
    inner = C.T @ image
    if design.constraint == "orthogonal":
        change = symmetric_power(0.5 * (inner + inner.T), -0.5)
    else:
        change = bounded_inverse(own.T @ own, inner, float(len(group)))
    weights, images = A.copy(), state.image.copy()
    weights[:, group], images[:, group] = C @ change, image @ change
    return replace(state, weights=weights, image=images)


# Eigenvalues below this share of the largest are rounding: the direction is not there.
_NEGLIGIBLE = 1e-14
# The smallest relative tolerance of a root.
_STEP = 4.0 * np.finfo(float).eps


def directions(gram: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (m,) and eigenvectors (k, m) of a Gram matrix, without directions that it has not."""
    values, basis = np.linalg.eigh(gram)
    used = values > _NEGLIGIBLE * max(float(values[-1]), 0.0)
    return values[used], basis[:, used]


def shrink_rows(target: Floats, gram: Floats, price: float) -> Floats:
    """Rows that minimise ``v' gram v / 2 - target' v + price |v|``, each exactly, shape (p, k).

    A row is zero if its target is not longer than the price; see `anypca.priors.Group`.
    """
    values, basis = directions(gram)
    b = target @ basis  # a direction without scores has no target either
    return np.asarray(Group(price).shrink(np.broadcast_to(values, b.shape), b) @ basis.T)


def bounded_inverse(gram: Floats, inner: Floats, bound: float) -> Floats:
    """``(gram + mu I)^-1`` with the smallest mu >= 0 such that the squared norm of the scores is at most ``bound``.

    ``inner`` is the Gram matrix of what the inverse is applied to. Directions that ``gram`` has not are left out.
    """
    values, basis = directions(gram)
    squares = np.maximum(np.einsum("ka,kl,la->a", basis, inner, basis), 0.0)
    mu = 0.0

    def excess(mu: float) -> float:
        return float(((np.sqrt(squares) / (values + mu)) ** 2).sum()) - bound

    if excess(0.0) > 0.0:
        # Without the eigenvalues the root would be larger.
        above = 2.0 * float(np.sqrt(squares.sum() / bound))
        mu = float(brentq(excess, 0.0, above, xtol=np.finfo(float).tiny, rtol=_STEP))
    return np.asarray((basis / (values + mu)) @ basis.T)
