"""scikit-learn's own checks of the piecewise estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, InSupport, is_taken_as_it_is

from anypca import PiecewisePCA

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),  # the checks mix arrays and frames
    pytest.mark.filterwarnings("ignore:family .* is for integers"),  # the checks fit real numbers
    pytest.mark.filterwarnings("ignore:PiecewisePCA"),  # tables of noise and of few rows
]

_REASON = "starts depend on the ranks of the rows, and the fit ends within tol of the optimum, not at it"
_WEIGHTS = {f"check_sample_weight_equivalence_on_{kind}_data": _REASON for kind in ("dense", "sparse")}


def expected_failures(estimator: Any) -> dict[str, str]:
    return _WEIGHTS if estimator.n_pieces > 1 else {}


@parametrize_with_checks(
    [PiecewisePCA(1, n_init=2, n_jobs=1), PiecewisePCA(1, n_pieces=1, n_jobs=1)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


class MappedPieces(InSupport, PiecewisePCA):
    """PiecewisePCA of numbers that are brought into the support of its family."""


_ROUGH: dict[str, Any] = {"n_init": 1, "tol": 1e-2, "max_iter": 50, "n_jobs": 1}


@pytest.mark.conformance
@parametrize_with_checks(
    [
        PiecewisePCA(1, family="poisson", n_init=2, tol=1e-3, n_jobs=1),
        *(
            (PiecewisePCA if is_taken_as_it_is(each) else MappedPieces)(1, family=each, **_ROUGH)
            for each in FAMILIES
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_with_every_family(estimator: Any, check: Any) -> None:
    check(estimator)
