"""Amounts with zeros, one predictor for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, families, like, positive_or_none
from anypca.families._log_link import LogLink

#: Standard deviations of the number of summands that the series for the density takes to either side of its largest
#: term: what lies beyond 8 is below 1e-14 of the sum.
_WIDTH = 8.0
#: Terms that the series takes besides, for small numbers of summands.
_EXTRA = 12
#: Smallest dispersion to start an estimate from.
_SMALL = 1e-8


@families.register
@dataclass(frozen=True)
class Tweedie(LogLink):
    r"""Amounts with exact zeros, such as rainfall: a Poisson number of gamma amounts, summed.

    With mean ``mu = exp(eta)`` and power p, ``log p(x) = (x mu^(1-p) / (1-p) - mu^(2-p) / (2-p)) / phi`` up to terms
    without eta, which ``evaluate`` drops. The domain is x >= 0; zero has the probability
    ``exp(-mu^(2-p) / (phi (2-p)))``. The link is the logarithm. The dispersion is phi, the variance ``phi mu^p``.

    Parameters
    ----------
    power : float
        The power p, between 1 (Poisson) and 2 (gamma), both excluded; from 1.2 to 1.8 nothing overflows for eta from
        -700 to 700.
    phi : float, optional
        The dispersion; estimated when left out.

    See Also
    --------
    ZeroInflatedGamma : zeros with a part of their own.

    References
    ----------
    P. K. Dunn, G. K. Smyth (2005). Series evaluation of Tweedie exponential dispersion model densities. Statistics and
    Computing 15, 267-280.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(Tweedie().log_likelihood(np.zeros(1), np.zeros(1))).round(4).tolist()
    [0.1353]
    """

    name = "tweedie"
    dispersion_kind = "scale"
    support = "values >= 0"
    remedy = "Use family='gaussian' for values of both signs."

    power: float = 1.5
    phi: float | None = None

    def __post_init__(self) -> None:
        power = positive_or_none(self.power, "power", "Tweedie")
        if power is None or not 1.0 < power < 2.0:
            raise ValueError(
                f"Tweedie needs 1 < power < 2; got power={self.power!r}. Use family='poisson' for 1, 'gamma' for 2."
            )
        object.__setattr__(self, "power", power)
        object.__setattr__(self, "phi", positive_or_none(self.phi, "phi", "Tweedie"))

    @classmethod
    def examples(cls) -> tuple[Tweedie, ...]:
        return (cls(), cls(power=1.7))

    @property
    def fixed_dispersion(self) -> float | None:
        return self.phi

    def _parts(self, x: Floats, low: Floats, high: Floats, phi: Floats) -> tuple[Floats, Floats]:
        """``x exp(low) / phi``, zero where x is, and ``exp(high) / phi``."""
        # A trial step may overflow: the value is then -inf, which the solver refuses.
        with np.errstate(over="ignore"):
            amount = np.multiply(x, np.exp(low), out=np.zeros_like(low), where=x > 0)
            return amount / phi, np.exp(high) / phi

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        below, above = self.power - 1.0, 2.0 - self.power
        amount, rate = self._parts(x, -below * eta, above * eta, like(dispersion, eta))
        with np.errstate(over="ignore"):
            value = -amount / below - rate / above
        return Evaluation(
            value, amount - rate if order >= 1 else NOT_ASKED, rate if order >= 2 else NOT_ASKED
        )

    def expect(self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0) -> Evaluation:
        """Exact, as the expectations of the two exponentials are."""
        below, above = self.power - 1.0, 2.0 - self.power
        low = -below * mean + 0.5 * below**2 * variance
        high = above * mean + 0.5 * above**2 * variance
        amount, rate = self._parts(x, low, high, like(dispersion, mean))
        return Evaluation(-amount / below - rate / above, amount - rate, below * amount + above * rate)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """``((p - 1) x mu^(1-p) + (2 - p) mu^(2-p)) / phi``, positive."""
        return (self.power - 1.0) * found.gradient + found.curvature

    def log_base(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Zero at x = 0, elsewhere the logarithm of Dunn and Smyth's series around its largest term."""
        phi = np.broadcast_to(like(dispersion, x), x.shape)
        result = np.zeros_like(x)
        positive = x > 0
        if positive.any():
            result[positive] = self._series(x[positive].astype(float), phi[positive].astype(float))
        return result

    def log_step(self, x: Floats, step: PerColumn) -> Floats:
        """Zero has a probability of its own."""
        return np.where(x > 0, super().log_step(x, step), np.asarray(0.0, x.dtype))

    def _series(self, x: Floats, phi: Floats) -> Floats:
        p = self.power
        ratio = (2.0 - p) / (p - 1.0)
        slope = ratio * np.log(x / (p - 1.0)) - np.log(2.0 - p) - (1.0 + ratio) * np.log(phi)

        def log_term(j: Floats) -> Floats:
            term: Floats = j * slope - gammaln(j + 1.0) - gammaln(j * ratio)
            return term

        middle = np.maximum(np.round(x ** (2.0 - p) / (phi * (2.0 - p))), 1.0)
        largest = log_term(middle)
        total = np.zeros_like(x)
        reach = int(_WIDTH * np.sqrt(middle.max() / (1.0 + ratio))) + _EXTRA
        for offset in range(-reach, reach + 1):
            j = middle + offset
            total += np.where(j >= 1, np.exp(log_term(np.maximum(j, 1.0)) - largest), 0.0)
        return largest + np.log(total) - np.log(x)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        p = self.power
        return -(x ** (2.0 - p)) * (1.0 / (p - 1.0) + 1.0 / (2.0 - p)) / like(dispersion, x)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return like(dispersion, mu) * mu**self.power

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x >= 0)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        p, mu, phi = self.power, np.exp(eta), np.asarray(dispersion, float)
        number = rng.poisson(mu ** (2.0 - p) / (phi * (2.0 - p)))
        shape = np.maximum(number, 1) * (2.0 - p) / (p - 1.0)
        return np.where(number > 0, rng.standard_gamma(shape) * phi * (p - 1.0) * mu ** (p - 1.0), 0.0)

    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        # A column of zeros has no logarithm of its mean; half a unit in all is the same start that counts have.
        return np.where(total > 0, total, 0.5) / count

    def _moment_dispersion(self, mean: Floats, variance: Floats) -> Floats:
        found = np.divide(variance, mean**self.power, out=np.ones_like(mean), where=mean > 0)
        result: Floats = np.maximum(found, _SMALL).astype(mean.dtype)
        return result
