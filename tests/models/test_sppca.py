"""SPPCA and SSPPCA: the published algorithm, the default, exact zeros, and the SePCA that they configure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments._designs import make_sppca_classes, make_sppca_loadings, make_sppca_order
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from tests.draws import seed

from anypca import SPPCA, SSPPCA, ModeOptions, SePCA
from anypca.datasets import (
    make_low_rank_counts,
    make_sparse_counts,
)
from anypca.families import Poisson, ScaledPoisson


#: What the published algorithm is in terms of SePCA.
def published(**options: float) -> dict[str, Any]:
    """Return the parameters of SePCA for the published algorithm."""
    mode = ModeOptions(**{"nu": 1.0, "threshold": 100.0, **options})
    return {"inference": mode, "family": "poisson", "fit_intercept": False}


# Sweeps over small tables may end above tol.
pytestmark = pytest.mark.filterwarnings("ignore:.*stopped at max_iter:sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """60 rows of 12 Poisson counts with two components."""
    return np.asarray(make_low_rank_counts(60, 12, 2, typical_mean=8.0, random_state=seed(1)).X)


@pytest.fixture(scope="module")
def sparse_counts() -> Any:
    """150 rows of 30 counts, one component of six columns."""
    return make_sparse_counts(150, 30, 1, n_nonzero=6, random_state=seed())


# The published algorithm


def test_the_published_algorithm_gives_the_printed_loadings() -> None:
    model = SPPCA(1, method="paper").fit(make_sppca_loadings(random_state=seed(3)).X)
    loading = model.components_[0] / np.linalg.norm(model.components_[0])
    assert model.converged_
    assert_allclose(loading, np.r_[0.26, 0.27, np.full(8, 0.33)], atol=0.04)


@pytest.mark.parametrize("threshold", [2.0, 40.0, 100.0])
def test_components_leave_at_the_threshold(threshold: float) -> None:
    X = make_sppca_order(2, 100, 10, random_state=seed()).X
    model = SPPCA(method="paper", threshold=threshold).fit(X)
    n, D = X.shape
    left = [removal for removal in model.pruning_path_ if np.isfinite(removal.alpha)]
    assert left
    assert min(removal.alpha for removal in left) >= threshold
    assert [r.n_components for r in model.pruning_path_] == list(range(D - 1, model.n_components_, -1))
    # alpha is D / ||w||^2; in the algorithm's own coordinates, where ||z||^2 = D, no one left passes the threshold.
    assert_allclose(model.alpha_, D / (model.components_**2).sum(axis=1), rtol=1e-9)
    assert (model.alpha_ * D / n < threshold).all()
    scores = model.transform(X)
    assert_array_equal(model.intercept_, 0.0)
    assert_allclose((scores**2).mean(axis=0), 1.0, rtol=1e-2)


# The default


@pytest.mark.parametrize("truth", [1, 2])
def test_the_default_finds_the_factors(truth: int) -> None:
    model = SPPCA(max_components=6).fit(make_sppca_order(truth, 100, 20, random_state=seed(truth)).X)
    assert truth <= model.n_components_ <= truth + 1
    # The error does not grow with the mean, so that the counts vary less than Poisson counts.
    assert isinstance(model.family_, ScaledPoisson) or (model.dispersion_ < 1.0).any()


def test_default_scores_are_centred(counts: np.ndarray) -> None:
    model = SPPCA(max_components=4)
    scores = model.fit_transform(counts)
    assert_allclose(scores.mean(axis=0), 0.0, atol=0.05)
    assert_allclose((scores**2).mean(axis=0), 1.0, atol=0.2)
    assert (model.intercept_ != 0).all()
    nothing = SPPCA(max_components=0).fit(counts)
    assert nothing.transform(counts).shape == (60, 0)


PAIRS: dict[str, tuple[Any, Any]] = {
    "paper": (SPPCA(method="paper"), SePCA(11, **published())),
    "sparse-paper": (SSPPCA(method="paper", sparsity=0.07), SePCA(11, sparsity=0.07, **published())),
    "threshold": (SPPCA(method="paper", threshold=2.0), SePCA(11, **published(threshold=2.0))),
    "delta": (
        SSPPCA(method="paper", sparsity=0.07, delta=1e-4, threshold=5.0),
        SePCA(11, sparsity=0.07, **published(threshold=5.0, delta=1e-4)),
    ),
    "default": (SPPCA(4), SePCA(4, family="negative_binomial")),
    "poisson": (SPPCA(4, dispersion="poisson"), SePCA(4, family="poisson", dispersion=1.0)),
    "feature": (
        SPPCA(4, dispersion="feature"),
        SePCA(4, family="negative_binomial", dispersion="feature"),
    ),
    "sparse": (
        SSPPCA(4, sparsity=1.0),
        SePCA(4, family="negative_binomial", sparsity=1.0),
    ),
    "no-price": (SSPPCA(4, sparsity=0.0), SPPCA(4)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_equals_the_sepca_it_configures(counts: np.ndarray, pair: str) -> None:
    ours, theirs = (model.fit(counts) for model in PAIRS[pair])
    assert ours.n_components_ == theirs.n_components_
    assert_array_equal(ours.components_, theirs.components_)
    assert_array_equal(ours.dispersion_, theirs.dispersion_)
    assert_array_equal(ours.transform(counts[:5]), theirs.transform(counts[:5]))
    assert ours.evidence_ == theirs.evidence_


def test_counts_that_are_taken_as_poisson_stay_so_however_they_vary() -> None:
    X = make_low_rank_counts(80, 8, 1, typical_mean=8.0, size=1.0, random_state=seed()).X
    given = SPPCA(3, dispersion="poisson").fit(X)
    assert isinstance(given.family_, Poisson)
    assert_array_equal(given.dispersion_, 1.0)


# Exact zeros


@pytest.mark.parametrize("method", ["default", "paper"])
def test_zeros_are_exact(sparse_counts: Any, method: str) -> None:
    price = 2.0 if method == "default" else 1.0
    deltas = [1e-8, 1e-6, 1e-2] if method == "default" else [1e-8, 1e-6]
    fits = [SSPPCA(3, sparsity=price, delta=d, method=method).fit(sparse_counts.X) for d in deltas]
    zeros = [model.components_ == 0 for model in fits]
    assert_array_equal(zeros[0], zeros[1])  # any small delta gives the same zeros
    assert zeros[0].any()
    assert not zeros[0].all(axis=1).any()
    if method == "default":
        assert np.count_nonzero(fits[2].components_) <= np.count_nonzero(fits[0].components_)
        assert_array_equal(fits[0].components_std_[zeros[0]], 0.0)
        assert (fits[0].components_std_[~zeros[0]] > 0).all()
        wrong = np.sum(~zeros[0].all(axis=0) != np.asarray(sparse_counts.support).reshape(-1, 30).any(axis=0))
        assert wrong <= 1
        trace = fits[0].objective_trace_
        assert np.diff(trace).min() >= -1e-10 * np.abs(trace).max()
        # The price leaves the precisions of the dense model alone, which would shrink what is left.
        assert_allclose(fits[0].alpha_, SPPCA(3).fit(sparse_counts.X).alpha_, rtol=1e-9)


def test_bad_parameters_are_named(counts: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"threshold=40.0 has no meaning.*method='paper'"):
        SPPCA(threshold=40.0).fit(counts)
    with pytest.raises(ValueError, match="'sparsity' parameter of SSPPCA"):
        SSPPCA(sparsity=-1.0).fit(counts)


def test_scores_in_the_sizes_of_their_components_separate_classes_better_than_pca() -> None:
    drawn = [make_sppca_classes(random_state=seed(s)) for s in range(4)]
    models = [SPPCA(n_jobs=1).fit(each.X) for each in drawn]
    sizes = [np.linalg.norm(model.components_, axis=1) for model in models]
    ours, theirs = (
        np.mean([silhouette_score(z, each.labels) for z, each in zip(scores, drawn, strict=True)])
        for scores in (
            [model.transform(each.X) * size for model, each, size in zip(models, drawn, sizes, strict=True)],
            [PCA(2).fit_transform(each.X) for each in drawn],
        )
    )
    assert ours > theirs
