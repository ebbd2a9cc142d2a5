"""How many directions of a table stand out of its noise: the test of singular values by Kritchman and Nadler (2009)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anypca._typing import Floats
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


def count_above_noise(candidate: Candidate, null: Coefficients) -> int:
    """Directions of the residuals of a model without components that stand out of noise.

    Those of columns with units are in units of the dispersion of ``null``, the others standardised: signal makes
    the residuals of counts and answers wider too.
    """
    session, family = candidate.session, candidate.family
    has_units = np.zeros(len(null.fixed), dtype=bool)
    for member, columns in family.member_columns(len(has_units)):
        has_units[columns] = member.has_units
    limit = np.where(has_units, np.inf, _CLIP)

    def residuals(rows: OpenedBlock, scores: Floats) -> Floats:
        evaluator = BlockEvaluator(family, null, rows)
        found = np.zeros((rows.n_rows, rows.n_features))
        for tile, terms in evaluator.tiles(evaluator.design(scores), order=2):
            scale = np.sqrt(np.where(terms.curvature > 0, terms.curvature, 1.0))
            found[:, tile] = np.clip(terms.gradient / scale, -limit[tile], limit[tile])
        return observed_only(rows, slice(None), found)

    def product(basis: Floats | None) -> Floats:
        """``R' W R basis``, or the matrix itself without a basis."""

        def of_block(rows: OpenedBlock, scores: Floats) -> Floats:
            seen = residuals(rows, scores)
            right = seen if basis is None else seen @ basis
            return np.asarray(seen.T @ (right * rows.weights[:, None]))

        return candidate.visit.sum(of_block)

    squares = candidate.visit.sum(lambda rows, scores: rows.weights @ residuals(rows, scores) ** 2)
    n, varies = count_rows(session), squares > 0
    size = np.where(varies, np.where(has_units, 1.0, np.sqrt(squares / n)), 1.0)
    most = candidate.settings.max_components
    leading = _leading(product, size, most + 1)
    return standing_out(leading, float((squares / size**2).sum()), n, int(varies.sum()), most)


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
