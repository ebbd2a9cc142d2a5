"""What a family of distributions must provide, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from anypca._registry import Registry
from anypca._typing import Bools, Floats

families: Registry[Family] = Registry("family")


class Evaluation(NamedTuple):
    """Log-likelihood terms of one fused call, elementwise in the linear predictor ``eta``."""

    value: Floats
    """Log-likelihood without the terms that do not depend on eta."""
    gradient: Floats | None
    """First derivative in eta (``None`` for ``order=0``)."""
    curvature: Floats | None
    """Minus the expected second derivative in eta, >= 0 (``None`` for ``order<2``)."""


@dataclass(frozen=True)
class Family(ABC):
    r"""A distribution for the entries of one column, with its link.

    A family knows densities and derivatives in the linear predictor eta and nothing of scores, loadings or
    solvers. All methods are elementwise and broadcast; ``dispersion`` is a scalar or one value per column.

    The log-likelihood is ``evaluate(x, eta, dispersion).value + log_base(x, dispersion)``.
    It is concave in eta for every family of the registry, so that Newton steps with halving never fail.
    """

    name: ClassVar[str]
    #: ``None``: the dispersion is 1 by definition. ``"scale"``: the variance is proportional to it
    #: (gaussian variance, gamma 1/shape). ``"shape"``: it enters otherwise (negative binomial 1/size).
    dispersion_kind: ClassVar[Literal["scale", "shape"] | None] = None
    #: The support in words, for error messages.
    support: ClassVar[str]
    #: What to do about values outside the support, for error messages.
    remedy: ClassVar[str] = "Choose another family for these columns."
    #: Counts: non-integers are accepted with a warning.
    is_discrete: ClassVar[bool] = False

    @property
    def fixed_dispersion(self) -> float | None:
        """The dispersion when it is given or 1 by definition, ``None`` when it is to be estimated."""
        return 1.0

    @abstractmethod
    def evaluate(self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0, *, order: int = 2) -> Evaluation:
        """Value, gradient and curvature of the log-likelihood in eta, from one call.

        Parameters
        ----------
        x, eta : ndarray of the same shape
        dispersion : float or ndarray of shape (n_columns,)
        order : {0, 1, 2}
            0: the value only; 1: with the gradient; 2: with the curvature.
        """

    @abstractmethod
    def log_base(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """The terms of the log-likelihood that do not depend on eta."""

    @abstractmethod
    def saturated(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Largest ``evaluate(...).value`` over eta (the limit where it is not attained)."""

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Mean of x given eta (the inverse link)."""

    @abstractmethod
    def link(self, mu: Floats) -> Floats:
        """Linear predictor of a mean in the interior of the mean space."""

    @abstractmethod
    def variance(self, mu: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Variance of x with mean mu."""

    @abstractmethod
    def in_support(self, x: Floats) -> Bools:
        """Which values the family can have produced."""

    @abstractmethod
    def sample(self, eta: Floats, dispersion: Floats | float, rng: np.random.Generator) -> Floats:
        """Draw x given eta."""

    @abstractmethod
    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        """Mean ``total / count`` pulled a little into the open mean space, as a start for the intercept."""

    def columns(self, index: slice) -> Family:
        """The family of a slice of the columns (the same for all columns unless mixed)."""
        return self

    def initial_dispersion(self, mean: Floats, variance: Floats) -> Floats:
        """A start for the dispersion from the columns' means and variances, shape (n_columns,)."""
        return np.ones_like(mean)

    def log_likelihood(self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Log density or log probability of x, with all constants."""
        return self.evaluate(x, eta, dispersion, order=0).value + self.log_base(x, dispersion)

    def saturated_log_likelihood(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Largest log-likelihood of x over eta, with all constants."""
        return self.saturated(x, dispersion) + self.log_base(x, dispersion)

    def deviance(self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Twice the distance to the saturated log-likelihood, >= 0.

        It is scaled: with ``dispersion=1`` it is the unit deviance of the gaussian and gamma families.
        """
        gap = self.saturated(x, dispersion) - self.evaluate(x, eta, dispersion, order=0).value
        return 2.0 * np.maximum(gap, 0.0)

    def pearson(self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0) -> Floats:
        """Squared Pearson residual ``(x - mu)^2 / variance``, of mean 1 under the model."""
        mu = self.mean(eta)
        return (x - mu) ** 2 / self.variance(mu, dispersion)
