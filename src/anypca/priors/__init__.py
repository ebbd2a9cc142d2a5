"""Priors on the rows of scores or loadings."""

from anypca.priors._base import Entrywise, NewtonStep, Prior, find_prior, priors, step_to
from anypca.priors._composed import Leading, Scaled
from anypca.priors.adaptive_l0 import AdaptiveL0
from anypca.priors.group import Group
from anypca.priors.l1 import L1
from anypca.priors.ridge import Ridge
from anypca.priors.scad import Scad

__all__ = [
    "L1",
    "AdaptiveL0",
    "Entrywise",
    "Group",
    "Leading",
    "NewtonStep",
    "Prior",
    "Ridge",
    "Scad",
    "Scaled",
    "find_prior",
    "priors",
    "step_to",
]
