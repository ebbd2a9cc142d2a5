"""Counts out of a known number of trials, with logit link."""

from __future__ import annotations

from dataclasses import dataclass

from anypca.families._base import Family, families
from anypca.families._logistic import KnownTrials, Logistic


@families.register
@dataclass(frozen=True)
class Binomial(KnownTrials, Logistic):
    r"""Successes out of n: ``log p(x) = x eta - n log(1 + exp(eta)) + log C(n, x)``.

    The domain is x in {0, ..., n}. The mean is ``n / (1 + exp(-eta))``: the link is the logit of the share mean / n,
    so that eta is any real number. There is no dispersion. ``evaluate`` drops ``log C(n, x)``, the binomial
    coefficient.

    Not chosen by ``family="auto"``, which takes `BetaBinomial`: fits estimate its dispersion, and 0 is this family.

    Parameters
    ----------
    n_trials : int
        The number of trials n behind every entry, >= 1.

    Raises
    ------
    ValueError
        If ``n_trials`` is missing or not a positive integer.

    See Also
    --------
    BetaBinomial : for trials that vary more.

    Examples
    --------
    >>> Binomial(n_trials=16).support
    'values from 0 to 16'
    """

    name = "binomial"
    remedy = "Set n_trials to the largest possible count, or use family='poisson' for counts without a limit."

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(n_trials=1), cls(n_trials=7))
