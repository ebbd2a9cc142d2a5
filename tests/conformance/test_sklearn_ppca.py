"""scikit-learn's own checks of estimators."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import PPCA

ESTIMATORS = [PPCA(), PPCA(n_components=1), PPCA(n_components=0.7)]


@pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning")  # the checks mix arrays and frames
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
