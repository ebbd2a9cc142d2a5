"""What belongs to the columns of a bilinear model, and the forms in which sweeps over the rows use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Evaluation
from anypca.linalg import packed_products


class Operand(NamedTuple):
    """Right factor of the sums of values, gradients and curvatures: columns ``[1 | u | products of u]``."""

    stacked: Floats
    """(n, 1 + m + m (m + 1) / 2)."""
    size: int
    """m."""

    @classmethod
    def of(cls, u: Floats, weights: Floats | None = None) -> Operand:
        """From the rows of ``u`` (n, m), optionally weighted."""
        stacked = np.hstack([np.ones((len(u), 1), u.dtype), u, packed_products(u)])
        return cls(stacked if weights is None else stacked * weights[:, None], u.shape[1])

    def astype(self, dtype: np.dtype[Any]) -> Operand:
        return Operand(self.stacked.astype(dtype, copy=False), self.size)

    def sums(self, found: Evaluation, part: slice, *, over_rows: bool) -> Floats:
        """``[value | gradient | curvature]`` times the rows ``part`` of the operand, in one product if they are one.

        Parameters
        ----------
        found : Evaluation
            Terms of a tile, (rows, columns).
        part : slice
            The rows of the operand that belong to the contracted axis.
        over_rows : bool
            Contract the tile's rows instead of its columns.
        """
        value, gradient, curvature = found
        assert gradient is not None
        assert curvature is not None
        right, first, second = self.stacked[part], 1, 1 + self.size
        if value is curvature and value is gradient:
            return (value.T if over_rows else value) @ right
        pairs = ((value, slice(0, first)), (gradient, slice(first, second)), (curvature, slice(second, None)))
        return np.hstack([(term.T if over_rows else term) @ right[:, where] for term, where in pairs])


class Working(NamedTuple):
    """Coefficients as the sweeps use them, in the precision of a block."""

    joint: Floats
    """What the design is multiplied with: K, shape (n_features, m)."""
    operand: Operand
    """Of the derivatives of the predictor in the points of the rows: of the loadings."""
    dispersion: Floats


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What belongs to the columns."""

    loadings: Floats
    """W, shape (n_features, n_components)."""
    fixed: Floats
    """B, shape (n_features, n_fixed): intercept first when there is one, then covariates."""
    dispersion: Floats
    """Shape (n_features,)."""

    @cached_property
    def joint(self) -> Floats:
        """K = [W | B], shape (n_features, n_components + n_fixed)."""
        return np.hstack([self.loadings, self.fixed])

    @cached_property
    def _working(self) -> dict[Any, Working]:
        return {}

    def working(self, dtype: np.dtype[Any], make: Callable[[Coefficients], tuple[Floats, Floats]]) -> Working:
        """The forms that sweeps use, in a block's precision, made once from what ``make`` says of them."""
        key = dtype, make
        if key not in self._working:
            joint, slopes = make(self)
            self._working[key] = Working(
                joint.astype(dtype), Operand.of(slopes).astype(dtype), self.dispersion.astype(dtype)
            )
        return self._working[key]

    def with_joint(self, joint: Floats) -> Coefficients:
        """The same dispersion with other coefficients."""
        k = self.loadings.shape[1]
        return Coefficients(joint[:, :k], joint[:, k:], self.dispersion)
