"""Nets whose output sees the input directly and through hidden layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.models._network import Layer, Network, Passed


class Opened(NamedTuple):
    """What a pass forward leaves for the pass backward."""

    features: Floats
    """The input and the values of the last hidden layer, (rows, n_in + n_hidden)."""
    passed: list[Passed]


@dataclass(frozen=True, eq=False)
class SkipNetwork:
    """``[x, hidden(x)] weights + bias``: linear in x while the weights of the hidden units are 0."""

    hidden: Network
    weights: Floats
    """(n_in + n_hidden, n_out)."""
    bias: Floats
    """(n_out,)."""

    @property
    def n_inputs(self) -> int:
        layers = self.hidden.layers
        return len(self.weights) - (len(layers[-1].bias) if layers else 0)

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return self.hidden.n_parameters + self.weights.size + self.bias.size

    def forward(self, x: Floats) -> tuple[Floats, Opened]:
        """Output (rows, n_out), and what `backward` needs."""
        passed = self.hidden.forward(x)
        features = np.hstack([x, passed[-1].values]) if passed else x
        return features @ self.weights + self.bias, Opened(features, passed)

    def __call__(self, x: Floats) -> Floats:
        return self.forward(x)[0]

    def backward(self, x: Floats, opened: Opened, slope: Floats) -> tuple[Floats, Floats]:
        """Derivatives in the parameters, as one vector, and in the input, given that in the output (rows, n_out)."""
        n = x.shape[1]
        inside = slope @ self.weights.T
        hidden, below = self.hidden.backward(x, opened.passed, inside[:, n:])
        own = [(opened.features.T @ slope).ravel(), slope.sum(axis=0)]
        return np.concatenate([*own, hidden]), inside[:, :n] + (below if self.hidden.layers else 0.0)

    def tangents(self, x: Floats) -> tuple[Floats, Floats]:
        """Features (rows, m) and their derivatives in each input, shape (rows, n_in, m)."""
        n = x.shape[1]
        identity = np.broadcast_to(np.eye(n), (len(x), n, n))
        if not self.hidden.layers:
            return x, identity
        values, tangent = self.hidden.tangents(x)
        return np.hstack([x, values]), np.concatenate([identity, tangent], axis=2)

    def at(self, x: Floats, index: Ints, columns: Ints) -> tuple[Floats, Floats]:
        """Outputs at some (row, column), (n_entries,), and their derivatives in the inputs, (n_entries, n_in)."""
        features, tangent = self.tangents(x)
        weights = self.weights[:, columns]
        values = np.einsum("em,me->e", features[index], weights) + self.bias[columns]
        return values, np.einsum("eam,me->ea", tangent[index], weights)

    @property
    def vector(self) -> Floats:
        """All parameters as one vector."""
        return np.concatenate([self.weights.ravel(), self.bias, self.hidden.vector])

    def with_vector(self, vector: Floats) -> SkipNetwork:
        """The same net with other parameters."""
        first = self.weights.size
        second = first + self.bias.size
        weights = vector[:first].reshape(self.weights.shape)
        return SkipNetwork(self.hidden.with_vector(vector[second:]), weights, vector[first:second])

    def in_coordinates(self, rotation: Floats) -> SkipNetwork:
        """The same function of ``x rotation`` in place of x, for an orthogonal matrix (n_in, n_in)."""
        n = len(rotation)
        weights = np.vstack([rotation.T @ self.weights[:n], self.weights[n:]])
        layers = self.hidden.layers
        if layers:
            layers = (layers[0]._replace(weights=rotation.T @ layers[0].weights), *layers[1:])
        return replace(self, hidden=Network(layers), weights=weights)


def make_skip(
    linear: Floats, bias: Floats, hidden: Sequence[int], activation: str, rng: np.random.Generator
) -> SkipNetwork:
    """A net that starts as ``x linear + bias``; its hidden units have random weights, and nothing listens to them."""
    sizes = [len(linear), *hidden]
    layers = [_random_layer(n_in, n_out, activation, rng) for n_in, n_out in itertools.pairwise(sizes)]
    rows = [linear, np.zeros((hidden[-1], linear.shape[1]))] if hidden else [linear]
    return SkipNetwork(Network(tuple(layers)), np.vstack(rows), bias)


def _random_layer(n_in: int, n_out: int, activation: str, rng: np.random.Generator) -> Layer:
    """Units whose inputs have a variance of one and whose kinks or bends lie all over the inputs.

    The output sees straight lines anyway, so units that are straight near 0 would add nothing to begin with: with
    biases of 0 probabilistic PCA is a saddle that takes tens of epochs to leave.
    """
    bound = np.sqrt(3.0 / n_in)
    weights = rng.uniform(-bound, bound, (n_in, n_out))
    return Layer(weights, rng.uniform(-1.0, 1.0, n_out), activation)
