"""scikit-learn's checks of every estimator: defaults here, every family and other settings in ``make conformance``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.conformance.in_support import FAMILIES, of_family

from anypca import (
    BEPCA,
    EPCA,
    GPCA,
    GSPPCA,
    ISFA,
    PCA,
    PLNPCA,
    PPCA,
    SPCA,
    SPPCA,
    SSPCA,
    SSPPCA,
    VAE,
    Autoencoder,
    Imputer,
    KernelPCA,
    ModeOptions,
    PiecewisePCA,
    SePCA,
)
from anypca.families import Bernoulli, Binomial, Gaussian, Poisson

pytestmark = [
    # The checks feed fractions to count families, show models frames and arrays by turns, and fit tables of noise.
    pytest.mark.filterwarnings("ignore:family .* is for integers"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning"),
    pytest.mark.filterwarnings("ignore:PiecewisePCA"),
    pytest.mark.filterwarnings("ignore:GSPPCA selected"),
    pytest.mark.filterwarnings("ignore:family. gamma in place of exponential"),
    # Short chains disagree and short training does not converge; the contract holds after them too.
    pytest.mark.filterwarnings("ignore:.*the chains disagree"),
    pytest.mark.filterwarnings("ignore:(VAE|Autoencoder)"),
]

_HAS_SAMPLERS = all(find_spec(name) is not None for name in ("nutpie", "polyagamma"))
_CHAINS = {"n_draws": 10, "n_tune": 5}
_EPOCHS = {"max_iter": 10, "score_draws": 20, "n_jobs": 1}
_ROUGH = {"n_init": 1, "tol": 1e-2, "max_iter": 50, "n_jobs": 1}
# The checks compare scores of repeated rows with scores of weighted rows to seven digits; both fits end within tol.
_TIGHT = {"tol": 1e-11, "n_jobs": 1}

DEFAULTS = [
    PPCA(),
    EPCA(family="gaussian", n_jobs=1),
    SePCA(family="gaussian", max_components=2),
    PCA(n_components=1, family="gaussian"),
    Imputer(PPCA(n_components=1)),
    SPPCA(max_components=1),
    SSPPCA(max_components=1, sparsity=1.0),
    PLNPCA(n_jobs=1),
    GPCA(n_jobs=1),
    GSPPCA(n_jobs=1),
    SPCA(),
    SSPCA(n_components=1, penalty=0.01, n_jobs=1),
    KernelPCA(),
    PiecewisePCA(1, n_init=1, n_jobs=1),
    Autoencoder(max_iter=20, n_jobs=1),
    VAE(**_EPOCHS),
    *([BEPCA(n_chains=2, **_CHAINS), ISFA(n_chains=1, **_CHAINS)] if _HAS_SAMPLERS else []),
]

OTHER_SETTINGS = [
    PPCA(n_components=0.7),
    EPCA(n_jobs=1),
    SePCA(max_components=2),
    EPCA(family="poisson", score_penalty="l1", n_components=1, **_TIGHT),
    SePCA(max_components=2, family="gaussian", inference="map"),
    SePCA(max_components=2, family="gaussian", inference=ModeOptions(loading_penalty="l1")),
    SePCA(
        max_components=2,
        family="gaussian",
        inference=ModeOptions(nu_path=(0.3, 1.0), nu_criterion="evidence"),
    ),
    SPPCA(max_components=2),
    SPPCA(max_components=2, method="paper"),
    GPCA(family="poisson", penalty="l1", n_jobs=1),
    GPCA(family="gaussian", penalty="l1", n_jobs=1),
    GPCA(family="gaussian", penalty="scad", n_jobs=1),
    GSPPCA(n_components=1, n_features_to_select=1, noise="jl", scale=True, n_jobs=1),
    GSPPCA(n_components=2, noise="ml", prior="sparse", evidence="noisy", n_jobs=1),
    SPCA(n_components=1, penalty=0.1),
    SPCA(n_components=1, n_nonzero=1, ridge=np.inf),
    SPCA(n_components=1, n_nonzero=1, method="eigen"),
    SSPCA(n_components=1, criterion="row", n_jobs=1),
    SSPCA(n_components=1, n_features_to_select=1, constraint="orthogonal", n_jobs=1),
    SSPCA(n_components=1, penalty=0.01, exponent=0.5, n_jobs=1),
    SSPCA(n_components=1, n_penalties=5, n_jobs=1),
    KernelPCA(n_components=1, kernel="linear", fit_inverse_transform=True),
    KernelPCA(n_components=1, kernel="precomputed"),
    KernelPCA(n_components=1, method="rff", n_basis=50),
    KernelPCA(n_components=1, method="nystroem", kernel="polynomial", n_basis=20),
    PiecewisePCA(1, n_pieces=1, n_jobs=1),
    PiecewisePCA(1, family="poisson", n_init=2, tol=1e-3, n_jobs=1),
    Autoencoder(hidden_layer_sizes=(6, 4), activation="tanh", init="random", max_iter=20, n_jobs=1),
    Autoencoder(latent_activation="relu", output_activation="relu", max_iter=20, n_jobs=1),
    Autoencoder(hidden_layer_sizes=(), standardize=False, max_iter=20, n_jobs=1),
    VAE(hidden_layer_sizes=(), **_EPOCHS),
    *([ISFA(n_chains=1, mask="loadings", **_CHAINS)] if _HAS_SAMPLERS else []),
]

WITH_FAMILY = [
    *(of_family(EPCA, family, **_TIGHT) for family in FAMILIES),
    *(of_family(SePCA, family, max_components=2) for family in FAMILIES),
    *(of_family(GPCA, family, n_jobs=1) for family in (Gaussian(), Poisson(), Bernoulli(), Binomial(7))),
    *(of_family(VAE, family, **_EPOCHS) for family in FAMILIES),
    *(of_family(PiecewisePCA, family, n_components=1, **_ROUGH) for family in FAMILIES),
]
if _HAS_SAMPLERS:
    WITH_FAMILY += [of_family(BEPCA, family, n_components=1, n_chains=2, **_CHAINS) for family in FAMILIES]
    WITH_FAMILY += [of_family(ISFA, family, n_chains=1, **_CHAINS) for family in FAMILIES]


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the checks that an estimator does not pass, and why."""
    weights = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    if isinstance(estimator, VAE):
        return dict.fromkeys(weights, "rows are drawn into batches: a weight counts in the bound only")
    if isinstance(estimator, KernelPCA) and estimator.kernel == "precomputed":
        return {"check_estimators_nan_inf": "transforms 5 x 3 values after a fit to a 5 x 5 kernel"}
    return {}


def each_check(estimators: list[Any]) -> pytest.MarkDecorator:
    """Parametrise with all checks except that of array API input, which the package does not declare."""
    mark = parametrize_with_checks(estimators, expected_failed_checks=expected_failures)
    names, pairs = mark.args
    name_of = mark.kwargs["ids"]
    kept = [pair for pair in pairs if "check_array_api" not in str(name_of(getattr(pair, "values", pair)[1]))]
    return pytest.mark.parametrize(names, kept, ids=name_of)


@each_check(DEFAULTS)
def test_defaults(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@each_check(OTHER_SETTINGS)
def test_other_settings(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.conformance
@each_check(WITH_FAMILY)
def test_every_family(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("auto", False),
        ("gaussian", False),
        ("poisson", True),
        ("binomial(3)", True),
        (Poisson(), True),
        (["poisson", "gaussian"], False),
        ("no such family", False),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [EPCA, GPCA, SePCA])
def test_tags_follow_the_family(kind: Any, family: Any, expected: bool) -> None:
    assert kind(family=family).__sklearn_tags__().input_tags.positive_only is expected
