"""Families of distributions, one per kind of column."""

from anypca._lazy import public as _public
from anypca.families._base import Evaluation as Evaluation
from anypca.families._base import Family as Family
from anypca.families._base import families as families
from anypca.families.bernoulli import Bernoulli as Bernoulli
from anypca.families.beta_binomial import BetaBinomial as BetaBinomial
from anypca.families.binomial import Binomial as Binomial
from anypca.families.exponential import Exponential as Exponential
from anypca.families.gamma import Gamma as Gamma
from anypca.families.gaussian import Gaussian as Gaussian
from anypca.families.log_normal import LogNormal as LogNormal
from anypca.families.logit_normal import LogitNormal as LogitNormal
from anypca.families.mixed import Mixed as Mixed
from anypca.families.mixed import combine as combine
from anypca.families.negative_binomial import NegativeBinomial as NegativeBinomial
from anypca.families.ordinal import Ordinal as Ordinal
from anypca.families.poisson import Poisson as Poisson
from anypca.families.rounded_gaussian import RoundedGaussian as RoundedGaussian
from anypca.families.scaled_poisson import ScaledPoisson as ScaledPoisson
from anypca.families.student_t import StudentT as StudentT
from anypca.families.truncated_negative_binomial import TruncatedNegativeBinomial as TruncatedNegativeBinomial
from anypca.families.truncated_poisson import TruncatedPoisson as TruncatedPoisson
from anypca.families.tweedie import Tweedie as Tweedie
from anypca.families.zero_inflated_negative_binomial import (
    ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial,
)
from anypca.families.zero_inflated_poisson import ZeroInflatedPoisson as ZeroInflatedPoisson

__all__ = _public(globals())
