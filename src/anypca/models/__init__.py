"""The models: one folder or file each."""

from anypca.models.epca import EPCA
from anypca.models.ppca import PPCA

__all__ = ["EPCA", "PPCA"]
