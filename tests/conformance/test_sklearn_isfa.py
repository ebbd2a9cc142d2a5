"""scikit-learn's estimator checks on ISFA, with every family."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, InSupport, is_taken_as_it_is

from anypca import ISFA
from anypca.families import Family

pytest.importorskip("polyagamma")
pytest.importorskip("nutpie")
pytestmark = [
    # The checks feed fractions to count families; the package accepts them with this warning.
    pytest.mark.filterwarnings("ignore:family .* is for integers"),
    # What a fit promises does not depend on how long its chains are: these are too short to agree.
    pytest.mark.filterwarnings("ignore:.*the chains disagree"),
]
SHORT = {"n_draws": 10, "n_tune": 5, "n_chains": 1}


class MappedISFA(InSupport, ISFA):
    """ISFA of numbers that are brought into the support of its family."""


def with_family(family: Family, **settings: Any) -> ISFA:
    return (ISFA if is_taken_as_it_is(family) else MappedISFA)(family=family, **settings)


@parametrize_with_checks([ISFA(**SHORT)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [ISFA(mask="loadings", **SHORT), *(with_family(family, **SHORT) for family in FAMILIES)]
)
def test_scikit_learn_checks_of_every_family(estimator: Any, check: Any) -> None:
    check(estimator)
