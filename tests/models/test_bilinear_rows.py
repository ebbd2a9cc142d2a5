"""Rows that do not converge are told."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.exceptions import ConvergenceWarning
from anypca.models._bilinear.rows import warn_unsolved


def test_unsolved_rows_are_counted_and_named():
    with pytest.warns(ConvergenceWarning, match="2 rows, the first being row 11,"):
        warn_unsolved(np.array([True, False, True, False]), np.arange(10, 14))


def test_solved_rows_are_silent():
    warn_unsolved(np.ones(3, dtype=bool), np.arange(3))
