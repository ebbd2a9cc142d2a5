"""Variational EM of the relaxed model ``x_i = u * (W y_i) + noise``, u in [0, 1] by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models.gsppca._noise import Moments, estimate_noise
from anypca.models.gsppca._table import EquivalentTable
from anypca.solvers import BlockProblem, Update

# A relevance of 0 is absorbing and would divide 0 by 0; at this floor its square is still a normal number.
_SMALLEST_RELEVANCE = 1e-100
# Signal variance of a column, as a share of the mean variance, below which no column is relevant: one part in 10 000
# of the standard deviation is no signal in any table.
_SMALLEST_SIGNAL = 1e-8
# Noise variance as a share of the mean variance: below, the sum it is computed from cancels, and changes of the noise
# that are rounding would keep the EM from ending at tolerances of 1e-4 and more.
_SMALLEST_NOISE = 1e-9
# Smallest noise variance to start from, as a share of the mean variance: the maximum likelihood noise is 0 when
# rows are fewer than components, and the EM divides by it.
_SMALLEST_START = 1e-6
# Rounding level of the free energy relative to the size of its parts: some thousand units in the last place.
_RESOLUTION = 1e-12


@dataclass(frozen=True)
class LoadingPosterior:
    """Parameters of the model and Gaussian posteriors of the loadings (p columns, d latent dimensions).

    Row k of W has the prior N(0, prior_variance I) and the posterior N(loadings[k], diag(variances[k])): the
    latent basis is turned so that all these covariances are diagonal at once.
    """

    relevance: Floats
    """u, (p,)"""
    loadings: Floats
    """M, (p, d)"""
    variances: Floats
    """Diagonals of S_k, (p, d)."""
    prior_variance: float
    """alpha"""
    noise: float
    """sigma^2"""
    second: Floats
    """``sum_k u_k^2 E[w_k w_k']``, (d, d)."""
    covariance: Floats
    """Sigma, posterior covariance of every row's latent vector, (d, d)."""
    weighted: Floats
    """u * M, (p, d)."""
    projection: Floats
    """Maps centred rows to posterior means of their latent vectors, (p, d)."""


def make_posterior(
    relevance: Floats, loadings: Floats, variances: Floats, prior_variance: float, noise: float
) -> LoadingPosterior:
    """A `LoadingPosterior` with the parts that follow from the others filled in; shapes as there.

    Arrays (p, d) are kept in Fortran order here and below: d is small, and NumPy's loops run along the memory.
    """
    loadings, variances = np.asfortranarray(loadings), np.asfortranarray(variances)
    weighted = relevance[:, None] * loadings
    second = weighted.T @ weighted
    second[np.diag_indices_from(second)] += relevance**2 @ variances
    precision = second / noise
    precision[np.diag_indices_from(precision)] += 1.0
    covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(precision), np.eye(len(precision)))
    covariance = 0.5 * (covariance + covariance.T)
    projection = (covariance / noise @ weighted.T).T
    return LoadingPosterior(
        relevance, loadings, variances, prior_variance, noise, second, covariance, weighted, projection
    )


def start_posterior(table: EquivalentTable, moments: Moments, d: int) -> LoadingPosterior:
    """The maximum likelihood solution of probabilistic PCA with d dimensions, all columns fully relevant.

    Dimensions beyond the rank of the table start, and stay, at 0.
    """
    p = len(moments.column_variances)
    noise = max(estimate_noise(moments, d, "bc"), _SMALLEST_START * moments.trace / p)
    k = min(d, len(table.values))
    loadings = np.zeros((p, d))
    loadings[:, :k] = table.vectors[:, :k] * np.sqrt(np.maximum(table.values[:k] - noise, 0.0))
    prior_variance = moments.trace / (p * d)
    return make_posterior(np.ones(p), loadings, np.full((p, d), prior_variance), prior_variance, noise)


@dataclass(frozen=True)
class RelaxedProblem(BlockProblem[LoadingPosterior, None, Floats]):
    """Block problem of the variational EM; its objective is minus the free energy.

    The statistics are ``X' X projection``, shape (p, d): the sum over rows of x_i times the mean of its latent vector.

    Notes
    -----
    The plain updates are mean-field coordinate descent. They converge slowly along directions that do not change the
    fit: ``(u_k, w_k) -> (t u_k, w_k / t)`` and ``(y_j, w_j) -> (y_j / c, c w_j)``. The free energy has closed-form
    minima over all t and over all c, each with alpha, which follow each update. Over t the minimum makes
    ``E||w_k||^2 = alpha d`` for all k and leaves a common factor of the u free. The convention ``max u = 1`` fixes it:
    relevances are root mean square loadings relative to the largest.
    """

    rows: Callable[[Block], Floats]
    """Takes a `Block`, returns its centred rows (rows, p)."""
    total: float
    """Sum of all squared centred entries."""
    n_rows: float
    """Sum of the weights of the rows."""

    def step(self, block: Block, shared: LoadingPosterior, local: None) -> tuple[None, Floats]:
        """Latent means of a block, summed against its rows."""
        x = self.rows(block)
        return None, ((x @ shared.projection).T @ x).T

    def objective(self, shared: LoadingPosterior, stats: Floats) -> float:
        """Minus the free energy, at the best posterior of the latent vectors."""
        p, d = shared.loadings.shape
        n = self.n_rows
        moment = self._latent_moment(shared, stats)
        misfit = self.total - 2.0 * _inner(shared.weighted, stats)
        misfit += _inner(moment, shared.second)
        second = shared.variances.sum() + _inner(shared.loadings, shared.loadings)
        log_covariance = 2.0 * np.log(np.diag(scipy.linalg.cholesky(shared.covariance))).sum()
        # Minus the expected log-likelihood, then the divergences of loadings and of latents from their priors.
        energy = 0.5 * n * p * np.log(2.0 * np.pi * shared.noise) + 0.5 * misfit / shared.noise
        energy += 0.5 * d * p * np.log(shared.prior_variance) + 0.5 * second / shared.prior_variance
        energy += 0.5 * np.trace(moment) - 0.5 * n * log_covariance
        energy -= 0.5 * np.log(shared.variances).sum() + 0.5 * (n + p) * d
        return -float(energy)

    def update(self, shared: LoadingPosterior, stats: Floats) -> Update[LoadingPosterior]:
        """Posterior of the loadings, then prior variance, noise and relevances, then the free scales."""
        # In the basis in which the moments of the latent vectors are diagonal.
        moments, basis = scipy.linalg.eigh(self._latent_moment(shared, stats))
        product, u = (basis.T @ stats.T).T, shared.relevance
        # Arrays are overwritten where possible: for many columns they leave the cache, and new memory costs most.
        variances = np.outer(moments / shared.noise, u**2).T
        variances += 1.0 / shared.prior_variance
        np.reciprocal(variances, out=variances)
        loadings = variances * product
        loadings *= (u / shared.noise)[:, None]
        second = np.square(loadings)
        second += variances
        fit, spread = np.einsum("kj,kj->k", product, loadings), second @ moments
        noise = self._noise(u, fit, spread)
        relevance = np.clip(fit / spread, _SMALLEST_RELEVANCE, 1.0)
        proposal = self._rescaled(
            relevance, loadings, variances, latent_scale(self.n_rows, moments, second), noise
        )
        return Update(proposal, _change(shared, proposal, basis, np.sqrt(self.total / self.n_rows)))

    def _latent_moment(self, shared: LoadingPosterior, stats: Floats) -> Floats:
        """Summed second moments of the latent vectors, ``n Sigma + sum_i mu_i mu_i'``, shape (d, d)."""
        means = shared.projection.T @ stats
        return np.asarray(self.n_rows * shared.covariance + 0.5 * (means + means.T))

    def _noise(self, relevance: Floats, fit: Floats, spread: Floats) -> float:
        """Expected squared misfit per entry."""
        misfit = float(self.total - 2.0 * relevance @ fit + relevance**2 @ spread)
        # On data of exactly low rank the misfit vanishes, which the cancelling sum above cannot resolve.
        floor = _SMALLEST_NOISE * self.total
        return max(misfit, floor) / (self.n_rows * len(relevance))

    def _rescaled(
        self, relevance: Floats, loadings: Floats, variances: Floats, squares: Floats, noise: float
    ) -> LoadingPosterior:
        """The updated posterior with the best scales and alpha; ``squares`` (d,): squared scales of the latents."""
        p, d = loadings.shape
        root = relevance * np.sqrt((loadings**2 + variances) @ squares)
        # Without any signal all sizes shrink to 0. The relevances are to vanish then, and not the prior variance.
        largest = max(root.max(), np.sqrt(_SMALLEST_SIGNAL * self.total / self.n_rows / p))
        scaled = np.maximum(root / largest, _SMALLEST_RELEVANCE)
        scale = np.outer(np.sqrt(squares), relevance / scaled).T
        loadings, variances = loadings * scale, variances * np.square(scale, out=scale)
        prior_variance = float((root / scaled) @ (root / scaled)) / (d * p)
        return make_posterior(scaled, loadings, variances, prior_variance, noise)

    def resolution(self, shared: LoadingPosterior, stats: Floats) -> float:
        """Rounding level of the free energy, whose largest parts are of the size of the table."""
        p, d = shared.loadings.shape
        size = self.n_rows * p * (1.0 + abs(np.log(shared.noise)))
        size += d * p * (1.0 + abs(np.log(shared.prior_variance)))
        return float(_RESOLUTION * (size + self.total / shared.noise))


def latent_scale(n_rows: float, moments: Floats, second: Floats) -> Floats:
    """Squares of the best scales c of the latent dimensions (d,), jointly with alpha.

    Parameters
    ----------
    n_rows : float
    moments : ndarray of shape (d,)
        ``sum_i E[y_ij^2]``.
    second : ndarray of shape (p, d)
        ``E[w_kj^2]``.

    Notes
    -----
    Given alpha, c_j^2 is the positive root x of ``second_j x^2 / alpha + (n - p) x = moments_j``, second_j summed over
    columns. At the best alpha the latent vectors have unit second moments on average,
    ``sum_j moments_j / c_j^2 = n d``, whose left side falls as alpha grows. With more columns than rows, alternation
    with alpha would hardly move either.
    """
    n_columns, sums = len(second), second.sum(axis=0)

    def squares(log_alpha: float) -> Floats:
        return _positive_root(sums * np.exp(-log_alpha), n_rows - n_columns, moments)

    def excess(log_alpha: float) -> float:
        return float(np.mean(moments / squares(log_alpha)) / n_rows) - 1.0

    low = high = float(np.log(sums.mean() / n_columns))
    while excess(low) < 0.0:
        low -= 1.0
    while excess(high) > 0.0:
        high += 1.0
    # It is solved to rounding, since the free energy falls for certain only where the scales are its minimum.
    return squares(low if low == high else brentq(excess, low, high, xtol=1e-12, rtol=1e-12))


def _positive_root(a: Floats, b: float, c: Floats) -> Floats:
    """The positive solution x of ``a x^2 + b x = c``, for a and c > 0, in the form that does not cancel."""
    root = np.sqrt(b * b + 4.0 * a * c)
    return np.asarray(2.0 * c / (root + b) if b > 0 else (root - b) / (2.0 * a))


def _inner(a: Floats, b: Floats) -> float:
    """Sum of the products of two arrays in Fortran order, which a plain ``vdot`` would copy first."""
    return float(np.vdot(a.T, b.T))


def _change(before: LoadingPosterior, after: LoadingPosterior, basis: Floats, spread: float) -> float:
    """Largest change of relevances, of log noise, and of the weighted loadings in units of the data's spread.

    Each update is a Newton step of the free energy in its block, so these are gradients in units of curvature.
    """
    gap = after.weighted - (basis.T @ before.weighted.T).T
    loadings = float(np.sqrt(_inner(gap, gap))) / spread
    relevance = float(np.abs(after.relevance - before.relevance).max())
    return max(relevance, loadings, abs(float(np.log(after.noise / before.noise))))
