"""Poisson log-normal PCA."""

from anypca.models.plnpca._criteria import RankPath
from anypca.models.plnpca._estimator import PLNPCA

__all__ = ["PLNPCA", "RankPath"]
