"""PCA for any data."""

from anypca.models import EPCA, GSPPCA, KernelPCA, PPCA, SPCA

__version__ = "0.1.0.dev0"

__all__ = ["EPCA", "GSPPCA", "KernelPCA", "PPCA", "SPCA"]
