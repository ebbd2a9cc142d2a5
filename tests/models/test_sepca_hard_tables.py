"""SePCA on tables that try its patience: holes, empty and repeated columns, too many components asked for.

Warnings are errors in the test run, so that a fit here is also one without warnings.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from anypca import SePCA
from anypca.datasets import make_low_rank
from anypca.exceptions import NonFiniteError

FAMILIES = ["gaussian", "poisson", "bernoulli", "negative_binomial", "gamma"]
FITTED = (
    "components_",
    "components_std_",
    "alpha_",
    "intercept_",
    "dispersion_",
    "objective_trace_",
    "evidence_",
    "explained_deviance_ratio_",
)


def table(family, n=100, p=20, rank=2, seed=0, missing=0.0):
    signal = 3.0 if family == "bernoulli" else 1.2
    drawn = make_low_rank(
        n, p, rank, family=family, signal=signal, dispersion=0.2, missing=missing, random_state=seed
    )
    return drawn.X


def assert_usable(model, X, n_components):
    """The right dimension and finite numbers all over."""
    assert model.n_components_ == n_components
    for name in FITTED:
        assert np.isfinite(getattr(model, name)).all(), name
    scores, std = model.transform(X, return_std=True)
    assert scores.shape == std.shape == (len(X), n_components)
    assert np.isfinite(scores).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.inverse_transform(scores)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert model.explained_deviance_ratio_.sum() <= 1.0


@pytest.mark.parametrize("inference", ["vb", "map"])
@pytest.mark.parametrize("family", FAMILIES)
def test_missing_entries(family, inference):
    X = table(family, missing=0.3)
    assert 0.25 < np.isnan(X).mean() < 0.35
    assert_usable(SePCA(5, family=family, inference=inference).fit(X), X, 2)


@pytest.mark.parametrize(
    ("family", "inference"),
    [
        ("gaussian", "vb"),
        ("poisson", "vb"),
        ("bernoulli", "vb"),
        ("negative_binomial", "vb"),
        ("gaussian", "map"),
        ("poisson", "map"),
        ("bernoulli", "map"),
    ],
)
def test_columns_of_zeros(family, inference):
    X = table(family)
    X[:, [3, 11, 19]] = 0.0
    model = SePCA(5, family=family, inference=inference).fit(X)
    assert_usable(model, X, 2)
    # What never varies follows no component: its predicted values are zero, near enough, in every row.
    fitted = model.inverse_transform(model.transform(X))
    assert np.abs(fitted[:, [3, 11, 19]]).max() < 0.1


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_repeated_columns_with_continuous_noise_are_left_out(family):
    X = table(family)
    X = np.hstack([X, X[:, :1], X[:, :1]])
    model = SePCA(6, family=family).fit(X)
    assert set(model.layout_.left_out) == {20, 21}
    assert_usable(model, X, 2)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_repeated_columns(family):
    """Three copies of a column among twenty others add no more than the direction they stand for."""
    X = table(family)
    X = np.hstack([X, X[:, :1], X[:, :1]])
    model = SePCA(6, family=family).fit(X)
    # Noise that three columns share is a direction of its own, which a model of independent noise may report.
    assert model.n_components_ in (2, 3)
    assert_usable(model, X, model.n_components_)
    copies = model.components_[:, [0, 20, 21]]
    np.testing.assert_allclose(copies, copies[:, :1].repeat(3, axis=1), atol=0.1 * np.abs(copies).max())


@pytest.mark.parametrize("inference", ["vb", "map"])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40)], ids=["tall", "wide"])
def test_more_components_than_the_table_allows(shape, inference):
    X = make_low_rank(*shape, 1, family="poisson", intercept=1.5, signal=1.0, random_state=1).X
    assert_usable(SePCA(100, family="poisson", inference=inference).fit(X), X, 1)


def test_all_at_once():
    X = table("negative_binomial", n=150, missing=0.3)
    X[:, 4] = np.where(np.isnan(X[:, 4]), np.nan, 0.0)
    X = np.hstack([X, X[:, 5:6]])
    model = SePCA(500, family="negative_binomial").fit(X)
    assert_usable(model, X, model.n_components_)
    assert model.n_components_ in (2, 3)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows(n):
    X = np.random.default_rng(0).poisson(3.0, size=(n, 6)).astype(float)
    with warnings.catch_warnings():
        # The one warning that is documented: a likelihood without maximum is approached, not reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SePCA(family="poisson").fit(X)
    assert_usable(model, X, model.n_components_)
    assert model.n_components_ < n


def test_weak_components_of_answers_are_all_found():
    """Pruning under a bound of the expectations takes some of six equal ones away; residuals bring them back."""
    rng = np.random.default_rng(6)
    loadings = np.linalg.qr(rng.normal(size=(60, 6)))[0] * np.sqrt(4.0 * np.sqrt(60 / 200) / 0.25)
    X = rng.random((200, 60)) < 1.0 / (1.0 + np.exp(-rng.normal(size=(200, 6)) @ loadings.T))
    assert SePCA(family="bernoulli").fit(X.astype(float)).n_components_ == 6


def precise_table(family, rank):
    """Components of six times the strength that can be seen, in entries that tell eta to a third of a hundredth."""
    rng = np.random.default_rng(17)
    n, p, information = 120, 25, 1e5
    loadings = rng.normal(size=(p, rank))
    loadings *= np.sqrt(6.0 * np.sqrt(p / n) / information / (loadings**2).sum(axis=0))
    mean = np.exp(rng.normal(size=(n, rank)) @ loadings.T)
    drawn = (
        rng.poisson(information * mean) if family == "poisson" else rng.gamma(information, mean / information)
    )
    return drawn.astype(float)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_precise_entries_keep_their_components(family, rank):
    model = SePCA(family=family).fit(precise_table(family, rank))
    assert model.n_components_ == rank
    if family == "gamma":
        # Below the smallest dispersion that a negative binomial is looked for with; standard error 0.03.
        assert np.median(model.dispersion_) == pytest.approx(1e-5, rel=0.15)


def test_a_smaller_dimension_that_cannot_be_fitted_is_given_up(monkeypatch):
    """Intercepts of answers that a component separates may be too large to start from without it."""

    def refuse(*_, **__):
        raise NonFiniteError("the fit became non-finite")

    X = table("gaussian")
    assert SePCA(5, family="gaussian").fit(X).n_components_ == 2
    monkeypatch.setattr("anypca.models.sepca._dimension._neighbour", refuse)
    monkeypatch.setattr("anypca.models.sepca._dimension.with_direction", lambda *_: None)
    model = SePCA(5, family="gaussian").fit(X)
    assert list(model.evidence_by_rank_) == [2]
