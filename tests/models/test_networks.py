"""Nets: their values against scikit-learn's, their derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from anypca.models._network import ACTIVATIONS, Network, check_hidden, glorot
from anypca.models.vae._skip import make_skip

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 4))


def net(activation):
    made = glorot([4, 5, 3], [activation, "identity"], np.random.default_rng(1))
    vector = made.vector + 0.1 * np.random.default_rng(2).standard_normal(made.n_parameters)
    return made.with_vector(vector)


def skip(hidden=(5, 3)):
    rng = np.random.default_rng(3)
    made = make_skip(rng.standard_normal((4, 2)), rng.standard_normal(2), hidden, "tanh", rng)
    return made.with_vector(made.vector + 0.3 * rng.standard_normal(made.n_parameters))


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_values_are_those_of_scikit_learn(activation):
    model = MLPRegressor(hidden_layer_sizes=(5,), activation=activation, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="iterations"):
        model.fit(X, RNG.standard_normal((7, 3)))
    parts = [part for pair in zip(model.coefs_, model.intercepts_, strict=True) for part in pair]
    ours = net(activation).with_vector(np.concatenate([part.ravel() for part in parts]))
    assert_allclose(ours(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_derivatives_are_differences(activation):
    made, weights = net(activation), RNG.standard_normal((7, 3))

    def value(vector):
        return float(np.vdot(weights, made.with_vector(vector)(X)))

    def slope(vector):
        moved = made.with_vector(vector)
        return moved.backward(X, moved.forward(X), weights)[0]

    assert check_grad(value, slope, made.vector) < 1e-5
    # relu has kinks, none of them within a step of these points.
    assert (
        check_grad(
            lambda x: float(np.vdot(weights, made(x.reshape(X.shape)))),
            lambda x: made.backward(x.reshape(X.shape), made.forward(x.reshape(X.shape)), weights)[1].ravel(),
            X.ravel(),
        )
        < 1e-5
    )


@pytest.mark.parametrize("hidden", [(), (5,), (5, 3)], ids=str)
def test_derivatives_past_the_hidden_layers(hidden):
    made, weights = skip(hidden), RNG.standard_normal((7, 2))

    def value(vector):
        return float(np.vdot(weights, made.with_vector(vector)(X)))

    def slope(vector):
        moved = made.with_vector(vector)
        return moved.backward(X, moved.forward(X)[1], weights)[0]

    assert check_grad(value, slope, made.vector) < 1e-5
    below = made.backward(X, made.forward(X)[1], weights)[1]
    features, tangents = made.tangents(X)
    assert_allclose(features @ made.weights + made.bias, made(X), rtol=1e-12)
    jacobian = tangents @ made.weights
    assert_allclose(np.einsum("nap,np->na", jacobian, weights), below, atol=1e-12)
    step = 1e-6
    for a in range(4):
        difference = (made(X + step * np.eye(4)[a]) - made(X - step * np.eye(4)[a])) / (2 * step)
        assert_allclose(jacobian[:, a], difference, atol=1e-8)


def test_single_entries_of_values_and_slopes():
    made = skip()
    index, columns = np.array([0, 3, 3]), np.array([1, 0, 1])
    values, slopes = made.at(X, index, columns)
    assert_allclose(values, made(X)[index, columns], rtol=1e-12)
    jacobian = made.tangents(X)[1] @ made.weights
    assert_allclose(slopes, jacobian[index, :, columns], rtol=1e-12)


def test_turned_coordinates_give_the_same_values():
    rotation = np.linalg.qr(RNG.standard_normal((4, 4)))[0]
    assert_allclose(skip().in_coordinates(rotation)(X @ rotation), skip()(X), atol=1e-12)


def test_a_net_without_layers_passes_on_what_comes_in():
    assert_array_equal(Network(())(X), X)
    assert Network(()).n_parameters == 0


def test_a_vector_of_parameters_makes_the_same_net():
    for made in (net("relu"), skip()):
        assert made.vector.size == made.n_parameters
        assert_array_equal(made.with_vector(made.vector)(X), made(X))


@pytest.mark.parametrize(
    ("given", "expected"), [(8, (8,)), ((16, 8), (16, 8)), ([3], (3,)), ((), ()), (np.array([4, 2]), (4, 2))]
)
def test_hidden_sizes_are_numbers_or_several(given, expected):
    assert check_hidden(given) == expected


@pytest.mark.parametrize("given", [0, (8, 0), (2.5,), True, "8", None, (8, "a")], ids=str)
def test_hidden_sizes_that_are_none(given):
    with pytest.raises(ValueError, match=r"hidden_layer_sizes must hold positive integers.*as in \(8,\)"):
        check_hidden(given)
