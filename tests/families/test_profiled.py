"""Shapes of columns that fits choose from a grid: degrees of freedom of Student's t, powers of Tweedie."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import EPCA, SePCA
from anypca.families import StudentT, Tweedie, tweedie
from anypca.families._profile import best_on_grid

RNG = np.random.default_rng(0)
SCORES, LOADINGS = RNG.normal(size=(300, 1)), np.linspace(0.6, 1.4, 6)[None]


def refined(family, X, eta, dispersion):
    """One round at given predictors."""
    start = family.adapted(X.min(axis=0), X.max(axis=0), None)
    return start.refined(lambda function: function(X, np.ones_like(X), eta, np.full(X.shape[1], dispersion)))


@pytest.mark.parametrize(("df", "low", "high"), [(2.5, 2.5, 4.0), (8.0, 4.0, 20.0), (np.inf, 12.0, 50.0)])
def test_degrees_of_freedom(df, low, high):
    """Also where the scale that goes with the first guess is wrong by half."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(1000, 6)) if np.isinf(df) else rng.standard_t(df, size=(1000, 6))
    found = refined(StudentT(), noise, np.zeros_like(noise), 1.5)
    assert low <= np.median(found.df) <= high
    assert found.count_estimated(6) == 6


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
def test_powers(power):
    rng = np.random.default_rng(2)
    eta = 1.0 + SCORES @ LOADINGS
    X = Tweedie(power=power).sample(eta, np.full(6, 0.4), rng)
    assert np.mean(np.array(refined(Tweedie(), X, eta, 1.0).power) == power) >= 0.8


@pytest.mark.parametrize("model", [EPCA(1), SePCA(2)], ids=lambda model: type(model).__name__)
def test_fits_choose_and_given_shapes_stay(model):
    rng = np.random.default_rng(3)
    X = SCORES @ LOADINGS * 2.0 + rng.normal(size=(300, 6))
    chosen = model.set_params(family="student_t").fit(X).family_
    assert min(chosen.df) > 4.0
    assert model.set_params(family=StudentT(df=3.0)).fit(X).family_.df == (3.0,)
    assert chosen.take(np.array([4, 0])).df == (chosen.df[4], chosen.df[0])


def test_cut_points_of_a_mode_are_estimated():
    """Those of the margin are too narrow, since the components add variance."""
    rng = np.random.default_rng(4)
    latent = 2.5 * SCORES @ np.ones((1, 6)) + rng.logistic(size=(300, 6))
    X = 1.0 + (latent[:, :, None] > [-2.0, 0.0, 2.0]).sum(axis=2)
    margin = SePCA(0, family="ordinal").fit(X).family_.cuts[0]
    found = SePCA(1, family="ordinal", inference="map", nu=1.0).fit(X).family_.cuts[0]
    assert np.ptp(found) > 1.2 * np.ptp(margin)


def test_the_present_value_is_kept_unless_another_is_better():
    values = np.array([[0.0, 0.3, -1.0], [0.0, 3.0, -1.0]])
    assert best_on_grid(values, np.array([1e6, 1e6]), np.array([0, 0])).tolist() == [0, 1]
    drawn = best_on_grid(np.array([[0.0, -0.2], [-60.0, 0.0]]), np.array([10.0, 90.0]), np.array([0, 1]))
    assert drawn.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: StudentT(df=2.0), "df > 2"), (lambda: Tweedie(power=(1.5, 2.0)), "1 < power < 2")],
)
def test_impossible_shapes(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_few_terms_of_the_series_of_precise_amounts_are_its_sum(monkeypatch):
    """Amounts of small dispersion are sums of up to a million parts, of which a hundred terms tell."""
    rng = np.random.default_rng(0)
    x, phi, power = (
        np.exp(2.0 * rng.normal(size=50)),
        10.0 ** rng.uniform(-5.0, 1.0, 50),
        rng.uniform(1.2, 1.8, 50),
    )
    found = tweedie._series(x, phi, power)
    monkeypatch.setattr(tweedie, "_STRIDES", np.inf)
    np.testing.assert_allclose(found, tweedie._series(x, phi, power), rtol=1e-13)


def test_expectation_of_heavy_tails_is_what_the_bound_and_its_looseness_are():
    family, x = StudentT(df=4.0), np.linspace(-6.0, 6.0, 13)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean, variance, scale = np.zeros_like(x), np.full_like(x, 0.5), 1.5
    values = [family.evaluate(x, mean + node * np.sqrt(0.5), scale, order=0).value for node in nodes]
    integral, bound = weights @ values / weights.sum(), family.expect(x, mean, variance, scale).value
    assert (integral - bound).max() > 0.05
    assert_allclose(bound + family.looseness(x, mean, variance, scale), integral, atol=5e-3)
    assert_allclose(family.looseness(x, mean, mean, scale), 0.0, atol=1e-15)


def test_components_under_heavy_tails():
    """Scores of few columns are uncertain: what the bound loses by that was more than a component gains."""
    rng = np.random.default_rng([0, 4000, 10, 991])
    eta = rng.standard_normal((4000, 3)) @ (0.6 * rng.standard_normal((3, 10)))
    X = eta + rng.standard_t(5, size=(4000, 10)) * np.exp(0.5 * rng.standard_normal(10))
    model = SePCA(family="student_t").fit(X)
    assert model.n_components_ == 3
    assert model.evidence_ > SePCA(family="gaussian").fit(X).evidence_
