"""Positive amounts with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats
from anypca.families._base import Evaluation, Family, families, filled, like, positive_or_none

#: Smallest dispersion to start an estimate from (a coefficient of variation of 1e-4).
_SMALL = 1e-8


@families.register
@dataclass(frozen=True)
class Gamma(Family):
    r"""Positive amounts: mean ``mu = exp(eta)``, variance ``phi mu^2``.

    ``log p(x) = (-eta - x exp(-eta)) / phi + s log s + (s - 1) log x - log G(s)`` with shape s = 1/phi and G
    the gamma function. The domain is x > 0; eta is any real number. The dispersion is phi. ``evaluate`` drops
    the terms without eta.

    Parameters
    ----------
    shape : float, optional
        The shape 1/phi > 0; estimated when left out.

    Examples
    --------
    >>> Gamma(shape=4.0).fixed_dispersion
    0.25
    """

    name = "gamma"
    dispersion_kind = "scale"
    support = "values > 0"
    remedy = "Use family='gaussian', or treat zeros as missing (NaN)."

    shape: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", positive_or_none(self.shape, "shape", "Gamma"))

    @property
    def fixed_dispersion(self) -> float | None:
        return None if self.shape is None else 1.0 / self.shape

    def evaluate(
        self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0, *, order: int = 2
    ) -> Evaluation:
        return evaluate_positive(x, eta, 1.0 / like(dispersion, eta), order)

    def expect(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: Floats | float = 1.0
    ) -> Evaluation:
        """Exact: ``shape (-mean - x exp(-mean + variance / 2))``."""
        return expect_positive(x, mean, variance, 1.0 / like(dispersion, mean))

    def observed_curvature(self, found: Evaluation, dispersion: Floats | float = 1.0) -> Floats:
        return observed_positive(found)

    def log_base(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        shape = 1.0 / like(dispersion, x)
        base: Floats = (shape - 1.0) * np.log(x) + shape * np.log(shape) - gammaln(shape)
        return base

    def saturated(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        return (-np.log(x) - 1.0) / like(dispersion, x)

    def mean(self, eta: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def link(self, mu: Floats) -> Floats:
        return np.log(mu)

    def variance(self, mu: Floats, dispersion: Floats | float = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return like(dispersion, mu) * mu * mu

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x > 0)

    def sample(self, eta: Floats, dispersion: Floats | float, rng: np.random.Generator) -> Floats:
        phi = np.asarray(dispersion, float)
        draw = rng.standard_gamma(1.0 / phi, size=eta.shape) * phi * np.exp(eta)
        # A shape far below 1 puts mass on numbers too small to hold; zero is outside the support.
        positive: Floats = np.maximum(draw, np.finfo(float).tiny)
        return positive

    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        return total / count

    def _moment_dispersion(self, mean: Floats, variance: Floats) -> Floats:
        return np.maximum(variance / (mean * mean), _SMALL)


def expect_positive(x: Floats, mean: Floats, variance: Floats, shape: Floats | float) -> Evaluation:
    """``shape (-mean - x exp(-mean + variance / 2))`` and its derivatives."""
    ratio = x * np.exp(0.5 * variance - mean)
    return Evaluation(-shape * (mean + ratio), shape * (ratio - 1.0), shape * ratio)


def observed_positive(found: Evaluation) -> Floats:
    """``shape x exp(-eta)``: gradient and expected information are ``shape (x exp(-eta) - 1)`` and ``shape``."""
    assert found.gradient is not None
    assert found.curvature is not None
    return found.gradient + found.curvature


def evaluate_positive(x: Floats, eta: Floats, shape: Floats | None, order: int) -> Evaluation:
    """Terms of ``shape (-eta - x exp(-eta))``; a shape of ``None`` is 1.

    The expected information is the shape: on the log scale every mean is known equally well.

    Parameters
    ----------
    x, eta : ndarray of the same shape
    shape : ndarray of shape () or (n_columns,), or None
    order : {0, 1, 2}
    """
    ratio = np.negative(eta, out=np.empty_like(eta))
    with np.errstate(over="ignore"):
        np.exp(ratio, out=ratio)
        ratio *= x
        value = eta + ratio
        value *= -1.0 if shape is None else -shape
        if order == 0:
            return Evaluation(value, None, None)
        ratio -= 1.0
        if shape is not None:
            ratio *= shape
    curvature = (np.ones_like(eta) if shape is None else filled(shape, eta)) if order >= 2 else None
    return Evaluation(value, ratio, curvature)
