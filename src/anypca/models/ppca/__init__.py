"""Probabilistic PCA."""

from anypca.models.ppca._estimator import PPCA

__all__ = ["PPCA"]
