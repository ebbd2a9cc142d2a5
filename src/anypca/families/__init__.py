"""Families of distributions, one per kind of column."""

from __future__ import annotations

from anypca.families._base import Evaluation, Family, families
from anypca.families._resolve import resolve_family
from anypca.families.bernoulli import Bernoulli
from anypca.families.binomial import Binomial
from anypca.families.exponential import Exponential
from anypca.families.gamma import Gamma
from anypca.families.gaussian import Gaussian
from anypca.families.mixed import Mixed, combine
from anypca.families.negative_binomial import NegativeBinomial
from anypca.families.poisson import Poisson
from anypca.families.scaled_poisson import ScaledPoisson

__all__ = [
    "Bernoulli",
    "Binomial",
    "Evaluation",
    "Exponential",
    "Family",
    "Gamma",
    "Gaussian",
    "Mixed",
    "NegativeBinomial",
    "Poisson",
    "ScaledPoisson",
    "combine",
    "families",
    "resolve_family",
]
