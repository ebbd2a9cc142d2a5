"""scikit-learn's own checks of the nets: the defaults here, other settings and every family in ``make conformance``."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, InSupport, is_taken_as_it_is

from anypca import VAE, Autoencoder

# The numbers are scikit-learn's: count families get fractions, models are shown frames and arrays by turns. A few
# epochs are enough to see whether a method does what it should.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers:sklearn.exceptions.DataConversionWarning"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
    pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning"),
]
FEW = {"max_iter": 10, "score_draws": 20, "n_jobs": 1}


class MappedVAE(InSupport, VAE):
    """VAE of numbers that are brought into the support of its family."""


def expected_failures(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, Autoencoder):
        return {}
    reason = (
        "rows come in batches and have draws of their own: a weight counts in the bound, not in the batches"
    )
    checks = ("dense_data", "sparse_data")
    return {f"check_sample_weight_equivalence_on_{name}": reason for name in checks}


@parametrize_with_checks(
    [Autoencoder(max_iter=20, n_jobs=1), VAE(**FEW)], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@parametrize_with_checks(
    [
        Autoencoder(hidden_layer_sizes=(6, 4), activation="tanh", init="random", max_iter=20, n_jobs=1),
        Autoencoder(latent_activation="relu", output_activation="relu", max_iter=20, n_jobs=1),
        Autoencoder(hidden_layer_sizes=(), standardize=False, max_iter=20, n_jobs=1),
        *((VAE if is_taken_as_it_is(each) else MappedVAE)(family=each, **FEW) for each in FAMILIES),
        VAE(hidden_layer_sizes=(), **FEW),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_with_other_settings(estimator: Any, check: Any) -> None:
    check(estimator)
