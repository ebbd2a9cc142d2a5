"""Infinite sparse factor analysis."""

from anypca.models.isfa._estimator import ISFA

__all__ = ["ISFA"]
