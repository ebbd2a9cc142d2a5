"""What the sampler draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class State:
    """Factors of a table; rows and columns are the sampler's."""

    mask: Bools
    """Z: which rows use which factor, shape (rows, k)."""
    values: Floats
    """V: how much of it; where the mask is off, draws from the prior, shape (rows, k)."""
    loadings: Floats
    """T, shape (k, columns)."""
    precision: float
    """tau of the loadings."""
    concentration: float
    """alpha of the Indian buffet process."""

    @property
    def active(self) -> Floats:
        """Values where the mask is on, 0 elsewhere, shape (rows, k)."""
        return self.values * self.mask

    @property
    def counts(self) -> Ints:
        """Number of rows that use each factor, shape (k,)."""
        return np.asarray(self.mask.sum(axis=0))

    def take(self, keep: Bools | Ints) -> State:
        """Some of the factors."""
        return replace(
            self, mask=self.mask[:, keep], values=self.values[:, keep], loadings=self.loadings[keep]
        )

    def append(self, mask: Bools, values: Floats, loadings: Floats) -> State:
        """Further factors."""
        return replace(
            self,
            mask=np.hstack([self.mask, mask]),
            values=np.hstack([self.values, values]),
            loadings=np.vstack([self.loadings, loadings]),
        )
