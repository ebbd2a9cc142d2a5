"""Sparse PCA by elastic-net regression."""

from anypca.models.spca._estimator import SPCA

__all__ = ["SPCA"]
