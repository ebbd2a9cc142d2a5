"""Where training starts: principal components carried through all layers, or random weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anypca._typing import Floats
from anypca.models._network import ACTIVATIONS, Layer, Network

# Standard deviations of the signal that a unit takes in. Where an activation bends, a pair of units then hands on a
# signal of two deviations that is too small by six per cent (tanh); where it has a straight half, any value will do.
_GAIN = 0.25


def can_carry(hidden: Sequence[int], n_components: int, ends: Sequence[str]) -> bool:
    """Whether linear scores can pass: each needs a pair of units in each hidden layer, and linear ``ends``."""
    return min(hidden, default=2 * n_components) >= 2 * n_components and set(ends) == {"identity"}


def carry(network: Network, reader: Floats, writer: Floats, latent: int) -> Network:
    """Initialise a net that approximately reconstructs rows from their principal components.

    A pair of units has the inputs ``u`` and ``-u``. The difference of their outputs is odd in u, and equals u for
    relu and softplus. The other units keep their random weights, which the next layer ignores at the start.

    Parameters
    ----------
    network : Network
        With random weights; of the sizes that `can_carry` requires.
    reader, writer : ndarray of shape (n_features, k) and (k, n_features)
        From rows to standardised scores, and back.
    latent : int
        Number of the latent layer.
    """
    layers, k = [], len(writer)
    for number, layer in enumerate(network.layers):
        if number == latent:
            layers.append(layer._replace(weights=reader))
            reader = np.eye(k)
        elif number == len(network.layers) - 1:
            layers.append(layer._replace(weights=reader @ writer))
        else:
            layers.append(_pairs(layer, reader))
            reader = _difference(layer, k)
    return Network(tuple(layers))


def _pairs(layer: Layer, reader: Floats) -> Layer:
    """The layer with its first units in pairs that take in the signal and its negative."""
    k = reader.shape[1]
    weights = layer.weights.copy()
    weights[:, : 2 * k] = _GAIN * np.hstack([reader, -reader])
    return layer._replace(weights=weights)


def _difference(layer: Layer, k: int) -> Floats:
    """From the values of the layer's units to the signal of its pairs, shape (n_out, k)."""
    value = ACTIVATIONS[layer.activation].value
    up, down = value(np.array([_GAIN, -_GAIN]))
    reader = np.zeros((len(layer.bias), k))
    reader[:k] = np.eye(k) / (up - down)
    reader[k : 2 * k] = -reader[:k]
    return reader
