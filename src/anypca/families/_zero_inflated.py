"""Base class of the zero-inflated families: counts with more zeros than their family has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from anypca._typing import Floats, PerColumn
from anypca.families._base import Evaluation, Family, Total, differenced_curvature
from anypca.families._columns import ColumnFamily
from anypca.families._log_link import Counts

#: Shares of extra zeros stay between these: 0 and 1 are the borders of the parameter space.
_LEAST, _MOST = 1e-4, 0.99
#: Share of its zeros that a column starts with as extra ones.
_START = 0.5
#: Prior observations that pull the logits of the columns' shares to their mean, as many as pull their dispersions.
_SHRINKAGE = 10.0
#: Largest change of a share that is no change worth another fit.
_SETTLED = 1e-3


@dataclass(frozen=True)
class ZeroInflated(ColumnFamily, Counts):
    """A zero with the chance ``share``, else a count of the family ``core``."""

    is_discrete = True
    is_concave = False
    has_information = False
    per_column = ("share",)
    #: The family of the counts that are no extra zeros; its log-likelihood of a zero has no terms without eta.
    core: ClassVar[Family]

    share: Any = None

    def __post_init__(self) -> None:
        self._check_columns(lambda share: (share > 0) & (share < 1), "shares of extra zeros between 0 and 1")

    def _pi(self, eta: Floats) -> Floats:
        """The shares in the dtype of eta: one for each column, or a number."""
        if self.share is None:
            raise ValueError(
                f"the shares of {type(self).__name__}() are not known yet; fit a table, or give them."
            )
        shares = np.asarray(self.share, dtype=eta.dtype)
        return shares if shares.size > 1 else shares[0]

    def _mixed(self, x: Floats, found: Evaluation, log_zero: Floats) -> Evaluation:
        """Terms of the mixture, given the terms of the counts and the log-probability that a count is zero."""
        pi = self._pi(log_zero)
        is_zero = x == 0
        counted = np.log1p(-pi)
        value = np.where(is_zero, np.logaddexp(np.log(pi), counted + log_zero), counted + found.value)
        # The chance that a zero is a count: extra zeros tell nothing of eta.
        weight = np.where(is_zero, expit(log_zero + counted - np.log(pi)), 1.0).astype(log_zero.dtype)
        parts = (None if part is None else _times(weight, part) for part in found[1:])
        return Evaluation(value.astype(log_zero.dtype), *parts)

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        found = self.core.evaluate(x, eta, dispersion, order=order)
        return self._mixed(x, found, self._log_zero(eta, dispersion))

    def _log_zero(self, eta: Floats, dispersion: PerColumn) -> Floats:
        return self.core.evaluate(np.zeros_like(eta), eta, dispersion, order=0).value

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """A lower bound: the mixture of the expected count terms, in which its logarithm is convex (Jensen)."""
        zero = self.core.expected_log_likelihood(np.zeros_like(mean), mean, variance, dispersion)
        return self._mixed(x, self.core.expected_log_likelihood(x, mean, variance, dispersion), zero.value)

    def bound_gap(self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """The gap of zeros, by quadrature: a mixture's mean logarithm less the logarithm of mean log-probabilities.

        The bound treats a zero as if it were known whether it is a count, which costs each component several nats.
        """
        pi, spread = self._pi(mean), np.sqrt(3.0 * variance)
        nodes = [self._log_zero(mean + s * spread, dispersion) for s in (0.0, -1.0, 1.0)]
        zero = [np.logaddexp(np.log(pi), np.log1p(-pi) + node) for node in nodes]
        inside = np.logaddexp(np.log(pi), np.log1p(-pi) + _mean_of(nodes))
        return np.where(x == 0, np.maximum(_mean_of(zero) - inside, 0.0), 0.0).astype(mean.dtype)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        return differenced_curvature(self, x, eta, dispersion)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self.core.log_base_measure(x, dispersion)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        counted = np.log1p(-self._pi(x)) + self.core.saturated(x, dispersion)
        return np.where(x == 0, 0.0, counted).astype(x.dtype)

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return (1.0 - self._pi(eta)) * super().mean(eta)

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return super().link(mu / (1.0 - self._pi(mu)))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        pi = self._pi(mu)
        rate = mu / (1.0 - pi)
        with np.errstate(over="ignore"):
            return (1.0 - pi) * (self.core.variance(rate, dispersion) + pi * rate * rate)

    def pearson(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """``(x - mu)^2 / variance``, both divided by (1 + rate)^2, which keeps them finite."""
        pi, large, small = self._pi(eta), expit(eta), expit(-eta)
        gap = x * small - (1.0 - pi) * large
        # The core's variance is linear in its value at a rate of 1, less 1, times the square of the rate.
        extra = self.core.variance(np.ones_like(eta), dispersion) - 1.0
        variance = (1.0 - pi) * (large * small + (extra + pi) * large * large)
        return np.asarray(np.divide(gap * gap, variance, out=np.zeros_like(gap), where=gap * gap > 0))

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        counts = self.core.sample(eta, dispersion, rng)
        return np.where(rng.random(eta.shape) < self._pi(np.asarray(eta, float)), 0.0, counts)

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        """Half of the zeros of each column are extra ones, to start with."""
        if self.share is not None:
            return self
        found = total(_zeros_and_entries)
        return self._with_shares(_START * found[:, 0] / np.maximum(found[:, 1], 1.0))

    def updated_from_fit(self, total: Total) -> Family:
        """Shares by one step of EM at given predictors, drawn to their mean on the logit scale."""

        def extra(x: Floats, weights: Floats, eta: Floats, dispersion: Floats) -> Floats:
            pi = self._pi(eta)
            chance = expit(np.log(pi) - np.log1p(-pi) - self._log_zero(eta, dispersion))
            return np.stack([(weights * chance * (x == 0)).sum(axis=0), weights.sum(axis=0)], axis=1)

        found = total(extra)
        new = self._with_shares(found[:, 0] / np.maximum(found[:, 1], 1.0), found[:, 1])
        change = np.abs(np.subtract(new.share, self.share)).max(initial=0.0)
        return new if change > _SETTLED else self

    def _with_shares(self, shares: Floats, count: Floats | None = None) -> ZeroInflated:
        shares = np.clip(shares, _LEAST, _MOST)
        if count is not None:
            logits = np.log(shares) - np.log1p(-shares)
            typical = np.average(logits, weights=np.maximum(count, 1.0))
            shares = expit((count * logits + _SHRINKAGE * typical) / (count + _SHRINKAGE))
        return replace(self, share=tuple(shares.tolist()), is_estimated=True)


def _mean_of(nodes: Sequence[Floats]) -> Floats:
    """Expectation from values at a mean and sqrt(3) deviations on either side."""
    middle, low, high = nodes
    return np.asarray(2.0 / 3.0 * middle + (low + high) / 6.0)


def _times(weight: Floats, part: Floats) -> Floats:
    """The product, zero where the weight is: derivatives of a count may be infinite there."""
    return np.multiply(weight, part, out=np.zeros_like(weight), where=weight > 0)


def _zeros_and_entries(x: Floats, weights: Floats) -> Floats:
    """Weights of zeros and of all entries in each column, shape (n_columns, 2)."""
    return np.stack([(weights * (x == 0)).sum(axis=0), weights.sum(axis=0)], axis=1)
