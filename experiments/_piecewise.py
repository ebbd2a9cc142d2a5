"""Bent sheets with known truth, for the experiments on piecewise PCA."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from anypca import PPCA
from anypca.linalg import procrustes

NOISE = 0.1


def hinge(n: int, seed: int, corner: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (x, y, |x - corner|) with noise of standard deviation 0.1 on all three, and the points (x, y)."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, 2))
    sheet = np.column_stack([w, np.abs(w[:, 0] - corner)])
    return sheet + NOISE * rng.standard_normal((n, 3)), w


def broken_sheet(n: int, seed: int) -> np.ndarray:
    """Rows (x, y, |x|) with the right half lifted by 1: it bends and jumps."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, 2))
    sheet = np.column_stack([w, np.abs(w[:, 0]) + (w[:, 0] > 0)])
    return sheet + NOISE * rng.standard_normal((n, 3))


def wide_hinge(n: int, seed: int, p: int = 8, q: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of p columns on a q-dimensional sheet bent along its last coordinate, and the latent points."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, q))
    basis = np.linalg.qr(rng.standard_normal((p, q + 1)))[0]
    sheet = np.column_stack([w, 1.5 * np.abs(w[:, -1])]) @ basis.T
    return sheet + 2 * NOISE * rng.standard_normal((n, p)), w


def true_log_density(Y: np.ndarray, corner: float = 0.0) -> np.ndarray:
    """Log density of rows under the model that `hinge` draws from, by quadrature over x; independent of the package.

    Given x, a row is normal with mean (x, 0, |x - corner|) and variances (0.01, 1.01, 0.01).
    """
    x = np.linspace(-6.5, 6.5, 5201) + corner
    s = NOISE**2
    log_prior = -0.5 * x**2 - 0.5 * np.log(2 * np.pi) + np.log(x[1] - x[0])
    squares = (Y[:, :1] - x) ** 2 + (Y[:, 2:] - np.abs(x - corner)) ** 2
    exponent = log_prior - squares / (2 * s)
    top = exponent.max(axis=1)
    inner = top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) - np.log(2 * np.pi * s)
    return np.asarray(inner + multivariate_normal(0.0, 1.0 + s).logpdf(Y[:, 1]))


def ml_ppca_log_likelihood(model: PPCA, X: np.ndarray, n: int) -> float:
    """Log-likelihood of new rows under the maximum likelihood solution, divisor n instead of n - 1."""
    shrink = (n - 1) / n
    return float(multivariate_normal(model.mean_, shrink * model.get_covariance()).logpdf(X).sum())


def latent_correlation(scores: np.ndarray, truth: np.ndarray) -> float:
    """Correlation of standardised scores with the truth after the best rotation."""
    a, b = ((z - z.mean(axis=0)) / z.std(axis=0) for z in (scores, truth))
    return float(np.vdot(a @ procrustes(a, b), b) / b.size)


def rms(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(values**2)))
