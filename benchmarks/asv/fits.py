"""Fits that most users make."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import anypca
from anypca.datasets import make_low_rank

MODELS = {
    "PPCA": lambda: anypca.PPCA(5),
    "EPCA": lambda: anypca.EPCA(5, family="poisson", ridge=1.0, random_state=0),
    "SePCA": lambda: anypca.SePCA(8, family="poisson", random_state=0),
    "PLNPCA": lambda: anypca.PLNPCA(5, random_state=0),
}


class Fit:
    """Counts of rank 5, 1000 rows and 50 columns."""

    params: ClassVar[list[str]] = list(MODELS)
    param_names: ClassVar[list[str]] = ["model"]
    timeout = 300.0

    def setup(self, model: str) -> None:
        """Draw the table."""
        self.X: Any = make_low_rank(1000, 50, 5, family="poisson", signal=0.5, random_state=0).X

    def time_fit(self, model: str) -> None:
        """Seconds."""
        MODELS[model]().fit(self.X)

    def peakmem_fit(self, model: str) -> None:
        """Bytes."""
        MODELS[model]().fit(self.X)

    def track_objective(self, model: str) -> float:
        """The last value of the trace."""
        return float(np.asarray(MODELS[model]().fit(self.X).objective_trace_)[-1])
