"""What a fitted model says about rows: scores, densities, new draws; and the names of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._complete import complete_rows


@dataclass(frozen=True)
class Model:
    """A Gaussian with independent noise and a few wide directions, of standardised rows."""

    mean: Floats
    """(n_features,)"""
    scale: Floats
    """(n_features,)"""
    components: Floats
    """Orthonormal (k, n_features)."""
    variances: Floats
    """(k,)"""
    noise: float

    @property
    def widths(self) -> Floats:
        """Variances along the components, at least the noise (k,)."""
        return np.asarray(np.maximum(self.variances, self.noise))

    def standardise(self, block: Block) -> Floats:
        """Centred and scaled rows of a block, in float64."""
        rows = complete_rows(block, "GSPPCA").astype(np.float64, copy=False)
        rows -= self.mean
        rows /= self.scale
        return rows


def scores(block: Block, model: Model) -> Floats:
    """Coordinates on the components (rows, k), in the block's dtype."""
    return np.asarray(model.standardise(block) @ model.components.T).astype(block.dtype)


def log_density(block: Block, model: Model) -> Floats:
    """Log density of each row (rows,)."""
    rows = model.standardise(block)
    along = rows @ model.components.T
    k, p = model.components.shape
    across = np.maximum(np.einsum("ij,ij->i", rows, rows) - np.einsum("ij,ij->i", along, along), 0.0)
    distance = across / model.noise + along**2 @ (1.0 / model.widths)
    volume = np.log(model.widths).sum() + (p - k) * np.log(model.noise) + 2.0 * np.log(model.scale).sum()
    return np.asarray(-0.5 * (p * np.log(2.0 * np.pi) + volume + distance))


def draw(model: Model, n_samples: int, rng: np.random.Generator) -> Floats:
    """Rows drawn from the model (n_samples, n_features)."""
    k, p = model.components.shape
    drawn = rng.standard_normal((n_samples, k)) * np.sqrt(model.widths - model.noise)
    rows = drawn @ model.components + rng.standard_normal((n_samples, p)) * np.sqrt(model.noise)
    return np.asarray(rows * model.scale + model.mean)


def column_names(model: Any, given: Any) -> Any:
    """Names of the columns (n_features,): the given ones, those seen in fit, or x0, x1, ..."""
    known = getattr(model, "feature_names_in_", None)
    if given is None:
        if known is not None:
            return known
        return np.array([f"x{j}" for j in range(model.n_features_in_)], dtype=object)
    names = np.asarray(given, dtype=object)
    if names.shape != (model.n_features_in_,):
        raise ValueError(
            f"input_features should have length {model.n_features_in_}, one name per column seen in fit; "
            f"got {names.shape}."
        )
    if known is not None and not np.array_equal(names, known):
        raise ValueError("input_features is not equal to feature_names_in_. Leave it out to use those.")
    return names
