"""Over-dispersed counts out of a known number of trials, with logit link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln

from anypca._typing import Floats, PerColumn
from anypca.families._base import (
    NOT_ASKED,
    Evaluation,
    differenced_curvature,
    families,
    like,
    over_dispersion,
)
from anypca.families._dispersed import Dispersed
from anypca.families._logistic import KnownTrials
from anypca.special import digamma_rise, log_rising

#: Bounds of the correlation between trials that an estimate starts from: zero and one are the borders of the parameter
#: space.
_LEAST, _MOST = 1e-4, 0.99
#: Predictor at which a share is 0 or 1 to rounding, and the halvings that find a point below it to rounding.
_FAR, _HALVINGS = 45.0, 60
#: Least shape in units of the smallest normal number, so that counts over shapes do not overflow.
_LEAST_SHAPE = 1e4
#: Shape below which numpy's gamma draws are zero anyway.
_SMALLEST = 1e-300


@families.register
@dataclass(frozen=True)
class BetaBinomial(Dispersed, KnownTrials):
    r"""Successes out of n, such as a score, whose chance varies: it has a beta distribution with mean ``expit(eta)``.

    With ``s`` the precision of that distribution, ``a = s expit(eta)`` and ``b = s expit(-eta)``,
    ``log p(x) = log [G(a + x) / G(a)] + log [G(b + n - x) / G(b)]`` up to terms without eta, which ``evaluate`` drops.
    The domain is x in {0, ..., n}. The dispersion is ``1 / s >= 0``; 0 is the binomial family, and trials of one entry
    have the correlation ``1 / (1 + s)``. The log-likelihood is not concave everywhere; steps use
    ``n mu (1 - mu) / (1 + (n - 1) / (1 + s))``, which is at most the expected information.

    Chosen by ``family="auto"`` for whole numbers that look like scores: a largest value of 5 to 60 that occurs more
    than once, a smallest below half of it, and a mean above two fifths of it or a telling name. The largest value is
    taken for n; where more was possible, say so: ``"beta_binomial(20)"``.

    Parameters
    ----------
    n_trials : int
        The number of trials n behind every entry, >= 1.
    precision : float, optional
        The precision s; estimated when left out.

    See Also
    --------
    Binomial : without more variation than trials have.

    Examples
    --------
    >>> import numpy as np
    >>> BetaBinomial(n_trials=10).variance(np.array([5.0]), 0.25).tolist()
    [7.0]
    """

    name = "beta_binomial"
    dispersion_kind = "shape"
    given_by = "precision"
    is_reciprocal = True
    is_concave = False
    has_information = False
    expectation = "approximate"
    remedy = "Set n_trials to the largest possible count, or use family='negative_binomial' for counts without a limit."

    precision: float | None = None

    @classmethod
    def examples(cls) -> tuple[BetaBinomial, ...]:
        return (cls(n_trials=7),)

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        precision = 1.0 / over_dispersion(dispersion, eta)
        share, rest, failures = expit(eta), expit(-eta), self.trials - x
        least = _LEAST_SHAPE * np.finfo(eta.dtype).tiny
        a, b = np.maximum(precision * share, least), np.maximum(precision * rest, least)
        value = log_rising(x, 1.0 / a) + x * np.log(a) + log_rising(failures, 1.0 / b) + failures * np.log(b)
        # The precision's own power, which cancels: without it values of large precisions have no digits left.
        value -= self.trials * np.log(precision)
        if order == 0:
            return Evaluation(value)
        gradient = a * rest * digamma_rise(x, a) - b * share * digamma_rise(failures, b)
        correlation = 1.0 / (1.0 + precision)
        curvature = self.trials * share * rest / (1.0 + (self.trials - 1) * correlation)
        return Evaluation(value, gradient, curvature if order >= 2 else NOT_ASKED)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        return differenced_curvature(self, x, eta, dispersion)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        n = np.asarray(self.trials, x.dtype)
        ways = gammaln(n + 1.0) - gammaln(x + 1.0) - gammaln(n - x + 1.0)
        return np.asarray(ways - log_rising(np.broadcast_to(n, x.shape), over_dispersion(dispersion, x)))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """The maximum has no closed form; x has few values, so that it is searched for once for each."""
        phi, values = like(dispersion, x), np.unique(x)
        grid = np.broadcast_to(values.reshape(-1, *[1] * phi.ndim), (len(values), *phi.shape))
        found = self.evaluate(grid, self._peak(grid, phi), phi, order=0).value
        rows = np.searchsorted(values, x)
        return found[rows, np.arange(phi.size)] if phi.ndim else found[rows]

    def _peak(self, x: Floats, phi: Floats) -> Floats:
        """Where the gradient changes its sign, by halving an interval at whose ends shares are 0 and 1 to rounding."""
        low, high = np.full_like(x, -_FAR), np.full_like(x, _FAR)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            gradient = self.evaluate(x, middle, phi, order=1).gradient
            low, high = np.where(gradient > 0, middle, low), np.where(gradient > 0, high, middle)
        return 0.5 * (low + high)

    def pearson(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        share, rest = expit(eta), expit(-eta)
        # x - n share without cancellation.
        square = (x * rest - (self.trials - x) * share) ** 2
        variance = self.variance(self.trials * share, dispersion)
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(np.divide(square, variance, out=np.zeros_like(square), where=square > 0))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        a = like(dispersion, mu)
        return mu * (self.trials - mu) / self.trials * (1.0 + (self.trials - 1) * a / (1.0 + a))

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        precision = 1.0 / over_dispersion(dispersion, np.asarray(eta, float))
        first, second = (
            rng.standard_gamma(np.maximum(precision * expit(s * eta), _SMALLEST)) for s in (1, -1)
        )
        total = first + second
        share = np.divide(first, total, out=expit(eta), where=total > 0)
        return np.asarray(rng.binomial(self.trials, share).astype(float))

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        single = np.maximum(mean * (self.trials - mean) / self.trials, np.finfo(mean.dtype).tiny)
        correlation = np.clip((variance / single - 1.0) / max(self.trials - 1, 1), _LEAST, _MOST)
        return (correlation / (1.0 - correlation)).astype(mean.dtype)
