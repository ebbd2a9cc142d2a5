"""scikit-learn's estimator checks on SePCA."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import SePCA

# The checks feed fractions to count families; the package accepts them with this warning.
pytestmark = pytest.mark.filterwarnings("ignore:family .* is for integers")


@parametrize_with_checks(
    [
        *(SePCA(max_components=2, family=family) for family in ("gaussian", "poisson", "negative_binomial")),
        SePCA(max_components=2, family="gaussian", inference="map"),
        SePCA(max_components=2, family="gaussian", sparsity=1.0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
