"""Loadings of the pieces as a data frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def loadings_frame(model: Any) -> Any:
    """Loadings and means of all pieces, features by (piece, coordinate)."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "loadings_frame needs pandas; install it with pip install 'anypca[io]', or use piece_loadings_."
        ) from error
    _, p, q = model.piece_loadings_.shape
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(p)])
    columns = pd.MultiIndex.from_product(
        [piece_names(model.breakpoints_), [*coordinate_names(q), "mean"]], names=["piece", "coordinate"]
    )
    values = np.concatenate([model.piece_loadings_, model.piece_means_[:, :, None]], axis=2)
    return pd.DataFrame(values.transpose(1, 0, 2).reshape(p, -1), index=list(names), columns=columns)


def piece_names(breakpoints: Any) -> list[str]:
    """``"1: t <= 0"``, ``"2: 0 < t"`` and so on."""
    ends = [f"{c:.3g}" for c in breakpoints]
    if not ends:
        return ["1"]
    middle = [f"{k + 2}: {a} < t <= {b}" for k, (a, b) in enumerate(pairwise(ends))]
    return [f"1: t <= {ends[0]}", *middle, f"{len(ends) + 1}: {ends[-1]} < t"]


def coordinate_names(n_components: int) -> list[str]:
    """``w1``, ..., ``t``."""
    return [*(f"w{j + 1}" for j in range(n_components - 1)), "t"]
