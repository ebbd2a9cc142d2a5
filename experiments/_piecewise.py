"""Truth and errors that the experiments on piecewise PCA share."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from anypca import PPCA
from anypca.linalg import procrustes

#: Standard deviation of the noise of `make_hinge`.
NOISE = 0.1


def true_log_density(Y: np.ndarray, corner: float = 0.0) -> np.ndarray:
    """Log density of the rows of `make_hinge` under the truth, by quadrature over x; independent of the package.

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
