"""Arguments of methods that all models take."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def make_generator(random_state: Any) -> np.random.Generator:
    """A numpy Generator from what scikit-learn accepts as ``random_state``, or from a Generator itself.

    Parameters
    ----------
    random_state : int, RandomState instance, Generator or None

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


def check_n_samples(n_samples: Any) -> int:
    """The number of rows to draw, as an int.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is less than 1.
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral):
        raise TypeError(f"n_samples must be an integer, the number of rows to draw; got {n_samples!r}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, the number of rows to draw; got {n_samples}.")
    return int(n_samples)
