"""scikit-learn's own checks of the selecting estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import GSPPCA

# The checks mix arrays and frames.
pytestmark = pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning")


@parametrize_with_checks([GSPPCA(n_jobs=1)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        GSPPCA(n_components=1, n_features_to_select=1, noise="jl", scale=True, n_jobs=1),
        GSPPCA(n_components=2, noise="ml", prior="sparse", evidence="noisy", n_jobs=1),
    ]
)
def test_scikit_learn_checks_of_other_noise(estimator: Any, check: Any) -> None:
    check(estimator)
