"""Over-dispersed counts with extra zeros."""

from __future__ import annotations

from dataclasses import dataclass

from anypca._typing import Floats
from anypca.families._base import Family, families
from anypca.families._dispersed import Dispersed
from anypca.families._zero_inflated import ZeroInflated
from anypca.families.negative_binomial import NegativeBinomial


@families.register
@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(Dispersed, ZeroInflated):
    r"""Counts with extra zeros: zero with the chance ``share``, else a negative binomial count with mean ``exp(eta)``.

    As `ZeroInflatedPoisson`, with counts of variance ``rate + a rate^2``; the dispersion is a.

    Chosen by ``family="auto"`` for counts with a mean below 200, at least five zeros, and more zeros than
    `NegativeBinomial` explains. If many columns of counts have extra zeros, weaker evidence suffices for the others.

    Parameters
    ----------
    share : float or tuple of float, optional
        Share of extra zeros, one for all columns or one for each; estimated when left out.
    size : float, optional
        The size 1/a > 0; estimated when left out.

    See Also
    --------
    NegativeBinomial : without a surplus of zeros.

    Examples
    --------
    >>> ZeroInflatedNegativeBinomial(size=4.0).fixed_dispersion
    0.25
    """

    name = "zero_inflated_negative_binomial"
    dispersion_kind = "shape"
    given_by = "size"
    is_reciprocal = True
    expectation = "approximate"
    core = NegativeBinomial()

    size: float | None = None

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(share=0.3),)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        # Extra zeros are part of the variance; estimates by residuals sort that out.
        return self.core.dispersion_from_moments(mean, variance)
