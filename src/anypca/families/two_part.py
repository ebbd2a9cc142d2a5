"""Amounts and counts with many zeros, as two columns: whether there is something, and how much of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.families._base import Family, column_forms
from anypca.families.bernoulli import Bernoulli
from anypca.families.forms import Constant, Form, Moments, number_text
from anypca.families.gamma import Gamma
from anypca.families.log_normal import LogNormal
from anypca.families.truncated_negative_binomial import TruncatedNegativeBinomial
from anypca.families.truncated_poisson import TruncatedPoisson


@dataclass(frozen=True)
class TwoPart(Form):
    """Zeros have a predictor of their own: the column enters as 1[x > 0] and as x where it is not zero.

    Both parts have loadings and an intercept. Zeros are missing in the second one, so that they tell of the rows by the
    first alone; the log-likelihood of the column is the sum of the two, and its mean their product.
    """

    makes_missing = True

    @property
    @abstractmethod
    def positive(self) -> Family:
        """The family of what is not zero."""

    @property
    def parts(self) -> tuple[Family, ...]:
        return Bernoulli(), self.positive

    @property
    def is_nonnegative(self) -> bool:
        return True

    def labels(self, column: str, text: Callable[[float], str] = number_text) -> tuple[str, ...]:
        return f"{column} > 0", column

    def adapted(self, facts: Moments, column: int) -> Form:
        if facts.maximum[column] == 0:  # nothing is known of how much there would be
            return Constant(0.0, reason="all zeros")
        return self

    def split(self, x: Floats, column: str) -> Floats:
        # Negative amounts stay in the second part, whose family refuses them.
        is_there = np.where(np.isnan(x), np.nan, x != 0)
        return np.column_stack([is_there, np.where(x == 0, np.nan, x)]).astype(x.dtype)

    def mean(self, means: Floats) -> Floats:
        product: Floats = means[:, 0] * means[:, 1]
        return product

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        share, size = means.T
        found: Floats = np.sqrt(share * deviations[:, 1] ** 2 + share * (1.0 - share) * size**2)
        return found


@column_forms.register
@dataclass(frozen=True)
class ZeroInflatedLogNormal(TwoPart):
    """Amounts with zeros; those above zero are log-normal.

    See Also
    --------
    ZeroInflatedGamma : lighter in the tails.

    Examples
    --------
    >>> import numpy as np
    >>> ZeroInflatedLogNormal().split(np.array([0.0, 2.5]), "rain").tolist()
    [[0.0, nan], [1.0, 2.5]]
    """

    name = "zero_inflated_log_normal"

    @property
    def positive(self) -> Family:
        return LogNormal()


@column_forms.register
@dataclass(frozen=True)
class ZeroInflatedGamma(TwoPart):
    """Amounts with zeros; those above zero have a gamma distribution.

    See Also
    --------
    Tweedie : zeros and amounts from one mean.
    """

    name = "zero_inflated_gamma"

    @property
    def positive(self) -> Family:
        return Gamma()


@column_forms.register
@dataclass(frozen=True)
class HurdlePoisson(TwoPart):
    """Counts with zeros of another origin; those above zero are Poisson counts that are not zero.

    See Also
    --------
    ZeroInflatedPoisson : zeros of two kinds.
    """

    name = "hurdle_poisson"

    @property
    def positive(self) -> Family:
        return TruncatedPoisson()


@column_forms.register
@dataclass(frozen=True)
class HurdleNegativeBinomial(TwoPart):
    """Counts with zeros of another origin; those above zero are negative binomial counts that are not zero.

    See Also
    --------
    ZeroInflatedNegativeBinomial : zeros of two kinds.
    """

    name = "hurdle_negative_binomial"

    @property
    def positive(self) -> Family:
        return TruncatedNegativeBinomial()
