"""What the Bernoulli and the binomial family share: the logit link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, xlogy

from anypca._typing import Floats
from anypca.families._base import Evaluation, Family
from anypca.special import log1pexp


def evaluate_logistic(x: Floats, eta: Floats, n_trials: float, order: int) -> Evaluation:
    """Terms of ``x eta - n log(1 + exp(eta))``.

    Parameters
    ----------
    x, eta : ndarray of the same shape
    n_trials : float
    order : {0, 1, 2}
    """
    if np.max(eta, initial=-np.inf) > np.log(np.finfo(eta.dtype).max):
        return _evaluate_far(x, eta, n_trials, order)
    # One exponential serves everything: with e = exp(eta), the complement 1 / (1 + e) keeps its relative
    # accuracy at both ends, and log(1 + e) is minus its logarithm to within rounding of eta.
    odds = np.exp(eta)
    complement = odds + 1.0
    np.reciprocal(complement, out=complement)
    value = np.log(complement)
    if n_trials != 1:
        value *= n_trials
    value += x * eta
    if order == 0:
        return Evaluation(value, None, None)
    odds *= complement
    if n_trials != 1:
        odds *= n_trials
    gradient = x - odds
    if order == 1:
        return Evaluation(value, gradient, None)
    odds *= complement
    return Evaluation(value, gradient, odds)


def _evaluate_far(x: Floats, eta: Floats, n_trials: float, order: int) -> Evaluation:
    """The same where exp(eta) overflows: slower, but finite at every finite eta."""
    value = x * eta - n_trials * log1pexp(eta)
    mean = n_trials * expit(eta)
    gradient = x - mean if order >= 1 else None
    return Evaluation(value, gradient, mean * expit(-eta) if order >= 2 else None)


@dataclass(frozen=True)
class Logistic(Family):
    """Successes out of ``trials`` with ``logit(mean / trials) = eta``."""

    is_discrete = True

    @property
    def trials(self) -> int:
        """Number of trials behind every entry."""
        raise NotImplementedError

    def evaluate(
        self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0, *, order: int = 2
    ) -> Evaluation:
        return evaluate_logistic(x, eta, self.trials, order)

    def log_base(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        n = self.trials
        base: Floats = gammaln(np.asarray(n + 1.0, x.dtype)) - gammaln(x + 1.0) - gammaln(n - x + 1.0)
        return base

    def saturated(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        n = self.trials
        value: Floats = xlogy(x, x / n) + xlogy(n - x, (n - x) / n)
        return value

    def mean(self, eta: Floats) -> Floats:
        mean: Floats = self.trials * expit(eta)
        return mean

    def link(self, mu: Floats) -> Floats:
        return np.log(mu / (self.trials - mu))

    def variance(self, mu: Floats, dispersion: Floats | float = 1.0) -> Floats:
        return mu * (self.trials - mu) / self.trials

    def sample(self, eta: Floats, dispersion: Floats | float, rng: np.random.Generator) -> Floats:
        draw: Floats = rng.binomial(self.trials, expit(eta)).astype(float)
        return draw

    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        # Half a success and half a failure added: the empirical logit, finite for columns of one value.
        n = self.trials
        return n * (total + 0.5) / (n * count + 1.0)
