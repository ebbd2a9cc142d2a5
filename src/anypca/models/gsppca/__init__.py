"""Globally sparse probabilistic PCA."""

from anypca.models.gsppca._estimator import GSPPCA

__all__ = ["GSPPCA"]
