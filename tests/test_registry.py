"""Names to objects, and the errors that help."""

from __future__ import annotations

import pytest

import anypca
from anypca._registry import Registry
from anypca.families import (
    Binomial,
    Family,
    Gamma,
    Gaussian,
    Mixed,
    NegativeBinomial,
    Poisson,
    families,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("poisson", Poisson()),
        (" Poisson ", Poisson()),
        ("binomial(16)", Binomial(n_trials=16)),
        ("binomial( 16 )", Binomial(n_trials=16)),
        ("negative_binomial", NegativeBinomial()),
        ("negative_binomial(2.5)", NegativeBinomial(size=2.5)),
        ("gaussian(1e-2)", Gaussian(variance=0.01)),
        ("gamma(4)", Gamma(shape=4.0)),
    ],
)
def test_create(text, expected):
    assert families.create(text) == expected


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("poison", "poisson"),
        ("gausian", "gaussian"),
        ("negative-binomial", "negative_binomial"),
        ("bernouli", "bernoulli"),
        ("binomal(3)", "binomial"),
    ],
)
def test_unknown_name_suggests_the_nearest(text, near):
    with pytest.raises(ValueError, match=f"unknown family '.*'. Did you mean '{near}'") as caught:
        families.create(text)
    assert all(name in str(caught.value) for name in families)


@pytest.mark.parametrize("text", ["", "zzzzzz", "(3)"])
def test_unknown_name_without_a_near_one(text):
    with pytest.raises(ValueError, match="unknown family") as caught:
        families.create(text)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poisson(3)", "'poisson' takes no number"),
        ("binomial(1e)", "'1e' in binomial\\(1e\\) is not a number"),
        ("binomial(2.5)", "positive integer n_trials"),
        ("binomial", "binomial\\(16\\)"),
        ("gamma(-1)", "shape > 0"),
    ],
)
def test_wrong_numbers(text, message):
    with pytest.raises(ValueError, match=message):
        families.create(text)


def test_register_and_iterate():
    registry: Registry[object] = Registry("thing")

    @registry.register
    class Second:
        name = "second"

    @registry.register
    class First:
        name = "first"

    assert list(registry) == ["first", "second"]
    assert registry["first"] is First
    assert isinstance(registry.create("second"), Second)


def test_all_families_of_the_package_are_registered_and_exported():
    public = (getattr(anypca.families, name) for name in anypca.families.__all__)
    exported = {each for each in public if isinstance(each, type) and issubclass(each, Family)}
    assert exported - {Family, Mixed} == {families[name] for name in families}
    assert list(families) == sorted(families)
