"""A table whose columns are centred and scaled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """From the columns of a table to those that the net sees, and back."""

    centre: Floats
    """(n_features,)."""
    scale: Floats
    """(n_features,), positive."""

    def apply(self, x: Floats) -> Floats:
        """Rows as the net sees them, in float64."""
        return np.asarray((x.astype(np.float64, copy=False) - self.centre) / self.scale)

    def undo(self, x: Floats) -> Floats:
        """Rows in the units of the table."""
        return np.asarray(x * self.scale + self.centre)
