r"""Simple Poisson PCA as it was probably run for the printed table 3: by an optimiser that stops after 100 iterations.

The paper's steps, to the letter: start from loadings and scores of ``prcomp`` (the table centred, the loadings of unit
length), ``alpha = 1`` and D - 1 components; maximise

.. math:: P = \sum_{ij} (x_{ij} \eta_{ij} - e^{\eta_{ij}}) - \tfrac12 \|Z\|^2 - \tfrac12 \sum_k \alpha_k \|w_k\|^2,
          \qquad \eta = Z W^\top,

over both by a quasi-Newton method; set ``alpha_k = D / ||w_k||^2``; remove the component of the largest alpha if it
reaches M; and again. R's ``optim`` ends a run after 100 iterations unless told otherwise, which the paper does not say
to have done; here it is L-BFGS, since the dense matrix of BFGS has millions of entries. The package's
``SPPCA(method="paper")`` maximises the same P, each time to its mode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

# R's default for ``optim``, and the paper's M, which is 500 in the first ten rounds.
MAX_ITERATIONS = 100
THRESHOLD, EARLY_THRESHOLD, EARLY_ROUNDS = 100.0, 500.0, 10
# The paper's epsilon, of which it only says that it is small. On four tables for each n the answers were about the same
# from 1e-3 to 1e-5; with 1e-8 there are so many rounds that their iterations lead to the mode all the same.
TOLERANCE = 1e-4
# So that rounds end at all; the tables of this study take up to 60.
MAX_ROUNDS = 200


class State(NamedTuple):
    """Scores (n, k), loadings (D, k) and relevance (k,)."""

    scores: np.ndarray
    loadings: np.ndarray
    alpha: np.ndarray


def value_and_gradient(state: State, X: np.ndarray) -> tuple[float, np.ndarray]:
    """P and its gradient in scores, then loadings, as one vector; P is minus infinity where a mean overflows."""
    Z, W, alpha = state
    eta = Z @ W.T
    with np.errstate(over="ignore"):
        mean = np.exp(eta)
    if not np.isfinite(mean).all():
        return -np.inf, np.zeros(Z.size + W.size)
    value = (X * eta - mean).sum() - 0.5 * (Z**2).sum() - 0.5 * (alpha * W**2).sum()
    residual = X - mean
    gradient = np.concatenate([(residual @ W - Z).ravel(), (residual.T @ Z - alpha * W).ravel()])
    return float(value), gradient


def n_components(X: np.ndarray, *, max_iterations: int = MAX_ITERATIONS, tol: float = TOLERANCE) -> int:
    """Number of components that are left.

    Parameters
    ----------
    X : ndarray of shape (n, D)
    max_iterations : int, default=100
        Of the optimiser in a round.

    Returns
    -------
    int
    """
    state, before = _start(X), np.inf
    for number in range(MAX_ROUNDS):
        state, value = _maximise(state, X, max_iterations)
        state = state._replace(alpha=_relevance(state.loadings))
        kept = _kept(state.alpha, THRESHOLD if number >= EARLY_ROUNDS else EARLY_THRESHOLD)
        stands = len(kept) == len(state.alpha) and abs(value - before) < tol * abs(before)
        if stands:
            break
        state = State(state.scores[:, kept], state.loadings[:, kept], state.alpha[kept])
        before = value
    return len(state.alpha)


def _start(X: np.ndarray) -> State:
    """Scores and loadings of the centred table, all relevances 1."""
    k = min(X.shape[1] - 1, len(X))
    left, sizes, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return State(left[:, :k] * sizes[:k], right[:k].T, np.ones(k))


def _maximise(state: State, X: np.ndarray, max_iterations: int) -> tuple[State, float]:
    """What the optimiser has reached when it stops, and P there."""
    n, k = state.scores.shape

    def unpack(vector: np.ndarray) -> State:
        return State(vector[: n * k].reshape(n, k), vector[n * k :].reshape(-1, k), state.alpha)

    def minus(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(unpack(vector), X)
        return -value, -gradient

    start = np.concatenate([state.scores.ravel(), state.loadings.ravel()])
    found = minimize(minus, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iterations})
    return unpack(found.x), -float(found.fun)


def _relevance(loadings: np.ndarray) -> np.ndarray:
    """``D / ||w||^2``, of which a component without loadings has more than any other."""
    return len(loadings) / np.maximum((loadings**2).sum(axis=0), np.finfo(float).tiny)


def _kept(alpha: np.ndarray, threshold: float) -> np.ndarray:
    """Components in the order of their relevance, without the last if it reaches the threshold."""
    order = np.argsort(alpha, kind="stable")
    return order[:-1] if len(order) and alpha[order[-1]] >= threshold else order
