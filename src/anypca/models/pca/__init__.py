"""PCA for tables of any columns, with the parameters that a beginner needs."""

from anypca.models.pca._estimator import PCA

__all__ = ["PCA"]
