"""Scores and coefficients that are drawn together: their likelihood given a table, and their alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Table
from anypca.families import Family
from anypca.linalg import fix_signs, procrustes
from anypca.models._bilinear.evaluator import Coefficients, weighted_terms
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._bilinear.start import mean_coefficients
from anypca.models._block_view import BlockView, open_block
from anypca.models._context import FitContext


class Point(NamedTuple):
    """Scores and coefficients; leading axes, if any, are draws."""

    scores: Floats
    """Z, shape (..., n_samples, k)."""
    joint: Floats
    """K, shape (..., n_features, m)."""

    @property
    def loadings(self) -> Floats:
        """W, shape (..., n_features, k)."""
        return self.joint[..., : self.scores.shape[-1]]

    @property
    def fixed(self) -> Floats:
        """B, shape (..., n_features, m - k)."""
        return self.joint[..., self.scores.shape[-1] :]


class LikelihoodTerms(NamedTuple):
    """Log-likelihood of a table and its gradient."""

    value: float
    scores: Floats
    """(n_samples, k)."""
    joint: Floats
    """Loadings, then intercept and covariates, shape (n_features, m)."""


def likelihood_terms(
    family: Family, rows: BlockView, dispersion: Floats, scores: Floats, joint: Floats
) -> LikelihoodTerms:
    """Value without constants and gradient; if an exponential overflows the value is -inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = family.evaluate(
            rows.x, rows.shifted(np.hstack([scores, rows.features]) @ joint.T), dispersion, order=1
        )
        found = weighted_terms(rows, slice(None), found)
        value = float(rows.weights @ found.value.sum(axis=1))
        slope = found.gradient * rows.weights[:, None]
        by_column = slope.T @ np.hstack([scores, rows.features])
        return LikelihoodTerms(value, slope @ joint[:, : scores.shape[1]], by_column)


def collect_rows(session: FitContext, *, fit_intercept: bool) -> BlockView:
    """The whole table as one dense block in float64."""
    data = session.data
    parts: list[BlockView] = session.gather(lambda block: open_block(block, fit_intercept=fit_intercept))
    offsets = [part.offset for part in parts if part.offset is not None]
    entries = [part.entry for part in parts if part.entry is not None]
    return BlockView(
        Table(_stack([part.x for part in parts]), _stack_observed(parts)),
        None,
        _stack(offsets) if offsets else None,
        _stack([part.weights for part in parts]) if data.has_weights else None,
        _stack([part.features for part in parts]),
        data.n_features,
        np.dtype(float),
        np.arange(data.n_samples),
        entry=_stack(entries) if entries else None,
    )


def deviances_at(
    session: FitContext, family: Family, coefficients: Coefficients, scores: Floats, *, fit_intercept: bool
) -> Deviances:
    """Deviances at posterior means of coefficients and training scores, and without components."""
    fixed = mean_coefficients(family, session.summary, 0, fit_intercept=fit_intercept)
    null = Coefficients(np.zeros((len(fixed), 0)), fixed, coefficients.dispersion)
    local = session.map(lambda block, _: scores[block.start : block.stop])
    return Pass(session, fit_intercept).deviances(family, coefficients, local, null)


def _stack(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


def _stack_observed(parts: Sequence[BlockView]) -> Bools | None:
    if all(part.observed is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(part.x.shape, dtype=bool) if part.observed is None else part.observed for part in parts]
    )


# Rounds of turning all draws to their mean, and relative change of the mean that ends them: a thousandth of the
# loadings is far below the spread of draws. Two or three rounds are usual.
_MAX_ALIGNMENTS = 10
_ALIGNMENT_TOLERANCE = 1e-3


def align(draws: Point, reference: Point) -> Point:
    """Turn each draw to the mean of all, started at a reference.

    Parameters
    ----------
    draws : Point
        Scores (s, n, k) and coefficients (s, p, m).
    reference : Point
        Scores (n, k) and coefficients (p, m).

    Returns
    -------
    Point
        The draws times orthogonal matrices, components by decreasing size of the mean loadings' products and
        the largest mean loading of each positive.
    """
    if draws.scores.shape[-1] == 0:
        return draws
    scale = _loading_scale(draws)
    target = _stacked(reference, scale)
    # Each draw is turned to the mean of all, which moves by that: generalised Procrustes analysis.
    for _ in range(_MAX_ALIGNMENTS):
        aligned = _rotate(draws, np.stack([procrustes(one, target) for one in _stacked(draws, scale)]))
        before, target = target, _stacked(aligned, scale).mean(axis=0)
        if np.linalg.norm(target - before) <= _ALIGNMENT_TOLERANCE * np.linalg.norm(target):
            break
    return _canonical(aligned)


def take_components(draws: Point, keep: Ints) -> Point:
    """Some of the components."""
    joint = np.concatenate([draws.loadings[..., keep], draws.fixed], axis=-1)
    return Point(draws.scores[..., keep], joint)


def _loading_scale(draws: Point) -> float:
    """Brings loadings to the unit scale of the scores, so that both sides have a say in the rotation."""
    size = float(np.sqrt((draws.loadings**2).mean()))
    return 1.0 / size if size > 0 else 1.0


def _stacked(point: Point, scale: float) -> Floats:
    """Scores above scaled loadings, shape (..., n + p, k)."""
    return np.concatenate([point.scores, scale * point.loadings], axis=-2)


def _rotate(draws: Point, rotation: Floats) -> Point:
    """Each draw times its matrix (s, k, k), or all times one (k, k)."""
    joint = np.concatenate([draws.loadings @ rotation, draws.fixed], axis=-1)
    return Point(draws.scores @ rotation, joint)


def _canonical(draws: Point) -> Point:
    """Uncorrelated mean loadings in decreasing order, the largest entry of each positive."""
    mean = draws.loadings.mean(axis=0)
    rotation = scipy.linalg.eigh(mean.T @ mean)[1][:, ::-1]
    return _rotate(draws, rotation * fix_signs((mean @ rotation).T))
