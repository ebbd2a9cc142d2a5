"""Rows as the nets see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table, in float64."""

    x: Floats
    """(rows, n_features), 1.0 where missing."""
    observed: Bools | None
    """``None`` when complete."""
    offset: Floats | None
    """(rows, n_features) or (rows, 1)."""
    weights: Floats
    """(rows,)."""

    def take(self, index: Ints | slice) -> Rows:
        """Some of them."""
        observed = None if self.observed is None else self.observed[index]
        offset = None if self.offset is None else self.offset[index]
        return Rows(self.x[index], observed, offset, self.weights[index])

    def spread(self, most: int) -> Rows:
        """About so many of them or fewer, evenly spread over all."""
        return self.take(slice(None, None, max(1, -(-len(self.x) // most))))

    def repeat(self, times: int) -> Rows:
        """Each row so many times, one after the other."""
        return self.take(np.repeat(np.arange(len(self.x)), times))

    def only_observed(self, terms: Floats) -> Floats:
        """Terms of the entries, 0 where these are missing."""
        return terms if self.observed is None else np.where(self.observed, terms, 0.0)

    def shifted(self, eta: Floats) -> Floats:
        """The predictor with the offset."""
        return eta if self.offset is None else eta + self.offset


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the encoder is told of a row: signed roots of deviances from the model without latents.

    For normal columns they are the standardised entries. For others they are nearly normal, grow slowly with
    the entries, and know of offsets; a missing entry tells nothing and is 0.
    """

    family: Family
    intercept: Floats
    """(n_features,)."""
    dispersion: Floats
    """(n_features,)."""
    unit: float
    """What they are divided by."""

    def of(self, rows: Rows) -> Floats:
        """(rows, n_features)."""
        eta = rows.shifted(np.broadcast_to(self.intercept, rows.x.shape))
        gradient = self.family.evaluate(rows.x, eta, self.dispersion, order=1).gradient
        size = np.sqrt(self.family.deviance(rows.x, eta, self.dispersion))
        return rows.only_observed(np.copysign(size, gradient) / self.unit)
