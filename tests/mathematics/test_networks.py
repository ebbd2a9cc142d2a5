"""Nets: their values against scikit-learn's, and derivatives of nets and of objectives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import Bernoulli, Gamma, Gaussian, NegativeBinomial, Poisson, combine
from anypca.models._bayes.points import collect_rows
from anypca.models._context import open_context
from anypca.models._network import ACTIVATIONS, Network, glorot
from anypca.models.autoencoder._problem import Scaling, SquaredError, split
from anypca.models.vae._start import linear_start, make_skip, null_inputs
from anypca.solvers.adam import Adam


def shaken(made: Any, rng: np.random.Generator, size: float = 0.2) -> Any:
    return made.with_vector(made.vector + size * rng.standard_normal(made.vector.size))


def net(activation: str, rng: np.random.Generator) -> Network:
    return shaken(glorot([4, 5, 3], [activation, "identity"], rng), rng)


def skip(rng: np.random.Generator, hidden: tuple[int, ...] = (5, 3)) -> Network:
    return shaken(make_skip(rng.standard_normal((4, 2)), rng.standard_normal(2), hidden, "tanh", rng), rng)


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_values_are_those_of_scikit_learn(activation: str, rng: np.random.Generator) -> None:
    X = rng.standard_normal((7, 4))
    model = MLPRegressor(hidden_layer_sizes=(5,), activation=activation, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, rng.standard_normal((7, 3)))
    parts = [part for pair in zip(model.coefs_, model.intercepts_, strict=True) for part in pair]
    ours = net(activation, rng).with_vector(np.concatenate([part.ravel() for part in parts]))
    assert_allclose(ours(X), model.predict(X), rtol=1e-10)


@pytest.mark.parametrize("kind", [*ACTIVATIONS, (), (5,), (5, 3)], ids=str)
def test_derivatives_are_differences(kind: Any, rng: np.random.Generator) -> None:
    """In the parameters and in the input, of plain nets and of those that also see the input directly."""
    X = rng.standard_normal((7, 4))
    is_plain = isinstance(kind, str)
    made: Any = net(kind, rng) if is_plain else skip(rng, kind)
    weights = rng.standard_normal(made(X).shape)

    def slopes(made: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return made.backward(made.forward(X), weights)

    def value(vector: np.ndarray) -> float:
        return float(np.vdot(weights, made.with_vector(vector)(X)))

    # A kink of relu within a step of a point leaves an error of a step's size.
    step, tolerance = 1e-7, 1e-4
    found = check_grad(value, lambda v: slopes(made.with_vector(v), X)[0], made.vector, epsilon=step)
    assert found < tolerance
    below = check_grad(
        lambda x: float(np.vdot(weights, made(x.reshape(X.shape)))),
        lambda x: slopes(made, x.reshape(X.shape))[1].ravel(),
        X.ravel(),
        epsilon=step,
    )
    assert below < tolerance
    if not is_plain:
        jacobian = made.features(X)[1] @ made.layers[-1].weights
        assert_allclose(np.einsum("nap,np->na", jacobian, weights), slopes(made, X)[1], atol=1e-10)
        values, single = made.at(X, np.array([0, 3, 3]), np.array([1, 0, 1]))
        assert_allclose(values, made(X)[[0, 3, 3], [1, 0, 1]], rtol=1e-10)
        assert_allclose(single, jacobian[[0, 3, 3], :, [1, 0, 1]], rtol=1e-10)
        rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        assert_allclose(made.in_coordinates(rotation)(X @ rotation), made(X), atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_the_squared_error_is_its_difference(
    weighted: bool, rng: np.random.Generator
) -> None:
    X = rng.standard_normal((60, 6))
    layers = glorot([6, 5, 2, 5, 6], ["tanh", "identity", "tanh", "identity"], rng)
    made = shaken(split(layers, 2), rng, 0.1)
    weight = np.linspace(0.5, 2.0, 60) if weighted else None
    with open_context(check_data(X, sample_weight=weight, block_rows=25), n_jobs=1) as session:
        problem = SquaredError(session, Scaling(np.zeros(6), np.ones(6)), made, 0.3, 0.2)
        found = check_grad(
            lambda v: problem.value_and_gradient(v)[0],
            lambda v: problem.value_and_gradient(v)[1],
            made.vector,
        )
    assert found < 1e-4


MIXED = combine([Gaussian(), Poisson(), Bernoulli(), NegativeBinomial(), Gamma(), Gaussian()])


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), MIXED], ids=str)
def test_the_gradient_of_the_variational_bound_is_its_difference(
    family: Any, rng: np.random.Generator
) -> None:
    X = make_low_rank(12, 6, 2, family=family, signal=0.8, dispersion=0.3, missing=0.2, random_state=rng).X
    companions = {"sample_weight": np.linspace(0.5, 2.0, 12), "offset": np.linspace(-0.2, 0.2, 12)}
    with open_context(check_data(X, **companions), n_jobs=1) as session:
        rows = collect_rows(session, fit_intercept=False)
        model = linear_start(null_inputs(session, family, rows), rows, 2, (3,), "tanh", rng)
    model = shaken(model, rng, 0.05)
    noise = rng.standard_normal((12, 2))

    def value(vector: np.ndarray) -> float:
        return float(rows.weights @ model.with_vector(vector).bound(rows, noise[None]))

    def slope(vector: np.ndarray) -> np.ndarray:
        return np.asarray(model.with_vector(vector).gradient(rows, noise))

    scale = np.linalg.norm(slope(model.vector))
    assert check_grad(value, slope, model.vector) < 1e-4 * max(scale, 1.0)


def test_adam_is_the_published_one() -> None:
    adam = Adam.start(0.1, 2)
    for gradient in ([1.0, -2.0], [0.5, 1.0]):
        adam = adam.after(np.array(gradient))
    mean = 0.9 * 0.1 * np.array([1.0, -2.0]) + 0.1 * np.array([0.5, 1.0])
    square = 0.999 * 0.001 * np.array([1.0, 4.0]) + 0.001 * np.array([0.25, 1.0])
    expected = 0.1 * (mean / (1 - 0.9**2)) / (np.sqrt(square / (1 - 0.999**2)) + 1e-8)
    assert_allclose(adam.step, expected, rtol=1e-12)
