"""Type names used across the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: A floating point array; shapes are given in docstrings.
Floats = npt.NDArray[np.floating[Any]]
#: A boolean array.
Bools = npt.NDArray[np.bool_]
#: An integer array.
Ints = npt.NDArray[np.integer[Any]]
#: A number for all columns, or one for each.
PerColumn = Floats | float
