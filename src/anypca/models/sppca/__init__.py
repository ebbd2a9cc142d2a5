"""Simple Poisson PCA and its sparse version."""

from anypca.models.sppca._estimator import SPPCA, SSPPCA

__all__ = ["SPPCA", "SSPPCA"]
