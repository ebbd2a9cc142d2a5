"""Poisson log-normal PCA."""

from anypca.models.plnpca._estimator import PLNPCA
from anypca.models.plnpca._fit import RankPath

__all__ = ["PLNPCA", "RankPath"]
