"""SePCA and dispersions: estimated, given, one per column, and families that a table does not follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.models.sepca_tables import DISPERSION, draw, draw_eta, draw_mixed, fit, hide, orthogonal

from anypca import SePCA
from anypca.families import NegativeBinomial, Poisson, ScaledPoisson


def counts(
    rng: np.random.Generator, mean: float, size: Any = np.inf, n: int = 120, p: int = 20
) -> np.ndarray:
    """Draw counts of one component, over-dispersed by gamma rates of some size."""
    rate = mean * np.exp(0.7 * orthogonal(rng, n, 1) * rng.choice([-1.0, 1.0], p))
    noise = rng.gamma(size, 1.0 / np.asarray(size), (n, p)) if np.isfinite(size).all() else 1.0
    return rng.poisson(rate * noise).astype(float)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "negative_binomial"])
def test_one_dispersion_is_recovered(family: str, rng: np.random.Generator) -> None:
    model = fit(draw(family, rng, 150, 15), family, dispersion="shared")
    assert model.n_components_ == 2
    assert np.ptp(model.dispersion_) == 0.0
    # The standard error of a variance from 2000 cells is 3 %, that of the shape of counts 6 %.
    assert model.dispersion_[0] == pytest.approx(DISPERSION, rel=0.3)


def test_noise_of_the_columns_own_is_recovered(rng: np.random.Generator) -> None:
    variance = np.exp(rng.uniform(np.log(0.1), np.log(10.0), 20))
    X = 2.0 * draw_eta(rng, 200, 20, 2) + np.sqrt(variance) * rng.standard_normal((200, 20))
    model = fit(X, "gaussian")
    assert model.n_components_ == 2
    assert model.dispersion_report_.gain > 50.0
    # Six pseudo-observations pull a column of little noise and much signal up.
    assert np.abs(np.log(model.dispersion_ / variance)).max() < 1.2
    assert np.corrcoef(np.log(model.dispersion_), np.log(variance))[0, 1] > 0.95


def test_over_dispersed_counts_are_no_components(rng: np.random.Generator) -> None:
    X = counts(rng, 5.0, 3.0)
    model = fit(X, "negative_binomial", 5)
    assert model.n_components_ == 1
    np.testing.assert_allclose(model.dispersion_, 1 / 3, rtol=0.4)
    assert fit(X, "poisson", 5, dispersion=1.0).n_components_ > 2


@pytest.mark.parametrize("mean", [12.0, 1.6], ids=["rich", "poor"])
def test_poisson_counts_stay_poisson(mean: float, rng: np.random.Generator) -> None:
    model = fit(counts(rng, mean), "negative_binomial")
    assert isinstance(model.family_, NegativeBinomial)
    assert model.n_components_ == 1
    assert model.dispersion_.max() < 0.1


@pytest.mark.parametrize("family", ["negative_binomial", "poisson"])
def test_under_dispersed_counts_get_a_scale(family: str, rng: np.random.Generator) -> None:
    """Noise of variance 1/4 about means of 33 shows a component that Poisson counts would hide."""
    scores = orthogonal(rng, 120, 2) * [0.3, 0.03]
    mean = np.exp(3.5 + scores @ orthogonal(rng, 20, 2).T)
    X = np.round(mean + 0.5 * rng.standard_normal(mean.shape))
    with pytest.warns(UserWarning, match=f"scaled_poisson.*{family}"):
        model = fit(X, family)
    assert isinstance(model.family_, ScaledPoisson)
    assert model.n_components_ == 2
    assert 0.002 < np.median(model.dispersion_) < 0.05
    if family == "poisson":
        assert fit(X, family, dispersion=1.0).n_components_ == 1


def test_a_mixed_table_has_the_dispersions_of_its_parts(rng: np.random.Generator) -> None:
    X, names = draw_mixed(rng, 200)
    model = fit(hide(X, rng, 0.05), names)
    assert model.n_components_ == 2
    assert model.converged_
    np.testing.assert_allclose(model.dispersion_[:12], DISPERSION, rtol=0.8)
    np.testing.assert_array_equal(model.dispersion_[12:], 1.0)


@pytest.mark.parametrize("inference", ["vb", "map"])
def test_a_number_fixes_open_dispersions(inference: str, rng: np.random.Generator) -> None:
    X, names = draw_mixed(rng)
    model = fit(X, names, inference=inference, dispersion=0.7)
    np.testing.assert_array_equal(model.dispersion_, [0.7] * 12 + [1.0] * 4)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_feature_gives_every_column_a_scale(family: str, rng: np.random.Generator) -> None:
    X = draw(family, rng, 120, 15, 1)
    model = fit(X, family, dispersion="feature")
    assert model.n_components_ == 1
    assert len(np.unique(model.dispersion_)) == 15
    # Poisson counts have scale 1.
    expected = 1.0 if family == "poisson" else DISPERSION
    assert isinstance(model.family_, ScaledPoisson) == (family == "poisson")
    np.testing.assert_allclose(model.dispersion_, expected, rtol=0.8)
    assert not isinstance(model.family_, Poisson)


def test_poisson_counts_of_a_narrow_mixed_table_stay_poisson(rng):
    """Four components take much of the residuals of four columns of counts; that is no under-dispersion."""
    eta = 0.7 * rng.standard_normal((2000, 4)) @ rng.standard_normal((4, 12))
    counts = rng.poisson(np.exp(np.minimum(eta[:, 4:8] + 1.0, 6.0)))
    bits = rng.random((2000, 4)) < 1.0 / (1.0 + np.exp(-eta[:, 8:]))
    table = np.hstack([eta[:, :4] + rng.standard_normal((2000, 4)), counts, bits])
    model = SePCA(family=["gaussian"] * 4 + ["poisson"] * 4 + ["bernoulli"] * 4).fit(table)
    assert "ScaledPoisson" not in repr(model.family_)
