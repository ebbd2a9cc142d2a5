"""The models: one folder or file each."""

from anypca.models.ppca import PPCA

__all__ = ["PPCA"]
