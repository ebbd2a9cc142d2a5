"""Shapes of columns, looked for on a grid between fits: which value of it suits each column best."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats, Ints

#: Pseudo-observations, distributed as the entries of all columns, that shrink each column towards the others.
_SHRINKAGE = 10.0
#: Nats by which another value must be better than the present one, so that rounds of fits do not go back and forth.
_GAIN = 0.5


def best_on_grid(values: Floats, count: Floats, present: Ints) -> Ints:
    """The number of the best value of each column, shape (n_columns,).

    Parameters
    ----------
    values : ndarray of shape (n_columns, n_grid)
        Log-likelihoods, everything else at its best.
    count : ndarray of shape (n_columns,)
        Entries, by weight.
    present : ndarray of int of shape (n_columns,)
        Kept where no other value is better by more than half a nat.
    """
    drawn = values + _SHRINKAGE * values.sum(axis=0) / max(float(count.sum()), 1.0)
    best = np.argmax(drawn, axis=1)
    columns = np.arange(len(values))
    gain = drawn[columns, best] - drawn[columns, present]
    return np.where(gain > _GAIN, best, present)
