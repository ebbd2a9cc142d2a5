"""scikit-learn's own checks of structured sparse PCA."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import SSPCA

# The checks mix arrays and frames, and fit tables in which nothing is found.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning"),
]


@parametrize_with_checks([SSPCA(n_components=1, n_penalties=5, n_jobs=1)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        SSPCA(n_components=1, criterion="row", n_jobs=1),
        SSPCA(n_components=1, n_features_to_select=1, constraint="orthogonal", n_jobs=1),
        SSPCA(n_components=1, penalty=0.01, exponent=0.5, n_jobs=1),
    ]
)
def test_scikit_learn_checks_of_other_settings(estimator: Any, check: Any) -> None:
    check(estimator)
