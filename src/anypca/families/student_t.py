"""Real numbers with heavy tails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from anypca._typing import Floats, PerColumn
from anypca.families._base import (
    NOT_ASKED,
    Evaluation,
    Family,
    Total,
    families,
    filled,
    like,
)
from anypca.families._columns import ColumnFamily
from anypca.families._cuts import counted
from anypca.families._dispersed import Dispersed
from anypca.families._profile import best_on_grid
from anypca.families.gaussian import RealNumbers

#: Degrees of freedom to choose from, about a factor of 1.5 apart, and where columns start.
_GRID, _START = (2.5, 3.0, 4.0, 5.5, 8.0, 12.0, 20.0, 50.0), 4.0
#: Squared residuals are counted in bins of their logarithm, from e^-12 of the scale, which is nothing, to e^24.
_LEAST, _BIN, _N_BINS = -12.0, 0.2, 180
#: Factors of the present scale with which each number of degrees of freedom is tried.
_SCALES = np.exp(np.linspace(-4.0, 4.0, 81))


@families.register
@dataclass(frozen=True)
class StudentT(Dispersed, ColumnFamily, RealNumbers):
    r"""Real numbers with outliers: ``(x - eta) / s`` follows Student's t with ``df`` degrees of freedom.

    ``log p(x) = -(df + 1) / 2 log(1 + (x - eta)^2 / (df s^2))`` up to terms without eta, which ``evaluate`` drops. The
    domain is every real number and the link the identity. The dispersion is s^2; the variance is ``df / (df - 2)`` of
    it. The log-likelihood is not concave: an outlier has a bump of its own. Steps use ``w / s^2`` with the weight
    ``w = (df + 1) / (df + (x - eta)^2 / s^2)`` of EM, which majorises it.

    Chosen by ``family="auto"`` for real numbers of more than twelve distinct values where heavy tails gain more than
    eight nats over `Gaussian`, the price of one more parameter taken off.

    Parameters
    ----------
    df : float, or tuple of one for each column, optional
        Degrees of freedom, > 2. The default is 4. Fits that estimate dispersions also estimate the degrees of freedom
        of each column, from 2.5 (heavy tails) to 50 (nearly normal), unless they are given.
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
    given_by = "scale"
    is_concave = False
    has_information = False
    expectation = "bound"

    per_column = ("df",)

    df: Any = None
    scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_columns(
            lambda df: np.isfinite(df) & (df > 2),
            "df > 2, for its variance to exist, and finite",
            "Leave it out to have it estimated, or use family='gaussian'.",
        )

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(), cls(df=12.0))

    def degrees(self, eta: Floats) -> Floats:
        """Degrees of freedom in the dtype of eta: one for each column, or a number."""
        df = np.asarray((_START,) if self.df is None else self.df, dtype=eta.dtype)
        return df if df.size > 1 else np.asarray(df[0])

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        return self._terms(x - eta, 0.0, like(dispersion, eta), order)

    def _terms(self, residual: Floats, variance: PerColumn, scale: Floats, order: int) -> Evaluation:
        """The terms with ``residual^2 + variance`` in the place of the squared residual."""
        df = self.degrees(residual)
        with np.errstate(over="ignore"):
            square = (residual * residual + variance) / (df * scale)
        value = -0.5 * (df + 1.0) * np.log1p(square)
        if order == 0:
            return Evaluation(value)
        curvature = (df + 1.0) / (df * scale * (1.0 + square))
        return Evaluation(value, curvature * residual, curvature if order >= 2 else NOT_ASKED)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """A lower bound: the logarithm is concave in the squared residual, whose expectation adds the variance."""
        return self._terms(x - mean, variance, like(dispersion, mean), 2)

    def bound_gap(self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """By quadrature: in the bound an uncertain eta makes residuals wider, which costs components their place."""
        close = Family.expected_log_likelihood(self, x, mean, variance, dispersion).value
        return np.maximum(close - self.expected_log_likelihood(x, mean, variance, dispersion).value, 0.0)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """The curvature of the steps less ``2 score^2 / (df + 1)``, negative for outliers."""
        return found.curvature - 2.0 / (self.degrees(eta) + 1.0) * found.gradient**2

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(_log_peak(self.degrees(x)) - 0.5 * np.log(like(dispersion, x)), x)

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        peak = np.exp(_log_peak(self.degrees(mean)))
        return np.asarray((like(step, mean) * peak) ** 2 * np.ones_like(mean), mean.dtype)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.zeros_like(x)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        df = self.degrees(mu)
        return filled(like(dispersion, mu) * df / (df - 2.0), mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return eta + np.sqrt(dispersion) * rng.standard_t(self.degrees(eta), eta.shape)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        df = self.degrees(variance)
        # A constant column has no scale; any will do.
        found = np.where(variance > 0, variance * (df - 2.0) / df, 1.0)
        return np.asarray(found, variance.dtype)

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        """The same degrees of freedom in each column, to start with."""
        return self if self.df is not None else replace(self, df=(_START,) * len(low), is_estimated=True)

    def updated_from_fit(self, total: Total) -> Family:
        """The degrees of freedom that suit the residuals best, each with its best scale."""
        if not self.is_estimated:
            return self

        def count(x: Floats, weights: Floats, eta: Floats, dispersion: Floats) -> Floats:
            with np.errstate(divide="ignore"):
                place = (np.log((x - eta) ** 2 / dispersion) - _LEAST) / _BIN
            return counted(np.clip(place, 0, _N_BINS - 1).astype(np.intp), weights, _N_BINS)

        counts = total(count)
        present = np.array([_GRID.index(df) for df in self.df])
        found = best_on_grid(_profile(counts), counts.sum(axis=1), present)
        if (found == present).all():
            return self
        return replace(self, df=tuple(_GRID[number] for number in found))


def _log_peak(df: Floats) -> Floats:
    """Logarithm of the density at its centre, with a scale of 1."""
    return np.asarray(gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(np.pi * df))


def _profile(counts: Floats) -> Floats:
    """Largest log-likelihood over the scale at each number of degrees of freedom, shape (n_columns, n_grid)."""
    square = np.exp(_LEAST + _BIN * (np.arange(_N_BINS) + 0.5))[:, None]
    best = []
    for df in _GRID:
        terms = -0.5 * (df + 1.0) * np.log1p(square / (df * _SCALES)) - 0.5 * np.log(_SCALES)
        best.append((counts @ (terms + _log_peak(np.asarray(df)))).max(axis=1))
    return np.stack(best, axis=1)
