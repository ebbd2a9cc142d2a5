"""Fits from a stream of blocks: decayed averages take the place of sums over the table.

The rows of a block are solved under the current shared parameters. For the coefficients k_j of each column, the
curvature A and ``B = A k + g`` with the gradient g define a quadratic function of k_j, independent of later values of
k_j. Weighted averages of both per row, with less weight for older blocks, give the next parameters, like the sums of a
sweep over as many rows. After each block the latent coordinates change, and the averages are transformed with them. A
`StreamRule` defines how a model solves rows and updates parameters; this module implements the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from anypca._typing import Floats
from anypca.columns import raise_outside
from anypca.engine import Block, Data, Executor, Statistics, first_outside
from anypca.families import Family
from anypca.linalg import pack_symmetric, packed_diagonal, unpack_symmetric

Shared = TypeVar("Shared")

# Largest root mean square change of a column's predictor in one step, where the quadratic function is still close:
# for counts a factor of e.
_FARTHEST = 1.0


@dataclass(frozen=True, eq=False)
class BlockSums(Statistics):
    """What the solved rows of some blocks add up to; d are scores and fixed features of a row, m of them."""

    curvature: Floats
    """A, of the log-likelihood in the coefficients, packed, shape (n_features, m (m + 1) / 2)."""
    target: Floats
    """``B = A k + g``, shape (n_features, m)."""
    moments: Floats
    """Second moments of d, shape (m, m)."""
    spread: Floats
    """Posterior variances of the scores where ``moments`` leave them out, shape (k,)."""
    squares: float
    """Of the entries, where a noise variance is estimated."""
    n_entries: float
    weight: float

    def __mul__(self, factor: float) -> BlockSums:
        return BlockSums(*(factor * getattr(self, part.name) for part in fields(self)))

    def in_coordinates(self, change: Floats) -> BlockSums:
        """The same sums where the design is ``D change``, shape (m, m); see `design_change`."""
        k, m = len(self.spread), len(self.moments)
        return replace(
            self,
            curvature=pack_symmetric(change.T @ unpack_symmetric(self.curvature, m) @ change),
            target=self.target @ change,
            moments=change.T @ self.moments @ change,
            spread=self.spread @ change[:k, :k] ** 2,
        )

    def times(self, joint: Floats) -> Floats:
        """The curvatures times the coefficients of their columns, shape (n_features, m)."""
        matrices = unpack_symmetric(self.curvature, joint.shape[1])
        return np.asarray((matrices @ joint[:, :, None])[:, :, 0])

    def shares(self, loadings: Floats, variance: Floats, total: float, *, fit_intercept: bool) -> Floats:
        """Share of each component where all of them have a known one, divided by information, shape (k,).

        If scores are uncorrelated, a component contributes to the quadratic function the sum over columns of squared
        loading times variance times the column's mean curvature, which is the curvature of its intercept. Each column
        has weight h / (1 + h), with h the ratio of its predictor's variance to its noise variance.
        """
        k, m = loadings.shape[1], len(self.moments)
        level = self.curvature[:, packed_diagonal(m)[k]] if fit_intercept else np.ones(len(loadings))
        squares = loadings**2 * variance * level[:, None]
        parts = (squares / (1.0 + squares.sum(axis=1, keepdims=True))).sum(axis=0)
        return np.asarray(total * parts / parts.sum() if parts.sum() > 0 else parts)


def design_change(shift: Floats, matrix: Floats) -> Floats:
    """``[z | f] -> [(z - f shift) matrix | f]`` as a matrix (m, m), from shapes (n_fixed, k) and (k, k)."""
    k = len(matrix)
    change = np.eye(k + len(shift))
    change[:k, :k] = matrix
    change[k:, :k] = -shift @ matrix
    return change


def held_back(step: Floats, averages: BlockSums, *, fit_intercept: bool) -> Floats:
    """A step of all columns, none farther than the quadratic function is to be trusted, shape (n_features, m)."""
    if not fit_intercept:
        return step
    k, tiny = len(averages.spread), np.finfo(float).tiny
    # The curvature of the intercept is the mean curvature of the entries.
    level = averages.curvature[:, packed_diagonal(step.shape[1])[k]]
    change = np.einsum("ja,ja->j", step, averages.times(step)) / np.maximum(level, tiny)
    return np.asarray(step * np.minimum(1.0, _FARTHEST / np.sqrt(np.maximum(change, tiny)))[:, None])


class StreamRule(ABC, Generic[Shared]):
    """Interface of a model to a stream."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family of the columns of the model."""

    @abstractmethod
    def solve(self, block: Block, shared: Shared) -> BlockSums:
        """The sums of a block whose rows are at their optima under ``shared``. Pure."""

    @abstractmethod
    def improve(self, shared: Shared, averages: BlockSums, weight: float) -> tuple[Shared, Floats | None]:
        """Better parameters from the averages of ``weight`` rows, and the `design_change` that goes with them."""


@dataclass(frozen=True, eq=False)
class Stream(Generic[Shared]):
    """State after the blocks so far; families and dispersions come from the first block."""

    rule: StreamRule[Shared]
    shared: Shared
    averages: BlockSums
    """Of a row; its weight is 1."""
    n_blocks: int
    weight: float
    """Of all rows so far."""
    n_samples: int

    @classmethod
    def after(
        cls, rule: StreamRule[Shared], shared: Shared, data: Data, executor: Executor
    ) -> Stream[Shared]:
        """From parameters that were fitted to a first block."""
        sums = executor.sum(lambda block, _: rule.solve(block, shared), data)
        return cls(rule, shared, sums * (1.0 / sums.weight), 1, sums.weight, data.n_samples)

    def advanced(self, data: Data, executor: Executor) -> Stream[Shared]:
        """The stream after the rows of a table.

        Raises
        ------
        ValueError
            If an entry is outside of the support of its column's family.
        """
        rule, shared = self.rule, self.shared
        found = first_outside(data, executor, rule.family.in_support)
        if found is not None:
            raise_outside(rule.family, *found, data.feature_names)
        sums = executor.sum(lambda block, _: rule.solve(block, shared), data)
        return replace(self.taken(sums), n_samples=self.n_samples + data.n_samples)

    def taken(self, sums: BlockSums) -> Stream[Shared]:
        """The stream after some more rows, solved under its parameters."""
        if sums.weight == 0:
            return self
        number, weight = self.n_blocks + 1, self.weight + sums.weight
        # Weights grow linearly with the number of the block: early ones, found far from the optimum, are forgotten.
        rate = 2.0 / (number + 1.0)
        averages = self.averages * (1.0 - rate) + sums * (rate / sums.weight)
        shared, change = self.rule.improve(self.shared, averages, weight)
        carried = averages if change is None else averages.in_coordinates(change)
        return replace(self, shared=shared, averages=carried, n_blocks=number, weight=weight)


def continue_fit(model: Any, X: Any, companions: Mapping[str, Any]) -> Any:
    """The body of ``partial_fit``: fit the first block, or continue with another one.

    The model writes ``_begin_stream``, which returns the `StreamRule` and the shared parameters of the first fit, and
    ``_store_stream``, which sets the fitted attributes that a block changes.
    """
    stream = vars(model).get("_stream")
    if stream is None:
        model.fit(X, **companions)
    with model._open_new(X, **companions) as (data, executor):
        if stream is None:
            rule, shared = model._begin_stream()
            stream = Stream.after(rule, shared, data, executor)
        else:
            stream = stream.advanced(data, executor)
            _store_padded(model, stream)
    model._stream = stream
    model.n_samples_seen_ = stream.n_samples
    model._last_run = stream.shared
    return model


def _store_padded(model: Any, stream: Stream[Any]) -> None:
    """Set the fitted attributes; attributes of columns have an entry for each column of the table."""
    before = dict(vars(model))
    model._store_stream(stream)
    for name, axis in model._column_attributes.items():
        values = vars(model).get(name)
        if values is not None and values is not before.get(name):
            setattr(model, name, model.layout_.pad(values, axis))


@available_if(lambda model: model._can_stream())
def partial_fit(
    self: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    covariates: Any = None,
) -> Any:
    """Update the fit with further rows, without storing them.

    The first call fits the model to its rows, and fixes families, dispersions and the number of components: pass about
    600 rows, and blocks of 200 rows or more afterwards. Each row counts once for each time it is passed; ``fit`` starts
    afresh.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        As in ``fit``.
    y : None
        Ignored.
    sample_weight, offset, covariates : as in ``fit``, for these rows

    Returns
    -------
    self
    """
    companions = {"sample_weight": sample_weight, "offset": offset, "covariates": covariates}
    return continue_fit(self, X, companions)
