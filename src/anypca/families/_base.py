"""Interface of families of distributions, with default methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from anypca._registry import Registry
from anypca._typing import Bools, Floats, Ints, PerColumn

families: Registry[Family] = Registry("family")

#: Sums a function of blocks over a table, for each column; see `Family.initialised_from`.
Total = Callable[[Callable[..., Floats]], Floats]


#: Placeholder for derivatives above the requested order. It is None, cast to the type of an array so that callers need
#: no type checks.
NOT_ASKED = cast("Floats", None)


class Evaluation(NamedTuple):
    """Log-likelihood terms of one fused call, elementwise in the linear predictor ``eta``.

    See Also
    --------
    Family : whose ``evaluate`` returns it.
    """

    value: Floats
    """Log-likelihood without the terms that do not depend on eta."""
    gradient: Floats = NOT_ASKED
    """First derivative in eta (``None`` for ``order=0``)."""
    curvature: Floats = NOT_ASKED
    """Minus the expected second derivative in eta, >= 0, or what the family steps by (``None`` for ``order<2``)."""

    def apply(self, function: Callable[[Floats], Floats]) -> Evaluation:
        """A function of each of the arrays; where two of them are one array they stay one, which saves sums."""
        value = function(self.value)
        rest = (
            value if part is self.value else part if part is None else function(part) for part in self[1:]
        )
        return Evaluation(value, *rest)


@dataclass(frozen=True)
class Family(ABC):
    r"""A distribution for the entries of one column, with its link.

    A family defines densities and derivatives in the linear predictor eta; it knows no scores, loadings or solvers.
    All methods are elementwise on arrays whose last axis is the columns; ``dispersion`` is a scalar or one value per
    column.

    See Also
    --------
    Mixed : one family for each column.

    Notes
    -----
    `tests/mathematics/test_families.py` checks every family in the registry:

    - The log-likelihood is ``evaluate(x, eta, dispersion).value + log_base_measure(x, dispersion)``, normalised over
      the support, for every real eta; `mean`, `variance` and `sample` belong to it.
    - It is concave in eta unless ``is_concave = False``, and the curvature of `evaluate` is the expected information
      unless ``has_information = False``.
    - Values, means and deviances are finite at eta of -700 and 700. Nothing is NaN beyond, nothing is clipped, and a
      NaN in one cell leaves the others alone.
    - 1.0 is in the support: missing entries hold it while arrays are evaluated whole.
    - Arrays are new and in the dtype of eta. Families are values: frozen, hashable, printed as their constructor call.
    """

    name: ClassVar[str]
    #: ``None``: the dispersion is 1 by definition. ``"scale"``: the variance is proportional to it
    #: (gaussian variance, gamma 1/shape). ``"shape"``: it enters otherwise (negative binomial 1/size).
    dispersion_kind: ClassVar[Literal["scale", "shape"] | None] = None
    #: The support in words, for error messages.
    support: ClassVar[str]
    #: What to do about values outside the support, for error messages.
    remedy: ClassVar[str] = "Choose another family for these columns."
    #: What `expected_log_likelihood` returns: the expectation, a lower bound of it, or an approximation.
    expectation: ClassVar[Literal["exact", "bound", "approximate"]] = "exact"
    #: eta has the units of x: penalties on it are then measured in standard deviations of the noise.
    has_units: ClassVar[bool] = False
    #: What adding to eta does: it shifts the mean, multiplies it (or the rate), or multiplies odds.
    link_kind: ClassVar[Literal["identity", "log", "logit"]] = "identity"
    #: Counts: non-integers are accepted with a warning.
    is_discrete: ClassVar[bool] = False
    #: The log-likelihood is concave in eta for every x.
    is_concave: ClassVar[bool] = True
    #: The curvature of `evaluate` is the expected information, and not only a curvature to step by.
    has_information: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate the parameters; families without parameters need not."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """The fields without cached values, so that a used family equals a new one."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def fixed_dispersion(self) -> float | None:
        """The dispersion when it is given or 1 by definition, ``None`` when it is to be estimated."""
        return 1.0

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        """Instances that the conformance tests run over; override when the constructor needs arguments."""
        return (cls(),)

    @abstractmethod
    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        """Value, gradient and curvature of the log-likelihood in eta, from one call.

        Parameters
        ----------
        x, eta : ndarray of the same shape
        dispersion : float or ndarray of shape (n_columns,)
        order : {0, 1, 2}
            0: the value only; 1: with the gradient; 2: with the curvature.

        Returns
        -------
        Evaluation
            New arrays in the dtype of ``eta``, which the caller may overwrite: none of them shares memory
            with another or with the inputs. Where exp overflows on a trial step the value is ``-inf``, never
            NaN.
        """

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """The value under a normal distribution of eta: its expectation, or a stand-in with consistent derivatives.

        Parameters
        ----------
        x, mean, variance : ndarray of the same shape
            ``variance >= 0``; at 0 the value equals ``evaluate``.
        dispersion : float or ndarray of shape (n_columns,)

        Returns
        -------
        Evaluation
            The value, its derivative in the mean, and as curvature minus twice its derivative in the variance:
            the information about eta that a variational posterior gets from x.

        Notes
        -----
        By default the Gauss-Hermite rule with three nodes, 0 and +-sqrt(3) standard deviations, whose derivatives in
        mean and variance are again differences of values and gradients at the nodes. It is within 0.01 of the
        expectation at a variance of 0.5 for the families of this package that use it.
        """
        spread = np.sqrt(3.0 * variance)
        middle, low, high = (
            self.evaluate(x, mean + s * spread, dispersion, order=1) for s in (0.0, -1.0, 1.0)
        )
        value = 2.0 / 3.0 * middle.value + (low.value + high.value) / 6.0
        gradient = 2.0 / 3.0 * middle.gradient + (low.gradient + high.gradient) / 6.0
        # Where the spread is too small for a difference of gradients, the curvature at the mean is the limit.
        is_small = spread < np.cbrt(np.finfo(mean.dtype).eps)
        curvature = (low.gradient - high.gradient) / np.where(is_small, 1.0, 2.0 * spread)
        if is_small.any():
            found = self.evaluate(x, mean, dispersion)
            curvature = np.where(is_small, self.observed_curvature(x, mean, found, dispersion), curvature)
        return Evaluation(value, gradient, np.maximum(curvature, 0.0))

    def bound_gap(self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Return the distance from `expected_log_likelihood` up to the expectation if it is a loose bound, else 0."""
        return np.zeros_like(mean)

    @abstractmethod
    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """The terms of the log-likelihood that do not depend on eta."""

    @abstractmethod
    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Largest ``evaluate(...).value`` over eta (the limit where it is not attained)."""

    @abstractmethod
    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        """Mean of x given eta (the inverse link).

        For families whose mean depends on the dispersion (such as the log-normal), ``None`` returns the median.
        """

    @abstractmethod
    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        """Linear predictor of a mean in the interior of the mean space; the inverse of `mean`, ``None`` included."""

    @abstractmethod
    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Variance of x with mean mu."""

    @abstractmethod
    def in_support(self, x: Floats) -> Bools:
        """Which values the family can have produced."""

    @abstractmethod
    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        """Draw x given eta."""

    @abstractmethod
    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        """Mean ``total / count`` pulled a little into the open mean space, as a start for the intercept."""

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """Minus the second derivative in eta at the data; ``found`` is what ``evaluate`` gives with ``order=2``.

        It equals the expected one for canonical links; elsewhere Newton steps with it converge quadratically,
        and steps with the expected one are the more careful far from the optimum.
        """
        return found.curvature

    def newton_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """The observed curvature where the log-likelihood is concave; elsewhere the one of ``evaluate``, >= 0."""
        return self.observed_curvature(x, eta, found, dispersion) if self.is_concave else found.curvature

    def take(self, index: slice | Ints) -> Family:
        """Return the family of some of the columns, in the order of ``index``."""
        return self

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        """Return the family with parameters of its columns that suit a table; most families have none.

        Parameters
        ----------
        low, high, steps : ndarray of shape (n_columns,)
            Smallest and largest value of each column, and the resolution with which it is recorded.
        total : callable
            ``total(function)`` sums ``function(x, weights)`` over the blocks of the table, arrays of shape
            (n_columns, m). ``weights`` has one weight for each entry, zero if it is missing.
        """
        return self

    def updated_from_fit(self, total: Total) -> Family:
        """The family with better parameters, given fitted predictors; the same object if hardly any changes.

        Parameters
        ----------
        total : callable
            As for `initialised_from`, of ``function(x, weights, eta, dispersion)``.
        """
        return self

    def member_columns(self, n_features: int) -> list[tuple[Family, Ints]]:
        """Groups of columns with one family each: its family and the indices, together all columns."""
        return [(self, np.arange(n_features))]

    def log_likelihood(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Log density or log probability of x, with all constants."""
        return self.evaluate(x, eta, dispersion, order=0).value + self.log_base_measure(x, dispersion)

    def log_step(self, x: Floats, step: PerColumn) -> Floats:
        """Return the log of a step, which turns a log-density into a log-probability; 0 for whole numbers."""
        return np.zeros_like(x) if self.is_discrete else filled(np.log(like(step, x)), x)

    def log_interval_probability(
        self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, step: PerColumn = 1.0
    ) -> Floats:
        """Log-probability of the recorded value x: of x itself, or of an interval of one step around it.

        These probabilities are comparable across families; densities are not. The default approximates the
        probability of the interval by the density times the step, at most 1.
        """
        found = self.log_likelihood(x, eta, dispersion) + self.log_step(x, step)
        return np.minimum(found, 0.0, out=found)

    def deviance(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Twice the distance to the saturated log-likelihood, >= 0.

        It is scaled: with ``dispersion=1`` it is the unit deviance of the gaussian and gamma families.
        """
        gap = self.saturated(x, dispersion) - self.evaluate(x, eta, dispersion, order=0).value
        return 2.0 * np.maximum(gap, 0.0)

    def pearson(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """Score squared over curvature, of mean 1 under the model.

        In an exponential dispersion family it is the squared Pearson residual ``(x - mu)^2 / variance``.
        """
        # This form stays finite where the mean or its variance do not.
        with np.errstate(over="ignore", divide="ignore"):
            _, gradient, curvature = self.evaluate(x, eta, dispersion, order=2)
            ratio = np.divide(gradient, curvature, out=np.zeros_like(gradient), where=gradient != 0)
            return ratio * gradient


def differenced_curvature(family: Family, x: Floats, eta: Floats, dispersion: PerColumn) -> Floats:
    """Return the observed curvature by differences of the gradient, for families whose own form is long."""
    step = np.cbrt(np.finfo(eta.dtype).eps)
    low, high = (family.evaluate(x, eta + s * step, dispersion, order=1).gradient for s in (-1.0, 1.0))
    return np.asarray((low - high) / (2.0 * step))


def like(dispersion: PerColumn, eta: Floats) -> Floats:
    """The dispersion in the dtype of eta: float64 dispersions must not turn float32 work into float64."""
    return np.asarray(dispersion, dtype=eta.dtype)


def over_dispersion(dispersion: PerColumn, eta: Floats) -> Floats:
    """The dispersion in the dtype of eta, kept away from zero so that its reciprocal is finite."""
    return np.maximum(like(dispersion, eta), np.sqrt(np.finfo(eta.dtype).tiny))


def filled(values: PerColumn, eta: Floats) -> Floats:
    """A new array of the shape of eta that repeats ``values`` (a scalar or one per column)."""
    result = np.empty_like(eta)
    result[...] = values
    return result
