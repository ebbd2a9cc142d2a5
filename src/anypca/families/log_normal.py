"""Positive amounts whose logarithm is normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import families, like
from anypca.families._transformed import TransformedNormal

#: Smallest variance of a logarithm to start an estimate from: amounts that vary by one part in 10 000.
_SMALL = 1e-8


@families.register
@dataclass(frozen=True, init=False, repr=False)
class LogNormal(TransformedNormal):
    r"""Positive amounts: ``log x`` is normal with mean eta and variance v.

    ``log p(x) = -(log x - eta)^2 / (2 v) - log(2 pi v) / 2 - log x``. The domain is x > 0. The median is
    ``exp(eta)`` and the mean ``exp(eta + v / 2)``, which needs the dispersion v: ``mean(eta)`` without it is the
    median. ``evaluate`` drops the terms without eta, which are those after the first.

    Chosen by ``family="auto"`` for positive numbers whose logarithms spread, where it has the larger log-mass than
    `Gamma` and is more than two nats ahead of `Gaussian`.

    Parameters
    ----------
    variance : float, optional
        Variance of the logarithm; estimated when left out.

    See Also
    --------
    Gamma : lighter in the tails.

    Examples
    --------
    >>> import numpy as np
    >>> LogNormal().mean(np.zeros(1), 2.0).round(4).tolist()
    [2.7183]
    """

    name = "log_normal"
    link_kind = "log"
    support = "values > 0"
    remedy = "Use family='gaussian', or treat zeros as missing (NaN)."

    def _transformed(self, x: Floats) -> Floats:
        return np.log(x)

    def _log_slope(self, x: Floats) -> Floats:
        return -np.log(x)

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta if dispersion is None else eta + 0.5 * like(dispersion, eta))

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return np.log(mu) if dispersion is None else np.log(mu) - 0.5 * like(dispersion, mu)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return np.expm1(like(dispersion, mu)) * mu * mu

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x > 0)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        draw = np.exp(self._normal(eta, dispersion, rng))
        return np.clip(draw, np.finfo(float).tiny, np.finfo(float).max)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        return np.maximum(np.log1p(variance / (mean * mean)), _SMALL).astype(mean.dtype)
