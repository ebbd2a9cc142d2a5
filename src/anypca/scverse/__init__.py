"""PCA of AnnData objects, in scanpy's manner."""

from __future__ import annotations

from anypca.scverse._pca import pca, project

__all__ = ["pca", "project"]
