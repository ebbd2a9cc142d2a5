"""SPPCA and SSPPCA: the published algorithm, the default, exact zeros, and the SePCA that they configure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from anypca import SPPCA, SSPPCA, SePCA
from anypca.datasets import make_low_rank_counts, make_sparse_counts, make_sppca_loadings, make_sppca_order
from anypca.engine import check_data
from anypca.families import Poisson, ScaledPoisson, resolve_family
from anypca.models._session import open_session
from anypca.models.sepca._mode import ModeFitter, fit_mode
from anypca.models.sepca._settings import ModeSettings
from anypca.models.sepca._sparsity import PRICES, choose_sparsity
from anypca.offsets import total_counts

#: What the published algorithm is in terms of SePCA.
PUBLISHED = {
    "family": "poisson",
    "inference": "map",
    "nu": 1.0,
    "threshold": 100.0,
    "fit_intercept": False,
}


@pytest.fixture(scope="module")
def counts():
    """60 rows of 12 Poisson counts with two components."""
    return make_low_rank_counts(60, 12, 2, typical_mean=8.0, random_state=1).X


@pytest.fixture(scope="module")
def sparse_counts():
    """150 rows of 30 counts, one component of six columns."""
    return make_sparse_counts(150, 30, 1, n_nonzero=6, random_state=0)


def record(X, sparsity, monkeypatch):
    """Rounds of the published algorithm as (number of components, objective)."""
    values, profiled = [], ModeFitter._profiled

    def recording(fitter, state):
        found = profiled(fitter, state)
        values.append((len(found.alpha), found.trace[-1]))
        return found

    monkeypatch.setattr(ModeFitter, "_profiled", recording)
    settings = ModeSettings(X.shape[1] - 1, fit_intercept=False, sparsity=sparsity, threshold=100.0)
    with open_session(check_data(X), 1, max_iter=500, tol=1e-6) as session:
        fit_mode(session, resolve_family("poisson", X.shape[1]), settings)
    return values


@pytest.mark.parametrize("sparsity", [0.0, 0.07], ids=["SPPCA", "SSPPCA"])
def test_published_objective_never_decreases_between_removals(sparsity, monkeypatch):
    values = record(make_sppca_order(2, 100, 10, random_state=0).X, sparsity, monkeypatch)
    gains = [after - before for (k, before), (m, after) in pairwise(values) if k == m]
    scale = np.abs([value for _, value in values]).max()
    assert len({k for k, _ in values}) > 1, "components must leave for this to say something"
    assert len(gains) > 5
    assert min(gains) >= -1e-9 * scale


def test_published_algorithm_gives_the_printed_loadings():
    model = SPPCA(method="paper").fit(make_sppca_loadings(random_state=3).X)
    loading = model.components_[0] / np.linalg.norm(model.components_[0])
    assert model.n_components_ == 1
    assert model.converged_
    assert_allclose(loading, np.r_[0.26, 0.27, np.full(8, 0.33)], atol=0.02)


@pytest.mark.parametrize("truth", [1, 2, 3])
def test_published_algorithm_mostly_finds_the_factors(truth):
    tables = [make_sppca_order(truth, 100, 20, random_state=seed).X for seed in range(5)]
    answers = [SPPCA(method="paper", n_jobs=1).fit(X).n_components_ for X in tables]
    assert answers.count(truth) >= 3, answers


@pytest.mark.parametrize("truth", [1, 2, 3])
def test_default_finds_the_factors(truth):
    model = SPPCA(max_components=8).fit(make_sppca_order(truth, 100, 20, random_state=truth).X)
    assert model.n_components_ == truth
    # The error does not grow with the mean, so that the counts vary less than Poisson counts.
    assert isinstance(model.family_, ScaledPoisson) or (model.dispersion_ < 1.0).any()


def test_thresholds_of_the_published_algorithm():
    X = make_sppca_order(2, 100, 10, random_state=0).X
    model = SPPCA(method="paper").fit(X)
    n, D = X.shape
    left = [removal for removal in model.pruning_path_ if np.isfinite(removal.alpha)]
    assert left
    assert min(removal.alpha for removal in left) >= 100.0
    assert [r.n_components for r in model.pruning_path_] == list(range(D - 1, model.n_components_, -1))
    # alpha is D / ||w||^2; in the algorithm's own coordinates, where ||z||^2 = D, no one left passes the threshold.
    assert_allclose(model.alpha_, D / (model.components_**2).sum(axis=1), rtol=1e-9)
    assert (model.alpha_ * D / n < 100.0).all()


@pytest.mark.parametrize("threshold", [2.0, 40.0])
def test_components_leave_at_the_threshold_given(threshold):
    X = make_sppca_order(2, 100, 10, random_state=0).X
    model = SPPCA(method="paper", threshold=threshold).fit(X)
    # In the algorithm's own coordinates, where ||z||^2 = D, none that stays has reached it.
    assert (model.alpha_ * X.shape[1] / len(X) < threshold).all()
    assert min(removal.alpha for removal in model.pruning_path_) >= threshold


def test_threshold_needs_the_published_method(counts):
    with pytest.raises(
        ValueError, match=r"threshold=40.0 has no meaning with method='default'.*method='paper'"
    ):
        SPPCA(threshold=40.0).fit(counts)


@pytest.mark.parametrize("method", ["default", "paper"])
def test_any_small_delta_gives_the_same_zeros(sparse_counts, method):
    def zeros(delta):
        return SSPPCA(3, sparsity=1.0, delta=delta, method=method).fit(sparse_counts.X).components_ == 0

    assert_array_equal(zeros(1e-6), zeros(1e-8))
    assert zeros(1e-8).any()


def test_delta_that_is_not_small_takes_loadings_for_zeros(sparse_counts):
    left = [
        np.count_nonzero(SSPPCA(3, sparsity=1.0, delta=delta).fit(sparse_counts.X).components_)
        for delta in (1e-2, 1e-8)
    ]
    assert left[0] < left[1]


def test_published_scores_have_unit_second_moment_and_a_mean():
    X = make_sppca_order(1, 100, 10, random_state=0).X
    model = SPPCA(method="paper")
    scores = model.fit_transform(X)
    assert_array_equal(model.intercept_, 0.0)
    assert_allclose((scores**2).mean(axis=0), 1.0, rtol=1e-3)
    assert abs(scores.mean()) > 0.9


def test_default_scores_are_centred(counts):
    model = SPPCA(max_components=4)
    scores = model.fit_transform(counts)
    assert_allclose(scores.mean(axis=0), 0.0, atol=0.02)
    assert_allclose((scores**2).mean(axis=0), 1.0, atol=0.15)
    assert (model.intercept_ != 0).all()


@pytest.mark.parametrize(
    ("model", "same"),
    [
        (SPPCA(method="paper"), SePCA(11, **PUBLISHED)),
        (SSPPCA(method="paper", sparsity=0.07), SePCA(11, sparsity=0.07, **PUBLISHED)),
        (SPPCA(method="paper", threshold=2.0), SePCA(11, **PUBLISHED | {"threshold": 2.0})),
        (
            SSPPCA(method="paper", sparsity=0.07, delta=1e-4, threshold=5.0),
            SePCA(11, sparsity=0.07, delta=1e-4, **PUBLISHED | {"threshold": 5.0}),
        ),
        (SSPPCA(4, sparsity=1.0, delta=1e-6), SePCA(4, family="negative_binomial", sparsity=1.0, delta=1e-6)),
        (SPPCA(4), SePCA(4, family="negative_binomial")),
        (SPPCA(4, dispersion="poisson"), SePCA(4, family="poisson", dispersion=1.0)),
        (SPPCA(4, dispersion="feature"), SePCA(4, family="negative_binomial", dispersion="feature")),
        (SSPPCA(4, sparsity=1.0), SePCA(4, family="negative_binomial", sparsity=1.0)),
        (SSPPCA(4, sparsity=0.0), SPPCA(4)),
    ],
    ids=[
        "paper",
        "sparse paper",
        "threshold",
        "delta",
        "delta of the default",
        "default",
        "poisson",
        "feature",
        "sparse",
        "no price",
    ],
)
def test_equals_the_sepca_it_configures(counts, model, same):
    ours, theirs = model.fit(counts), same.fit(counts)
    assert ours.n_components_ == theirs.n_components_
    assert_array_equal(ours.components_, theirs.components_)
    assert_array_equal(ours.dispersion_, theirs.dispersion_)
    assert_array_equal(ours.transform(counts[:5]), theirs.transform(counts[:5]))
    assert ours.evidence_ == theirs.evidence_


def test_configuration_follows_its_parameters():
    model = SPPCA()
    assert set(model.get_params()) == {
        "max_components", "method", "threshold", "dispersion", "max_iter", "tol", "n_jobs", "verbose", "random_state",
        "warm_start", "init",
    }  # fmt: skip
    assert set(SSPPCA().get_params()) == set(model.get_params()) | {"sparsity", "delta"}
    assert (model.family, model.inference, model.fit_intercept, model._largest_alpha()) == (
        "negative_binomial",
        "vb",
        True,
        None,
    )
    model.set_params(method="paper")
    assert (model.family, model.inference, model.fit_intercept, model.nu, model._largest_alpha()) == (
        "poisson",
        "map",
        False,
        1.0,
        100.0,
    )
    assert model.set_params(threshold=40.0)._largest_alpha() == 40.0
    assert clone(SPPCA(dispersion="poisson")).family == "poisson"


@pytest.mark.parametrize("method", ["default", "paper"])
def test_zeros_are_exact(sparse_counts, method):
    price = 2.0 if method == "default" else 1.0
    model = SSPPCA(max_components=3, sparsity=price, method=method).fit(sparse_counts.X)
    zeros = model.components_ == 0
    assert model.sparsity_ == price
    assert zeros.any()
    assert not zeros.all(axis=1).any()
    # Nothing waits to become zero.
    assert np.abs(model.components_[~zeros]).min() > 1e-3
    if method == "default":
        assert_array_equal(~zeros, sparse_counts.support)
        assert_array_equal(model.components_std_[zeros], 0.0)
        assert (model.components_std_[~zeros] > 0).all()


def test_higher_price_leaves_fewer_loadings(counts):
    left = [np.count_nonzero(SSPPCA(3, sparsity=price).fit(counts).components_) for price in (0.5, 30.0)]
    assert left[0] > left[1] > 0


def test_price_by_hidden_entries(sparse_counts):
    model = SSPPCA(max_components=3).fit(sparse_counts.X)
    assert model.sparsity_ in PRICES
    assert model.sparsity == "auto"
    assert_array_equal(model.components_ != 0, sparse_counts.support)
    again = SSPPCA(max_components=3, sparsity=model.sparsity_).fit(sparse_counts.X)
    assert_array_equal(again.components_, model.components_)


@pytest.fixture(scope="module")
def rare_counts():
    """100 rows of 40 counts that are mostly zero, one component in which all columns take part."""
    return make_low_rank_counts(100, 40, 1, typical_mean=0.2, random_state=0).X


def test_chosen_price_leaves_the_component_that_the_evidence_found(rare_counts):
    model = SSPPCA(max_components=3).fit(rare_counts)
    assert model.n_components_ == SPPCA(max_components=3).fit(rare_counts).n_components_ == 1
    assert np.count_nonzero(model.components_) > 1


def test_price_leaves_the_relevance_alone(rare_counts):
    # Relevances of loadings of which many are zero would shrink the others, until none is left.
    dense, sparse = SPPCA(3).fit(rare_counts), SSPPCA(3, sparsity=1.0).fit(rare_counts)
    assert (sparse.components_ == 0).any()
    assert_allclose(sparse.alpha_, dense.alpha_, rtol=1e-9)


class Trial(SSPPCA):
    """Has nothing left at a price of 2 or more, which predicts as well as anything."""

    def fit(self, X, y=None, **companions):
        self.n_components_ = 1 if self.sparsity < 2.0 else 0
        return self

    def entry_log_likelihood(self, X, rows, columns, values, **companions):
        return np.zeros(len(rows))


def test_price_that_leaves_nothing_is_no_candidate(counts):
    companions = {"sample_weight": None, "offset": None, "covariates": None}
    assert choose_sparsity(Trial(), counts, **companions) == 1.0


def test_without_components_any_price_will_do():
    model = SSPPCA(max_components=2).fit(np.random.default_rng(0).poisson(3.0, size=(40, 8)))
    assert model.n_components_ == 0
    assert model.sparsity_ == PRICES[-1]


def test_sparse_objective_never_decreases(sparse_counts):
    trace = SSPPCA(3, sparsity=2.0).fit(sparse_counts.X).objective_trace_
    assert np.diff(trace).min() >= -1e-10 * np.abs(trace).max()


def test_efforts_enter_as_offsets():
    rng = np.random.default_rng(0)
    effort = np.exp(rng.normal(size=(150, 1)))
    X = rng.poisson(effort * rng.uniform(3.0, 8.0, 15)).astype(float)
    assert SPPCA(4).fit(X).n_components_ == 1
    assert SPPCA(4).fit(X, offset=total_counts(X)).n_components_ == 0


def test_starts_from_no_component(counts):
    model = SPPCA(max_components=0).fit(counts)
    assert model.n_components_ == 0
    assert model.transform(counts).shape == (60, 0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SPPCA(method="published"), "'method' parameter of SPPCA"),
        (SPPCA(dispersion=0.5), "'dispersion' parameter of SPPCA"),
        (SPPCA(max_components=-1), "'max_components' parameter of SPPCA"),
        (SSPPCA(sparsity=-1.0), "'sparsity' parameter of SSPPCA"),
        (SSPPCA(sparsity="cv"), "'sparsity' parameter of SSPPCA"),
    ],
    ids=["method", "dispersion", "max_components", "negative price", "unknown price"],
)
def test_bad_parameters_are_named(counts, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(counts)


@pytest.mark.parametrize("method", ["default", "paper"])
def test_negative_entries_are_named(counts, method):
    X = counts.copy()
    X[3, 4] = -2.0
    with pytest.raises(ValueError, match=r"X\[3, 4\] is -2"):
        SPPCA(2, method=method).fit(X)


def test_counts_that_are_taken_as_poisson_stay_so_however_they_vary():
    X = make_low_rank_counts(80, 8, 1, typical_mean=8.0, size=1.0, random_state=0).X
    given, estimated = (SPPCA(3, dispersion=dispersion).fit(X) for dispersion in ("poisson", "auto"))
    assert isinstance(given.family_, Poisson)
    assert_array_equal(given.dispersion_, 1.0)
    # What the variance beyond that of Poisson counts is taken for instead.
    assert given.n_components_ > estimated.n_components_
