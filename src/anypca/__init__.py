"""PCA for any data."""

from typing import TYPE_CHECKING

from anypca._lazy import attach

if TYPE_CHECKING:
    from anypca import offsets, selection
    from anypca.io import load, save
    from anypca.models import (
        BEPCA,
        EPCA,
        GPCA,
        GSPPCA,
        ISFA,
        PLNPCA,
        PPCA,
        SPCA,
        SPPCA,
        SSPCA,
        SSPPCA,
        VAE,
        Autoencoder,
        KernelPCA,
        PiecewisePCA,
        SePCA,
    )
    from anypca.solvers import Checkpoint

__version__ = "0.1.0.dev0"

__all__ = [
    "BEPCA",
    "EPCA",
    "GPCA",
    "GSPPCA",
    "ISFA",
    "PLNPCA",
    "PPCA",
    "SPCA",
    "SPPCA",
    "SSPCA",
    "SSPPCA",
    "VAE",
    "Autoencoder",
    "Checkpoint",
    "KernelPCA",
    "PiecewisePCA",
    "SePCA",
    "load",
    "offsets",
    "save",
    "selection",
]

_MODULES = (
    "datasets",
    "exceptions",
    "families",
    "interpretation",
    "io",
    "models",
    "offsets",
    "plotting",
    "priors",
    "report",
    "scverse",
    "selection",
)
_ELSEWHERE = {"Checkpoint": "anypca.solvers", "load": "anypca.io", "save": "anypca.io"}
_NAMES = {name: _ELSEWHERE.get(name, "anypca.models") for name in __all__ if name not in _MODULES}
__getattr__, __dir__ = attach(__name__, _NAMES, _MODULES)
