"""Feed-forward networks: their values, and derivatives by backpropagation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from anypca._typing import Floats, Ints


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
    """An affine map and its activation."""

    weights: Floats
    """(n_in, n_out)."""
    bias: Floats
    """(n_out,)."""
    activation: str


class Passed(NamedTuple):
    """Values of a layer: its input, the result of its affine map, and its output."""

    below: Floats
    """(rows, n_in)."""
    inputs: Floats
    """(rows, n_out)."""
    values: Floats
    """(rows, n_out)."""


@dataclass(frozen=True, eq=False)
class Network:
    """Layers one after the other.

    With ``has_skip`` the last layer also sees the input of the first: ``[x, hidden(x)] weights + bias``, linear in x
    while the weights of the hidden units are 0.
    """

    layers: tuple[Layer, ...]
    has_skip: bool = False

    @property
    def n_inputs(self) -> int:
        """Number of columns of the input."""
        return len(self.layers[0].weights)

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(layer.weights.size + layer.bias.size for layer in self.layers)

    def _is_joined(self, number: int) -> bool:
        """Whether the input of the network is concatenated to the input of this layer."""
        return self.has_skip and 0 < number == len(self.layers) - 1

    def forward(self, x: Floats) -> list[Passed]:
        """Forward pass of the input, shape (rows, n_in); returns the values of every layer."""
        passed: list[Passed] = []
        values = x
        for number, layer in enumerate(self.layers):
            below = np.hstack([x, values]) if self._is_joined(number) else values
            z: Floats = below @ layer.weights + layer.bias
            values = ACTIVATIONS[layer.activation].value(z)
            passed.append(Passed(below, z, values))
        return passed

    def __call__(self, x: Floats) -> Floats:
        """Output of the last layer, shape (rows, n_out)."""
        return self.forward(x)[-1].values

    def backward(self, passed: Sequence[Passed], slope: Floats) -> tuple[Floats, Floats]:
        """Derivatives in the parameters, as one vector, and in the input, given that in the output (rows, n_out)."""
        parts: list[Floats] = []
        direct: Floats | float = 0.0
        for number in reversed(range(len(self.layers))):
            layer, (below, z, a) = self.layers[number], passed[number]
            slope = slope * ACTIVATIONS[layer.activation].slope(z, a)
            parts = [(below.T @ slope).ravel(), slope.sum(axis=0), *parts]
            slope = slope @ layer.weights.T
            if self._is_joined(number):
                direct, slope = slope[:, : self.n_inputs], slope[:, self.n_inputs :]
        return np.concatenate(parts), slope + direct

    def features(self, x: Floats) -> tuple[Floats, Floats]:
        """Input of the last layer (rows, m), and its derivatives in each input, shape (rows, n_in, m)."""
        # Forward mode: there are few latents, hence few tangents.
        n, passed = x.shape[1], self.forward(x)
        identity = tangent = np.broadcast_to(np.eye(n), (len(x), n, n))
        for layer, (_, z, a) in zip(self.layers[:-1], passed[:-1], strict=True):
            tangent = (tangent @ layer.weights) * ACTIVATIONS[layer.activation].slope(z, a)[:, None, :]
        if self._is_joined(len(passed) - 1):
            tangent = np.concatenate([identity, tangent], axis=2)
        return passed[-1].below, tangent

    def at(self, x: Floats, index: Ints, columns: Ints) -> tuple[Floats, Floats]:
        """Linear outputs at some (row, column), and their derivatives in the inputs (n_entries, n_in)."""
        (below, tangent), last = self.features(x), self.layers[-1]
        weights = last.weights[:, columns]
        values = np.einsum("em,me->e", below[index], weights) + last.bias[columns]
        return values, np.einsum("eam,me->ea", tangent[index], weights)

    def in_coordinates(self, rotation: Floats) -> Network:
        """The same function of ``x rotation`` in place of x, for an orthogonal matrix (n_in, n_in)."""
        n = len(rotation)

        def turned(layer: Layer) -> Layer:
            return layer._replace(weights=np.vstack([rotation.T @ layer.weights[:n], layer.weights[n:]]))

        sees = [number == 0 or self._is_joined(number) for number in range(len(self.layers))]
        layers = (turned(layer) if does else layer for layer, does in zip(self.layers, sees, strict=True))
        return Network(tuple(layers), self.has_skip)

    @property
    def vector(self) -> Floats:
        """All parameters as one vector."""
        parts = [part for layer in self.layers for part in (layer.weights.ravel(), layer.bias)]
        return np.concatenate(parts)

    def with_vector(self, vector: Floats) -> Network:
        """The same layers with other parameters."""
        layers, position = [], 0
        for layer in self.layers:
            n_in, n_out = layer.weights.shape
            middle = position + n_in * n_out
            weights = vector[position:middle].reshape(n_in, n_out)
            position = middle + n_out
            layers.append(Layer(weights, vector[middle:position], layer.activation))
        return Network(tuple(layers), self.has_skip)

    def weights_only(self) -> Floats:
        """The parameters as in `vector`, with zeros for biases: the derivative of half their sum of squares."""
        parts = [part for layer in self.layers for part in (layer.weights.ravel(), np.zeros_like(layer.bias))]
        return np.concatenate(parts)


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
