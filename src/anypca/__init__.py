"""PCA for any data."""

from typing import TYPE_CHECKING

from anypca import models
from anypca._lazy import attach

if TYPE_CHECKING:
    from anypca import offsets, selection
    from anypca.imputation import Imputer
    from anypca.io import load, save
    from anypca.models import *  # noqa: F403
    from anypca.models.mixture import MixtureOf
    from anypca.models.sepca import ModeOptions, SamplerOptions
    from anypca.solvers import Checkpoint

__version__ = "0.1.0.dev0"

__all__ = [
    "Checkpoint",
    "Imputer",
    "MixtureOf",
    "ModeOptions",
    "SamplerOptions",
    "load",
    "offsets",
    "save",
    "selection",
]
__all__ += models.__all__

_MODULES = (
    "columns",
    "datasets",
    "exceptions",
    "families",
    "interpretation",
    "io",
    "offsets",
    "plotting",
    "priors",
    "report",
    "scverse",
    "selection",
)
_ELSEWHERE = {
    "Checkpoint": "anypca.solvers",
    "Imputer": "anypca.imputation",
    "MixtureOf": "anypca.models.mixture",
    "load": "anypca.io",
    "save": "anypca.io",
}
_ELSEWHERE |= {"ModeOptions": "anypca.models.sepca", "SamplerOptions": "anypca.models.sepca"}
_NAMES = {name: _ELSEWHERE.get(name, "anypca.models") for name in __all__ if name not in _MODULES}
__getattr__, __dir__ = attach(__name__, _NAMES, _MODULES)
