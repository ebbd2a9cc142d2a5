"""scikit-learn's own checks of PLNPCA."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import PLNPCA

ESTIMATORS = [PLNPCA(n_jobs=1), PLNPCA(n_components=1, n_jobs=1)]


@pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning")  # the checks mix arrays and frames
@pytest.mark.filterwarnings("ignore:family 'poisson' is for integers")  # the checks feed fractions
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
