"""Exponential-family PCA."""

from anypca.models.epca._estimator import EPCA

__all__ = ["EPCA"]
