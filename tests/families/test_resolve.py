"""What users may write for ``family``."""

from __future__ import annotations

import re

import numpy as np
import pytest

from anypca.families import Bernoulli, Binomial, Gaussian, Mixed, Poisson, resolve_family

NAMES = ["age", "visits", "smokes"]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("poisson", Poisson()),
        (Poisson(), Poisson()),
        (["poisson"] * 3, Poisson()),
        (["gaussian", Poisson(), "poisson"], Mixed((Gaussian(), Poisson()), (0, 1, 1))),
        (("gaussian", "poisson", "bernoulli"), Mixed((Gaussian(), Poisson(), Bernoulli()), (0, 1, 2))),
        (np.array(["poisson", "binomial(4)", "poisson"]), Mixed((Poisson(), Binomial(4)), (0, 1, 0))),
        ({"default": "poisson"}, Poisson()),
        ({"smokes": "bernoulli", "default": "poisson"}, Mixed((Poisson(), Bernoulli()), (0, 0, 1))),
        ({0: "gaussian", "visits": "poisson", np.int64(2): Bernoulli()}, "all three"),
        (Mixed((Poisson(), Bernoulli()), (0, 0, 1)), Mixed((Poisson(), Bernoulli()), (0, 0, 1))),
    ],
    ids=str,
)
def test_forms(family, expected):
    if expected == "all three":
        expected = Mixed((Gaussian(), Poisson(), Bernoulli()), (0, 1, 2))
    assert resolve_family(family, 3, NAMES) == expected


@pytest.mark.parametrize(
    ("family", "error", "message"),
    [
        ("poison", ValueError, "Did you mean 'poisson'"),
        (["poisson"] * 2, ValueError, "2 entries but X has 3 columns"),
        (["poisson", "poisson", "poison"], ValueError, "Did you mean 'poisson'"),
        (["poisson", "poisson", "auto"], ValueError, "'auto' needs the values of the columns"),
        (["poisson", "poisson", 3], TypeError, "got 3 of type int"),
        ({"age": "poisson"}, ValueError, "1 of 3 columns; the first without one is 'visits'"),
        ({"aeg": "poisson", "default": "poisson"}, ValueError, "Did you mean 'age'"),
        ({3: "poisson", "default": "poisson"}, ValueError, "column 3, but X has the columns 0 to 2"),
        ({-1: "poisson", "default": "poisson"}, ValueError, "column -1, but X has the columns 0 to 2"),
        ({0: "poisson", "age": "gaussian", "default": "poisson"}, ValueError, "column 0 twice"),
        ({1.5: "poisson", "default": "poisson"}, TypeError, "column names or indices; got 1.5"),
        ({"age": None, "default": "poisson"}, TypeError, "got None of type NoneType"),
        (3, TypeError, "got 3 of type int"),
        (None, TypeError, "got None of type NoneType"),
        (Poisson, TypeError, "is the class Poisson; write Poisson() or 'poisson'"),
        (Mixed((Poisson(), Bernoulli()), (0, 1)), ValueError, "describes 2 columns"),
        ("auto", RuntimeError, "resolved from the data"),
    ],
    ids=str,
)
def test_errors(family, error, message):
    with pytest.raises(error, match=re.escape(message)):
        resolve_family(family, 3, NAMES)


def test_names_need_a_table_with_names():
    with pytest.raises(ValueError, match="X has no column names; use column indices"):
        resolve_family({"age": "poisson", "default": "gaussian"}, 3)


def test_a_column_called_default_is_a_column():
    family = resolve_family({"default": "poisson", "other": "gaussian"}, 2, ["other", "default"])
    assert family == Mixed((Gaussian(), Poisson()), (0, 1))
