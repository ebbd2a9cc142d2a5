"""scikit-learn's estimator checks on GPCA: the default here, every family that it can fit in ``make conformance``."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import InSupport

from anypca import GPCA
from anypca.families import Bernoulli, Binomial

# The checks feed fractions to count families, and show models frames and arrays by turns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
]


class MappedGPCA(InSupport, GPCA):
    """GPCA of numbers that are brought into the support of its family."""


@parametrize_with_checks([GPCA(n_jobs=1), GPCA(family="poisson", penalty="l1", n_jobs=1)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        *(GPCA(family=family, n_jobs=1) for family in ("gaussian", "poisson")),
        *(MappedGPCA(family=family, n_jobs=1) for family in (Bernoulli(), Binomial(7))),
        GPCA(family="gaussian", penalty="l1", n_jobs=1),
        GPCA(family="gaussian", penalty="scad", n_jobs=1),
    ]
)
def test_scikit_learn_checks_with_every_family(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("family", "expected"),
    [("auto", False), ("gaussian", False), ("poisson", True), ("bernoulli", True), ("no such family", False)],
)
def test_tags_follow_the_family(family: str, expected: bool) -> None:
    assert GPCA(family=family).__sklearn_tags__().input_tags.positive_only is expected
