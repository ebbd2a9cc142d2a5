"""Priors on the rows of scores or loadings."""

from anypca._lazy import public as _public
from anypca.priors._base import Entrywise as Entrywise
from anypca.priors._base import NewtonStep as NewtonStep
from anypca.priors._base import Prior as Prior
from anypca.priors._base import find_prior as find_prior
from anypca.priors._base import priors as priors
from anypca.priors._base import step_to as step_to
from anypca.priors._composed import Leading as Leading
from anypca.priors._composed import Scaled as Scaled
from anypca.priors.adaptive_l0 import AdaptiveL0 as AdaptiveL0
from anypca.priors.group import Group as Group
from anypca.priors.l1 import L1 as L1
from anypca.priors.ridge import Ridge as Ridge
from anypca.priors.scad import Scad as Scad

__all__ = _public(globals())
