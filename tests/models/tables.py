"""Tables that several test files draw: real numbers, counts, and components of few columns."""

from __future__ import annotations

from typing import Any

import numpy as np


def punch(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return a copy with a share of the entries missing, at least one entry left in each row and column."""
    missing = rng.random(X.shape) < share
    rows = np.arange(len(X))
    missing[rows, rows % X.shape[1]] = False
    return np.where(missing, np.nan, X)


def draw_real(
    rng: np.random.Generator, n: int = 90, p: int = 10, scales: tuple[float, ...] = (6.0, 3.5, 2.0)
) -> np.ndarray:
    """Draw rows of well separated components, unequal means and noise of variance 1/4."""
    axes = np.linalg.qr(rng.standard_normal((p, len(scales))))[0]
    scores = rng.standard_normal((n, len(scales))) * scales
    return scores @ axes.T + 0.5 * rng.standard_normal((n, p)) + rng.uniform(-5, 5, p)


def column_shares(pca: Any, X: np.ndarray) -> np.ndarray:
    """Return the shares of the columns' variances that components of PCA explain, (n_features, n_components)."""
    return np.asarray(pca.components_.T**2 * pca.explained_variance_ / X.var(axis=0, ddof=1)[:, None])


def sorted_by_share(pca: Any, X: np.ndarray) -> Any:
    """Return a PCA with its components in decreasing order of the mean of these shares."""
    order = np.argsort(-column_shares(pca, X).mean(axis=0))
    pca.components_ = pca.components_[order]
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_"):
        setattr(pca, name, getattr(pca, name)[order])
    return pca


def draw_eta(rng: np.random.Generator, n: int = 80, p: int = 8) -> np.ndarray:
    """Draw linear predictors of two well separated components."""
    axes = np.linalg.qr(rng.standard_normal((p, 2)))[0]
    scores = rng.standard_normal((n, 2))
    scores -= scores.mean(axis=0)
    return 1.0 + np.linalg.qr(scores)[0] @ np.diag([2.4, 1.2]) @ axes.T * np.sqrt(n)


def draw_counts(rng: np.random.Generator, n: int = 80, p: int = 8) -> np.ndarray:
    """Draw counts of two well separated components."""
    return rng.poisson(np.exp(draw_eta(rng, n, p))).astype(float)


def draw_active(
    rng: np.random.Generator, n: int = 60, p: int = 16, q: int = 8, noise: float = 0.3
) -> np.ndarray:
    """Draw rows of three components in the first q columns, and noise in all columns."""
    axes = np.zeros((p, 3))
    axes[:q] = np.linalg.qr(rng.standard_normal((q, 3)))[0]
    # No column of the first q may be close to noise.
    axes[:q] += 0.3 * np.sign(axes[:q])
    scores = rng.standard_normal((n, 3)) * [4.0, 2.5, 1.6]
    return scores @ axes.T + noise * rng.standard_normal((n, p)) + rng.uniform(-3, 3, p)


def draw_selected(
    rng: np.random.Generator, n: int = 60, p: int = 20, d: int = 3, q: int = 8, noise: float = 0.4
) -> np.ndarray:
    """Draw rows of d components in the first q columns, none of these close to noise, and noise in all."""
    loadings = rng.normal(size=(p, d)) * (np.arange(p) < q)[:, None]
    loadings[:q, 0] += np.sign(loadings[:q, 0])
    return rng.normal(size=(n, d)) @ loadings.T + noise * rng.normal(size=(n, p)) + rng.normal(size=p)


def is_monotone(trace: np.ndarray, slack: float = 1e-10) -> bool:
    """Return whether a trace of objectives never falls, rounding aside."""
    return bool(np.diff(trace).min(initial=0.0) >= -slack * (1.0 + np.abs(trace).max()))


def assert_equal_up_to_signs(scores: np.ndarray, expected: np.ndarray, atol: float) -> None:
    """Assert that columns agree up to their signs."""
    signs = np.sign(np.sum(np.asarray(scores, float) * expected, axis=0))
    np.testing.assert_allclose(scores * signs, expected, rtol=0, atol=atol)


def assert_moments(drawn: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Assert that normal draws have a mean and a covariance, up to six of their standard errors."""
    size, root = np.sqrt(np.diag(covariance)), np.sqrt(len(drawn))
    assert np.abs((drawn.mean(axis=0) - mean) / size).max() < 6 / root
    assert np.abs((np.cov(drawn.T) - covariance) / np.outer(size, size)).max() < 9 / root


def sine(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the sine of the largest angle between the row spaces of two matrices."""
    bases = [np.linalg.qr(rows.T)[0] for rows in (found, expected)]
    return float(np.linalg.norm(bases[0] - bases[1] @ (bases[1].T @ bases[0]), 2))
