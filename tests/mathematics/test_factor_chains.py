"""Samplers of factors: the Indian buffet without data, and Polya-Gamma weights against the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.draws import generator

from anypca.engine import Table
from anypca.families import Bernoulli, Binomial, Gaussian, NegativeBinomial, Poisson
from anypca.models._bayes.augment import augment, draw_normal
from anypca.models._block_view import BlockView
from anypca.models.isfa._sampler import BuffetSampler, MaskedTable, Settings

pytest.importorskip("polyagamma")


def visit(family: Any, n: int, settings: Settings, n_sweeps: int, rng: np.random.Generator) -> Any:
    """States of a chain on a table of which nothing is observed."""
    table = Table(np.ones((n, 2)), np.zeros((n, 2), dtype=bool))
    rows = BlockView(table, None, None, None, np.ones((n, 0)), 2, np.dtype(float), np.arange(n))
    sampler = BuffetSampler(MaskedTable.of(family, rows, np.ones(2), np.zeros(2), is_turned=False), settings)
    state = sampler.start(rng)
    for _ in range(n_sweeps):
        state = sampler.sweep(state, rng)
        yield state


def assert_mean(values: list[float], expected: float, batch: int) -> None:
    """Assert the mean of a chain within five errors, which are those of batches."""
    batches = np.reshape(values[len(values) % batch :], (-1, batch)).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(len(batches))
    assert abs(batches.mean() - expected) < 5 * error


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()], ids=["exact", "proposals"])
def test_without_data_the_number_of_factors_is_that_of_the_buffet(family: Any) -> None:
    """It is Poisson with mean ``alpha (1 + 1/2 + ... + 1/n)``."""
    states = visit(family, 4, Settings(concentration=1.5), 850, generator("buffet"))
    numbers = [len(state.loadings) for state in states]
    assert_mean(numbers[50:], 1.5 * (1 + 1 / 2 + 1 / 3 + 1 / 4), 32)


def test_without_data_the_finite_sampler_has_the_prior_of_its_shares() -> None:
    """A factor is used by each row with probability ``(a / K) / (1 + a / K)``."""
    settings = Settings(sampler="finite", max_factors=4, concentration=2.0)
    shares = [state.mask.mean() for state in visit(Bernoulli(), 6, settings, 1000, generator("shares"))]
    assert_mean(shares, 1 / 3, 40)


@pytest.mark.parametrize(
    ("family", "phi"), [(Bernoulli(), 1.0), (Binomial(10), 1.0), (NegativeBinomial(), 1 / 3)], ids=str
)
def test_the_augmentation_integrates_to_the_likelihood(
    family: Any, phi: float, rng: np.random.Generator
) -> None:
    """``E exp(kappa psi - omega psi^2 / 2)`` under the weights at psi = 0 is the likelihood up to a constant."""
    x = np.array([[1.0, 0.0]])
    terms = augment(family, x, np.full(2, phi))
    eta = np.linspace(-1, 1, 5)[:, None, None] * np.ones((1, 2))
    weights = terms.draw_weights(np.broadcast_to(-terms.shift, (40_000, 1, 2)), rng)
    psi = eta + terms.shift
    found = [np.log(np.exp(-0.5 * weights * one**2).mean(axis=0)) + terms.kappa * one for one in psi]
    exact = family.evaluate(np.broadcast_to(x, eta.shape), eta, np.full(2, phi), order=0).value
    difference = np.array(found) - exact
    assert_allclose(difference - difference[0], 0.0, atol=0.04)


def test_normal_columns_are_quadratic_on_their_own_scale_and_counts_are_not() -> None:
    x, phi, eta = np.array([[0.5, 2.0, 3.0]]), np.array([0.5, 1.0, 2.0]), np.array([[0.3, -1.0, 2.0]])
    terms = augment(Gaussian(), x, phi)
    assert_allclose(terms.kappa - terms.weight * eta, Gaussian().evaluate(x, eta, phi, order=1).gradient)
    assert augment(Poisson(), x, phi) is None


def test_normal_draws_have_their_moments(rng: np.random.Generator) -> None:
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    draws = draw_normal(np.tile(precision, (50_000, 1, 1)), np.tile([1.0, -1.0], (50_000, 1)), rng)
    covariance = np.linalg.inv(precision)
    assert_allclose(draws.mean(axis=0), covariance @ [1.0, -1.0], atol=0.03)
    assert_allclose(np.cov(draws.T), covariance, atol=0.05)
