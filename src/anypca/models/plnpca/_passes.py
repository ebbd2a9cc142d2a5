"""Single passes over the blocks with their posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor
from anypca.linalg import packed_products, packed_size, unpack_symmetric
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.plnpca._kernel import CountRows, Kernel, State, open_counts
from anypca.models.plnpca._rotation import diagonalise

# Rows whose precisions decide a rotation: it is a proposal, and a few thousand tell it well enough.
_MOST_PRECISIONS = 2000


@dataclass(frozen=True)
class _Pieces:
    """Arrays that are collected."""

    arrays: tuple[Floats, ...]

    def __add__(self, other: _Pieces) -> _Pieces:
        return _Pieces(self.arrays + other.arrays)


@dataclass(frozen=True, eq=False)
class CountPass:
    """Visits the blocks of counts with their posteriors.

    Parameters
    ----------
    data : Data
    executor : Executor
    fit_intercept : bool
    """

    data: Data
    executor: Executor
    fit_intercept: bool

    def sum(
        self, function: Callable[[CountRows, State], Floats], local: Sequence[Any] | None = None
    ) -> Floats:
        """Sum of ``function(rows, state)`` over the blocks; without locals the state has no columns."""
        fit_intercept = self.fit_intercept

        def visit(block: Block, state: State | None) -> tuple[State, Floats]:
            rows = open_counts(block, fit_intercept=fit_intercept, dense=True)
            used = State.prior(rows.n_rows, 0) if state is None else state
            return used, function(rows, used)

        return self.executor.sweep(visit, self.data, local)[1]

    def map(
        self, function: Callable[[CountRows, State], State], local: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """``function(rows, state)`` of the blocks, where the blocks are."""
        fit_intercept = self.fit_intercept

        def visit(block: Block, state: State | None) -> tuple[State, float]:
            rows = open_counts(block, fit_intercept=fit_intercept, dense=True)
            return function(rows, State.prior(rows.n_rows, 0) if state is None else state), 0.0

        return self.executor.sweep(visit, self.data, local)[0]

    def log_base(self) -> float:
        """Weighted sum of ``-log x!``."""
        return float(self.sum(lambda rows, _: np.array([rows.weights @ rows.log_base()]))[0])

    def plug_in(self, coefficients: Coefficients, local: Sequence[Any] | None) -> float:
        """Poisson log-likelihood at the means of the posteriors, without ``-log x!``."""

        def function(rows: CountRows, state: State) -> Floats:
            certain = State(state.mean, np.zeros_like(state.variance))
            return np.array([rows.weights @ Kernel(coefficients, rows).row_values(certain)])

        return float(self.sum(function, local)[0])

    def saturated(self) -> float:
        """Largest Poisson log-likelihood, without ``-log x!``."""

        def function(rows: CountRows, _: State) -> Floats:
            x = np.asarray(rows.x, dtype=float)
            return np.array([rows.weights @ (xlogy(x, x) - x).sum(axis=1)])

        return float(self.sum(function)[0])

    def rotation(self, coefficients: Coefficients, local: Sequence[Any]) -> Floats:
        """The rotation (k, k) of the latent space in which independent posteriors lose least."""
        stride = max(1, -(-self.data.n_samples // _MOST_PRECISIONS))
        fit_intercept = self.fit_intercept

        def visit(block: Block, state: State | None) -> tuple[State, _Pieces]:
            assert state is not None
            rows = open_counts(block, fit_intercept=fit_intercept)
            index = np.arange(-block.start % stride, block.n_rows, stride)
            some = rows.take(index)
            packed = precisions(Kernel(coefficients, some), state.take(index))
            return state, _Pieces((np.hstack([some.weights[:, None], packed]),))

        found = np.concatenate(self.executor.sweep(visit, self.data, local)[1].arrays)
        k = coefficients.loadings.shape[1]
        return diagonalise(np.eye(k) + unpack_symmetric(found[:, 1:], k), found[:, 0])[0]

    def rotate(self, coefficients: Coefficients, local: Sequence[Any], rotation: Floats) -> Sequence[Any]:
        """Posteriors in rotated coordinates, with the variances that suit the old rates there."""
        loadings = coefficients.loadings @ rotation

        def function(rows: CountRows, state: State) -> State:
            information = information_of(Kernel(coefficients, rows), state, loadings)
            return State(state.mean @ rotation, 1.0 / (1.0 + information))

        return self.map(function, local)


def precisions(kernel: Kernel, state: State) -> Floats:
    """``sum_j A c c'`` of each row, packed, shape (rows, k (k + 1) / 2)."""
    loadings = kernel.coefficients.loadings
    found = np.zeros((kernel.rows.n_rows, packed_size(loadings.shape[1])))
    for tile in kernel.rows.tiles():
        found += kernel.rates(state, tile) @ packed_products(loadings[tile])
    return found


def information_of(kernel: Kernel, state: State, loadings: Floats) -> Floats:
    """``sum_j A c * c`` of each row for some loadings (n_features, k), shape (rows, k)."""
    found = np.zeros((kernel.rows.n_rows, loadings.shape[1]))
    for tile in kernel.rows.tiles():
        found += kernel.rates(state, tile) @ loadings[tile] ** 2
    return found
