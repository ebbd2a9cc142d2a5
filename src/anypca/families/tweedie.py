"""Amounts with zeros, one predictor for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, Total, families, like
from anypca.families._columns import ColumnFamily
from anypca.families._dispersed import Dispersed
from anypca.families._log_link import LogLink
from anypca.families._profile import best_on_grid

#: Standard deviations of the number of summands that the series for the density takes to either side of its largest
#: term: what lies beyond 8 is below 1e-14 of the sum.
_WIDTH = 8.0
#: Terms that the series takes besides, for small numbers of summands.
_EXTRA = 12
#: Terms that a standard deviation of the number of summands holds at least where not every term is taken: for a bell of
#: that many the sum over them times their distance is the whole sum to 1e-70.
_STRIDES = 3.0
#: Smallest dispersion to start an estimate from.
_SMALL = 1e-8
#: Powers to choose from, and where columns start.
_GRID, _START = (1.2, 1.35, 1.5, 1.65, 1.8), 1.5


@families.register
@dataclass(frozen=True)
class Tweedie(Dispersed, ColumnFamily, LogLink):
    r"""Amounts with exact zeros, such as rainfall: a Poisson number of gamma amounts, summed.

    With mean ``mu = exp(eta)`` and power p, ``log p(x) = (x mu^(1-p) / (1-p) - mu^(2-p) / (2-p)) / phi`` up to terms
    without eta, which ``evaluate`` drops. The domain is x >= 0; zero has the probability
    ``exp(-mu^(2-p) / (phi (2-p)))``. The link is the logarithm. The dispersion is phi, the variance ``phi mu^p``.

    Not chosen by ``family="auto"``, which gives zeros a part of their own, as `ZeroInflatedGamma` does: name it where
    more of a thing also means fewer zeros.

    Parameters
    ----------
    power : float, or tuple of one for each column, optional
        The power p, between 1 (Poisson) and 2 (gamma), both excluded; from 1.2 to 1.8 nothing overflows for eta from
        -700 to 700. The default is 1.5. Fits that estimate dispersions also estimate one power per column, from 1.2
        to 1.8, unless it is given.
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
    given_by = "phi"
    support = "values >= 0"
    remedy = "Use family='gaussian' for values of both signs."

    per_column = ("power",)

    power: Any = None
    phi: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_columns(
            lambda power: (power > 1.0) & (power < 2.0),
            "1 < power < 2",
            "Use family='poisson' for 1, 'gamma' for 2.",
        )

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(), cls(power=1.7))

    def powers(self, eta: Floats) -> Floats:
        """Powers in the dtype of eta: one for each column, or a number."""
        found = np.asarray((_START,) if self.power is None else self.power, dtype=eta.dtype)
        return found if found.size > 1 else np.asarray(found[0])

    def _exponentials(self, x: Floats, low: Floats, high: Floats, phi: Floats) -> tuple[Floats, Floats]:
        """``x exp(low) / phi``, zero where x is, and ``exp(high) / phi``."""
        # A trial step may overflow: the value is then -inf, which the solver refuses.
        with np.errstate(over="ignore"):
            amount = np.multiply(x, np.exp(low), out=np.zeros_like(low), where=x > 0)
            return amount / phi, np.exp(high) / phi

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        below, above = self.powers(eta) - 1.0, 2.0 - self.powers(eta)
        amount, rate = self._exponentials(x, -below * eta, above * eta, like(dispersion, eta))
        with np.errstate(over="ignore"):
            value = -amount / below - rate / above
        return Evaluation(
            value, amount - rate if order >= 1 else NOT_ASKED, rate if order >= 2 else NOT_ASKED
        )

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """Exact, as the expectations of the two exponentials are."""
        below, above = self.powers(mean) - 1.0, 2.0 - self.powers(mean)
        low = -below * mean + 0.5 * below**2 * variance
        high = above * mean + 0.5 * above**2 * variance
        amount, rate = self._exponentials(x, low, high, like(dispersion, mean))
        return Evaluation(-amount / below - rate / above, amount - rate, below * amount + above * rate)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """``((p - 1) x mu^(1-p) + (2 - p) mu^(2-p)) / phi``, positive."""
        return (self.powers(eta) - 1.0) * found.gradient + found.curvature

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Zero at x = 0, elsewhere the logarithm of Dunn and Smyth's series around its largest term."""
        phi, power = (np.broadcast_to(part, x.shape) for part in (like(dispersion, x), self.powers(x)))
        result = np.zeros_like(x)
        positive = x > 0
        if positive.any():
            result[positive] = _series(*(part[positive].astype(float) for part in (x, phi, power)))
        return result

    def log_step(self, x: Floats, step: PerColumn) -> Floats:
        """Zero has a probability of its own."""
        return np.where(x > 0, super().log_step(x, step), np.asarray(0.0, x.dtype))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        p = self.powers(x)
        return -(x ** (2.0 - p)) * (1.0 / (p - 1.0) + 1.0 / (2.0 - p)) / like(dispersion, x)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return like(dispersion, mu) * mu ** self.powers(mu)

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x >= 0)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        p, mu, phi = self.powers(eta), np.exp(eta), np.asarray(dispersion, float)
        number = rng.poisson(mu ** (2.0 - p) / (phi * (2.0 - p)))
        shape = np.maximum(number, 1) * (2.0 - p) / (p - 1.0)
        return np.where(number > 0, rng.standard_gamma(shape) * phi * (p - 1.0) * mu ** (p - 1.0), 0.0)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        # A column of zeros has no logarithm of its mean; half a unit in all is the same start that counts have.
        return np.where(total > 0, total, 0.5) / count

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        found = np.divide(variance, mean ** self.powers(mean), out=np.ones_like(mean), where=mean > 0)
        return np.maximum(found, _SMALL).astype(mean.dtype)

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        """The same power in each column, to start with."""
        return (
            self if self.power is not None else replace(self, power=(_START,) * len(low), is_estimated=True)
        )

    def updated_from_fit(self, total: Total) -> Family:
        """The power of the largest log-likelihood in each column, each with the dispersion of its own residuals."""
        if not self.is_estimated:
            return self
        each = [replace(self, power=(power,)) for power in _GRID]

        def squares(x: Floats, weights: Floats, eta: Floats, _: Floats) -> Floats:
            terms = [(weights * family.pearson(x, eta)).sum(axis=0) for family in each]
            return np.stack([*terms, weights.sum(axis=0)], axis=1)

        found = total(squares)
        count = np.maximum(found[:, -1], 1.0)
        phi = np.maximum(found[:, :-1] / count[:, None], _SMALL)

        def values(x: Floats, weights: Floats, eta: Floats, _: Floats) -> Floats:
            pairs = zip(each, phi.T, strict=True)
            terms = [(weights * family.log_likelihood(x, eta, own)).sum(axis=0) for family, own in pairs]
            return np.stack(terms, axis=1)

        present = np.array([_GRID.index(power) for power in self.power])
        best = best_on_grid(total(values), count, present)
        if (best == present).all():
            return self
        return replace(self, power=tuple(_GRID[number] for number in best))


def _series(x: Floats, phi: Floats, p: Floats) -> Floats:
    """Log-density without its terms in eta, of positive amounts, shape (n,) as the arguments."""
    ratio = (2.0 - p) / (p - 1.0)
    slope = ratio * np.log(x / (p - 1.0)) - np.log(2.0 - p) - (1.0 + ratio) * np.log(phi)

    def log_term(j: Floats) -> Floats:
        return np.asarray(j * slope - gammaln(j + 1.0) - gammaln(j * ratio))

    middle = np.maximum(np.round(x ** (2.0 - p) / (phi * (2.0 - p))), 1.0)
    largest = log_term(middle)
    total, deviation = np.zeros_like(x), np.sqrt(middle / (1.0 + ratio))
    stride = np.maximum(np.floor(deviation / _STRIDES), 1.0)
    reach = int(_WIDTH * (deviation / stride).max()) + _EXTRA
    for offset in range(-reach, reach + 1):
        j = middle + offset * stride
        total += np.where(j >= 1, np.exp(log_term(np.maximum(j, 1.0)) - largest), 0.0)
    return largest + np.log(stride * total) - np.log(x)
