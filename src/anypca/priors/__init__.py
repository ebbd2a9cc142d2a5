"""Priors on the rows of scores or loadings."""

from anypca.priors._base import NewtonStep, Prior, priors
from anypca.priors.adaptive_l0 import AdaptiveL0
from anypca.priors.l1 import L1
from anypca.priors.ridge import Ridge

__all__ = ["L1", "AdaptiveL0", "NewtonStep", "Prior", "Ridge", "priors"]
