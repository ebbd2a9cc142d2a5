"""The bound on saturated parameters, chosen by entries that the fit has not seen."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._session import Session
from anypca.models.gpca._fit import Settings, solve
from anypca.models.gpca._projection import Subspace, project
from anypca.models.gpca._reader import HoldOut, Reader, SaturatedRows

#: Bounds that are compared. Beyond 10 the odds and means of the bounded parameters are 0 or infinite for any purpose.
BOUNDS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
# As usual in cross-validation; fits of four fifths of the entries are nearly those of all.
_N_FOLDS = 5
# Deviances of held-out entries differ by far more than what a better solved fit would change.
_TOLERANCE = 1e-2


def compare_bounds(session: Session, family: Family, settings: Settings) -> dict[float, float]:
    """Deviance per held-out entry for each bound, by cross-validation over entries.

    Returns
    -------
    dict
        From bound to mean deviance; every observed entry is held out once, the same ones for all bounds.
    """
    seed = int(session.rng.integers(2**31))
    folds = [HoldOut(fold, _N_FOLDS, seed) for fold in range(_N_FOLDS)]
    totals = {
        bound: np.sum([_held_out(session, Reader(family, bound, fold), settings) for fold in folds], axis=0)
        for bound in BOUNDS
    }
    return {bound: float(total[0] / total[1]) for bound, total in totals.items()}


def _held_out(session: Session, reader: Reader, settings: Settings) -> Floats:
    """Deviance and number of the entries of a fold, weighted, under a fit without them, shape (2,)."""
    found = solve(session, reader, settings, tol=max(session.tol, _TOLERANCE), is_reported=False)
    return reader.sum(session, lambda rows: _judge(reader.family, rows, found.result.shared))


def _judge(family: Family, rows: SaturatedRows, at: Subspace) -> Floats:
    assert rows.held is not None
    eta = at.intercept + project(rows, at).scores @ at.loadings.T
    terms = np.where(rows.held, family.deviance(rows.x, np.where(rows.held, eta, 0.0)), 0.0)
    return np.array([rows.weight @ terms.sum(axis=1), rows.weight @ rows.held.sum(axis=1)])
