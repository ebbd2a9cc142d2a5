"""Expected log-likelihood of a block under normal posteriors of both sides, tile by tile.

With second moments T of a row's scores and M of a column's coefficients, both with their fixed features, the predictor
of an entry has mean ``o + m'v`` and second moment ``<T, M>``: one product of packed matrices gives the variances of a
whole tile, with M around the means of the fixed features' coefficients, which leaves variances as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.linalg import doubled
from anypca.models._bilinear.evaluator import mask_missing, weighted_terms
from anypca.models._opened import OpenedBlock
from anypca.models.sepca._posterior import Loadings, parts_of
from anypca.models.sepca._scores import Moments

# Nats by which the expected log-likelihood of a row may change for its terms to be of the usual size before and after.
_NOT_FAR = 10.0


class Sums(NamedTuple):
    """Expected log-likelihoods, and what the update of one side needs."""

    rows: Floats
    """Of each row, shape (rows,)."""
    columns: Floats
    """Of each column, weighted, shape (n_features,)."""
    target: Floats
    """Right-hand sides of one side's means, shape (rows or n_features, m)."""
    information: Floats
    """Its precisions without those of the prior, packed, shape (rows or n_features, m (m + 1) / 2)."""


class Tile(NamedTuple):
    """Terms of a run of columns; (rows, columns) each, zero at missing entries."""

    columns: slice
    value: Floats
    working: Floats
    """Curvature times working response."""
    curvature: Floats


class Factors(NamedTuple):
    """What blocks multiply with, in their precision."""

    mean: Floats
    """Means of the coefficients, shape (n_features, m)."""
    products: Floats
    """Second moments around the fixed ones' means, doubled off the diagonal, (n_features, m (m + 1) / 2)."""
    second: Floats
    """Second moments, (n_features, m (m + 1) / 2)."""

    @classmethod
    def of(cls, loadings: Loadings, dtype: np.dtype[Any]) -> Factors:
        """Those of a posterior, made by the first block and kept for the others."""
        with _MAKING:
            known = _MADE.setdefault(loadings, {})
            if dtype not in known:
                products, second = (np.empty(loadings.precision.shape, dtype) for _ in range(2))
                for part in parts_of(slice(0, len(loadings.mean))):
                    some = loadings.columns(part)
                    second[part] = some.second_moment
                    products[part] = doubled(some.moment_around_fixed, some.mean.shape[1])
                known[dtype] = cls(loadings.mean.astype(dtype, copy=False), products, second)
            return known[dtype]


# Beside the loadings and not within: whoever sends or stores these need not carry what follows from them.
_MADE: WeakKeyDictionary[Loadings, dict[np.dtype[Any], Factors]] = WeakKeyDictionary()
_MAKING = Lock()


@dataclass(frozen=True, eq=False)
class Expectation:
    """A family under a posterior of the loadings, on the rows of a block.

    Where the log-likelihood is linear in the entries, ``x eta - A(eta)``, the sums over ``x`` of a complete block are
    products with it, and only the expected cumulant is evaluated entry by entry.
    """

    family: Family
    loadings: Loadings
    rows: OpenedBlock
    factors: Factors

    @classmethod
    def of(cls, family: Family, loadings: Loadings, rows: OpenedBlock) -> Expectation:
        return cls(family, loadings, rows, Factors.of(loadings, rows.dtype))

    @cached_property
    def _image(self) -> Floats:
        """The entries times the means of the coefficients, shape (rows, m)."""
        return np.asarray(self.rows.product @ self.factors.mean)

    def take(self, index: Ints) -> Expectation:
        """The same for some of the rows."""
        return replace(self, rows=self.rows.take(index))

    def row_sums(self, moments: Moments) -> Sums:
        """What the rows' update needs, from sums over columns."""
        m, size, n = self.loadings.mean.shape[1], self.loadings.precision.shape[1], self.rows.n_rows
        mean, _, second = self.factors
        target, information = np.zeros((n, m)), np.zeros((n, size))
        by_row, by_column = np.zeros(n), np.empty(self.rows.n_features)
        for tile, value, working, curvature in self.tiles(moments):
            self._add_values(by_row, by_column, tile, value)
            target += working @ mean[tile]
            information += curvature @ second[tile]
        return self._with_linear(moments, Sums(by_row, by_column, target, information), over_rows=False)

    def column_sums(self, moments: Moments, onto: Floats | None = None) -> Sums:
        """What the columns' update needs, from weighted sums over rows; information in the precision of the rows.

        Information is the largest of all. It is added to that at hand where some is given.
        """
        weights, dtype, p = self.rows.weights, self.rows.dtype, self.rows.n_features
        has_weights = self.rows.weight is not None
        design, second = (
            (array * weights[:, None] if has_weights else array).astype(dtype, copy=False)
            for array in (moments.design, moments.second)
        )
        target = np.empty((p, design.shape[1]))
        information = np.empty((p, second.shape[1]), dtype) if onto is None else onto
        by_row, by_column = np.zeros(self.rows.n_rows), np.empty(p)
        for tile, value, working, curvature in self.tiles(moments):
            self._add_values(by_row, by_column, tile, value)
            target[tile] = working.T @ design
            if onto is None:
                np.matmul(curvature.T, second, out=information[tile])
            else:
                information[tile] += curvature.T @ second
        return self._with_linear(moments, Sums(by_row, by_column, target, information), over_rows=True)

    def _add_values(self, by_row: Floats, by_column: Floats, tile: slice, value: Floats) -> None:
        """Add the terms of a tile to the sums of the rows, and put their weighted sums in the columns' places.

        Columns in double precision: a block may have thousands of rows, and their sum is the bound.
        """
        by_row += value @ np.ones(value.shape[1], value.dtype)
        by_column[tile] = self.rows.weights @ value

    def resummed(self, sums: Sums, before: Moments, after: Moments, changed: Ints) -> Sums:
        """`column_sums` after some rows have changed, in the place of those before.

        Of a block of hundreds a few go too far in a sweep. The others are not evaluated again for them, unless some
        went so far that only rounding would be left in the sums.
        """
        if 2 * len(changed) > self.rows.n_rows:
            return self.column_sums(after)
        # What the rows were is taken away and what they are is added in one go: sums over columns are large.
        some = self.rows.take(np.concatenate([changed, changed]))
        weights = self.rows.weights[changed]
        signed = replace(some, weight=np.concatenate([-weights, weights]))
        both = before.take(changed).beside(after.take(changed))
        change = replace(self, rows=signed).column_sums(both, onto=sums.information)
        gone, come = np.split(change.rows, 2)
        if not (np.abs(come - gone) <= _NOT_FAR).all():
            return self.column_sums(after)
        rows = sums.rows.copy()
        rows[changed] = come
        return Sums(rows, sums.columns + change.columns, sums.target + change.target, change.information)

    def tiles(self, moments: Moments) -> Iterator[Tile]:
        """Terms of the log-likelihood, or where products are used of minus the cumulant but for its value."""
        return self._cumulant_tiles(moments) if self.rows.table is None else self._entry_tiles(moments)

    def _entry_tiles(self, moments: Moments) -> Iterator[Tile]:
        rows, dispersion = self.rows, self.loadings.dispersion.astype(self.rows.dtype, copy=False)
        for tile, inner, eta, variance in self.predictors(moments):
            found = self.family.columns(tile).expect(rows.x[:, tile], eta, variance, dispersion[tile])
            value, gradient, curvature = weighted_terms(rows, tile, found)
            yield Tile(tile, value, gradient + curvature * inner, curvature)

    def _cumulant_tiles(self, moments: Moments) -> Iterator[Tile]:
        observed = self.rows.observed
        for tile, inner, eta, variance in self.predictors(moments):
            found = self.family.expected_cumulant(eta, variance)
            cumulant, mean, curvature = found if observed is None else mask_missing(found, observed[:, tile])
            working = inner * curvature
            working -= mean
            yield Tile(tile, cumulant, working, curvature)

    def predictors(self, moments: Moments) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Mean of the predictor without offset, with it, and its variance, tile after tile."""
        rows = self.rows
        design, second = (array.astype(rows.dtype, copy=False) for array in (moments.design, moments.second))
        k, (mean, products, _) = self.loadings.n_components, self.factors
        for tile in rows.tiles():
            inner = design[:, :k] @ mean[tile, :k].T
            # <T, M> minus the squared mean, both without fixed parts; rounding may leave it a little below zero, and
            # as much above it will do.
            variance = second @ products[tile].T
            variance -= inner * inner
            np.abs(variance, out=variance)
            inner += design[:, k:] @ mean[tile, k:].T
            eta = inner
            if rows.offset is not None:
                eta = inner + (rows.offset if rows.offset.shape[1] == 1 else rows.offset[:, tile])
            yield tile, inner, eta, variance

    def _with_linear(self, moments: Moments, sums: Sums, *, over_rows: bool) -> Sums:
        """Sums over tiles completed, where they are of a cumulant, by what is linear in the entries."""
        rows = self.rows
        if rows.table is not None:
            return sums
        image = self._image
        weighted = (moments.design * rows.weights[:, None]).astype(rows.dtype, copy=False)
        back = np.asarray(rows.product.T @ weighted, dtype=float)
        by_row = np.einsum("ia,ia->i", moments.design, image) + rows.offset_values - sums.rows
        by_column = np.einsum("ja,ja->j", self.loadings.mean, back) + rows.offset_totals - sums.columns
        return Sums(by_row, by_column, sums.target + (back if over_rows else image), sums.information)
