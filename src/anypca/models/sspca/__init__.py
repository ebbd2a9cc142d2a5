"""Structured sparse PCA."""

from anypca.models.sspca._estimator import SSPCA

__all__ = ["SSPCA"]
