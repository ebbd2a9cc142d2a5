"""Simple exponential-family PCA."""

from anypca.models.sepca._estimator import SePCA

__all__ = ["SePCA"]
