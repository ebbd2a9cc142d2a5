"""Real numbers with heavy tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, families, filled, like, positive_or_none


@families.register
@dataclass(frozen=True)
class StudentT(Family):
    r"""Real numbers with outliers: ``(x - eta) / s`` follows Student's t with ``df`` degrees of freedom.

    ``log p(x) = -(df + 1) / 2 log(1 + (x - eta)^2 / (df s^2))`` up to terms without eta, which ``evaluate`` drops. The
    domain is every real number and the link the identity. The dispersion is s^2; the variance is ``df / (df - 2)`` of
    it. The log-likelihood is not concave: an outlier has a bump of its own. Steps use ``w / s^2`` with the weight
    ``w = (df + 1) / (df + (x - eta)^2 / s^2)`` of EM, which majorises it.

    Parameters
    ----------
    df : float
        Degrees of freedom, > 2.
    scale : float, optional
        The squared scale s^2; estimated when left out.

    See Also
    --------
    Gaussian : without outlying cells.

    Examples
    --------
    >>> import numpy as np
    >>> StudentT().evaluate(np.array([0.0, 100.0]), np.zeros(2)).gradient.round(2).tolist()
    [0.0, 0.05]
    """

    name = "student_t"
    dispersion_kind = "scale"
    has_units = True
    is_concave = False
    has_information = False
    expectation = "bound"
    support = "finite values"
    remedy = "Mark missing entries with NaN and remove infinite ones."

    df: float = 4.0
    scale: float | None = None

    def __post_init__(self) -> None:
        df = positive_or_none(self.df, "df", "StudentT")
        if df is None or df <= 2:
            raise ValueError(f"StudentT needs df > 2, for its variance to exist; got df={self.df!r}.")
        object.__setattr__(self, "df", df)
        object.__setattr__(self, "scale", positive_or_none(self.scale, "scale", "StudentT"))

    @property
    def fixed_dispersion(self) -> float | None:
        return self.scale

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        return self._terms(x - eta, 0.0, like(dispersion, eta), order)

    def _terms(self, residual: Floats, variance: PerColumn, scale: Floats, order: int) -> Evaluation:
        """The terms with ``residual^2 + variance`` in the place of the squared residual."""
        with np.errstate(over="ignore"):
            square = (residual * residual + variance) / (self.df * scale)
        value = -0.5 * (self.df + 1.0) * np.log1p(square)
        if order == 0:
            return Evaluation(value)
        curvature = (self.df + 1.0) / (self.df * scale * (1.0 + square))
        return Evaluation(value, curvature * residual, curvature if order >= 2 else NOT_ASKED)

    def expect(self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0) -> Evaluation:
        """A lower bound: the logarithm is concave in the squared residual, whose expectation adds the variance."""
        return self._terms(x - mean, variance, like(dispersion, mean), 2)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """The curvature of the steps less ``2 score^2 / (df + 1)``, negative for outliers."""
        return found.curvature - 2.0 / (self.df + 1.0) * found.gradient**2

    def log_base(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        constant = gammaln(0.5 * (self.df + 1.0)) - gammaln(0.5 * self.df)
        return filled(constant - 0.5 * np.log(np.pi * self.df * like(dispersion, x)), x)

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        peak = np.exp(self.log_base(np.zeros(1)))
        return np.asarray((like(step, mean) * peak) ** 2 * np.ones_like(mean), mean.dtype)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.zeros_like(x)

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return eta.copy()

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return mu.copy()

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(like(dispersion, mu) * self.df / (self.df - 2.0), mu)

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return eta + np.sqrt(dispersion) * rng.standard_t(self.df, eta.shape)

    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        return total / count

    def _moment_dispersion(self, mean: Floats, variance: Floats) -> Floats:
        # A constant column has no scale; any will do.
        found = np.where(variance > 0, variance * (self.df - 2.0) / self.df, 1.0)
        return np.asarray(found, variance.dtype)
