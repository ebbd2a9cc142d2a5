"""Rows that use some of the factors, under draws of the loadings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit
from scipy.stats import norm

from anypca._typing import Floats
from anypca.engine import Data
from anypca.families import Family
from anypca.models._bayes.rows import Cloud, DrawnRowModel, normal_points, weighted_cloud
from anypca.models._block_view import BlockView, observed_only

# Points of a row under each draw: masks are harder to propose than values. With 16 the log-likelihood of bits comes out
# 0.4 too small, with 64 about 0.2.
_N_POINTS = 64
# Rounds of the mean-field approximation that points are drawn from. It only proposes; ten rounds end near its fixed
# point.
_ROUNDS = 10
# Log odds of 1 to 19: however sure the approximation is, one point in twenty has the factor (fewer if it is rarer than
# that), or has it not.
_DOUBT = -float(np.log(19.0))


class _MeanField(NamedTuple):
    """Independent posteriors of the factors of rows: used with a probability, then normal; arrays (rows, k)."""

    log_odds: Floats
    mean: Floats
    deviation: Floats


@dataclass(frozen=True, eq=False)
class MaskedRowModel(DrawnRowModel):
    """Rows of ``eta = b + T' (z * v)``, each factor used (z = 1) or not, with standard normal v.

    Points are drawn from a mean-field approximation of the posterior and weighted to it (importance sampling). That a
    new row may have factors which no other row has is left out.
    """

    family: Family
    dispersion: Floats
    loadings: Floats
    """T, shape (draws, n_features, k); 0 where a draw has fewer factors."""
    intercept: Floats
    """b, shape (n_features,)."""
    log_odds: Floats
    """Of each factor's use, shape (draws, k)."""
    picks: Floats
    """Which factor is which component, shape (draws, n_components, k)."""

    def clouds(self, rows: BlockView) -> Iterator[Cloud]:
        k = self.loadings.shape[2]
        nodes, uniform = normal_points(k, _N_POINTS), uniform_points(k)
        for loadings, odds, pick in zip(self.loadings, self.log_odds, self.picks, strict=True):
            near = self._approximate(rows, loadings, odds)
            near_odds = np.clip(near.log_odds, np.minimum(odds, _DOUBT), -_DOUBT)
            used = uniform[:, None, :] < expit(near_odds)
            active = np.where(used, near.mean + near.deviation * nodes[:, None, :], 0.0)
            eta = active @ loadings.T + self.intercept
            log_weight = self.log_joint(rows, eta)
            # Prior over proposal: of the masks, and of the values that are used.
            log_weight += _log_mask(used, odds) - _log_mask(used, near_odds)
            ratio = norm.logpdf(active) - norm.logpdf(nodes)[:, None, :] + np.log(near.deviation)
            log_weight += np.where(used, ratio, 0.0).sum(axis=-1)
            yield weighted_cloud(active @ pick.T, eta, log_weight)

    def _approximate(self, rows: BlockView, loadings: Floats, odds: Floats) -> _MeanField:
        """Coordinate ascent from the prior, all rows at once."""
        x, k = rows.x.astype(float, copy=False), loadings.shape[1]
        log_odds = np.tile(odds, (rows.n_rows, 1))
        mean, variance = np.zeros((rows.n_rows, k)), np.ones((rows.n_rows, k))
        squares = loadings**2
        for _ in range(_ROUNDS):
            # One factor at a time given the means of the others: coordinate ascent of the mean field.
            for a in range(k):
                share = expit(log_odds)
                eta = (share * mean) @ loadings.T + self.intercept
                spread = (share * (variance + mean**2) - (share * mean) ** 2) @ squares.T
                _, gradient, curvature = self.family.expected_log_likelihood(x, eta, spread, self.dispersion)
                weight = observed_only(rows, slice(None), curvature)
                slope = observed_only(rows, slice(None), gradient) @ loadings[:, a]
                information = weight @ squares[:, a]
                precision = 1.0 + information
                slope += information * share[:, a] * mean[:, a]
                mean[:, a], variance[:, a] = slope / precision, 1.0 / precision
                log_odds[:, a] = odds[a] + 0.5 * slope**2 / precision - 0.5 * np.log(precision)
        return _MeanField(log_odds, mean, np.sqrt(variance))

    def predictors(self, scores: Floats) -> Iterator[Floats]:
        for loadings, pick in zip(self.loadings, self.picks, strict=True):
            yield scores @ pick @ loadings.T + self.intercept

    def draw_predictors(self, data: Data, rng: np.random.Generator) -> Floats:
        index = rng.integers(len(self.loadings), size=data.n_samples)
        used = rng.random((data.n_samples, self.loadings.shape[2])) < expit(self.log_odds[index])
        active = np.where(used, rng.standard_normal(used.shape), 0.0)
        return np.asarray(np.einsum("ijk,ik->ij", self.loadings[index], active) + self.intercept)


def _log_mask(used: Floats, log_odds: Floats) -> Floats:
    """Log probability of masks (points, rows, k), summed over the factors."""
    return np.asarray(np.where(used, log_expit(log_odds), log_expit(-log_odds)).sum(axis=-1))


@cache
def uniform_points(k: int) -> Floats:
    """Points that decide masks, the same for every row, spread evenly for each factor, (_N_POINTS, k)."""
    rng = np.random.default_rng(1)
    # One point in each of equally wide strata, in an order of its own for each factor: a Latin hypercube.
    strata = (np.arange(_N_POINTS)[:, None] + rng.random((_N_POINTS, k))) / _N_POINTS
    return np.asarray(rng.permuted(strata, axis=0))
