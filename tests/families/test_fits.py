"""Fits of special columns: categories, ordered levels, rounded numbers, extra zeros, heavy tails, two parts."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.draws import generator

from anypca import EPCA
from anypca.families import Gaussian, Mixed, Ordinal, RoundedGaussian, StudentT, Tweedie, ZeroInflatedPoisson
from anypca.families.mixed import count_estimated


@functools.cache
def predictors(n=300, p=6):
    """Return linear predictors of one strong component."""
    return np.outer(generator("scores").normal(size=n), np.linspace(0.6, 1.4, p))


def ordered(eta, cuts, rng):
    """Draw answers from 1 on with logistic noise, with the same cut points in all columns."""
    return 1.0 + (eta[..., None] + rng.logistic(size=(*eta.shape, 1)) > np.asarray(cuts)).sum(axis=-1)


# Categories


@pytest.fixture
def categories(rng):
    """Return a table of three measurements and three categories that follow the same scores."""
    score = rng.normal(size=120)
    kinds = np.where(score < -0.5, 3.0, np.where(score < 0.5, 1.0, 8.0))
    return np.column_stack([np.outer(score, [1.0, -1.0, 0.7]) + 0.2 * rng.normal(size=(120, 3)), kinds])


NOMINAL = {3: "nominal", "default": "gaussian"}


def test_categories_come_back_as_one_column(categories):
    model = EPCA(1, family=NOMINAL).fit(categories)
    assert model.layout_.names == ("x0", "x1", "x2", "x3=1", "x3=3|rest")
    holes = categories.copy()
    holes[::4, 3] = np.nan
    filled = model.impute(holes)
    assert set(filled[:, 3]) <= {1.0, 3.0, 8.0}
    assert_array_equal(filled[1::4], categories[1::4])
    assert set(model.sample(200, random_state=0)[:, 3]) <= {1.0, 3.0, 8.0}
    chances = model.class_probabilities(model.transform(categories), 3)
    assert chances.shape == (120, 3)
    assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    # The outer categories, in the order of their values after the first, have scores of different signs.
    is_low, is_high = categories[:, 3] == 3.0, categories[:, 3] == 8.0
    assert (chances[is_low, 1] / chances[is_low, 2]).min() > (chances[is_high, 1] / chances[is_high, 2]).max()
    with pytest.raises(ValueError, match="column 0 is not nominal"):
        model.class_probabilities(model.transform(categories), 0)


def test_new_categories_and_too_many_are_named(categories):
    model = EPCA(1, family=NOMINAL).fit(categories)
    categories[2, 3] = 5.0
    with pytest.raises(ValueError, match="column 'x3' has the value 5"):
        model.transform(categories)
    categories[:, 3] = np.arange(120.0)
    with pytest.raises(ValueError, match=r"column 'x3' has 120 categories.*excluded"):
        EPCA(1, family=NOMINAL).fit(categories)


# Ordered levels


def test_columns_have_levels_of_their_own(rng):
    eta = predictors(100, 3)
    cuts = [(-1.0, 1.0), (-1.5, 0.0, 1.5), (-2.0, -0.7, 0.7, 2.0)]
    numbers = np.column_stack([ordered(eta[:, j], cuts[j], rng) for j in range(3)])
    table = numbers * [1.0, 3.0, 1.0] + [0.0, -3.0, 9.0]
    model = EPCA(1, family="ordinal").fit(table)
    assert model.family_.levels == ((1.0, 2.0, 3.0), (0.0, 3.0, 6.0, 9.0), (10.0, 11.0, 12.0, 13.0, 14.0))
    drawn = model.sample(50, random_state=0)
    means = model.inverse_transform(model.transform(table))
    for j, levels in enumerate(model.family_.levels):
        assert set(drawn[:, j]) <= set(levels)
        assert levels[0] <= means[:, j].min() <= means[:, j].max() <= levels[-1]
    table[2, 1] = np.nan
    assert np.isfinite(model.transform(table)).all()
    table[1, 0] = 4.0
    with pytest.raises(ValueError, match=r"X\[1, 0\]"):
        model.transform(table)


@pytest.mark.parametrize(("shift", "message"), [(0.0, "at most 30 levels"), (0.5, "whole numbers")])
def test_numbers_that_are_no_levels_are_refused(shift, message):
    with pytest.raises(ValueError, match=message):
        EPCA(1, family="ordinal").fit(np.arange(120.0).reshape(40, 3) + shift)


def test_cut_points_widen_with_the_components_and_are_near_the_truth(rng):
    """The component adds variance, so the cut points of the margin are too narrow."""
    table = ordered(3.0 * predictors(), (-2.0, 0.0, 2.0), rng)
    margin, fitted = (EPCA(k, family="ordinal").fit(table).family_.cuts for k in (0, 1))
    wider = np.ptp(fitted, axis=1) / np.ptp(margin, axis=1)
    assert np.median(wider) > 1.2
    given = Ordinal(cuts=((-2.0, 0.0, 2.0),) * 6, levels=((1, 2, 3, 4),) * 6)
    assert EPCA(1, family=given).fit(table).family_ == given


def test_answers_beside_measurements(rng):
    table = ordered(2.0 * predictors(), (-1.0, 1.0), rng)
    table = np.column_stack([table, predictors()[:, 0] + 0.3 * rng.normal(size=len(table))])
    model = EPCA(1, family={"default": "ordinal", 6: "gaussian"}).fit(table)
    assert model.family_.take(slice(6, 7)) == Gaussian()
    assert len(model.family_.take(slice(0, 6)).cuts) == 6
    # The first component is the one that made the table.
    assert abs(np.corrcoef(model.transform(table)[:, 0], predictors()[:, 0])[0, 1]) > 0.8


# Numbers recorded in steps


def rounded(rng, spread, steps=1.0):
    """Draw a table of one component with noise, recorded in steps."""
    return steps * np.round(3.0 * predictors() + spread * rng.normal(size=predictors().shape))


def test_noise_below_half_a_step_is_found(rng):
    model = EPCA(1, family="rounded_gaussian", tol=1e-8).fit(rounded(rng, 0.3))
    assert 0.05 < np.median(model.dispersion_) < 0.14
    # No noise is estimated below a tenth of a step.
    exact = EPCA(1, family="rounded_gaussian").fit(rounded(rng, 0.0, steps=0.1))
    assert (exact.dispersion_ >= 0.99e-4).all()
    assert np.isfinite(exact.score(rounded(rng, 0.0, steps=0.1)))


def test_steps_and_units_belong_to_columns(rng):
    X, steps = rounded(rng, 0.3)[:, :4], np.array([1.0, 0.5, 10.0, 1.0])
    family = ["rounded_gaussian"] * 3 + ["gaussian"]
    model = EPCA(1, family=family).fit(X * steps)
    assert_array_equal(model.resolution_[:3], steps[:3])
    assert_array_equal(model.family_.members[0].step, steps[:3])
    given = EPCA(1, family=family, resolution={1: 0.25}).fit(X * steps)
    assert given.family_.members[0].step == (1.0, 0.25, 10.0)
    assert EPCA(1, family=RoundedGaussian(step=2.0)).fit(X).family_ == RoundedGaussian(step=2.0)
    one, other = (EPCA(1, family="rounded_gaussian", tol=1e-9).fit(factor * X) for factor in (1.0, 0.25))
    assert_allclose(other.dispersion_, one.dispersion_ / 16.0, rtol=1e-3)
    assert_allclose(other.explained_deviance_ratio_, one.explained_deviance_ratio_, rtol=1e-4)


# Shapes of columns


@pytest.mark.parametrize("kind", ["zero_inflated_poisson", "zero_inflated_negative_binomial"])
def test_shares_of_extra_zeros_are_found(kind, rng):
    share = np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.5])
    counts = rng.poisson(np.exp(2.0 + 0.5 * predictors()))
    X = np.where(rng.random(counts.shape) < share, 0.0, counts)
    model = EPCA(1, family=kind).fit(X)
    # Six standard errors of a share, and what few zeros of the counts themselves may add.
    assert_allclose(model.family_.share, share, atol=6 * 0.5 / np.sqrt(300) + 0.03)
    assert min(model.family_.share[3:]) > max(model.family_.share[:3])
    given = EPCA(1, family=ZeroInflatedPoisson(share=0.2)).fit(X)
    assert given.family_ == ZeroInflatedPoisson(share=0.2)


def test_degrees_of_freedom_are_found(rng):
    noise = np.column_stack([rng.standard_t(2.5, (300, 3)), rng.normal(size=(300, 3))])
    model = EPCA(1, family="student_t").fit(4.0 * predictors() + noise)
    df = np.array(model.family_.df)
    assert df[:3].max() < df[3:].min()
    picked = model.family_.take(np.array([4, 0]))
    assert picked.df == (model.family_.df[4], model.family_.df[0])
    assert EPCA(1, family=StudentT(df=3.0)).fit(noise).family_.df == (3.0,)
    assert count_estimated(model.family_, 6) == 6
    assert count_estimated(Mixed((model.family_, Gaussian()), (0,) * 6 + (1,)), 7) == 6


def test_powers_are_found(rng):
    eta = 1.0 + predictors()
    X = np.column_stack([Tweedie(power=p).sample(eta[:, :3], 0.4, rng) for p in (1.2, 1.8)])
    power = np.array(EPCA(1, family="tweedie").fit(X).family_.power)
    assert power[:3].max() < power[3:].min()
    assert EPCA(1, family=Tweedie(power=1.3)).fit(X).family_.power == (1.3,)


@pytest.mark.parametrize(
    "name", ["hurdle_poisson", "hurdle_negative_binomial", "zero_inflated_gamma", "zero_inflated_log_normal"]
)
def test_zeros_and_amounts_are_two_columns_of_the_model(name, rng):
    amounts = rng.poisson(np.exp(1.0 + 0.5 * predictors())) + 1.0
    X = np.where(rng.random(amounts.shape) < 0.3, 0.0, amounts)
    X[4, 2] = np.nan
    model = EPCA(1, family=name).fit(X)
    assert len(model.layout_.names) == 12
    assert model.components_.shape == (1, 12)
    means = model.inverse_transform(model.transform(X))
    assert means.shape == X.shape
    assert (means > 0).all()
    filled = model.impute(X)
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert np.isfinite(filled).all()
    drawn = model.sample(60, random_state=0)
    assert (drawn == 0).any()
    assert (drawn >= 0).all()
