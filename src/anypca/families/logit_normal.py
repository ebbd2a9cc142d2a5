"""Shares whose logit is normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import families, like
from anypca.families._dispersed import positive_or_none
from anypca.families._transformed import TransformedNormal
from anypca.special import inverted

#: Nodes of the rule for means over the normal logit: right to 1e-9 up to a standard deviation of 1.6, where shares lie
#: near 0 and 1 more often than between.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: Smallest variance of a logit to start an estimate from.
_SMALL = 1e-8


@families.register
@dataclass(frozen=True, init=False, repr=False)
class LogitNormal(TransformedNormal):
    r"""Shares of a whole: ``log(x / (c - x))`` is normal with mean eta and variance v.

    ``log p(x) = -(t - eta)^2 / (2 v) - log(2 pi v) / 2 + log c - log x - log(c - x)`` with ``t = log(x / (c - x))``.
    The domain is x from 0 to c = ``upper``; an exact 0 or c is read as half of a ``step`` inside. The median is
    ``c / (1 + exp(-eta))``; the mean is an integral that needs the dispersion v: ``mean(eta)`` without it is the
    median. ``evaluate`` drops all terms after the first, which do not depend on eta.

    Chosen by ``family="auto"`` for numbers from 0 to 1, or to 100 if the column's name contains per cent, if at most
    2 % are exactly 0 or the upper limit.

    Parameters
    ----------
    variance : float, optional
        Variance of the logit; estimated when left out.
    upper : float
        The whole: 1 for shares, 100 for per cents.
    step : float
        The step with which shares are recorded, in units of x.

    See Also
    --------
    BetaBinomial : shares of known totals.

    Examples
    --------
    >>> import numpy as np
    >>> LogitNormal(upper=100).mean(np.zeros(1), 0.5).round(6).tolist()
    [50.0]
    """

    name = "logit_normal"
    link_kind = "logit"
    remedy = "Set upper to the whole (100 for per cents), or use family='gaussian'."

    upper: float
    step: float

    def __init__(self, variance: float | None = None, upper: float = 1.0, step: float = 0.01) -> None:
        super().__init__(variance)
        for name, value in (("upper", upper), ("step", step)):
            if value is None or positive_or_none(value, name, "LogitNormal") is None:
                raise ValueError(f"LogitNormal needs {name} > 0; got {name}={value!r}.")
            object.__setattr__(self, name, float(value))
        if upper < 1 or step >= upper:
            raise ValueError(
                f"LogitNormal needs upper >= 1 and step < upper; got upper={upper!r}, step={step!r}."
            )

    def __repr__(self) -> str:
        return f"LogitNormal(variance={self.noise_variance!r}, upper={self.upper!r}, step={self.step!r})"

    @property
    def support(self) -> str:  # type: ignore[override]
        """The support in words."""
        return f"values from 0 to {self.upper:g}"

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        """x and ``upper - x``, both positive."""
        half = np.asarray(0.5 * self.step, x.dtype)
        rest = self.upper - x
        return np.where(x > 0, np.where(rest > 0, x, self.upper - half), half), np.where(
            rest > 0, np.where(x > 0, rest, self.upper - half), half
        )

    def _transformed(self, x: Floats) -> Floats:
        part, rest = self._inside(x)
        return np.log(part) - np.log(rest)

    def _log_slope(self, x: Floats) -> Floats:
        part, rest = self._inside(x)
        return np.log(np.asarray(self.upper, x.dtype)) - np.log(part) - np.log(rest)

    @property
    def _range(self) -> tuple[float, float]:
        return 0.0, self.upper

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        share = expit(eta) if dispersion is None else self._moments(eta, dispersion)[0]
        return np.asarray(self.upper * share, eta.dtype)

    def _moments(self, eta: Floats, dispersion: PerColumn) -> tuple[Floats, Floats, Floats]:
        """Means of the share s, of 1 - s, and of s (1 - s), which is the slope of the mean."""
        spread = np.sqrt(like(dispersion, eta))
        first, rest, slope = np.zeros_like(eta), np.zeros_like(eta), np.zeros_like(eta)
        for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
            point = eta + node * spread
            part, other = expit(point), expit(-point)
            first += weight * part
            rest += weight * other
            slope += weight * part * other
        return first, rest, slope

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        share = mu / self.upper
        logit: Floats = np.log(share) - np.log1p(-share)
        if dispersion is None:
            return logit

        def logit_of_mean(eta: Floats) -> tuple[Floats, Floats]:
            first, rest, slope = self._moments(eta, dispersion)
            return np.log(first) - np.log(rest), slope / (first * rest)

        # Averaging over the noise flattens the logistic curve by about this factor.
        start = logit * np.sqrt(1.0 + np.pi / 8.0 * like(dispersion, mu))
        return np.asarray(inverted(logit, start, logit_of_mean), mu.dtype)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        rounding = np.finfo(mu.dtype).eps
        inside = self.upper * np.clip(mu / self.upper, rounding, 1.0 - rounding)
        first, rest, slope = self._moments(self.link(inside, dispersion), dispersion)
        # E s^2 - (E s)^2 with s^2 = s - s (1 - s).
        return np.asarray(np.maximum(first * rest - slope, 0.0) * self.upper**2, mu.dtype)

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x >= 0) & (x <= self.upper)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return np.asarray(self.upper * expit(self._normal(eta, dispersion, rng)))

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        # A share of a half added: the logit of a column of zeros is finite.
        return (total + 0.5 * self.upper) / (count + 1.0)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        share = np.clip(mean / self.upper, 0.5 * self.step / self.upper, 1.0 - 0.5 * self.step / self.upper)
        # The delta method: the slope of the logit is 1 / (share (1 - share)).
        found = variance / (self.upper * share * (1.0 - share)) ** 2
        return np.asarray(np.maximum(found, _SMALL).astype(mean.dtype))
