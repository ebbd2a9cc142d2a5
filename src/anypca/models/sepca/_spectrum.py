"""How many directions of a table stand out of its noise: the test of singular values by Kritchman and Nadler (2009)."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
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


def noise_edge(n: float, p: float) -> float:
    """The value that the largest squared singular value of n x p unit noise exceeds once in a hundred tables."""
    root = np.sqrt(n) + np.sqrt(p)
    return float(root**2 + _TRACY_WIDOM * root * (1.0 / np.sqrt(n) + 1.0 / np.sqrt(p)) ** (1.0 / 3.0))


def standing_out(squared: Floats, n: float, p: int, most: int) -> int:
    """Number of squared singular values, in falling order, that are above the edge of what the others say is noise."""
    most = min(most, int(n) - 1, p - 1)
    for k in range(most):
        if squared[k] < _noise(squared, n, p, k) * noise_edge(n - k, p - k):
            return k
    return max(most, 0)


def _noise(squared: Floats, n: float, p: int, k: int) -> float:
    """Noise variance beside k components, without the share of it that they have taken.

    With signal s the squared singular value of a component is near ``n s + noise (n + p) + noise^2 p / s``.
    """
    total, lead = float(squared.sum()), squared[:k]
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

    def function(rows: OpenedBlock, scores: Floats) -> Floats:
        evaluator = BlockEvaluator(family, null, rows)
        residuals = np.zeros((rows.n_rows, rows.n_features))
        for tile, terms in evaluator.tiles(evaluator.design(scores), order=2):
            assert terms.gradient is not None
            assert terms.curvature is not None
            scale = np.sqrt(np.where(terms.curvature > 0, terms.curvature, 1.0))
            residuals[:, tile] = np.clip(terms.gradient / scale, -limit[tile], limit[tile])
        seen = observed_only(rows, slice(None), residuals)
        return (seen * rows.weights[:, None]).T @ seen

    gram, n = candidate.visit.sum(function), count_rows(session)
    size = np.where(has_units, 1.0, np.sqrt(np.diag(gram) / n))
    varies = np.diag(gram) > 0
    squared = np.linalg.eigvalsh(gram[np.ix_(varies, varies)] / np.outer(size[varies], size[varies]))[::-1]
    return standing_out(squared, n, int(varies.sum()), candidate.settings.max_components)
