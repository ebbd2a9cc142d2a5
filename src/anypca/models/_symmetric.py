"""Symmetric matrices that users give in place of rows."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats


def check_symmetric(matrix: Floats, option: str, remedy: str, rounding: float) -> None:
    """Raise a ValueError that says what is wrong unless a matrix is square and symmetric.

    Parameters
    ----------
    matrix : ndarray of shape (n, m)
    option : str
        What needs such a matrix, for the message.
    remedy : str
        What to do about it, as a sentence.
    rounding : float
        Differences up to this share of the largest entry are allowed.
    """
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{option} needs a square matrix; X has shape {matrix.shape}. {remedy}")
    gap = np.abs(matrix - matrix.T)
    if gap.max() > rounding * np.abs(matrix).max():
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        raise ValueError(
            f"{option} needs a symmetric matrix; X[{i}, {j}] is {matrix[i, j]:.6g} and X[{j}, {i}] is "
            f"{matrix[j, i]:.6g}. {remedy}"
        )
