"""scikit-learn's own checks of estimators on EPCA: the default here, every family in ``make conformance``."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, InSupport, is_taken_as_it_is

from anypca import EPCA
from anypca.families import families

# The numbers are scikit-learn's: count families get fractions, models are shown frames and arrays by turns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers:sklearn.exceptions.DataConversionWarning"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
]

# The checks compare scores of rows that stand twice with those of rows of weight 2 to seven digits. Such fits take
# different ways to one optimum and end within tol of it: at 1e-8 scores of counts differed by 1e-7, at 1e-10 by less
# than the checks see.
TOL = 1e-11


class MappedEPCA(InSupport, EPCA):
    """EPCA of numbers that are brought into the support of its family."""


@parametrize_with_checks([EPCA(n_jobs=1)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        *(
            (EPCA if is_taken_as_it_is(each) else MappedEPCA)(family=each, n_jobs=1, tol=TOL)
            for each in FAMILIES
        ),
        EPCA(family="poisson", score_penalty="l1", n_components=1, n_jobs=1, tol=TOL),
    ]
)
def test_scikit_learn_checks_with_every_family(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("auto", False),
        ("gaussian", False),
        ("poisson", True),
        ("negative_binomial", True),
        ("gamma", True),
        ("exponential", True),
        ("bernoulli", True),
        ("binomial(3)", True),
        (families["poisson"](), True),
        (["poisson", "gaussian"], False),
        ("no such family", False),
    ],
    ids=str,
)
def test_tags_follow_the_family(family: Any, expected: bool) -> None:
    assert EPCA(family=family).__sklearn_tags__().input_tags.positive_only is expected
