"""scikit-learn's estimator checks on SePCA, with every family."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import (
    FAMILIES,
    InSupport,
    is_taken_as_it_is,
    parametrize_with_checks_of_values,
)

from anypca import SePCA
from anypca.families import Family

# The checks feed fractions to count families, and numbers that vary less than exponential ones; the package accepts
# the former, and takes the gamma family for the latter, with these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers"),
    pytest.mark.filterwarnings("ignore:family. gamma in place of exponential"),
]


class MappedSePCA(InSupport, SePCA):
    """SePCA of numbers that are brought into the support of its family."""


def with_family(family: Family, **settings: Any) -> SePCA:
    return (SePCA if is_taken_as_it_is(family) else MappedSePCA)(family=family, **settings)


@parametrize_with_checks([SePCA(max_components=2)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# What a fit promises does not depend on how near it comes to the optimum: fits of every family are loose here. Families
# of which there are several examples, with parameters given and to be found, are here as their names alone make them.
@parametrize_with_checks_of_values(
    with_family(family, max_components=1, tol=1e-2)
    for family in {family.name: family for family in reversed(FAMILIES)}.values()
)
def test_scikit_learn_checks_of_every_family(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        *(with_family(family, max_components=2) for family in FAMILIES),
        SePCA(max_components=2, family="gaussian", inference="map"),
        SePCA(max_components=2, family="poisson", inference="map"),
        SePCA(max_components=2, family="gaussian", inference="map", loading_penalty="l1"),
        # Hidden entries are others where a row stands twice than where it has weight 2; the evidence is the same.
        SePCA(
            max_components=2, family="gaussian", inference="map", nu_path=[0.3, 1.0], nu_criterion="evidence"
        ),
    ]
)
def test_scikit_learn_checks_of_close_fits(estimator: Any, check: Any) -> None:
    check(estimator)
