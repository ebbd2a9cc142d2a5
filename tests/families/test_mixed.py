"""Mixtures of families over columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anypca.families import Bernoulli, Gamma, Gaussian, Mixed, NegativeBinomial, Poisson, combine

FAMILY = Mixed((Poisson(), Bernoulli(), Gaussian()), (0, 1, 1, 0, 2))


def test_member_columns():
    groups = FAMILY.member_columns(5)
    assert [member for member, _ in groups] == [Poisson(), Bernoulli(), Gaussian()]
    for (_, index), expected in zip(groups, ([0, 3], [1, 2], [4]), strict=True):
        assert_array_equal(index, expected)


def test_columns_restricts_and_collapses():
    assert FAMILY.columns(slice(1, 3)) == Bernoulli()
    assert FAMILY.columns(slice(2, 5)) == Mixed((Bernoulli(), Poisson(), Gaussian()), (0, 1, 2))
    assert FAMILY.columns(slice(None, None, 3)) == Poisson()
    assert FAMILY.columns(slice(None)) == FAMILY


def test_restriction_keeps_each_columns_family():
    part = FAMILY.columns(slice(2, 5))
    assert [part.members[number] for number in part.assignment] == [Bernoulli(), Poisson(), Gaussian()]


@pytest.mark.parametrize(
    ("members", "fixed", "known"),
    [
        ((Poisson(), Bernoulli()), 1.0, [1, 1]),
        ((Poisson(), Gaussian()), None, [1, np.nan]),
        ((Gamma(shape=2.0), NegativeBinomial(size=2.0)), 0.5, [0.5, 0.5]),
        ((Poisson(), Gaussian(variance=3.0)), None, [1, 3]),
    ],
    ids=["by definition", "estimated", "given", "given, different"],
)
def test_dispersion(members, fixed, known):
    family = Mixed(members, (0, 1))
    assert family.fixed_dispersion == fixed
    assert_array_equal(family.known_dispersion(2), known)


def test_unused_members_do_not_count():
    family = Mixed((Poisson(), Gaussian()), (0, 0))
    assert family.fixed_dispersion == 1.0
    assert_array_equal(family.mean(np.zeros((2, 2))), np.ones((2, 2)))


def test_values():
    assert pickle.loads(pickle.dumps(FAMILY)) == FAMILY
    FAMILY.mean(np.zeros((1, 5)))  # fills the cache, which is no part of the value
    twin = eval(repr(FAMILY))
    assert twin == FAMILY
    assert hash(twin) == hash(FAMILY)
    assert Mixed([Poisson(), Gaussian()], np.array([0, 1])) == Mixed((Poisson(), Gaussian()), (0, 1))


def test_errors():
    with pytest.raises(ValueError, match="the number 2, but there are 2 members"):
        Mixed((Poisson(), Bernoulli()), (0, 2))
    with pytest.raises(TypeError, match="members of Mixed are families of one kind"):
        Mixed(("poisson",), (0,))
    with pytest.raises(ValueError, match="describes 5 columns; the array has 4"):
        FAMILY.mean(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="describes 5 columns; the array has 4"):
        FAMILY.evaluate(np.zeros((3, 4)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="describes 5 columns; the array has 4"):
        FAMILY.member_columns(4)
    with pytest.raises(ValueError, match="at least one column"):
        combine([])
