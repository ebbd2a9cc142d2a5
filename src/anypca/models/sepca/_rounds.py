"""Rounds of fit and dispersion: when they end, and what dispersion the next one has."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.models._bilinear.dispersion import has_settled
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import with_dispersion

# Relative change of the dispersion that ends the rounds: the standard error, sqrt(2 / (n p)), of one that is shared by
# all columns of a 100 x 50 table.
ROUND_TOLERANCE = 0.02
# Steps of dispersions that are taken at once, at most.
_MOST_STEPS = 8.0


def is_settled(state: State, dispersion: Floats, *, rtol: float | None = None) -> bool:
    """Whether new dispersions are, up to a fraction, those that the state was fitted with.

    By default it is that above, or in a tall table the standard error of a column's own dispersion: each column that
    is off by that costs half a nat.
    """
    fraction = min(ROUND_TOLERANCE, _relative_error(state)) if rtol is None else rtol
    return has_settled(state.candidate.family, dispersion, state.loadings.dispersion, rtol=fraction)


def is_tall(state: State) -> bool:
    """Whether columns tell a dispersion of their own more closely than rounds usually settle it: beyond 5000 rows."""
    return state.candidate.has_open_dispersion and _relative_error(state) < ROUND_TOLERANCE


def with_next(state: State, new: Floats, before: Floats | None) -> tuple[State, Floats | None]:
    """The state with the dispersion that its residuals give, or farther on in a tall table, and what it had before.

    There it takes many rounds to get as close as columns tell. Three dispersions in a row say where they are heading
    to; ``before`` is that of the last round, ``None`` where this one began with such a leap.
    """
    here = state.loadings.dispersion
    if before is None or not is_tall(state):
        return with_dispersion(state, new), here
    return with_dispersion(state, ahead(before, here, new)), None


def ahead(before: Floats, here: Floats, new: Floats) -> Floats:
    """Where three dispersions in a row, of which each is estimated with the one before, lead to, (n_features,).

    Steps of expectation and maximisation shrink by a factor that is nearly the same each time. The sum of those to come
    is taken in logarithms, and for at most so many steps that a wrong factor does no harm.
    """
    is_open = (before > 0) & (here > 0) & (new > 0)
    logs = [np.log(np.where(is_open, dispersion, 1.0)) for dispersion in (before, here, new)]
    first, second = logs[1] - logs[0], logs[2] - logs[1]
    factor = float(first @ second) / max(float(first @ first), np.finfo(float).tiny)
    to_come = min(factor / (1.0 - factor), _MOST_STEPS) if 0.0 < factor < 1.0 else 0.0
    return np.asarray(new * np.exp(to_come * second))


def _relative_error(state: State) -> float:
    """Standard error of the logarithm of a column's own dispersion."""
    return float(np.sqrt(2.0 / max(state.weight, 1.0)))
