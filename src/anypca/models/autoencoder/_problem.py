"""What training minimises: squared errors of rows in common units, with a ridge on the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._context import FitContext
from anypca.models._network import Layer, Network


@dataclass(frozen=True, eq=False)
class Scaling:
    """From the columns of a table to those that the net sees, and back."""

    centre: Floats
    """(n_features,)."""
    scale: Floats
    """(n_features,), positive."""

    def apply(self, x: Floats) -> Floats:
        """Rows as the net sees them, in float64."""
        return np.asarray((x.astype(np.float64, copy=False) - self.centre) / self.scale)

    def undo(self, x: Floats) -> Floats:
        """Rows in the units of the table."""
        return np.asarray(x * self.scale + self.centre)


@dataclass(frozen=True, eq=False)
class Nets:
    """The parts of an autoencoder."""

    encoder: Network
    decoder: Network
    readout: Network
    """One linear layer from the latents to the rows, which is dropped after the training."""

    @property
    def vector(self) -> Floats:
        """All parameters as one vector."""
        return np.concatenate([self.encoder.vector, self.decoder.vector, self.readout.vector])

    def with_vector(self, vector: Floats) -> Nets:
        """The same nets with other parameters."""
        first = self.encoder.n_parameters
        parts = np.split(vector, [first, first + self.decoder.n_parameters])
        nets = (self.encoder, self.decoder, self.readout)
        return Nets(*(net.with_vector(part) for net, part in zip(nets, parts, strict=True)))

    def weights_only(self) -> Floats:
        """The weights of encoder and decoder as in `vector`, zeros for the rest."""
        rest = np.zeros(self.readout.n_parameters)
        return np.concatenate([self.encoder.weights_only(), self.decoder.weights_only(), rest])


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Minus the loss as a function of all parameters."""

    session: FitContext
    scaling: Scaling
    like: Nets
    """Nets with these layers."""
    alpha: float
    """Ridge."""
    linearity: float
    """Weight of the squared error of the read-out."""

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """Value and gradient of minus the loss at a vector of parameters (m,)."""
        nets, scaling, linearity = self.like.with_vector(vector), self.scaling, self.linearity

        def visit(block: Block, _: None) -> Floats:
            x, weight = scaling.apply(block.read().x), block.weights
            return np.concatenate([[weight.sum()], _sums(nets, x, weight, linearity)])

        n, squares, *slope = self.session.sum(visit)
        weights = nets.weights_only()
        loss = squares + 0.5 * self.alpha * float(weights @ weights)
        return -loss / n, -(np.array(slope) + self.alpha * weights) / n


def _sums(nets: Nets, x: Floats, weight: Floats, linearity: float) -> Floats:
    """Half the weighted sum of squared errors of rows, and its derivative in all parameters, as one vector."""
    inside = nets.encoder.forward(x)
    z = inside[-1].values
    total, in_latents, parts = 0.0, np.zeros_like(z), []
    for net, share in ((nets.decoder, 1.0), (nets.readout, linearity)):
        passed = net.forward(z)
        residuals = passed[-1].values - x
        weighted = residuals * (share * weight)[:, None]
        total += 0.5 * float(np.vdot(weighted, residuals))
        slope, below = net.backward(passed, weighted)
        parts.append(slope)
        in_latents += below
    return np.concatenate([[total], nets.encoder.backward(inside, in_latents)[0], *parts])


def split(network: Network, depth: int) -> Nets:
    """A net as an encoder, its first ``depth`` layers, and a decoder, with a read-out of 0."""
    encoder, decoder = Network(network.layers[:depth]), Network(network.layers[depth:])
    n_latents, n_features = len(encoder.layers[-1].bias), len(decoder.layers[-1].bias)
    readout = Layer(np.zeros((n_latents, n_features)), np.zeros(n_features), "identity")
    return Nets(encoder, decoder, Network((readout,)))
