"""Kernel PCA: exact, by random Fourier features, by landmarks."""

from anypca.models.kernel._estimator import KernelPCA

__all__ = ["KernelPCA"]
