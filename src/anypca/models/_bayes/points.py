"""Scores and coefficients that are drawn together, and the table that they are drawn given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Table
from anypca.families import Family
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._bilinear.start import mean_coefficients
from anypca.models._opened import OpenedBlock, open_block
from anypca.models._session import Session


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


def collect_rows(session: Session, *, fit_intercept: bool) -> OpenedBlock:
    """The whole table as one dense block in float64."""
    data = session.data
    parts: list[OpenedBlock] = session.gather(lambda block: open_block(block, fit_intercept=fit_intercept))
    offsets = [part.offset for part in parts if part.offset is not None]
    return OpenedBlock(
        Table(_stack([part.x for part in parts]), _stack_observed(parts)),
        None,
        _stack(offsets) if offsets else None,
        _stack([part.weights for part in parts]) if data.has_weights else None,
        _stack([part.features for part in parts]),
        data.n_features,
        np.dtype(float),
        np.arange(data.n_samples),
    )


def deviances_at(
    session: Session, family: Family, coefficients: Coefficients, scores: Floats, *, fit_intercept: bool
) -> Deviances:
    """Deviances at posterior means of coefficients and training scores, beside columns without components."""
    fixed = mean_coefficients(family, session.summary, 0, fit_intercept=fit_intercept)
    null = Coefficients(np.zeros((len(fixed), 0)), fixed, coefficients.dispersion)
    local = session.map(lambda block, _: scores[block.start : block.stop])
    return Pass(session, fit_intercept).deviances(family, coefficients, local, null)


def _stack(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


def _stack_observed(parts: Sequence[OpenedBlock]) -> Bools | None:
    if all(part.observed is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(part.x.shape, dtype=bool) if part.observed is None else part.observed for part in parts]
    )
