"""scikit-learn's own checks of KernelPCA."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import KernelPCA

PRECOMPUTED = KernelPCA(n_components=1, kernel="precomputed")
ESTIMATORS = [
    KernelPCA(),
    KernelPCA(n_components=1, kernel="linear", fit_inverse_transform=True),
    PRECOMPUTED,
    KernelPCA(n_components=1, method="rff", n_basis=50),
    KernelPCA(n_components=1, method="nystroem", kernel="polynomial", n_basis=20),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    if estimator is not PRECOMPUTED:
        return {}
    reason = (
        "fits 5 x 5 kernel values, then transforms 5 x 3 with NaN: the wrong shape is told before the NaN"
    )
    return {"check_estimators_nan_inf": reason}


@pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning")  # the checks mix arrays and frames
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
