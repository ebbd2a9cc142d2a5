"""Feed-forward networks: their values, and derivatives by backpropagation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from anypca._typing import Floats


class Activation(NamedTuple):
    """A function of each unit, and its derivative."""

    value: Callable[[Floats], Floats]
    slope: Callable[[Floats, Floats], Floats]
    """From the input and the value."""


def _elu(z: Floats) -> Floats:
    return np.where(z > 0, z, np.expm1(np.minimum(z, 0.0)))


#: By the names that users write; the first four are scikit-learn's.
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda z: z, lambda z, a: np.ones_like(z)),
    "logistic": Activation(lambda z: expit(z), lambda z, a: a * (1.0 - a)),
    "tanh": Activation(lambda z: np.tanh(z), lambda z, a: 1.0 - a * a),
    "relu": Activation(lambda z: np.maximum(z, 0.0), lambda z, a: (z > 0).astype(z.dtype)),
    "elu": Activation(_elu, lambda z, a: np.where(z > 0, 1.0, a + 1.0)),
    "softplus": Activation(lambda z: np.logaddexp(0.0, z), lambda z, a: expit(z)),
}


class Layer(NamedTuple):
    """An affine map and what follows it."""

    weights: Floats
    """(n_in, n_out)."""
    bias: Floats
    """(n_out,)."""
    activation: str


class Passed(NamedTuple):
    """What the units of a layer took in and gave out, (rows, n_out) each."""

    inputs: Floats
    values: Floats


@dataclass(frozen=True, eq=False)
class Network:
    """Layers one after the other; none at all pass on what comes in."""

    layers: tuple[Layer, ...]

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(layer.weights.size + layer.bias.size for layer in self.layers)

    def forward(self, x: Floats) -> list[Passed]:
        """What passes through each layer, given the input of the first, shape (rows, n_in)."""
        passed: list[Passed] = []
        for layer in self.layers:
            z: Floats = x @ layer.weights + layer.bias
            x = ACTIVATIONS[layer.activation].value(z)
            passed.append(Passed(z, x))
        return passed

    def __call__(self, x: Floats) -> Floats:
        """Output of the last layer, shape (rows, n_out)."""
        return self.forward(x)[-1].values if self.layers else x

    def backward(self, x: Floats, passed: Sequence[Passed], slope: Floats) -> tuple[Floats, Floats]:
        """Derivatives in the parameters, as one vector, and in the input, given that in the output (rows, n_out)."""
        parts: list[Floats] = [np.zeros(0)]
        for number in reversed(range(len(self.layers))):
            layer, (z, a) = self.layers[number], passed[number]
            slope = slope * ACTIVATIONS[layer.activation].slope(z, a)
            below = passed[number - 1].values if number else x
            parts = [(below.T @ slope).ravel(), slope.sum(axis=0), *parts]
            slope = slope @ layer.weights.T
        return np.concatenate(parts), slope

    def tangents(self, x: Floats) -> tuple[Floats, Floats]:
        """Output (rows, n_out), and its derivatives in each input, shape (rows, n_in, n_out)."""
        # Forward mode: there are few latents, hence few tangents.
        tangent: Floats = np.broadcast_to(np.eye(x.shape[1]), (len(x), x.shape[1], x.shape[1]))
        for layer, (z, a) in zip(self.layers, self.forward(x), strict=True):
            tangent = (tangent @ layer.weights) * ACTIVATIONS[layer.activation].slope(z, a)[:, None, :]
            x = a
        return x, tangent

    @property
    def vector(self) -> Floats:
        """All parameters as one vector."""
        parts = [part for layer in self.layers for part in (layer.weights.ravel(), layer.bias)]
        return np.concatenate([np.zeros(0), *parts])

    def with_vector(self, vector: Floats) -> Network:
        """The same layers with other parameters."""
        layers, position = [], 0
        for layer in self.layers:
            n_in, n_out = layer.weights.shape
            middle = position + n_in * n_out
            weights = vector[position:middle].reshape(n_in, n_out)
            position = middle + n_out
            layers.append(Layer(weights, vector[middle:position], layer.activation))
        return Network(tuple(layers))

    def weights_only(self) -> Floats:
        """The parameters as in `vector`, with zeros for biases: the derivative of half their sum of squares."""
        parts = [part for layer in self.layers for part in (layer.weights.ravel(), np.zeros_like(layer.bias))]
        return np.concatenate([np.zeros(0), *parts])


def glorot(sizes: Sequence[int], activations: Sequence[str], rng: np.random.Generator) -> Network:
    """Layers between given sizes with uniform weights whose range keeps variances (Glorot and Bengio 2010)."""
    layers = []
    for n_in, n_out, activation in zip(sizes[:-1], sizes[1:], activations, strict=True):
        bound = np.sqrt(6.0 / (n_in + n_out))
        layers.append(Layer(rng.uniform(-bound, bound, (n_in, n_out)), np.zeros(n_out), activation))
    return Network(tuple(layers))


def check_hidden(sizes: Any) -> tuple[int, ...]:
    """Sizes of hidden layers given as scikit-learn's networks take them, a number or several.

    Raises
    ------
    ValueError
        If one of them is no positive integer.
    """
    found = tuple(sizes) if np.iterable(sizes) and not isinstance(sizes, str) else (sizes,)
    if any(isinstance(size, bool) or not isinstance(size, Integral) or size < 1 for size in found):
        raise ValueError(
            "hidden_layer_sizes must hold positive integers, the numbers of units of each hidden layer, as in (8,) "
            f"or (16, 8); got {sizes!r}."
        )
    return tuple(int(size) for size in found)
