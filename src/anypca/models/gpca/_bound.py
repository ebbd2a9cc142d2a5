"""The bound on saturated parameters, chosen by entries that the fit has not seen."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.models.gpca._fit import Fitter
from anypca.models.gpca._rows import HoldOut, Reader, Rows, Subspace, project
from anypca.models.gpca._start import sum_rows

#: Bounds that are compared. Beyond 10 the odds and means of the bounded parameters are 0 or infinite for any purpose.
BOUNDS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
_N_FOLDS = 5
# Deviances of held-out entries differ by far more than what a better solved fit would change.
_TOLERANCE = 1e-2


def compare_bounds(fitter: Fitter, rng: np.random.Generator) -> dict[float, float]:
    """Deviance per held-out entry for each bound, by cross-validation over entries.

    Parameters
    ----------
    fitter : Fitter
    rng : numpy.random.Generator
        Which entries are held out together.

    Returns
    -------
    dict
        From bound to mean deviance; every observed entry is held out once, the same ones for all bounds.
    """
    seed = int(rng.integers(2**31))
    folds = [HoldOut(fold, _N_FOLDS, seed) for fold in range(_N_FOLDS)]
    totals = {
        bound: np.sum([_held_out(fitter, Reader(fitter.family, bound, fold), rng) for fold in folds], axis=0)
        for bound in BOUNDS
    }
    return {bound: float(total[0] / total[1]) for bound, total in totals.items()}


def _held_out(fitter: Fitter, reader: Reader, rng: np.random.Generator) -> Floats:
    """Deviance and number of the entries of a fold, weighted, under a fit without them, shape (2,)."""
    tol = max(fitter.options.tol, _TOLERANCE)
    at = fitter.solve(reader, rng, tol=tol).result.shared
    return sum_rows(fitter.data, fitter.executor, reader, lambda rows: _judge(reader, rows, at))


def _judge(reader: Reader, rows: Rows, at: Subspace) -> Floats:
    assert rows.held is not None
    eta = at.intercept + project(rows, at).scores @ at.loadings.T
    terms = np.where(rows.held, reader.family.deviance(rows.x, np.where(rows.held, eta, 0.0)), 0.0)
    return np.array([rows.weight @ terms.sum(axis=1), rows.weight @ rows.held.sum(axis=1)])
