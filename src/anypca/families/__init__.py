"""Families of distributions, one per kind of column."""

from __future__ import annotations

from anypca.families._base import Evaluation, Family, column_forms, families
from anypca.families._resolve import resolve_columns, resolve_family, resolve_resolution
from anypca.families.bernoulli import Bernoulli
from anypca.families.beta_binomial import BetaBinomial
from anypca.families.binomial import Binomial
from anypca.families.exponential import Exponential
from anypca.families.forms import Excluded, Form
from anypca.families.gamma import Gamma
from anypca.families.gaussian import Gaussian
from anypca.families.log_normal import LogNormal
from anypca.families.logit_normal import LogitNormal
from anypca.families.mixed import Mixed, combine
from anypca.families.negative_binomial import NegativeBinomial
from anypca.families.nominal import Nominal
from anypca.families.ordinal import Ordinal
from anypca.families.poisson import Poisson
from anypca.families.rounded_gaussian import RoundedGaussian
from anypca.families.scaled_poisson import ScaledPoisson
from anypca.families.student_t import StudentT
from anypca.families.truncated_negative_binomial import TruncatedNegativeBinomial
from anypca.families.truncated_poisson import TruncatedPoisson
from anypca.families.tweedie import Tweedie
from anypca.families.two_part import (
    HurdleNegativeBinomial,
    HurdlePoisson,
    ZeroInflatedGamma,
    ZeroInflatedLogNormal,
)
from anypca.families.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from anypca.families.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "Bernoulli",
    "BetaBinomial",
    "Binomial",
    "Evaluation",
    "Excluded",
    "Exponential",
    "Family",
    "Form",
    "Gamma",
    "Gaussian",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "LogNormal",
    "LogitNormal",
    "Mixed",
    "NegativeBinomial",
    "Nominal",
    "Ordinal",
    "Poisson",
    "RoundedGaussian",
    "ScaledPoisson",
    "StudentT",
    "TruncatedNegativeBinomial",
    "TruncatedPoisson",
    "Tweedie",
    "ZeroInflatedGamma",
    "ZeroInflatedLogNormal",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "column_forms",
    "combine",
    "families",
    "resolve_columns",
    "resolve_family",
    "resolve_resolution",
]
