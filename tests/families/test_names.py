"""Values that users may give as ``family``, and errors that name the column and the remedy."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from anypca import EPCA
from anypca.columns import resolve_family
from anypca.families import Bernoulli, Binomial, Gamma, Gaussian, Mixed, NegativeBinomial, Poisson, families

NAMES = ["age", "visits", "smokes"]
#: Zeros and ones, which most families have in their support.
FRAME = pd.DataFrame([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]] * 2, columns=NAMES, dtype=float)


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
        (
            {0: "gaussian", "visits": "poisson", np.int64(2): Bernoulli()},
            Mixed((Gaussian(), Poisson(), Bernoulli()), (0, 1, 2)),
        ),
        (Mixed((Poisson(), Bernoulli()), (0, 0, 1)), Mixed((Poisson(), Bernoulli()), (0, 0, 1))),
    ],
    ids=str,
)
def test_families_of_columns(family, expected):
    assert resolve_family(family, 3, NAMES) == expected
    assert EPCA(0, family=family).fit(FRAME).family_ == expected


@pytest.mark.parametrize(
    ("family", "error", "message"),
    [
        ("poison", ValueError, "Did you mean 'poisson'"),
        (["poisson"] * 2, ValueError, "2 entries but X has 3 columns"),
        (["poisson", "poisson", 3], TypeError, "got 3 of type int"),
        ({"aeg": "poisson", "default": "poisson"}, ValueError, "Did you mean 'age'"),
        ({3: "poisson", "default": "poisson"}, ValueError, "column 3"),
        ({-1: "poisson", "default": "poisson"}, ValueError, "column -1"),
        ({0: "poisson", "age": "gaussian", "default": "poisson"}, ValueError, "column 0 twice"),
        ({1.5: "poisson", "default": "poisson"}, TypeError, "got 1.5"),
        (3, TypeError, "got 3 of type int"),
        (Poisson, TypeError, "write Poisson() or 'poisson'"),
        (Mixed((Poisson(), Bernoulli()), (0, 1)), ValueError, "describes 2 columns"),
    ],
    ids=str,
)
def test_errors(family, error, message):
    with pytest.raises(error, match=re.escape(message)):
        EPCA(0, family=family).fit(FRAME)


def test_families_without_values_need_every_column():
    with pytest.raises(ValueError, match="the first without one is 'visits'"):
        resolve_family({"age": "poisson"}, 3, NAMES)
    for family in (["poisson", "poisson", "auto"], "auto"):
        with pytest.raises(ValueError, match="'auto' needs the values of the columns"):
            resolve_family(family, 3, NAMES)


def test_names_need_a_table_with_names():
    with pytest.raises(ValueError, match="use column indices"):
        EPCA(0, family={"age": "poisson", "default": "gaussian"}).fit(FRAME.to_numpy())


def test_a_column_called_default_is_a_column():
    frame = FRAME[["age", "visits"]].set_axis(["other", "default"], axis=1)
    model = EPCA(0, family={"default": "poisson", "other": "gaussian"}).fit(frame)
    assert model.family_ == Mixed((Gaussian(), Poisson()), (0, 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Poisson ", Poisson()),
        ("binomial( 16 )", Binomial(n_trials=16)),
        ("negative_binomial(2.5)", NegativeBinomial(size=2.5)),
        ("gaussian(1e-2)", Gaussian(variance=0.01)),
        ("gamma(4)", Gamma(shape=4.0)),
    ],
)
def test_names_with_numbers(text, expected):
    assert families.create(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poisson(3)", "'poisson' takes no number"),
        ("binomial(1e)", "'1e' in binomial(1e) is not a number"),
        ("binomial(2.5)", "n_trials"),
        ("binomial", "binomial(16)"),
        ("gamma(-1)", "shape > 0"),
    ],
)
def test_wrong_numbers(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        families.create(text)
