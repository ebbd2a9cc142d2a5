"""PCA for any data."""

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
    "KernelPCA",
    "PiecewisePCA",
    "SePCA",
    "load",
    "offsets",
    "save",
    "selection",
]
