"""What a fitted model says about rows: scores, densities, missing entries, new draws."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models.ppca._fit import Principal
from anypca.models.ppca._rows import find_patterns, find_posterior


def scores(block: Block, principal: Principal) -> tuple[Floats, Floats]:
    """Posterior means and standard deviations of the scores, (rows, n_components) in the block's dtype."""
    table = block.read()
    patterns = find_patterns(table.observed, block.n_rows)
    rows = find_posterior(table, principal.parameters, patterns)
    scale = np.sqrt(principal.signal)
    std = scale * np.sqrt(principal.noise * np.einsum("iaa->ia", rows.inverse))
    return (rows.mean * scale).astype(block.dtype), patterns.spread(std).astype(block.dtype)


def score_covariances(block: Block, principal: Principal) -> tuple[Floats | None, int]:
    """Posterior covariances (rows, k, k) of the scores, ``None`` for a complete block; and its row count."""
    table = block.read()
    if table.observed is None:
        return None, block.n_rows
    patterns = find_patterns(table.observed, block.n_rows)
    rows = find_posterior(table, principal.parameters, patterns)
    scale = np.sqrt(principal.signal)
    covariances = principal.noise * rows.inverse * scale[:, None] * scale
    return patterns.spread(covariances), block.n_rows


def log_density(block: Block, principal: Principal) -> Floats:
    """Marginal log density of the observed entries (rows,)."""
    table = block.read()
    patterns = find_patterns(table.observed, block.n_rows)
    return find_posterior(table, principal.parameters, patterns).log_likelihood


def fill(block: Block, principal: Principal, *, with_std: bool) -> tuple[Floats, Floats | None]:
    """The block with missing entries replaced by conditional means; their standard deviations or None."""
    table = block.read()
    if table.observed is None:
        return table.x, np.zeros_like(table.x) if with_std else None
    missing = ~table.observed
    patterns = find_patterns(table.observed, block.n_rows)
    parameters = principal.parameters
    rows = find_posterior(table, parameters, patterns)
    W = parameters.loadings
    table.x[missing] = (principal.mean + rows.mean @ W.T)[missing]
    if not with_std:
        return table.x, None
    explained = np.einsum("ja,iab,jb->ij", W, rows.inverse, W, optimize=True)
    std = np.sqrt(principal.noise * (1.0 + patterns.spread(explained)))
    return table.x, np.where(missing, std, 0.0).astype(block.dtype)


def reconstruct(scores: Floats, principal: Principal) -> Floats:
    """Rows with given scores, (n, n_features) from (n, n_components), in the scores' dtype."""
    return np.asarray(scores @ principal.components + principal.mean).astype(scores.dtype, copy=False)


def draw(principal: Principal, n_samples: int, rng: np.random.Generator) -> Floats:
    """Rows drawn from the model (n_samples, n_features)."""
    k, p = principal.components.shape
    drawn = rng.standard_normal((n_samples, k)) * np.sqrt(principal.signal)
    noise = rng.standard_normal((n_samples, p)) * np.sqrt(principal.noise)
    return np.asarray(principal.mean + drawn @ principal.components + noise)


def covariance(principal: Principal) -> Floats:
    """Covariance of the rows (n_features, n_features)."""
    U = principal.components
    return np.asarray((U.T * principal.signal) @ U + principal.noise * np.eye(U.shape[1]))


def precision(principal: Principal) -> Floats:
    """Inverse of `covariance`, by its eigenvalues (n_features, n_features)."""
    U = principal.components
    shrinkage = principal.signal / (principal.signal + principal.noise)
    return np.asarray((np.eye(U.shape[1]) - (U.T * shrinkage) @ U) / principal.noise)
