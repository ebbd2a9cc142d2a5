"""Draws from the posterior by Gibbs sampling, for families that become normal by augmentation.

The conjugate prior of a coefficient is the likelihood of pseudo-observations, and is augmented as the table is: given
the weights, columns, then rows, are drawn from their exact normal conditionals. All chains run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.models._bayes.augment import Augmentation, draw_normal, weighted_products
from anypca.models.bepca._density import FactorPrior, Factors


@dataclass(frozen=True, eq=False)
class GibbsSampler:
    """Sweeps over weights, coefficients, scores, their means and variances."""

    table: Augmentation
    prior_terms: Augmentation
    """Of the pseudo-observations of the coefficients, (m, n_features)."""
    features: Floats
    """F, shape (n_samples, m - k)."""
    prior: FactorPrior

    def sweep(self, factors: Factors, rng: np.random.Generator) -> Factors:
        """One draw of everything given the rest."""
        chains = factors.scores.shape[:-2]
        features = np.broadcast_to(self.features, (*chains, *self.features.shape))
        design = np.concatenate([factors.scores, features], axis=-1)
        weights = self.table.draw_weights(design @ np.swapaxes(factors.joint, -1, -2), rng)
        # Given the weights the likelihood is normal: first the columns, then the rows under the new columns.
        joint = self._draw_columns(design, weights, np.swapaxes(factors.joint, -1, -2), rng)
        return self._draw_rows(factors._replace(joint=joint), weights, features, rng)

    def _draw_columns(self, design: Floats, weights: Floats, old: Floats, rng: np.random.Generator) -> Floats:
        """Coefficients of the columns, shape (..., n_features, m), given those before, (..., m, n_features)."""
        table, prior = self.table, self.prior_terms
        own = prior.draw_weights(old, rng)
        precision = weighted_products(np.swapaxes(weights, -1, -2), design)
        precision += np.eye(old.shape[-2]) * np.swapaxes(own, -1, -2)[..., None]
        linear = np.swapaxes(table.kappa - weights * table.shift, -1, -2) @ design
        linear += np.swapaxes(prior.kappa - own * prior.shift, -1, -2)
        return draw_normal(precision, linear, rng)

    def _draw_rows(
        self, factors: Factors, weights: Floats, features: Floats, rng: np.random.Generator
    ) -> Factors:
        """Scores, their means and variances."""
        loadings, (_, _, mean, variance) = factors.point.loadings, factors
        known = features @ np.swapaxes(factors.point.fixed, -1, -2) + self.table.shift
        precision = weighted_products(weights, loadings)
        precision += np.eye(loadings.shape[-1]) / variance[..., None, None, :]
        linear = (self.table.kappa - weights * known) @ loadings + (mean / variance)[..., None, :]
        scores = draw_normal(precision, linear, rng)
        n, prior = scores.shape[-2], self.prior
        certainty = n / variance + 1.0 / prior.mean_variance
        centre = scores.sum(axis=-2) / variance / certainty
        mean = centre + rng.standard_normal(centre.shape) / np.sqrt(certainty)
        squares = ((scores - mean[..., None, :]) ** 2).sum(axis=-2)
        variance = (prior.rate + 0.5 * squares) / rng.standard_gamma(prior.shape + 0.5 * n, squares.shape)
        return Factors(scores, factors.joint, mean, variance)
