"""scikit-learn's estimator checks on SePCA, with every family."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, InSupport, is_taken_as_it_is

from anypca import SePCA

# The checks feed fractions to count families; the package accepts them with this warning.
pytestmark = pytest.mark.filterwarnings("ignore:family .* is for integers")


class MappedSePCA(InSupport, SePCA):
    """SePCA of numbers that are brought into the support of its family."""


@parametrize_with_checks(
    [
        SePCA(max_components=2),
        *(
            (SePCA if is_taken_as_it_is(each) else MappedSePCA)(max_components=2, family=each)
            for each in FAMILIES
        ),
        SePCA(max_components=2, family="gaussian", inference="map"),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
