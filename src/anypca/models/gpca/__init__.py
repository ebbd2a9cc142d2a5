"""Generalised PCA: projection of saturated natural parameters."""

from anypca.models.gpca._estimator import GPCA

__all__ = ["GPCA"]
