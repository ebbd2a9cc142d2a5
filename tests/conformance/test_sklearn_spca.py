"""scikit-learn's own checks of SPCA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import SPCA

ESTIMATORS = [
    SPCA(),
    SPCA(n_components=1, penalty=0.1),
    SPCA(n_components=1, n_nonzero=1),
    SPCA(n_components=1, n_nonzero=1, ridge=np.inf),
    SPCA(n_components=1, n_nonzero=1, method="eigen"),
]


@pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning")  # the checks mix arrays and frames
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
