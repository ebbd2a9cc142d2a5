"""Columns of counts or answers that coincide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family


def equal_columns(
    family: Family, x: Floats, seen: Bools, columns: Ints, level: float
) -> Iterator[tuple[int, int]]:
    """Discrete columns that coincide by more than chance, each with the first that it is equal to."""
    n, p = x.shape
    known: dict[tuple[bytes, bytes], int] = {}
    for member, index in family.member_columns(p):
        for j in index if member.is_discrete else ():
            values, counts = np.unique(x[:, j], return_counts=True)
            # Two columns with m entries unlike the rest have them in the same rows once in (n over m) times.
            m = n - counts.max()
            chance = 2.0 * np.log(p) + gammaln(m + 1.0) + gammaln(n - m + 1.0) - gammaln(n + 1.0)
            first = known.setdefault((x[:, j].tobytes(), seen[:, j].tobytes()), j)
            if first != j and len(values) > 1 and chance < np.log(level):
                yield int(columns[j]), int(columns[first])
