"""scikit-learn's estimator checks on SPPCA and SSPPCA."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import SPPCA, SSPPCA

# The checks feed fractions to count families; the package accepts them with this warning.
pytestmark = pytest.mark.filterwarnings("ignore:family .* is for integers")


@parametrize_with_checks([SPPCA(max_components=1), SSPPCA(max_components=1, sparsity=1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [SPPCA(max_components=2), SPPCA(max_components=2, method="paper"), SSPPCA(max_components=2, sparsity=1.0)]
)
def test_scikit_learn_checks_of_both_methods(estimator, check):
    check(estimator)
