"""Residuals, thresholds and splits behind the methods for the number of components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest
from tests.draws import generator

from anypca.families import (
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
    families,
)
from anypca.selection._residuals import RESIDUALS, leverages
from anypca.selection.biwhitening import noise_variances, scaled_to_ones
from anypca.selection.spectra import _best_threshold, _corner_losses, _median_marchenko_pastur, eigenvalues
from anypca.selection.thinning import split_columns


@pytest.mark.parametrize(
    "family", [family for name in families for family in families[name].examples()], ids=str
)
def test_quantile_residuals_are_normal_under_the_model(family, rng):
    phi = 1.0 if family.fixed_dispersion is None else family.fixed_dispersion
    eta = np.full((400, 3), 0.3)
    found = RESIDUALS["quantile"](family, family.sample(eta, phi, rng), eta, phi, rng)
    # Ninety families: one in 10 000 runs of each.
    assert kstest(found.ravel(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("kind", RESIDUALS)
@pytest.mark.parametrize(
    "family",
    [Poisson(), NegativeBinomial(), Gamma(), Exponential(), StudentT(), Binomial(9), Gaussian()],
    ids=str,
)
def test_residuals_rise_with_the_entries(family, kind, rng):
    x = np.arange(1.0, 9.0)[:, None]
    eta = np.zeros_like(x) + (0.5 if family.link_kind != "identity" else 4.0)
    found = RESIDUALS[kind](family, x, eta, 0.5, rng)[:, 0]
    # Scores of heavy tails fall again far out; their quantiles and deviances do not.
    assert (np.diff(found) > 0).all() or (kind == "pearson" and isinstance(family, StudentT))
    # Quantiles of discrete entries are drawn within their steps.
    assert kind == "quantile" or found[0] < 0 < found[-1]


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_the_threshold_for_white_noise_is_that_of_the_paper(beta):
    root = np.sqrt(beta**2 + 14 * beta + 1)
    best = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + root))
    # The authors' cubic approximation is right to 0.02.
    cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    assert best / np.sqrt(_median_marchenko_pastur(beta)) == pytest.approx(cubic, abs=0.02)


def test_screenot_has_the_threshold_for_white_noise_on_white_noise():
    """Quantiles of the quarter circle, the singular values of large square tables."""
    angle = np.linspace(0.0, np.pi / 2, 200_001)
    mass = (angle + 0.5 * np.sin(2 * angle)) / (np.pi / 2)
    size = 2.0 * np.sin(np.interp((np.arange(2000) + 0.5) / 2000, mass, angle))
    assert _best_threshold(size, 1.0) == pytest.approx(4 / np.sqrt(3), rel=1e-3)


def test_eigenvalues_of_wide_and_tall_tables_are_squared_singular_values(rng):
    X = rng.normal(size=(12, 5))
    for table in (X, X.T):
        expected = np.linalg.svd(X, compute_uv=False) ** 2
        np.testing.assert_allclose(eigenvalues(table), np.r_[expected], rtol=1e-10)


def test_a_corner_is_predicted_from_the_other_three(rng):
    X = rng.normal(size=(9, 7))
    rows, columns, rest, others = np.arange(4), np.arange(3), np.arange(4, 9), np.arange(3, 7)
    for rank, loss in enumerate(_corner_losses(X, rows, rest, columns, others, 2)):
        left, size, right = np.linalg.svd(X[np.ix_(rest, others)])
        inverse = right[:rank].T @ np.diag(1 / size[:rank]) @ left[:, :rank].T
        guess = X[np.ix_(rows, others)] @ inverse @ X[np.ix_(rest, columns)]
        assert loss == pytest.approx(((X[np.ix_(rows, columns)] - guess) ** 2).sum())


def test_rows_and_columns_are_scaled_to_unit_noise(rng):
    variance = rng.gamma(2.0, size=(30, 8))
    scaled = variance * scaled_to_ones(variance)
    np.testing.assert_allclose(scaled.mean(axis=0), 1.0, rtol=1e-3)
    np.testing.assert_allclose(scaled.mean(axis=1), 1.0, rtol=1e-3)


@pytest.mark.parametrize("family", [Poisson(), Binomial(6), NegativeBinomial(4.0), Gamma(3.0)], ids=str)
def test_noise_variances_are_unbiased(family, rng):
    eta, phi = np.full((40000, 1), 0.4), family.fixed_dispersion
    found = noise_variances(family, family.sample(eta, phi, rng), "b")
    expected = family.variance(family.mean(eta[:1]), phi)[0, 0]
    assert abs(found.mean() - expected) < 5 * found.std() / 200


SPLIT = [
    (Poisson(), 1.0),
    (NegativeBinomial(), 0.4),
    (Binomial(10), 1.0),
    (Gamma(), 0.5),
    (Exponential(), 1.0),
    (Gaussian(), 2.0),
]


@pytest.mark.parametrize(("family", "phi"), SPLIT, ids=str)
def test_parts_are_independent_and_follow_their_families(family, phi, rng):
    n = 20_000
    eta = np.full((n, 1), 0.7)
    parts = split_columns(family, family.sample(eta, phi, rng), np.array([phi]), 0.7, rng)
    # Four and a half standard errors.
    assert abs(np.corrcoef(parts.fitted[:, 0], parts.kept[:, 0])[0, 1]) < 4.5 / np.sqrt(n)
    predictor = parts.fitted_family.link(parts.fitted.mean(keepdims=True))
    mean = parts.kept_family.mean(predictor + parts.shift, parts.kept_dispersion)[0, 0]
    spread = parts.kept.std() + parts.fitted.std() * mean / parts.fitted.mean()
    assert abs(parts.kept.mean() - mean) < 4.5 * spread / np.sqrt(n)
    variance = parts.kept_family.variance(np.full((1, 1), mean), parts.kept_dispersion)[0, 0]
    squares = (parts.kept - parts.kept.mean()) ** 2
    assert abs(squares.mean() - variance) < 4.5 * squares.std() / np.sqrt(n) + 0.05 * variance


def test_given_sizes_are_divided(rng):
    x = np.ones((5, 1))
    split = {
        "size": split_columns(NegativeBinomial(3.0), x, np.ones(1) / 3, 0.5, rng).fitted_family.size,
        "shape": split_columns(Gamma(4.0), x, np.ones(1) / 4, 0.5, rng).fitted_family.shape,
        "variance": split_columns(Gaussian(2.0), x, np.full(1, 2.0), 0.5, rng).fitted_family.noise_variance,
    }
    assert split == {"size": 1.5, "shape": 2.0, "variance": 4.0}


def test_leverages_are_those_of_the_hat_matrix():
    rng = generator("hat")
    scores, fixed = rng.normal(size=(30, 2)), np.ones((30, 1))
    features = np.hstack([fixed, scores])
    hat = features @ np.linalg.pinv(features)
    own, following = leverages(fixed, scores, 0.9)
    np.testing.assert_allclose(own, np.minimum(np.diag(hat), 0.9))
    np.testing.assert_allclose(following[:-1], np.diag(hat, 1), atol=1e-12)
