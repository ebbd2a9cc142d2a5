"""Simple exponential-family PCA."""

from anypca.models.sepca._estimator import SePCA
from anypca.models.sepca._hmc import SamplerOptions
from anypca.models.sepca.map._options import ModeOptions

__all__ = ["ModeOptions", "SamplerOptions", "SePCA"]
