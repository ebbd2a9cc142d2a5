"""Sums of the variational bound over one block of rows, tile by tile.

With ``z = o + F B' + M C'`` (offset, fixed features, variational means) the expected rates are
``A = exp(z + S (C * C)' / 2)``, S being the variational variances. The bound is linear in the counts, so that these
enter through products only; A exists one tile of columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Table
from anypca.linalg import packed_products, packed_size
from anypca.models._bilinear.kernel import Coefficients, Operand
from anypca.models._opened import OpenedBlock, fixed_features


class State(NamedTuple):
    """Variational posteriors of rows: independent normals."""

    mean: Floats
    """M, shape (rows, k)."""
    variance: Floats
    """S, shape (rows, k)."""

    @classmethod
    def prior(cls, n_rows: int, k: int) -> State:
        """The standard normal for every row."""
        return cls(np.zeros((n_rows, k)), np.ones((n_rows, k)))

    def take(self, index: Ints | Bools) -> State:
        """The same for some of the rows."""
        return State(self.mean[index], self.variance[index])

    def divergence(self) -> Floats:
        """Kullback-Leibler divergence from the standard normal, shape (rows,)."""
        mean, variance = self
        value: Floats = 0.5 * (mean**2 + variance - np.log(variance) - 1.0).sum(axis=1)
        return value


@dataclass(frozen=True, eq=False)
class CountRows(OpenedBlock):
    """A block opened for computation: ``product`` holds the counts, 0 where they are missing."""

    @cached_property
    def offset_values(self) -> Floats:
        """What ``x offset`` adds to the rows' bounds, shape (rows,)."""
        if self.offset is None:
            return np.zeros(self.n_rows)
        if self.offset.shape[1] > 1:
            wide = self.product.multiply(self.offset) if self.table is None else self.product * self.offset
            return np.asarray(wide.sum(axis=1), dtype=float).ravel()
        totals: Floats = self.product @ np.ones(self.n_features, self.dtype)
        return self.offset[:, 0] * totals

    def take(self, index: Ints | Bools) -> CountRows:
        """Some of the rows."""
        taken = super().take(index)
        assert isinstance(taken, CountRows)
        return taken

    def log_base(self) -> Floats:
        """``-sum_j log x_ij!`` over the observed entries, shape (rows,)."""
        # gammaln(1) is 0, so that neither zeros nor missing entries count.
        value: Floats = -gammaln(np.asarray(self.x, dtype=float) + 1.0).sum(axis=1)
        return value


def open_counts(block: Block, *, fit_intercept: bool, dense: bool = False) -> CountRows:
    """Read a block and lay out its fixed features; a complete sparse one stays sparse unless ``dense``."""
    features = fixed_features(block, fit_intercept=fit_intercept)
    table = None
    if block.may_miss or dense:
        table = block.read()
        if table.observed is not None:
            table.x[~table.observed] = 0.0
        product = table.x
    else:
        product = block.matrix()
        if isinstance(product, np.ndarray):
            table = Table(product, None)
    n_features, numbers = product.shape[1], np.arange(block.start, block.stop)
    return CountRows(table, product, block.offset(), block.weight, features, n_features, block.dtype, numbers)


class RowSums(NamedTuple):
    """Sums over columns for each row."""

    value: Floats
    """Expected log-likelihood of each row without constants, shape (rows,)."""
    columns: Floats
    """Minus the weighted expected rates of each column, shape (n_features,)."""
    gradient: Floats
    """In the means, without the prior, shape (rows, k)."""
    curvature: Floats
    """``sum_j A u u'`` with ``u = [c, c * c / 2]``, packed, shape (rows, k (2 k + 1))."""


class ColumnSums(NamedTuple):
    """Sums over the rows of a block for each column."""

    rows: Floats
    """Expected log-likelihood of each row without constants, shape (rows,)."""
    value: Floats
    """Weighted expected log-likelihood of each column without ``x offset``, shape (n_features,)."""
    linear: Floats
    """``X' (w D)``, shape (n_features, m)."""
    gradient: Floats
    """In the coefficients, shape (n_features, m)."""
    curvature: Floats
    """In the coefficients, packed, shape (n_features, m (m + 1) / 2)."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Coefficients on the rows of a block; m is the number of components and fixed features."""

    coefficients: Coefficients
    rows: CountRows

    @cached_property
    def _extended(self) -> Floats:
        """``[C | B | C * C / 2]`` in the block's precision, shape (n_features, m + k)."""
        joint, loadings = self.coefficients.joint, self.coefficients.loadings
        return np.hstack([joint, 0.5 * loadings**2]).astype(self.rows.dtype)

    @cached_property
    def _image(self) -> Floats:
        """``X [C | B]``, shape (rows, m); it does not depend on the state."""
        m = self.coefficients.joint.shape[1]
        image: Floats = self.rows.product @ np.ascontiguousarray(self._extended[:, :m])
        return image

    def take(self, index: Ints | Bools) -> Kernel:
        """The same for some of the rows."""
        return replace(self, rows=self.rows.take(index))

    def rates(self, state: State, tile: slice) -> Floats:
        """A of a tile, 0 where entries are missing, shape (rows, columns of the tile)."""
        return self._rates(self._design(state), tile)

    def row_values(self, state: State) -> Floats:
        """Expected log-likelihood of each row without constants, shape (rows,)."""
        design = self._design(state)
        total = np.zeros(self.rows.n_rows)
        for tile in self.rows.tiles():
            total += self._rates(design, tile).sum(axis=1, dtype=float)
        return self._with_linear(state, total)

    def row_sums(self, state: State) -> RowSums:
        """Everything a Newton step of the rows needs."""
        rows, k = self.rows, state.mean.shape[1]
        design = self._design(state)
        weights = rows.weights.astype(rows.dtype, copy=False)
        columns = np.empty(rows.n_features)
        sums = np.zeros((rows.n_rows, 1 + 2 * k + packed_size(2 * k)))
        loadings = self._extended[:, :k]
        for tile in rows.tiles():
            rates = self._rates(design, tile)
            columns[tile] = -(weights @ rates)
            part = loadings[tile]
            sums += rates @ Operand.of(np.hstack([part, 0.5 * part**2])).stacked
        gradient = self._image[:, :k] - sums[:, 1 : k + 1]
        value = self._with_linear(state, sums[:, 0])
        return RowSums(value, columns, gradient, sums[:, 2 * k + 1 :])

    def column_sums(self, state: State) -> ColumnSums:
        """Everything a Newton step of the columns needs, and the rows' values at the same state."""
        rows = self.rows
        design = self._design(state)
        m = self.coefficients.joint.shape[1]
        weights = rows.weights.astype(rows.dtype, copy=False)[:, None]
        operand = Operand.of(design[:, :m], weights[:, 0])
        right = np.hstack([operand.stacked, design[:, m:] * weights])
        rowwise = np.zeros(rows.n_rows)
        sums = np.empty((rows.n_features, right.shape[1]))
        for tile in rows.tiles():
            rates = self._rates(design, tile)
            rowwise += rates @ np.ones(rates.shape[1], rows.dtype)
            sums[tile] = rates.T @ right
        linear = (rows.product.T @ right[:, 1 : m + 1]).astype(float, copy=False)
        value = np.einsum("ja,ja->j", linear, self.coefficients.joint) - sums[:, 0]
        gradient, curvature = _column_terms(self.coefficients, sums, linear)
        return ColumnSums(self._with_linear(state, rowwise), value, linear, gradient, curvature)

    def _with_linear(self, state: State, rates: Floats) -> Floats:
        """Expected log-likelihood of the rows from their summed rates."""
        design = np.hstack([state.mean, self.rows.features])
        linear = np.einsum("ia,ia->i", self._image, design, dtype=float)
        total: Floats = linear + self.rows.offset_values - rates
        return total

    def _design(self, state: State) -> Floats:
        """``[M | F | S]`` in the block's precision, shape (rows, m + k)."""
        design = np.hstack([state.mean, self.rows.features, state.variance])
        return design.astype(self.rows.dtype, copy=False)

    def _rates(self, design: Floats, tile: slice) -> Floats:
        eta: Floats = design @ self._extended[tile].T
        offset = self.rows.offset
        if offset is not None:
            eta += offset if offset.shape[1] == 1 else offset[:, tile]
        np.exp(eta, out=eta)
        if self.rows.observed is not None:
            eta[~self.rows.observed[:, tile]] = 0.0
        return eta


def _column_terms(coefficients: Coefficients, sums: Floats, linear: Floats) -> tuple[Floats, Floats]:
    r"""Gradient and curvature of the columns from ``A' [1 | D | products of D | S]``.

    The exact curvature is ``sum_i A_ij (u u' + diag(s_i))`` with ``u = d_i + s_i * c_j``. Here s_i within u is
    replaced by its mean under A, which keeps the curvature positive and saves the products of D and S.
    """
    loadings = coefficients.loadings
    m, k = coefficients.joint.shape[1], loadings.shape[1]
    total, first = sums[:, :1], sums[:, 1 : m + 1]
    second, spread = sums[:, m + 1 : m + 1 + packed_size(m)], sums[:, m + 1 + packed_size(m) :]
    gradient = linear - first
    gradient[:, :k] -= spread * loadings
    shift = np.zeros_like(first)
    np.divide(spread * loadings, total, out=shift[:, :k], where=total > 0)
    # sum A (d + shift)(d + shift)' = second + total (mean + shift)(mean + shift)' - total mean mean'.
    mean = np.divide(first, total, out=np.zeros_like(first), where=total > 0)
    curvature = second + total * (packed_products(mean + shift) - packed_products(mean))
    rows, cols = np.triu_indices(m)
    curvature[:, np.flatnonzero((rows == cols) & (rows < k))] += spread
    return gradient, curvature
