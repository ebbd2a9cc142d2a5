"""Random numbers for tests, shifted as a whole by the environment variable ``ANYPCA_TEST_SEED``.

A test that holds for one draw only is no test: the suite must pass for every shift.
"""

from __future__ import annotations

import os
import zlib

import numpy as np

#: The shift of all seeds, 0 unless ``ANYPCA_TEST_SEED`` is set.
SHIFT = int(os.environ.get("ANYPCA_TEST_SEED", "0"))


def generator(*key: int | str) -> np.random.Generator:
    """Return a new generator for a key, which differs between shifts."""
    return np.random.default_rng([SHIFT, *(zlib.crc32(str(part).encode()) for part in key)])


def seed(number: int = 0) -> int:
    """Return a seed for ``random_state``, which differs between shifts and equals ``number`` without one."""
    return number + 7919 * SHIFT
