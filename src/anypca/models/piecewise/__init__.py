"""Piecewise probabilistic PCA."""

from anypca.models.piecewise._estimator import PiecewisePCA

__all__ = ["PiecewisePCA"]
