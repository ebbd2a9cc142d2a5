"""SePCA and dispersion: found, given, per column, and without regard to units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import SePCA
from anypca.datasets import make_low_rank, make_low_rank_counts
from anypca.engine import check_data
from anypca.families import Exponential, Gamma, NegativeBinomial, Poisson, ScaledPoisson, resolve_family
from anypca.models._bilinear.dispersion import has_settled
from anypca.models._session import open_session
from anypca.models.sepca._candidate import (
    first_candidate,
    gamma_candidates,
    poisson_columns,
    scaled_candidates,
    with_scales,
)
from anypca.models.sepca._fit import penalised_evidence
from anypca.models.sepca._noise import dispersion_cost
from anypca.models.sepca._noise_report import DispersionReport
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._start import first_state
from anypca.models.sepca._sweeps import judge, prune, residuals


def under_dispersed_counts(rank=1, n=150, p=20, seed=0, spread=1.0):
    """Counts around rich means, with a rounding error of constant variance."""
    rng = np.random.default_rng(seed)
    mean = np.exp(3.5 + 0.3 * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)))
    return np.maximum(np.round(mean + spread * rng.normal(size=(n, p))), 0.0)


def unequal_noise(seed=0, rank=2, n=150, p=20):
    rng = np.random.default_rng(seed)
    variance = np.exp(rng.uniform(np.log(0.1), np.log(10.0), p))
    X = make_low_rank(n, p, rank, family="gaussian", signal=1.5, dispersion=variance, random_state=seed).X
    return X, variance


@pytest.mark.parametrize("family", ["negative_binomial", "poisson"])
def test_under_dispersed_counts_get_a_scale(family):
    with pytest.warns(UserWarning, match=f"scaled_poisson in place of {family}"):
        model = SePCA(4, family=family).fit(under_dispersed_counts())
    assert isinstance(model.family_, ScaledPoisson)
    assert model.dispersion_report_.replaced == f"scaled_poisson in place of {family}"
    assert model.n_components_ == 1
    # The noise has variance 1 and the means are near 33.
    assert 0.01 < np.median(model.dispersion_) < 0.1


def test_without_a_scale_under_dispersed_counts_hide_components():
    """What the scale is for: a weak second direction is within the noise that Poisson counts would have."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(120, 2)) * [0.3, 0.03]
    mean = np.exp(3.5 + scores @ rng.normal(size=(2, 20)))
    X = np.round(mean + 0.5 * rng.normal(size=mean.shape))
    assert SePCA(4, family="poisson", dispersion=1.0).fit(X).n_components_ == 1
    with pytest.warns(UserWarning, match="scaled_poisson"):
        assert SePCA(4, family="poisson").fit(X).n_components_ == 2


@pytest.mark.parametrize("mean", [12.0, 1.6], ids=["rich", "poor"])
def test_poisson_counts_stay_poisson(mean):
    X = make_low_rank_counts(120, 30, 2, typical_mean=mean, random_state=1).X
    model = SePCA(5, family="negative_binomial").fit(X)
    assert isinstance(model.family_, NegativeBinomial)
    assert model.n_components_ == 2
    assert model.dispersion_.max() < 0.05


def test_over_dispersed_counts_are_no_components():
    X = make_low_rank_counts(120, 30, 1, typical_mean=5.0, size=3.0, random_state=2).X
    model = SePCA(5, family="negative_binomial").fit(X)
    assert model.n_components_ == 1
    assert_allclose(model.dispersion_, 1 / 3, rtol=0.25)
    assert SePCA(5, family="poisson", dispersion=1.0).fit(X).n_components_ > 2


def test_unequal_noise_gets_a_variance_for_each_column():
    X, variance = unequal_noise()
    model = SePCA(5, family="gaussian").fit(X)
    assert model.n_components_ == 2
    assert model.dispersion_report_.used == "feature"
    assert model.dispersion_report_.gain > 100.0
    # Six pseudo-observations pull a column of little noise and much signal up by as much as this.
    assert_allclose(np.log(model.dispersion_), np.log(variance), atol=1.0)


@pytest.mark.parametrize(("dispersion", "n_values"), [("shared", 1), ("feature", 20), ("auto", 20)])
def test_equal_noise(dispersion, n_values):
    X = make_low_rank(150, 20, 2, family="gaussian", signal=1.5, dispersion=2.0, random_state=0).X
    model = SePCA(5, family="gaussian", dispersion=dispersion).fit(X)
    assert model.n_components_ == 2
    assert len(np.unique(model.dispersion_)) == n_values
    # The standard error of a variance from 150 entries is 12 %.
    assert_allclose(model.dispersion_, 2.0, rtol=0.1 if n_values == 1 else 0.4)


def test_noise_in_equal_shares_is_compared_with_noise_of_the_columns_own():
    X = make_low_rank(60, 6, 1, family="gaussian", signal=1.5, random_state=1).X
    report = SePCA(2, family="gaussian").fit(X).dispersion_report_
    assert set(report.evidence) == {"shares", "feature"}
    assert report.gain == pytest.approx(abs(report.evidence["shares"] - report.evidence["feature"]))
    assert f"{report.gain:.1f} nats" in str(report)
    assert SePCA(0, family="gaussian").fit(X).dispersion_report_ == DispersionReport("shares", {})
    assert SePCA(2, family="poisson").fit(np.exp(X).round()).dispersion_report_.used == "fixed"


def own_sizes(rank=1, n=150, p=20, seed=0):
    """Counts whose columns differ in their size, and the logarithms of the dispersions."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=p)
    eta = 1.5 + 0.5 * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
    rate = np.exp(eta) * rng.gamma(np.exp(-logs), np.exp(logs), size=(n, p))
    return rng.poisson(rate).astype(float), logs


@pytest.mark.parametrize("dispersion", ["auto", "feature"])
def test_counts_get_sizes_of_their_own_and_stay_negative_binomial(dispersion):
    X, logs = own_sizes()
    model = SePCA(5, family="negative_binomial", dispersion=dispersion).fit(X)
    assert model.family_ == NegativeBinomial()
    assert model.dispersion_report_.used == "feature"
    assert model.n_components_ == 1
    assert np.corrcoef(np.log(model.dispersion_), logs)[0, 1] > 0.9


def test_one_size_is_kept_where_columns_have_one():
    X = make_low_rank_counts(120, 30, 1, typical_mean=5.0, size=3.0, random_state=2).X
    model = SePCA(5, family="negative_binomial").fit(X)
    assert model.dispersion_report_.used == "shared"
    assert model.dispersion_report_.gain == 0.0
    assert np.ptp(model.dispersion_) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_steady_amounts_get_a_shape_even_in_a_small_table(seed):
    X = make_low_rank(40, 8, 2, family="gamma", signal=0.8, dispersion=0.05, random_state=seed).X
    with pytest.warns(UserWarning, match="gamma in place of exponential"):
        model = SePCA(4, family="exponential").fit(X)
    assert isinstance(model.family_, Gamma)
    assert_allclose(np.median(model.dispersion_), 0.05, rtol=0.6)
    assert SePCA(4, family="exponential", dispersion=1.0).fit(X).n_components_ < model.n_components_ == 2


@pytest.mark.parametrize("seed", range(3))
def test_exponential_amounts_stay_exponential(seed):
    X = make_low_rank(60, 10, 1, family="exponential", signal=1.0, random_state=seed).X
    assert isinstance(SePCA(4, family="exponential").fit(X).family_, Exponential)


@pytest.mark.parametrize("scale", [1e-4, 1e4], ids=["small", "large"])
@pytest.mark.parametrize("inference", ["vb", "map"])
def test_units_do_not_matter(inference, scale):
    X = make_low_rank(100, 20, 3, family="gaussian", signal=1.5, random_state=0).X
    first, second = (SePCA(5, family="gaussian", inference=inference).fit(x) for x in (X, scale * X))
    assert first.n_components_ == second.n_components_ == 3
    assert_allclose(second.dispersion_, scale**2 * first.dispersion_, rtol=0.02)
    assert_allclose(second.components_, scale * first.components_, atol=0.05 * scale)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_feature_gives_every_column_a_scale(family):
    X = make_low_rank(120, 15, 1, family=family, signal=1.0, dispersion=0.3, intercept=1.0, random_state=4).X
    model = SePCA(4, family=family, dispersion="feature").fit(X)
    assert model.n_components_ == 1
    assert len(np.unique(model.dispersion_)) == 15
    assert isinstance(model.family_, ScaledPoisson) == (family == "poisson")
    # Poisson counts have scale 1.
    assert_allclose(model.dispersion_, 1.0 if family == "poisson" else 0.3, rtol=0.6)


@pytest.mark.parametrize(
    ("inference", "family"),
    [("vb", "gaussian"), ("vb", "negative_binomial"), ("map", "gaussian"), ("map", "negative_binomial")],
)
def test_a_number_fixes_open_dispersions(inference, family):
    X = make_low_rank(60, 10, 1, family=family, dispersion=0.3, random_state=5).X
    model = SePCA(3, family=family, inference=inference, dispersion=0.7).fit(X)
    assert (model.dispersion_ == 0.7).all()


def test_a_number_leaves_families_without_dispersion_alone():
    X = np.hstack(
        [
            make_low_rank(60, 5, 1, family=name, dispersion=0.3, random_state=6).X
            for name in ("gaussian", "bernoulli")
        ]
    )
    model = SePCA(2, family=["gaussian"] * 5 + ["bernoulli"] * 5, dispersion=0.5).fit(X)
    assert_allclose(model.dispersion_, [0.5] * 5 + [1.0] * 5)


def test_rounds_settle_on_a_mixed_table():
    """Rounds go on from the last fit once dimension and dispersion have about settled, so that sweeps stay few."""
    rng = np.random.default_rng(0)
    eta = 0.7 * rng.normal(size=(200, 2)) @ rng.normal(size=(2, 16))
    X = np.hstack(
        [
            eta[:, :4] + rng.normal(size=(200, 4)),
            rng.poisson(np.exp(eta[:, 4:8] + 1.0)),
            rng.random((200, 4)) < 1 / (1 + np.exp(-2 * eta[:, 8:12])),
            rng.gamma(4.0, np.exp(eta[:, 12:]) / 4.0),
        ]
    )
    X[rng.random(X.shape) < 0.03] = np.nan
    kinds = ("gaussian", "negative_binomial", "bernoulli", "gamma")
    model = SePCA(5, family=np.repeat(kinds, 4).tolist()).fit(X)
    assert model.n_components_ == 2
    assert model.converged_
    assert_allclose(model.dispersion_[:4], 1.0, rtol=0.4)
    assert_allclose(model.dispersion_[12:], 0.25, rtol=0.4)


def test_settling_is_relative_for_scales_and_absolute_for_tiny_shapes():
    old, new = np.full(2, 1e-8), np.full(2, 1.5e-8)
    assert not has_settled(resolve_family("gaussian", 2), new, old, rtol=0.1)
    assert has_settled(resolve_family("gaussian", 2), new, old, rtol=0.6)
    assert has_settled(resolve_family("negative_binomial", 2), new, old, rtol=0.1)
    assert not has_settled(resolve_family("negative_binomial", 2), old + 0.5, old, rtol=0.1)


def test_scales_replace_chosen_columns_only():
    family = resolve_family(["poisson", "gaussian", "poisson"], 3)
    scaled = with_scales(family, np.array([True, False, False]))
    kinds = {int(j): type(member) for member, columns in scaled.member_columns(3) for j in columns}
    assert kinds[0] is ScaledPoisson
    assert kinds[2] is Poisson
    with open_session(check_data(np.ones((4, 3))), 1) as session:
        first = first_candidate(session, family, Settings(1))
    (own,) = scaled_candidates(first, np.array([True, False, False]), np.full(3, 2.0))
    assert own.by_column
    assert_allclose(own.start, [1.0, 2.0, 2.0])


def price_of(family, n_features, noise="auto", by_column=False):
    """What the open dispersions cost at 50 rows of weight 2."""
    X = np.random.default_rng(0).poisson(3.0, size=(50, n_features)).astype(float) + 1.0
    settings = Settings(1, noise=noise)
    with open_session(check_data(X, sample_weight=np.full(50, 2.0)), 1, max_iter=50, tol=1e-6) as session:
        first = first_candidate(session, resolve_family(family, n_features), settings)
        state = prune(first_state(replace(first, by_column=by_column), 0))
        assert state.weight == 100.0
        price = dispersion_cost(residuals(state))
        assert penalised_evidence(state) == pytest.approx(judge(state).evidence - price, rel=1e-14)
    return price


@pytest.mark.parametrize(
    ("family", "noise", "by_column", "n_dispersions"),
    [
        ("gaussian", "auto", False, 4),
        ("gaussian", "auto", True, 4),
        ("gaussian", "shared", False, 1),
        ("log_normal", "auto", False, 1),
        ("log_normal", "auto", True, 4),
        ("negative_binomial", "auto", False, 1),
        ("poisson", "auto", False, 0),
    ],
)
def test_the_price_of_dispersions_is_that_of_bic(family, noise, by_column, n_dispersions):
    """Equal shares of the columns' variances rest on as many numbers as noise of their own."""
    price = price_of(family, 4, noise, by_column)
    assert price == pytest.approx(0.5 * n_dispersions * np.log(100.0), rel=1e-14)


def test_own_sizes_cost_what_their_prior_does():
    """Mean and spread of the prior are fitted; sizes of Poisson counts cost little more, as they fit little better."""
    price = price_of("negative_binomial", 4, by_column=True)
    assert np.log(100.0) < price < np.log(100.0) + 4.0


@pytest.mark.parametrize(
    ("others", "by_column"), [([], [False, True]), (["gaussian"], [True])], ids=["alone", "beside others"]
)
def test_steady_amounts_are_gamma_with_one_shape_or_one_for_each_column(others, by_column):
    family = resolve_family(["exponential"] * 3 + others, 3 + len(others))
    amounts = np.array([True] * 3 + [False] * len(others))
    with open_session(check_data(np.ones((4, len(amounts)))), 1) as session:
        first = first_candidate(session, family, Settings(1))
    found = gamma_candidates(first, amounts, np.full(len(amounts), 2.0))
    assert [candidate.by_column for candidate in found] == by_column
    for candidate in found:
        kinds = {
            int(j): type(m) for m, columns in candidate.family.member_columns(len(amounts)) for j in columns
        }
        assert [kinds[j] is Gamma for j in range(len(amounts))] == amounts.tolist()


def test_columns_in_the_poisson_limit():
    family = resolve_family(["negative_binomial", "negative_binomial(3)", "poisson", "gaussian"], 4)
    assert poisson_columns(family, np.array([0.0, 0.0, 1.0, 0.0])).tolist() == [True, False, True, False]
