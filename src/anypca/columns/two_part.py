"""Amounts and counts with many zeros, as two columns: whether there is something, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anypca._typing import Floats
from anypca.columns.forms import Constant, Form, Moments, column_forms, number_text
from anypca.families._base import Family
from anypca.families.bernoulli import Bernoulli
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

    #: The family of what is not zero.
    positive: ClassVar[Family]

    @property
    def parts(self) -> tuple[Family, ...]:
        return Bernoulli(), self.positive

    @property
    def is_nonnegative(self) -> bool:
        return True

    def labels(self, column: str, text: Callable[[float], str] = number_text) -> tuple[str, ...]:
        return f"{column} > 0", column

    def adapted(self, facts: Moments, column: int) -> Form:
        if facts.maximum[column] == 0:  # there is no positive amount to model
            return Constant(0.0, reason="all zeros")
        return self

    def split(self, x: Floats, column: str) -> Floats:
        # Negative amounts stay in the second part, whose family refuses them.
        is_there = np.where(np.isnan(x), np.nan, x != 0)
        return np.column_stack([is_there, np.where(x == 0, np.nan, x)]).astype(x.dtype)

    def mean(self, means: Floats) -> Floats:
        return means[:, 0] * means[:, 1]

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        share, size = means.T
        return np.asarray(np.sqrt(share * deviations[:, 1] ** 2 + share * (1.0 - share) * size**2))


@column_forms.register
@dataclass(frozen=True)
class ZeroInflatedLogNormal(TwoPart):
    """Amounts with zeros, such as income or catches; those above zero are log-normal.

    ``log p(0) = -log(1 + exp(eta))`` and, for x > 0, ``log p(x) = -log(1 + exp(-eta)) + log q(x)``: eta is the
    predictor of 1[x > 0], a `Bernoulli` column with the logit as its link, and q the density of `LogNormal` with a
    predictor, loadings and a dispersion of its own. The mean is the product of both means.

    Chosen by ``family="auto"`` for amounts with exact zeros where it has the larger log-mass than `ZeroInflatedGamma`.
    Whole numbers whose mean above zero is below 50 are rather counts, and a few zeros at the low end of a measurement
    are none.

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
    positive = LogNormal()


@column_forms.register
@dataclass(frozen=True)
class ZeroInflatedGamma(TwoPart):
    """Amounts with zeros, such as rainfall; those above zero have a gamma distribution.

    ``log p(0) = -log(1 + exp(eta))`` and, for x > 0, ``log p(x) = -log(1 + exp(-eta)) + log q(x)``: eta is the
    predictor of 1[x > 0], a `Bernoulli` column with the logit as its link, and q the density of `Gamma` with a
    predictor, loadings and a dispersion of its own. The mean is the product of both means.

    Chosen by ``family="auto"`` as `ZeroInflatedLogNormal` is, where it has the larger log-mass of the two.

    See Also
    --------
    Tweedie : zeros and amounts from one mean.

    Examples
    --------
    >>> ZeroInflatedGamma().labels("rain")
    ('rain > 0', 'rain')
    """

    name = "zero_inflated_gamma"
    positive = Gamma()


@column_forms.register
@dataclass(frozen=True)
class HurdlePoisson(TwoPart):
    """Counts with zeros of another origin; those above zero are Poisson counts that are not zero.

    ``log p(0) = -log(1 + exp(eta))`` and, for x > 0, ``log p(x) = -log(1 + exp(-eta)) + log q(x)``: eta is the
    predictor of 1[x > 0], a `Bernoulli` column with the logit as its link, and q the probabilities of
    `TruncatedPoisson` with a predictor and loadings of its own. There is no dispersion. The mean is the product of both
    means.

    Not chosen by ``family="auto"``, which gives counts with extra zeros `ZeroInflatedNegativeBinomial`: name it where
    other things decide whether there is any than how many, as for visits to a doctor.

    See Also
    --------
    ZeroInflatedPoisson : zeros of two kinds.

    Examples
    --------
    >>> import numpy as np
    >>> HurdlePoisson().split(np.array([0.0, 3.0]), "visits").tolist()
    [[0.0, nan], [1.0, 3.0]]
    """

    name = "hurdle_poisson"
    positive = TruncatedPoisson()


@column_forms.register
@dataclass(frozen=True)
class HurdleNegativeBinomial(TwoPart):
    """Counts with zeros of another origin; those above zero are negative binomial counts that are not zero.

    As `HurdlePoisson`, with the probabilities of `TruncatedNegativeBinomial`. The over-dispersion of the counts above
    zero is estimated.

    Not chosen by ``family="auto"``, which gives counts with extra zeros `ZeroInflatedNegativeBinomial`.

    See Also
    --------
    ZeroInflatedNegativeBinomial : zeros of two kinds.

    Examples
    --------
    >>> HurdleNegativeBinomial().labels("visits")
    ('visits > 0', 'visits')
    """

    name = "hurdle_negative_binomial"
    positive = TruncatedNegativeBinomial()
