"""What belongs to the columns of a bilinear model, and its evaluation on one block of rows, tile by tile.

The linear predictor is ``eta = offset + D K'`` with the design ``D = [Z | F]`` of a row (scores, then fixed features:
a one for the intercept and the covariates) and the coefficients ``K = [W | B]`` of a column. A tile is a run of
columns; the predictor, means and curvatures of one tile at a time exist, in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families import Evaluation, Family
from anypca.families._canonical import CanonicalFamily
from anypca.linalg import packed_products
from anypca.models._block_view import BlockView, observed_only


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
        right, first, second = self.stacked[part], 1, 1 + self.size
        if value is curvature and value is gradient:
            return (value.T if over_rows else value) @ right
        pairs = ((value, slice(0, first)), (gradient, slice(first, second)), (curvature, slice(second, None)))
        return np.hstack([(term.T if over_rows else term) @ right[:, where] for term, where in pairs])


@dataclass(frozen=True, eq=False)
class Working:
    """Coefficients as the sweeps use them, in the precision of a block."""

    joint: Floats
    """Coefficients K of the design, shape (n_features, m)."""
    slopes: Floats
    """Derivatives of the predictor in the points of the rows, the loadings: shape (n_features, n_coordinates)."""
    dispersion: Floats

    @cached_property
    def with_one(self) -> Floats:
        """``joint`` with a column of ones appended, which multiplies the offset in the design."""
        return np.hstack([self.joint, np.ones((len(self.joint), 1), self.joint.dtype)])

    @cached_property
    def operand(self) -> Operand:
        """The operand that contracts a tile with the slopes."""
        return Operand.of(self.slopes)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Parameters of the columns."""

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
            joint, slopes = (part.astype(dtype, copy=False) for part in make(self))
            if make is joint_and_loadings:
                slopes = joint[:, : slopes.shape[1]]  # not a copy
            self._working[key] = Working(joint, slopes, self.dispersion.astype(dtype))
        return self._working[key]

    def with_joint(self, joint: Floats) -> Coefficients:
        """The same dispersion with other coefficients."""
        k = self.loadings.shape[1]
        new = Coefficients(joint[:, :k], joint[:, k:], self.dispersion)
        new.__dict__["joint"] = joint  # fills the cached property without a copy
        return new


@dataclass(frozen=True, eq=False)
class BlockEvaluator:
    """A family with coefficients on the rows of a block.

    Where the log-likelihood is linear in the entries, ``x eta - A(eta)``, the sums over ``x`` are products with the
    block and only the cumulant A is evaluated entry by entry. What belongs to a row is its point: its scores, and what
    a subclass adds to them.
    """

    family: Family
    coefficients: Coefficients
    rows: BlockView

    @cached_property
    def _working(self) -> Working:
        return self.coefficients.working(self.rows.dtype, joint_and_loadings)

    @cached_property
    def _image(self) -> Floats:
        """``X K``, shape (rows, m); it does not depend on the points."""
        joint = self._working.joint[:, : self.coefficients.joint.shape[1]]
        return np.asarray(self.rows.product @ np.ascontiguousarray(joint))

    @property
    def origin(self) -> Floats:
        """The points at zero, where rows start, shape (rows, n_coordinates)."""
        return np.zeros((self.rows.n_rows, self._working.slopes.shape[1]))

    def take(self, index: Ints | Bools) -> Self:
        """The same for some of the rows."""
        return replace(self, rows=self.rows.take(index))

    def predictor(self, points: Floats, tile: slice) -> Floats:
        """eta of a tile, shape (rows, columns of the tile)."""
        return self._predictor(self.design(points), tile)

    def means(self, points: Floats, tile: slice) -> Floats:
        """Expected entries of a tile, 0 where they are missing, shape (rows, columns of the tile)."""
        dispersion = self._working.dispersion[tile]
        mean = self.family.take(tile).mean(self.predictor(points, tile), dispersion)
        return observed_only(self.rows, tile, mean)

    def tiles(
        self, design: Floats, order: int, *, observed: bool = False
    ) -> Iterator[tuple[slice, Evaluation]]:
        """Terms in eta, tile by tile, zero at missing entries: of the log-likelihood, or of the cumulant.

        The curvature comes from ``evaluate``. With ``observed=True`` it is the observed curvature where this is
        positive.
        """
        for tile in self.rows.tiles():
            yield tile, self._terms(self._predictor(design, tile), tile, order, observed=observed)

    def _terms(self, eta: Floats, tile: slice, order: int, *, observed: bool = False) -> Evaluation:
        """Terms of a tile at its predictor."""
        rows, family = self.rows, self.family.take(tile)
        if rows.product is not None:
            assert isinstance(family, CanonicalFamily)
            found = family.cumulant(eta, order=order)
        else:
            dispersion = self._working.dispersion[tile]
            x = rows.x[:, tile]
            found = family.evaluate(x, eta, dispersion, order=order)
            if observed:
                found = found._replace(curvature=family.newton_curvature(x, eta, found, dispersion))
        return weighted_terms(rows, tile, found)

    def row_values(self, points: Floats) -> Floats:
        """Log-likelihood of each row without constants, shape (rows,)."""
        design = self.design(points)
        total = np.zeros(self.rows.n_rows)
        for _, found in self.tiles(design, order=0):
            total += found.value.sum(axis=1, dtype=float)
        return self._with_linear(design, total)

    def values_without(self, points: Floats, most: int | None = None) -> Floats:
        """Weighted log-likelihood of the columns without constants, whole and without each component.

        Parameters
        ----------
        points : ndarray of shape (rows, n_coordinates)
        most : int or None
            Number of components that are left out in turn; all by default.

        Returns
        -------
        ndarray of shape (1 + k, n_features)
        """
        rows, loadings, design = self.rows, self._working.slopes, self.design(points)
        k = loadings.shape[1] if most is None else most
        found = np.empty((1 + k, rows.n_features))
        for tile in rows.tiles():
            eta = self._predictor(design, tile)
            scratch = np.empty_like(eta)
            found[0, tile] = rows.weights @ self._terms(eta, tile, order=0).value
            for a in range(k):
                # By BLAS, which `matmul` leaves aside for vectors.
                np.dot(design[:, a : a + 1], loadings[tile, a][None], out=scratch)
                np.subtract(eta, scratch, out=scratch)
                found[1 + a, tile] = rows.weights @ self._terms(scratch, tile, order=0).value
        found *= self._sign
        if rows.product is not None:
            joint = self._working.joint[:, : self.coefficients.joint.shape[1]]
            linear = joint * (rows.product.T @ (design * rows.weights[:, None]))
            found += linear.sum(axis=1, dtype=float) + rows.offset_totals
            found[1:] -= linear[:, :k].T
        return found

    def row_sums(self, points: Floats, *, observed: bool = False) -> RowSums:
        """Everything a Newton step of the rows needs; ``observed`` as in `tiles`."""
        rows, operand = self.rows, self._working.operand
        k, size = self.coefficients.loadings.shape[1], operand.size
        design = self.design(points)
        columns = np.empty(rows.n_features)
        sums = np.zeros((rows.n_rows, operand.stacked.shape[1]))
        weights = rows.weights.astype(rows.dtype, copy=False)
        for tile, found in self.tiles(design, order=2, observed=observed):
            columns[tile] = self._sign * (weights @ found.value)
            sums += operand.sums(found, tile, over_rows=False)
        value, gradient, curvature = sums[:, 0], self._sign * sums[:, 1 : size + 1], sums[:, size + 1 :]
        if rows.product is not None:
            gradient[:, :k] += self._image[:, :k]
        return RowSums(self._with_linear(design, value), columns, gradient, curvature)

    def row_slopes(self, points: Floats) -> tuple[Floats, Floats]:
        """Log-likelihood of each row without constants (rows,) and its gradient in the scores (rows, k)."""
        rows, slopes, design = self.rows, self._working.slopes, self.design(points)
        value, gradient = np.zeros(rows.n_rows), np.zeros((rows.n_rows, slopes.shape[1]))
        for tile, found in self.tiles(design, order=1):
            value += found.value.sum(axis=1, dtype=float)
            gradient += found.gradient @ slopes[tile]
        gradient *= self._sign
        if rows.product is not None:
            gradient += self._image[:, : slopes.shape[1]]
        return self._with_linear(design, value), gradient

    def column_sums(self, points: Floats) -> ColumnSums:
        """Everything a Newton step of the columns needs, and the rows' values at the same points."""
        rows, joint = self.rows, self.coefficients.joint
        design = self.design(points)
        operand = self._column_operand(design, rows.weights.astype(rows.dtype, copy=False))
        rowwise = np.zeros(rows.n_rows)
        sums = np.empty((rows.n_features, operand.stacked.shape[1]))
        for tile, found in self.tiles(design, order=2):
            rowwise += found.value @ np.ones(found.value.shape[1], rows.dtype)
            sums[tile] = operand.sums(found, slice(None), over_rows=True)
        value, gradient, curvature = self._column_terms(sums)
        linear = np.zeros(joint.shape)
        if rows.product is not None:
            weighted = operand.stacked[:, 1 : joint.shape[1] + 1]
            linear = (rows.product.T @ weighted).astype(float, copy=False)
            gradient = np.subtract(linear, gradient, out=gradient)
            value = np.einsum("ja,ja->j", linear, joint) - value
        return ColumnSums(self._with_linear(design, rowwise), value, linear, gradient, curvature)

    def _column_operand(self, design: Floats, weights: Floats) -> Operand:
        """What the terms of the rows are multiplied with for the sums over them."""
        return Operand.of(design, weights)

    def _column_terms(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, gradients and curvatures of the columns from the products of the terms with the operand."""
        m = self.coefficients.joint.shape[1]
        return sums[:, 0], sums[:, 1 : m + 1], sums[:, m + 1 :]

    @property
    def _sign(self) -> float:
        """The sign of the tiles' terms in the log-likelihood: minus for a cumulant."""
        return 1.0 if self.rows.product is None else -1.0

    def _with_linear(self, design: Floats, value: Floats) -> Floats:
        """Log-likelihood of the rows from the sums of the tiles' values."""
        if self.rows.product is None:
            return value
        image = self._image
        linear = np.einsum("ia,ia->i", image, design[:, : image.shape[1]], dtype=float)
        return np.asarray(linear + self.rows.offset_values - value)

    def design(self, points: Floats) -> Floats:
        """D = [Z | F] in the block's precision, shape (rows, m)."""
        return np.hstack([points, self.rows.features]).astype(self.rows.dtype, copy=False)

    def _predictor(self, design: Floats, tile: slice) -> Floats:
        joint, offset = self._working.joint[tile], self.rows.offset
        if offset is not None and offset.shape[1] == 1:
            # As one more coefficient, of one: that takes a third of the time of a sum.
            design, joint = np.hstack([design, offset]), self._working.with_one[tile]
        # Not ``@``, which leaves BLAS aside for a single column.
        eta: Floats = np.dot(design, joint.T)
        if offset is not None and offset.shape[1] > 1:
            eta += offset[:, tile]
        return eta


def joint_and_loadings(coefficients: Coefficients) -> tuple[Floats, Floats]:
    """What the designs and derivatives of a model without further parts are made with, see `Working`."""
    return coefficients.joint, coefficients.loadings


class RowSums(NamedTuple):
    """Sums over columns for each row."""

    value: Floats
    """Log-likelihood of each row, shape (rows,)."""
    columns: Floats
    """Weighted log-likelihood of each column over the block, without its part linear in x, shape (n_features,)."""
    gradient: Floats
    """In the points, shape (rows, n_coordinates)."""
    curvature: Floats
    """In the points, packed, shape (rows, packed size of n_coordinates)."""


class ColumnSums(NamedTuple):
    """Sums over the rows of a block for each column."""

    rows: Floats
    """Log-likelihood of each row, shape (rows,)."""
    value: Floats
    """Weighted log-likelihood of each column, without ``x offset`` where products are used, shape (n_features,)."""
    linear: Floats
    """``X' (s D)`` where the log-likelihood is used in its linear form, else zero, shape (n_features, m)."""
    gradient: Floats
    """In the coefficients, shape (n_features, m)."""
    curvature: Floats
    """In the coefficients, packed, shape (n_features, m (m + 1) / 2)."""


def weighted_terms(rows: BlockView, columns: slice, found: Evaluation) -> Evaluation:
    """Terms of some columns times the weights of their entries, zero at missing entries."""
    if rows.observed is not None:
        found = mask_missing(found, rows.observed[:, columns])
    return found if rows.entry is None else scaled_by(found, rows.entry[:, columns])


def scaled_by(found: Evaluation, weights: Floats) -> Evaluation:
    """All terms times the weights of their entries."""
    return found.apply(lambda part: part * weights)


def mask_missing(found: Evaluation, observed: Bools) -> Evaluation:
    """Zero at missing entries (their placeholder value is arbitrary)."""
    return found.apply(lambda part: np.where(observed, part, np.zeros((), part.dtype)))
