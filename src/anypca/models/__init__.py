"""The models: one folder or file each."""

from typing import TYPE_CHECKING

from anypca._lazy import attach

if TYPE_CHECKING:
    from anypca.models.autoencoder import Autoencoder
    from anypca.models.bepca import BEPCA
    from anypca.models.epca import EPCA
    from anypca.models.gpca import GPCA
    from anypca.models.gsppca import GSPPCA
    from anypca.models.isfa import ISFA
    from anypca.models.kernel import KernelPCA
    from anypca.models.pca import PCA
    from anypca.models.piecewise import PiecewisePCA
    from anypca.models.plnpca import PLNPCA
    from anypca.models.ppca import PPCA
    from anypca.models.sepca import SePCA
    from anypca.models.spca import SPCA
    from anypca.models.sppca import SPPCA, SSPPCA
    from anypca.models.sspca import SSPCA
    from anypca.models.vae import VAE

__all__ = [
    "BEPCA",
    "EPCA",
    "GPCA",
    "GSPPCA",
    "ISFA",
    "PCA",
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
]

# Those whose folder has not their name in lower case.
_FOLDERS = {"KernelPCA": "kernel", "PiecewisePCA": "piecewise", "SSPPCA": "sppca"}
__getattr__, __dir__ = attach(
    __name__, {name: f"{__name__}.{_FOLDERS.get(name, name.lower())}" for name in __all__}
)
