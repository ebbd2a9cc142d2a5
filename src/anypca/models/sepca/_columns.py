"""The next posterior of columns, from what the rows say of them; columns know nothing of each other here."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, packed_diagonal, packed_squares
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._strides import damping

# Factor by which the pace of a column grows back in each sweep. Columns with less than about one count for each
# coefficient overshoot as often as they are let; with 5 % more each time that is once in fifteen sweeps.
_RECOVERY = 1.05


class ColumnStep(NamedTuple):
    """Where some columns go next."""

    posterior: Loadings
    decrement: Floats
    """Squares of the steps to the optimum in units of the posterior, shape (columns,)."""
    change: float
    """Largest relative change of a precision on that way where there are no components, else 0."""


def column_precision(shared: Loadings, information: Floats) -> Floats:
    """Precisions of columns that information about them and the prior ask for, packed."""
    precision = shared.with_prior(information)
    if shared.sparsity > 0:
        precision[:, packed_diagonal(shared.mean.shape[1])[: shared.n_components]] += shared.shrinkage
    return precision


def step_columns(
    shared: Loadings, target: Floats, information: Floats, far: Floats | None, *, is_damped: bool
) -> ColumnStep:
    """The best posterior of columns, or part of the way there and more, with its covariances and determinants.

    Parameters
    ----------
    shared : Loadings
    target : ndarray of shape (n_features, m)
        Right-hand sides of their means.
    information : ndarray of shape (n_features, m (m + 1) / 2)
        Packed.
    far : ndarray of shape (m,) or None
        How far means go, in units of the way to the optimum; ``None`` for all the way.
    is_damped : bool
        Hold precisions back, see `damping`.
    """
    precision = column_precision(shared, information)
    factor = PackedCholesky(precision, shared.mean.shape[1])
    best = shared.with_posterior(factor.solve(target), precision, factor=factor)
    decrement = packed_squares(precision, best.mean - shared.mean)
    held = damping(shared, information) if is_damped else 1.0
    new = _paced(shared, best, far, held)
    # Here and not where they are asked for: this is done for several runs of columns at once.
    new = new.with_posterior(
        new.mean,
        new.precision,
        packed_covariance=new.packed_covariance,
        log_determinant=new.log_determinant,
    )
    change = 0.0 if shared.n_components else _largest_change(shared.precision, precision)
    return ColumnStep(new, decrement, change)


def _largest_change(before: Floats, after: Floats) -> float:
    """Of packed precisions, relative to the largest entry of a column's; without coefficients there is none."""
    change, size = (np.abs(array).max(axis=1, initial=0.0) for array in (after - before, after))
    return float(np.max(change[size > 0] / size[size > 0], initial=0.0))


def _paced(shared: Loadings, best: Loadings, far: Floats | None, held: Floats | float) -> Loadings:
    """Part of the way, or more, with less of it in columns that went too far; they try a little more each time."""
    pace = np.asarray(shared.pace)
    if (pace == 1.0).all() and far is None:
        return best
    t: Floats = np.reshape(pace, (-1, 1))
    mean = shared.mean + t * (1.0 if far is None else far) * (best.mean - shared.mean)
    precision = shared.precision + t * held * (best.precision - shared.precision)
    return replace(best, pace=np.minimum(_RECOVERY * pace, 1.0)).with_posterior(mean, precision)
