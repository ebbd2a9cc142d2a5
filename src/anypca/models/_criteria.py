"""Criteria that compare fits of different rank on the same table, and the numbers they are made of.

Lower is better everywhere. They are public in `anypca.selection`; `select_rank` documents which are comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anypca._registry import Registry

criteria: Registry[Criterion] = Registry("criterion")


class Likelihood(NamedTuple):
    """A maximised log-likelihood and its number of parameters.

    See Also
    --------
    FitFacts : has it.
    """

    value: float
    """With all constants; for `EPCA` and `SePCA`, of the entries recorded in steps."""
    n_parameters: int
    """Free parameters, minus the degrees of freedom of rotations."""
    n_observations: float
    """Sample size of the parameters: rows, or entries if scores are parameters."""
    code_length: float
    """``sum log(m) / 2`` over the parameters, with m the number of observations that depend on each; in nats."""

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return -2.0 * self.value + 2.0 * self.n_parameters

    @property
    def bic(self) -> float:
        """Schwarz's information criterion."""
        return -2.0 * self.value + self.n_parameters * float(np.log(self.n_observations))

    @classmethod
    def integrated(cls, value: float, n_parameters: int, rows: float) -> Likelihood:
        """A likelihood in which rows are independent observations."""
        return cls(value, n_parameters, rows, 0.5 * n_parameters * float(np.log(rows)))


@dataclass(frozen=True)
class FitFacts:
    """Numbers of a fit; None where the model does not have them.

    See Also
    --------
    describe_fit : collects them.
    """

    likelihood: Likelihood | None = None
    """Of the model as it was fitted: scores integrated out, or plugged in as further parameters."""
    marginal: Likelihood | None = None
    """With the scores integrated out."""
    entropy: float | None = None
    """Of the posteriors of all rows' scores, in units of their prior."""
    evidence: float | None = None
    """Log evidence, or a bound of it: all parameters integrated out."""


Evaluate = Callable[[FitFacts], float | None]


@dataclass(frozen=True)
class Criterion:
    """A number that is lower for better fits.

    Parameters
    ----------
    name : str
        Name that selects the criterion.
    label : str
        Axis label in plots.
    evaluate : callable
        Returns the criterion from the `FitFacts` of a fit, None if the model does not define it.
    is_held_out : bool, default=False
        Whether it is estimated from entries left out of the fit, not from the fit.

    See Also
    --------
    select_rank : uses it.

    Examples
    --------
    >>> from anypca.selection import Criterion, criteria
    >>> entropy = Criterion("entropy", "entropy of the scores", lambda facts: facts.entropy)

    ``criteria.register(entropy)`` lets it be asked for by its name.
    """

    name: str
    label: str
    evaluate: Evaluate
    is_held_out: bool = False

    def __call__(self) -> Criterion:
        """Return itself, because a registry calls its entries."""
        return self


def _named(name: str, label: str, *, is_held_out: bool = False) -> Callable[[Evaluate], Evaluate]:
    """Register a function as a criterion."""

    def register(function: Evaluate) -> Evaluate:
        criteria.register(Criterion(name, label, function, is_held_out))
        return function

    return register


@_named("aic", "AIC")
def _aic(facts: FitFacts) -> float | None:
    """Akaike's information criterion, ``-2 L + 2 d`` with d free parameters."""
    return None if facts.likelihood is None else facts.likelihood.aic


@_named("bic", "BIC")
def _bic(facts: FitFacts) -> float | None:
    """Schwarz's information criterion, ``-2 L + d log n``.

    n is the number of rows where L integrates the scores out (`PPCA`, `PLNPCA`, `PiecewisePCA`), and the number of
    observed entries where they are plugged in and counted in d (`EPCA`). The two are not comparable with each other.
    """
    return None if facts.likelihood is None else facts.likelihood.bic


@_named("mdl", "description length (nats)")
def _mdl(facts: FitFacts) -> float | None:
    """Minimum description length in nats, ``-L + sum_a log(m_a) / 2``.

    Each parameter is written down to the precision at which its m observations tell it: a loading, intercept or
    coefficient from the entries of a column, a plugged-in score from the entries of a row. Where scores are
    integrated out all parameters rest on n rows, and this is half of BIC.
    """
    found = facts.likelihood
    return None if found is None else -found.value + found.code_length


@_named("marginal_bic", "BIC, scores integrated out")
def _marginal_bic(facts: FitFacts) -> float | None:
    """BIC of the likelihood with the scores integrated out, ``-2 L + d log n`` with n rows.

    For `EPCA` it uses Laplace's approximation, with normal scores of the fitted variances, and the log-probability of
    the recorded table, so that families are comparable. For models that integrate the scores it equals BIC. `PPCA` and
    `PiecewisePCA` use a log-density if columns are continuous.
    """
    return None if facts.marginal is None else facts.marginal.bic


@_named("icl", "ICL")
def _icl(facts: FitFacts) -> float | None:
    """Integrated completed likelihood, ``-2 L + d log n + 2 H``.

    L, d and n are defined as in ``marginal_bic``. H is the entropy of the posteriors of all rows' scores in units of
    their prior, which penalises components with uncertain scores. ICL is comparable across the same models as
    ``marginal_bic``, but not with ``marginal_bic`` itself.
    """
    if facts.marginal is None or facts.entropy is None:
        return None
    return facts.marginal.bic + 2.0 * facts.entropy


@_named("evidence", "-2 log evidence")
def _evidence(facts: FitFacts) -> float | None:
    """Minus twice the log evidence (or its bound), which is on the scale of BIC.

    For `SePCA` it is the log-probability of the recorded table, comparable across dimensions, families and units. It
    integrates loadings out under their prior, which BIC only approximates, so do not compare it with BIC.
    """
    return None if facts.evidence is None else -2.0 * facts.evidence


@_named("held_out", "-log-likelihood per held-out entry", is_held_out=True)
def _held_out(facts: FitFacts) -> float | None:
    """Minus the mean log-probability of entries left out of the fit, L_miss; see `entry_cross_validate`.

    Comparable across all models, families and units on the same entries with the same steps.
    """
    return None


def resolve_criterion(criterion: Any) -> Criterion:
    """A criterion from its name, or itself.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if isinstance(criterion, Criterion):
        return criterion
    if not isinstance(criterion, str):
        raise TypeError(
            f"criterion must be one of {', '.join(map(repr, criteria))} or a Criterion; got {criterion!r}."
        )
    return criteria.create(criterion)


def evaluate_all(facts: FitFacts) -> dict[str, float]:
    """Every criterion of the registry that a fit has, by name."""
    found = {name: criteria.create(name).evaluate(facts) for name in criteria}
    return {name: value for name, value in found.items() if value is not None}
