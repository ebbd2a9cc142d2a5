"""How many directions of a table stand out of its noise: the test of singular values by Kritchman and Nadler (2009)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import leading_directions
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._opened import OpenedBlock, observed_only
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._weight import count_rows

# The 99 % quantile of the Tracy-Widom law of real noise (Johnstone 2001).
_TRACY_WIDOM = 2.024
# Standardised residuals beyond 8 are those of rare events; a chi-square limit law knows none.
_CLIP = 8.0
# Rounds of the fixed point of noise and signal, which gains a digit in each but near the edge, and what ends them.
_ROUNDS = 20
_SETTLED = 1e-6
# Columns up to which all singular values are found at once, from a matrix of 8 MB; beyond, the leading ones by so many
# products: those of signal to rounding, those at the edge of the noise up to 5 per cent too small.
_MOST_COLUMNS = 1000
_PRODUCTS = 8


def noise_edge(n: float, p: float) -> float:
    """The value that the largest squared singular value of n x p unit noise exceeds once in a hundred tables."""
    root = np.sqrt(n) + np.sqrt(p)
    return float(root**2 + _TRACY_WIDOM * root * (1.0 / np.sqrt(n) + 1.0 / np.sqrt(p)) ** (1.0 / 3.0))


def standing_out(squared: Floats, total: float, n: float, p: int, most: int) -> int:
    """Number of squared singular values that are above the edge of what the others say is noise.

    Parameters
    ----------
    squared : ndarray
        The largest of them, in falling order.
    total : float
        Sum of all.
    n, p : float, int
        Shape of the table.
    most : int
        Largest number that is counted.
    """
    most = min(most, int(n) - 1, p - 1, len(squared))
    for k in range(most):
        if squared[k] < _noise(squared, total, n, p, k) * noise_edge(n - k, p - k):
            return k
    return max(most, 0)


def _noise(squared: Floats, total: float, n: float, p: int, k: int) -> float:
    """Noise variance beside k components, without the share of it that they have taken.

    With signal s the squared singular value of a component is near ``n s + noise (n + p) + noise^2 p / s``.
    """
    lead = squared[:k]
    noise = (total - float(lead.sum())) / ((n - k) * (p - k))
    for _ in range(_ROUNDS):
        above = lead - noise * (n + p)
        root = np.sqrt(np.maximum(above**2 - 4.0 * noise**2 * n * p, 0.0))
        signal = float(np.where(above > 0, 0.5 * (above + root), 0.0).sum())
        before, noise = noise, max((total - signal) / (n * p), np.finfo(float).tiny)
        if abs(noise - before) <= _SETTLED * before:
            break
    return noise


@dataclass(frozen=True, eq=False)
class ResidualSpectrum:
    """Singular values of the residuals of a model.

    Residuals of columns with units are in units of the model's dispersion, the others standardised: signal makes those
    of counts and answers wider too.
    """

    candidate: Candidate
    coefficients: Coefficients
    local: Sequence[Any] | None = None
    """Scores of the blocks; ``None`` without components."""

    @cached_property
    def _has_units(self) -> Bools:
        found = np.zeros(len(self.coefficients.fixed), dtype=bool)
        for member, columns in self.candidate.family.member_columns(len(found)):
            found[columns] = member.has_units
        return found

    @cached_property
    def squares(self) -> Floats:
        """Sums of squared residuals of the columns, in units, shape (n_features,)."""
        return self._squares / self._size**2

    @cached_property
    def _squares(self) -> Floats:
        return self.candidate.visit.sum(
            lambda rows, scores: rows.weights @ self._residuals(rows, scores) ** 2, self.local
        )

    @cached_property
    def _size(self) -> Floats:
        """Units of the columns, shape (n_features,)."""
        free = (self._squares > 0) & ~self._has_units
        return np.where(free, np.sqrt(self._squares / count_rows(self.candidate.session)), 1.0)

    def leading(self, most: int) -> Floats:
        """The largest squared singular values, in falling order."""
        return _leading(self._product, self._size, most)

    def beside(self) -> Floats:
        """All squared singular values of the residuals without the directions of the loadings, in falling order."""
        loadings = self.coefficients.loadings * (np.sqrt(self._curvatures) / self._size)[:, None]
        basis = np.linalg.qr(loadings)[0]
        cross = self._product(None) / np.outer(self._size, self._size)
        taken = basis @ (basis.T @ cross)
        left = cross - taken - taken.T + basis @ (basis.T @ taken.T)
        n_directions = max(int((self.squares > 0).sum()) - basis.shape[1], 0)
        return np.maximum(np.linalg.eigvalsh(0.5 * (left + left.T))[::-1][:n_directions], 0.0)

    @cached_property
    def _curvatures(self) -> Floats:
        """Mean curvatures of the columns' entries, shape (n_features,)."""

        def of_block(rows: OpenedBlock, scores: Floats) -> Floats:
            evaluator = BlockEvaluator(self.candidate.family, self.coefficients, rows)
            found = np.zeros(rows.n_features)
            for tile, terms in evaluator.tiles(evaluator.design(scores), order=2):
                found[tile] = rows.weights @ terms.curvature
            return found

        found: Floats = self.candidate.visit.sum(of_block, self.local)
        return found / count_rows(self.candidate.session)

    def _residuals(self, rows: OpenedBlock, scores: Floats) -> Floats:
        limit = np.where(self._has_units, np.inf, _CLIP)
        evaluator = BlockEvaluator(self.candidate.family, self.coefficients, rows)
        found = np.zeros((rows.n_rows, rows.n_features), rows.dtype)
        for tile, terms in evaluator.tiles(evaluator.design(scores), order=2):
            scale = np.sqrt(np.where(terms.curvature > 0, terms.curvature, 1.0))
            found[:, tile] = np.clip(terms.gradient / scale, -limit[tile], limit[tile])
        return observed_only(rows, slice(None), found)

    def _product(self, basis: Floats | None) -> Floats:
        """``R' W R basis``, or the matrix itself without a basis."""

        def of_block(rows: OpenedBlock, scores: Floats) -> Floats:
            seen = self._residuals(rows, scores)
            if basis is None:
                # The product of an array with itself is known to be symmetric, and takes half of the time.
                seen *= np.sqrt(rows.weights)[:, None]
                return np.asarray(seen.T @ seen)
            right = (seen @ basis.astype(seen.dtype)) * rows.weights[:, None]
            return np.asarray(seen.T @ right.astype(seen.dtype), dtype=float)

        # Single precision is enough to count directions in tables too wide for all of them.
        is_single = basis is not None and self.candidate.is_large
        visit = replace(self.candidate.visit, precision="float32" if is_single else None)
        return visit.sum(of_block, self.local)


def count_above_noise(candidate: Candidate, null: Coefficients) -> int:
    """Directions of the residuals of a model without components that stand out of noise."""
    found, most = ResidualSpectrum(candidate, null), candidate.settings.max_components
    squares, n = found.squares, count_rows(candidate.session)
    return standing_out(found.leading(most + 1), float(squares.sum()), n, int((squares > 0).sum()), most)


def _leading(product: Callable[[Floats | None], Floats], size: Floats, most: int) -> Floats:
    """The largest eigenvalues, in falling order, of a matrix that is known by its products, in units of ``size``."""
    p = len(size)
    if p <= _MOST_COLUMNS:
        return np.asarray(np.linalg.eigvalsh(product(None) / np.outer(size, size))[::-1][:most])
    # A generator of its own: what is told of a table must not change what is drawn for its fit.
    rng = np.random.default_rng(0)
    unit = size[:, None]
    found = leading_directions(
        lambda basis: product(basis / unit) / unit, p, min(most, p), rng, n_products=_PRODUCTS
    )
    values = found[1]
    return np.sort(values)[::-1]
