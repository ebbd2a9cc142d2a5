"""Bayesian exponential-family PCA."""

from anypca.models.bepca._estimator import BEPCA

__all__ = ["BEPCA"]
