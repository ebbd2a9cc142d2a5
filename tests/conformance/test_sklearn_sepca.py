"""scikit-learn's estimator checks on SePCA."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import SePCA

# The checks feed fractions to count families; the package accepts them with this warning.
pytestmark = pytest.mark.filterwarnings("ignore:family .* is for integers")


@parametrize_with_checks(
    [
        # The negative binomial and sparse loadings are those of SPPCA and SSPPCA.
        SePCA(max_components=2, family="gaussian"),
        SePCA(max_components=2, family="poisson"),
        SePCA(max_components=2, family="gaussian", inference="map"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
