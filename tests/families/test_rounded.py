"""Whole numbers and lattices whose noise is below half a step."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca import EPCA, SePCA
from anypca.families import Gaussian, RoundedGaussian
from anypca.special import truncated_normal


def rounded_table(spread, step=1.0, seed=0, n_rows=200, n_columns=12):
    """A table of rank 2 with some noise, recorded in steps, and its mean."""
    rng = np.random.default_rng(seed)
    scores, loadings = rng.normal(size=(n_rows, 2)), 1.5 * rng.normal(size=(2, n_columns))
    mean = scores @ loadings + 3.0 * rng.normal(size=n_columns)
    noisy = mean + spread * rng.normal(size=mean.shape)
    return step * np.round(noisy), step * mean


@pytest.mark.parametrize("spread", [1e-3, 0.02, 0.1, 0.3, 1.0, 3.0, 150.0])
@pytest.mark.parametrize("gap", [0.0, 0.2, 0.5, 0.8, 3.0, 12.0])
def test_terms_are_those_of_truncated_normals(spread, gap):
    x, eta = np.array([gap, -gap]), np.zeros(2)
    family = RoundedGaussian()
    found = family.evaluate(x, eta, spread**2)
    expected = truncated_normal((x - 0.5) / spread, (x + 0.5) / spread)
    curvature = family.observed_curvature(x, eta, found, spread**2)
    size = 1.0 + np.abs(x) / spread
    assert_allclose(found.value, expected.log_mass, rtol=1e-9, atol=1e-9)
    assert_allclose(found.gradient, expected.mean / spread, rtol=1e-9, atol=1e-9 * size.max() / spread)
    assert_allclose(curvature, (1.0 - expected.variance) / spread**2, rtol=1e-5, atol=1e-8 / spread**2)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("eta", [0.0, 0.25, 0.5])
def test_masses_of_a_lattice_sum_to_one(spread, eta):
    x = 0.5 * np.arange(-40.0, 41.0)
    mass = RoundedGaussian(step=0.5).log_mass(x, np.full_like(x, eta), spread**2, 0.5)
    assert np.exp(mass).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("spread", [2.0, 20.0, 300.0])
def test_wide_noise_is_gaussian(spread):
    x, eta = np.round(spread * np.linspace(-3, 3, 61)), np.full(61, 0.2)
    rounded = RoundedGaussian().log_mass(x, eta, spread**2, 1.0)
    assert_allclose(rounded, Gaussian().log_mass(x, eta, spread**2 + 1.0 / 12.0, 1.0), atol=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_below_half_a_step(seed):
    X, mean = rounded_table(0.3, seed=seed)
    rounded, plain = (SePCA(family=family).fit(X) for family in ("rounded_gaussian", "gaussian"))
    assert rounded.n_components_ == plain.n_components_ == 2
    assert rounded.evidence_ >= plain.evidence_
    assert_allclose(rounded.dispersion_, 0.09, rtol=0.3)
    errors = [np.std(model.inverse_transform(model.transform(X)) - mean) for model in (rounded, plain)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("model", [EPCA(2), SePCA(3)], ids=lambda model: type(model).__name__)
def test_noise_has_a_floor(model):
    """Of a tenth of a step, also where there is none before rounding."""
    X, _ = rounded_table(0.0, step=0.1)
    model.set_params(family="rounded_gaussian").fit(X)
    assert (model.dispersion_ >= 0.99e-4).all()
    assert (model.dispersion_ < 5e-4).all()
    assert np.isfinite(model.score(X))


def test_units_drop_out():
    X, _ = rounded_table(0.3)
    one, other = (SePCA(2, family="rounded_gaussian").fit(factor * X) for factor in (1.0, 0.25))
    assert_allclose(other.dispersion_, one.dispersion_ / 16.0, rtol=1e-3)
    assert one.evidence_ == pytest.approx(other.evidence_, abs=0.1)


def test_steps_are_those_of_the_columns():
    X, _ = rounded_table(0.3, n_columns=4)
    X = X * np.array([1.0, 0.5, 10.0, 1.0])
    family = ["rounded_gaussian", "rounded_gaussian", "rounded_gaussian", "gaussian"]
    found = EPCA(1, family=family).fit(X)
    assert_array_equal(found.family_.members[0].step, [1.0, 0.5, 10.0])
    assert_array_equal(found.resolution_[:3], [1.0, 0.5, 10.0])
    assert found.family_.count_estimated(4) == 0
    given = EPCA(1, family=family, resolution={1: 0.25}).fit(X)
    assert given.family_.members[0].step == (1.0, 0.25, 10.0)
    told = EPCA(1, family=RoundedGaussian(step=2.0)).fit(X)
    assert told.family_ == RoundedGaussian(step=2.0)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, (1.0, 0.0)], ids=str)
def test_wrong_steps(value):
    with pytest.raises(ValueError, match="step > 0 and finite; got step="):
        RoundedGaussian(step=value)
