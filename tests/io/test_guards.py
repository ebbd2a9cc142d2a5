"""Whole numbers that are no amounts, by name and look."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.io._guards import find_codes, say_no_amount

RNG = np.random.default_rng(0)
ANSWERS, AGES = RNG.integers(1, 7, 60).astype(float), RNG.integers(18, 90, 60).astype(float)
COUNTS, REALS = RNG.poisson(3.0, 60).astype(float), RNG.normal(size=60)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (np.append(ANSWERS, 99), (99,)),
        (np.append(ANSWERS, [98, 99, 99]), (98, 99)),
        (np.append(RNG.integers(1, 10, 60).astype(float), [99, 99]), (99,)),
        (np.append(RNG.integers(1, 8, 60).astype(float), [97, 98, 99]), (97, 98, 99)),
        (np.append(RNG.integers(1, 4, 60).astype(float), [8, 9]), (8, 9)),
        (np.append(RNG.integers(1, 6, 60).astype(float), [8, 9]), ()),
        (np.append(AGES, 99), ()),
        (np.append(AGES, [999, 999]), (999,)),
        (np.append(AGES, 999), ()),
        (np.append(COUNTS, -9), (-9,)),
        (np.append(COUNTS, [-8, -9, -1]), (-9, -8, -1)),
        (np.append(COUNTS, -1), ()),
        (np.append(COUNTS, -5), ()),
        (np.append(REALS, -9), ()),
        (np.append(np.abs(REALS), [-999, -999]), (-999,)),
        (np.append(REALS, [-99, -99]), (-99,)),
        (np.append(REALS, -99), ()),
        (np.append(1000 * AGES, [999999, 999999]), (999999,)),
        (np.append(ANSWERS, np.nan), ()),
        (RNG.integers(0, 10, 60).astype(float), ()),
        (np.array([3.0, 4, 9]), ()),
        (np.array([99.0, 99, 99]), ()),
    ],
    ids=lambda value: None if isinstance(value, tuple) else f"to {value[-1]:g}",
)
def test_codes(values, codes):
    assert find_codes(values) == codes


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("h_index", RNG.permutation(9000)[:50], ""),
        ("index", RNG.permutation(9000)[:50], "its name says that it labels rows"),
        ("day", np.array([20210304, 20200229, 19991231]), "it holds dates"),
        ("price", np.array([20210304, 20211329, 19991231]), ""),
        ("respondent_id", RNG.permutation(9000)[:50], "its name says that it labels rows"),
        ("patientID", RNG.permutation(9000)[:50], "its name says that it labels rows"),
        ("acid", RNG.permutation(9000)[:50], ""),
        ("zip", RNG.integers(10000, 99999, 50), "its name says that it labels rows"),
        ("x", np.arange(5, 30), "it numbers the rows"),
        ("x", RNG.permutation(30), "it numbers the rows"),
        ("x", np.arange(5), ""),
        ("x", np.arange(0, 60, 2), ""),
        ("Year", RNG.integers(1990, 2020, 50), "it holds years"),
        ("year", RNG.integers(1, 9, 50), ""),
        ("calories", RNG.integers(1990, 2020, 50), ""),
        ("group_id", RNG.integers(1, 4, 50), ""),
        ("id", RNG.normal(size=50), ""),
        ("created", RNG.integers(1600000000, 1700000000, 50), "it holds moments, as seconds since 1970"),
        (
            "timestamp",
            1000 * RNG.integers(1600000000, 1700000000, 50),
            "it holds moments, as seconds since 1970",
        ),
        ("population", RNG.integers(1600000000, 1700000000, 50), ""),
    ],
)
def test_no_amounts(name, values, reason):
    assert say_no_amount(name, values.astype(float)) == reason
