"""Infinite sparse factor analysis: the buffet, its conditionals, and what its users see."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from anypca import ISFA
from anypca.datasets import make_low_rank, make_prototype_bits
from anypca.engine import Table
from anypca.exceptions import ConvergenceWarning
from anypca.families import Bernoulli, Gaussian, Poisson
from anypca.families.mixed import Mixed
from anypca.models._opened import OpenedBlock
from anypca.models.isfa._report import Draw, match_draws, most_frequent, pad
from anypca.models.isfa._row_model import MaskedRowModel
from anypca.models.isfa._sampler import BuffetSampler, Settings, State
from anypca.models.isfa._table import MaskedTable

pytest.importorskip("nutpie")
pytest.importorskip("arviz")
pytest.importorskip("polyagamma")


def make_table(x, family=None, dispersion=1.0, *, observed=None, is_turned=False, offset=0.0):
    family = Bernoulli() if family is None else family
    n, p = x.shape
    rows = OpenedBlock(
        Table(x, observed), None, None, None, np.ones((n, 0)), p, np.dtype(float), np.arange(n)
    )
    return MaskedTable.of(family, rows, np.full(p, dispersion), np.full(p, offset), is_turned=is_turned)


def visit(table, settings, n_sweeps, seed=0):
    """States of a chain."""
    sampler, rng = BuffetSampler(table, settings), np.random.default_rng(seed)
    state = sampler.start(rng)
    for _ in range(n_sweeps):
        state = sampler.sweep(state, rng)
        yield state


@pytest.mark.parametrize(
    ("family", "n"),
    [(Bernoulli(), 12), (Bernoulli(), 6), (Poisson(), 6)],
    ids=["bits-12", "bits-6", "counts-6"],
)
def test_without_data_the_number_of_factors_is_that_of_the_buffet(family, n):
    """K is Poisson with mean ``alpha (1 + 1/2 + ... + 1/n)``; the error is that of batches of 25 sweeps."""
    table = make_table(np.ones((n, 2)), family, observed=np.zeros((n, 2), dtype=bool))
    numbers = [len(state.loadings) for state in visit(table, Settings(concentration=1.5), 1600, seed=4)]
    batches = np.reshape(numbers[100:], (-1, 25)).mean(axis=1)
    error = batches.std() / np.sqrt(len(batches))
    assert abs(batches.mean() - 1.5 * (1 / np.arange(1, n + 1)).sum()) < 3 * error


def test_without_data_the_finite_sampler_has_the_prior_of_its_shares():
    """A factor is used by each row with probability ``(a / K) / (1 + a / K)``."""
    table = make_table(np.ones((8, 2)), observed=np.zeros((8, 2), dtype=bool))
    settings = Settings(sampler="finite", max_factors=4, concentration=2.0)
    shares = [state.mask.mean() for state in visit(table, settings, 1200, seed=1)]
    batches = np.reshape(shares, (-1, 40)).mean(axis=1)
    assert abs(batches.mean() - 1 / 3) < 4 * batches.std() / np.sqrt(len(batches))


def test_shares_too_small_to_hold_have_a_logarithm():
    """Gamma variables of shape 1e-4 are mostly 0 in double precision."""
    table = make_table(np.ones((8, 2)), observed=np.zeros((8, 2), dtype=bool))
    sampler = BuffetSampler(table, Settings(sampler="finite", max_factors=4))
    empty = replace(
        sampler.start(np.random.default_rng(0)), mask=np.zeros((8, 4), dtype=bool), concentration=4e-4
    )
    state, odds = sampler._draw_shares(empty, np.random.default_rng(1))
    assert np.isfinite(odds).all()
    assert state.concentration > 0


@pytest.mark.parametrize("is_turned", [False, True], ids=["scores", "loadings"])
@pytest.mark.parametrize(
    ("family", "phi", "is_exact"),
    [(Bernoulli(), 1.0, True), (Gaussian(), 0.5, True), (Bernoulli(), 1.0, False)],
    ids=["bernoulli", "gaussian", "proposals"],
)
def test_sweeps_that_alternate_with_new_tables_keep_the_prior(family, phi, is_exact, is_turned):
    """Geweke, with the finite sampler: shares, sizes of factors and precisions stay as the prior has them.

    Without its augmentation a table of bits is drawn by proposals, as one of any other family.
    """
    settings = Settings(sampler="finite", max_factors=2, concentration=1.5)
    rng = np.random.default_rng(5)
    before, after = [], []
    for _ in range(350):
        state = _draw_prior(make_table(np.ones((4, 3)), family, phi, is_turned=is_turned), settings, rng)
        before.append(_facts(state))
        for _ in range(2):
            table = make_table(np.ones((4, 3)), family, phi, is_turned=is_turned)
            eta = table.turn(state.active @ state.loadings)
            x = family.sample(eta, table.dispersion, rng)
            table = make_table(x, family, phi, is_turned=is_turned)
            table = table if is_exact else replace(table, augmentation=None)
            state = BuffetSampler(table, settings).sweep(state, rng)
        after.append(_facts(state))
    a, b = np.array(before), np.array(after)
    z = (a.mean(axis=0) - b.mean(axis=0)) / np.sqrt((a.var(axis=0) + b.var(axis=0)) / len(a))
    assert np.abs(z).max() < 4


def _draw_prior(table, settings, rng):
    (n, d), k = table.shape, settings.max_factors
    by_row, by_column = table.variances
    tau = rng.gamma(1.0, 1 / 4.0) + 1e-12
    mask = rng.random((n, k)) < rng.beta(settings.concentration / k, 1.0, k)
    values = rng.standard_normal((n, k)) * np.sqrt(by_row)[:, None]
    loadings = rng.standard_normal((k, d)) * np.sqrt(by_column / tau)
    return State(mask, values, loadings, tau, settings.concentration)


def _facts(state):
    """Bounded functions of a state, whose means settle soon."""
    parts = [state.mask, np.tanh(state.active), np.tanh(state.values) ** 2, np.tanh(0.2 * state.loadings)]
    squares = np.tanh(0.2 * np.abs(state.loadings)).mean()
    return [*(float(part.mean()) for part in parts), squares, np.log(state.precision)]


def test_the_quadratic_of_a_table_is_its_likelihood_turned_or_not():
    rng = np.random.default_rng(0)
    x = rng.poisson(2.0, (5, 3)).astype(float)
    eta = rng.normal(0, 0.3, (3, 5))
    observed = rng.random((5, 3)) < 0.8
    turned = make_table(x, Poisson(), observed=observed, is_turned=True, offset=0.4)
    plain = make_table(x, Poisson(), observed=observed, offset=0.4)
    assert turned.shape == plain.shape[::-1] == (3, 5)
    assert_allclose(turned.evaluate(eta, 0).value, plain.evaluate(eta.T, 0).value.T)
    assert_allclose(turned.row_value(1, eta[1]), turned.evaluate(eta, 0).value[1].sum())
    assert_allclose(plain.row_value(2, eta.T[2]), plain.evaluate(eta.T, 0).value[2].sum())
    weight, linear = plain.expand(eta.T)
    step = 1e-4
    up, down = (plain.evaluate(eta.T + side * step, 0).value for side in (1, -1))
    assert_allclose(linear - weight * eta.T, (up - down) / (2 * step), atol=1e-7)
    assert turned.draw_quadratic(eta, rng) is None


def test_columns_of_several_families_keep_their_units():
    family = Mixed((Gaussian(), Bernoulli()), (0, 0, 1))
    table = make_table(np.ones((4, 3)), family, 9.0)
    assert_array_equal(table.variances[1], [9.0, 9.0, 1.0])
    assert_array_equal(make_table(np.ones((4, 3)), family, 9.0, is_turned=True).variances[0], [9.0, 9.0, 1.0])


def test_draws_are_matched_by_their_parts_of_the_predictor():
    rng = np.random.default_rng(0)
    scores, loadings = rng.normal(size=(20, 3)), rng.normal(size=(6, 3)) * [3.0, 2.0, 0.1]
    used = np.array([True, True, False])
    best = Draw(scores, loadings, used, np.array([0.5, 0.5, 0.05]), 1.0)
    order = [2, 1, 0]
    other = Draw(-scores[:, order], -loadings[:, order], used[order], best.shares[order], 1.0)
    fewer = Draw(scores[:, :1], loadings[:, :1], used[:1], best.shares[:1], 1.0)
    picks = match_draws([fewer, best, other], np.array([9.0, 2.0, 1.0]), 2)
    assert picks.shape == (3, 2, 3)
    found = [pad(draw.loadings, 3) @ pick.T for draw, pick in zip((fewer, best, other), picks, strict=True)]
    assert_allclose(found[2], found[1])
    assert (np.abs(picks[0]).sum(axis=1) == [1, 0]).all()
    assert (np.max(found[1], axis=0) == np.abs(found[1]).max(axis=0)).all()
    assert most_frequent(np.array([[2, 3], [3, 2], [5, 5]])) == 2


def test_rows_are_integrated_over_masks_and_values():
    """Two factors, eight bits: the sum over masks of integrals by quadrature, against points and weights."""
    rng = np.random.default_rng(1)
    loadings, odds = rng.normal(0, 1.5, (8, 2)), np.array([0.3, -0.7])
    model = MaskedRowModel(
        Bernoulli(), np.ones(8), loadings[None], np.linspace(-0.4, 0.3, 8), odds[None], np.eye(2)[None]
    )
    x = np.array([[1, 0, 1, 1, 0, 0, 1, 0], loadings[:, 0] > 0], dtype=float)
    rows = OpenedBlock(Table(x, None), None, None, None, np.ones((2, 0)), 8, np.dtype(float), np.arange(2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    total, first = np.zeros(2), np.zeros(2)
    for mask in np.ndindex(2, 2):
        prior = np.prod([expit(odds[a] if on else -odds[a]) for a, on in enumerate(mask)])
        v = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1) * mask
        eta = v @ loadings.T + model.intercept
        density = np.prod(np.where(x[:, None, None] == 1, expit(eta), expit(-eta)), axis=-1)
        mass = prior * np.outer(weights, weights) / weights.sum() ** 2
        total += np.einsum("ab,iab->i", mass, density)
        first += np.einsum("ab,iab->i", mass * v[..., 0], density)
    assert_allclose(model.log_likelihood(rows), np.log(total), atol=0.06)
    assert_allclose(model.solve(rows).scores[:, 0], first / total, atol=0.15)


def fit(X, **settings):
    """Short chains, without a word about R-hat, for which they are too short."""
    chosen = {"n_draws": 20, "n_tune": 20, "n_chains": 1, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ISFA(**chosen).fit(X)


@pytest.fixture(scope="module")
def bits():
    return make_prototype_bits(missing=0.1, random_state=12)


@pytest.fixture(scope="module", params=["scores", "loadings"])
def model(request, bits):
    settings = {"family": "bernoulli", "fit_intercept": False, "mask": request.param}
    return fit(bits.X, **settings, n_draws=40, n_tune=60)


def test_bits_are_predicted_nearly_as_by_the_truth(model, bits):
    rows, columns = np.nonzero(np.isnan(bits.X))
    found = model.entry_log_likelihood(bits.X, rows, columns, bits.complete[rows, columns]).mean()
    truth = np.where(bits.complete == 1, bits.mean, 1 - bits.mean)[rows, columns]
    assert found > np.log(truth).mean() - 0.12


def test_numbers_of_factors_are_told_as_they_are(model):
    assert model.n_factors_.shape == model.n_used_.shape == (1, 40)
    assert (model.n_used_ <= model.n_factors_).all()
    assert model.n_components_ == np.bincount(model.n_used_.ravel()).argmax()
    assert model.n_components_ in (2, 3, 4)
    assert_array_equal(model.posterior_.sample_stats["n_used"].values, model.n_used_)


def test_shapes_follow_the_number_of_components(model, bits):
    k = model.n_components_
    assert model.components_.shape == model.components_std_.shape == (k, 16)
    assert model.inclusion_.shape == (k, 120 if model.mask == "scores" else 16)
    assert ((model.inclusion_ >= 0) & (model.inclusion_ <= 1)).all()
    scores, std = model.transform(bits.X, return_std=True)
    assert scores.shape == std.shape == (120, k)
    assert model.inverse_transform(scores).shape == (120, 16)
    assert set(np.unique(model.sample(50, random_state=0))) <= {0.0, 1.0}


def test_masked_loadings_are_zero_where_columns_take_no_part(bits):
    model = fit(bits.X, family="bernoulli", mask="loadings")
    assert_array_equal(model.components_ == 0, model.inclusion_ < 0.5)
    assert model.describe().has_sparse_loadings


@pytest.mark.parametrize("family", ["poisson", "gaussian", "gamma"])
def test_other_families(family):
    drawn = make_low_rank(40, 8, 1, family=family, signal=1.0, missing=0.05, random_state=0)
    model = fit(drawn.X, family=family, n_draws=20, n_tune=20)
    assert model.n_components_ >= 1
    eta = model.entry_posterior(drawn.X, *np.indices(drawn.X.shape).reshape(2, -1))[0]
    assert np.corrcoef(eta, drawn.eta.ravel())[0, 1] > 0.7


def test_the_finite_sampler_has_at_most_its_factors(bits):
    model = fit(bits.X, family="bernoulli", sampler="finite", max_factors=5)
    assert model.n_factors_.max() <= 5


def test_the_same_seed_gives_the_same_draws(bits):
    a, b, c = (fit(bits.X[::4], family="bernoulli", n_draws=10, random_state=s) for s in (3, 3, 4))
    assert_array_equal(a.n_factors_, b.n_factors_)
    assert_array_equal(a.components_, b.components_)
    assert not np.array_equal(a.objective_trace_, c.objective_trace_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_draws": 5}, "n_draws of at least 10"),
        ({"mask": "rows"}, "mask"),
        ({"concentration": 0.0}, "concentration"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message, bits):
    with pytest.raises(ValueError, match=message):
        ISFA(family="bernoulli", **settings).fit(bits.X)
