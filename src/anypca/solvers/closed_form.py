"""Eigenvalues and eigenvectors of the covariance of a table held in row blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor
from anypca.exceptions import ConvergenceWarning

# Up to this size a dense symmetric eigenproblem is solved whole (some 10 s); above, only its leading part.
_DENSE_LIMIT = 4000
# Rows are read in chunks of at most this many bytes ...
_CHUNK_BYTES = 2**25
# ... and for sums of large matrices of this many rows, so that the product outweighs adding it up.
_CHUNK_ROWS = 1024
# Directions beyond those asked for: they make convergence depend on a gap further down the spectrum (Halko et al. 2011
# advise 5 to 10).
_OVERSAMPLING = 10
# Spectra with 20 eigenvalues within a tenth of the last wanted one take some 40 sweeps, however close the next one is.
_MAX_SWEEPS = 300
# Residual of an eigenpair relative to the largest eigenvalue: a few times rounding.
_RESIDUAL = 1e-12


@dataclass(frozen=True)
class Spectrum:
    """Leading part of an eigendecomposition."""

    values: Floats
    """Eigenvalues (m,), decreasing, never negative."""
    vectors: Floats
    """Orthonormal eigenvectors (n_features, m), one per column."""
    trace: float
    """Sum of all eigenvalues, also of those that were not computed."""


@dataclass(frozen=True)
class Centring:
    """How the entries enter the covariance: ``(x - mean) * scale``, 0 where missing."""

    mean: Floats
    """(n_features,)"""
    scale: Floats | float = 1.0
    """A number or (n_features,)."""

    def rows(self, block: Block) -> Floats:
        """Centred rows of a block, times the square roots of their weights, shape (rows, n_features)."""
        x, observed = block.read() if block.may_miss else (block.view(), None)
        rows = np.subtract(x, self.mean, dtype=np.float64, order="C")
        if not np.isscalar(self.scale) or self.scale != 1.0:
            rows *= self.scale
        if observed is not None:
            rows[~observed] = 0.0
        if block.weight is not None:
            rows *= np.sqrt(block.weight)[:, None]
        return rows


def covariance_spectrum(
    data: Data,
    executor: Executor,
    centring: Centring,
    *,
    divisor: float,
    n_components: int | None = None,
    rng: np.random.Generator | None = None,
) -> Spectrum:
    """Eigendecomposition of ``sum_i w_i r_i r_i' / divisor`` over the centred rows r_i.

    Parameters
    ----------
    data : Data
    executor : Executor
    centring : Centring
    divisor : float
        Usually the sum of the weights, or that less one.
    n_components : int or None
        How many leading eigenpairs are needed; ``None`` for all min(n_samples, n_features).
    rng : numpy.random.Generator or None
        Start of the iterative method, used only on tables that are large both ways.

    Returns
    -------
    Spectrum
        With min(n_samples, n_features) eigenpairs, or ``n_components`` from the iterative method.

    Notes
    -----
    The n_features x n_features product is summed over blocks when it is the smaller one, the n_samples x
    n_samples product over pairs of blocks when that is; above 4000 in both directions the leading eigenpairs
    are found by a block Krylov method, one sweep per step. Nothing of the size of the table is made.
    """
    n, p = data.n_samples, data.n_features
    # Rows of a distributed table do not meet, so there the small side must be the columns.
    shortest = p if data.is_distributed else min(n, p)
    # The iterative method holds up to 7 blocks of directions, which must fit into the space.
    is_large = n_components is not None and shortest > max(_DENSE_LIMIT, 8 * (n_components + _OVERSAMPLING))
    covariance = _Covariance(data, executor, centring, divisor)
    if n_components is not None and is_large:
        return _leading(covariance, n_components, rng or np.random.default_rng(0))
    return _from_columns(covariance) if p <= n or data.is_distributed else _from_rows(covariance)


@dataclass(frozen=True)
class _Covariance:
    """The matrix C = ``sum_i w_i r_i r_i' / divisor`` over the centred rows r_i of a table."""

    data: Data
    executor: Executor
    centring: Centring
    divisor: float

    def sum(self, function: Callable[[Floats], Any], data: Data) -> Any:
        """``function`` of the centred rows, summed over the blocks of a table, over the divisor."""
        centre = self.centring.rows
        return self.executor.sum(lambda block, _: function(centre(block)), data) / self.divisor

    def times(self, directions: Floats) -> Floats:
        """C times directions (n_features, n_directions), same shape."""
        return np.asarray(
            self.sum(lambda rows: rows.T @ (rows @ directions), coarsen(self.data, _CHUNK_ROWS))
        )


def _from_columns(covariance: _Covariance) -> Spectrum:
    """The spectrum by the n_features x n_features matrix, summed over blocks."""
    data = covariance.data
    matrix = covariance.sum(lambda rows: rows.T @ rows, coarsen(data, _CHUNK_ROWS))
    values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False)
    kept = min(data.n_samples, data.n_features)
    values, vectors = values[::-1][:kept], vectors[:, ::-1][:, :kept]
    return Spectrum(np.maximum(values, 0.0), vectors, float(np.maximum(values, 0.0).sum()))


def _from_rows(covariance: _Covariance) -> Spectrum:
    """The spectrum by the n_samples x n_samples matrix, from pairs of blocks, mapped back to the columns."""
    executor, centring, coarse = covariance.executor, covariance.centring, coarsen(covariance.data)
    gram = _row_gram(coarse, executor, centring) / covariance.divisor
    values, left = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
    values, left = np.maximum(values[::-1], 0.0), left[:, ::-1]

    def project(block: Block, _: Any) -> Floats:
        return np.asarray(centring.rows(block).T @ left[block.start : block.stop])

    images = executor.sum(project, coarse)
    return Spectrum(values, _orthonormal(images), float(values.sum()))


def _row_gram(data: Data, executor: Executor, centring: Centring) -> Floats:
    """Inner products of all pairs of centred rows, shape (n_samples, n_samples)."""
    gram = np.empty((data.n_samples, data.n_samples))
    for i, block in enumerate(data.blocks):
        rows = centring.rows(block)
        own = slice(block.start, block.stop)
        gram[own, own] = rows @ rows.T

        def product(other: Block, rows: Floats = rows) -> tuple[slice, Floats]:
            return slice(other.start, other.stop), centring.rows(other) @ rows.T

        later = replace(data, blocks=data.blocks[i + 1 :])
        if later.blocks:
            for other, values in executor.collect(product, later):
                gram[other, own] = values
                gram[own, other] = values.T
    return gram


def _orthonormal(columns: Floats) -> Floats:
    """Orthonormal basis whose leading columns point along the given, nearly orthogonal ones."""
    norms = np.linalg.norm(columns, axis=0)
    # Columns of null eigenvalues are noise; after scaling QR completes the basis in their place.
    basis, triangle = np.linalg.qr(columns / np.where(norms > 0, norms, 1.0))
    return np.asarray(basis * np.where(np.diag(triangle) < 0, -1.0, 1.0))


def _leading(covariance: _Covariance, n_components: int, rng: np.random.Generator) -> Spectrum:
    """Leading eigenpairs by Rayleigh-Ritz on a growing, restarted block Krylov basis.

    Each sweep multiplies one new block of directions by the covariance; new directions are the residuals of
    the current eigenpairs. The method ends when all residuals are at rounding level.
    """
    size = n_components + _OVERSAMPLING
    trace = float(covariance.sum(lambda rows: np.vdot(rows, rows), covariance.data))
    basis = np.linalg.qr(rng.standard_normal((covariance.data.n_features, size)))[0]
    image = covariance.times(basis)
    for _ in range(_MAX_SWEEPS):
        values, rotation = scipy.linalg.eigh(basis.T @ image)
        values, rotation = values[::-1], rotation[:, ::-1]
        ritz, ritz_image = basis @ rotation[:, :size], image @ rotation[:, :size]
        residual = ritz_image - ritz * values[:size]
        gap = np.linalg.norm(residual[:, :n_components], axis=0).max()
        if gap <= _RESIDUAL * max(values[0], np.finfo(float).tiny):
            break
        if basis.shape[1] >= 6 * size:
            # Restart with twice the block: the neighbours of the wanted pairs hold most of the progress.
            basis, image = basis @ rotation[:, : 2 * size], image @ rotation[:, : 2 * size]
        fresh = _new_directions(residual, basis)
        image = np.hstack([image, covariance.times(fresh)])
        basis = np.hstack([basis, fresh])
    else:
        warnings.warn(
            f"the leading eigenvectors were not found to full precision in {_MAX_SWEEPS} sweeps (residual "
            f"{gap:.2g}); eigenvalues {n_components} and {n_components + 1} are nearly equal. "
            "Ask for another number of components.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Spectrum(np.maximum(values[:n_components], 0.0), _orthonormal(ritz[:, :n_components]), trace)


def _new_directions(residual: Floats, basis: Floats) -> Floats:
    """Orthonormal directions of the residuals outside the basis."""
    norms = np.linalg.norm(residual, axis=0)
    fresh = residual / np.where(norms > 0, norms, 1.0)
    for _ in range(2):  # twice is enough to be orthogonal in working precision
        fresh = np.linalg.qr(fresh - basis @ (basis.T @ fresh))[0]
    return fresh


def coarsen(data: Data, n_rows: int | None = None) -> Data:
    """The same table in larger blocks.

    Blocks are sized for the cache; the sum of a p x p matrix per block needs more rows than that to pay off.

    Parameters
    ----------
    data : Data
    n_rows : int or None
        Largest number of rows of a merged block; as many as fit in 32 MB when ``None``.

    Returns
    -------
    Data
        ``data`` itself when it is distributed: its partitions stay where they are.
    """
    if data.is_distributed or len(data.blocks) < 2:
        return data
    rows = max(1, _CHUNK_BYTES // (8 * data.n_features))
    rows = rows if n_rows is None else min(rows, n_rows)
    groups: list[list[Block]] = []
    for block in data.blocks:
        if groups and _continues(groups[-1], block, rows):
            groups[-1].append(block)
        else:
            groups.append([block])
    return replace(data, blocks=[_merge(group) for group in groups])


def _continues(group: Sequence[Block], block: Block, rows: int) -> bool:
    """Whether a block follows a group in the same source and still fits."""
    last = group[-1]
    is_adjacent = block.source is last.source and block.first == last.first + last.n_rows
    return is_adjacent and block.stop - group[0].start <= rows


def _merge(group: Sequence[Block]) -> Block:
    """Adjacent blocks as one."""
    first, last = group[0], group[-1]
    weights = [block.weight for block in group if block.weight is not None]
    return replace(
        first,
        stop=last.stop,
        weight=np.concatenate(weights) if weights else None,
        covariates=np.concatenate([block.covariates for block in group]),
        may_miss=any(block.may_miss for block in group),
    )
