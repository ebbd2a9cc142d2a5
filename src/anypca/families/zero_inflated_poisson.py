"""Poisson counts with extra zeros."""

from __future__ import annotations

from dataclasses import dataclass

from anypca.families._base import Family, families
from anypca.families._zero_inflated import ZeroInflated
from anypca.families.poisson import Poisson


@families.register
@dataclass(frozen=True)
class ZeroInflatedPoisson(ZeroInflated):
    r"""Counts with extra zeros: zero with the chance ``share``, else a Poisson count with rate ``exp(eta)``.

    ``p(0) = share + (1 - share) exp(-rate)``; other counts have ``1 - share`` times their Poisson probability. The
    domain is x in {0, 1, 2, ...}; the mean is ``(1 - share) rate``. There is no dispersion. The share of extra zeros
    belongs to a column and is the same in all its rows: where zeros depend on the rows, model them as a column of their
    own. The log-likelihood of a zero is not concave; steps use the curvature of EM, which majorises it.

    Not chosen by ``family="auto"``, which takes `ZeroInflatedNegativeBinomial`: fits estimate its dispersion, and 0 is
    this family.

    Parameters
    ----------
    share : float or tuple of float, optional
        Share of extra zeros, one for all columns or one for each; estimated when left out.

    See Also
    --------
    Poisson : without a surplus of zeros.

    References
    ----------
    D. Lambert (1992). Zero-inflated Poisson regression, with an application to defects in manufacturing.
    Technometrics 34, 1-14.

    Examples
    --------
    >>> import numpy as np
    >>> ZeroInflatedPoisson(share=0.25).mean(np.zeros(1)).tolist()
    [0.75]
    """

    name = "zero_inflated_poisson"
    expectation = "bound"
    core = Poisson()

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(share=0.3),)
