"""The trained model: inputs of the encoder, the evidence lower bound, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._block_view import BlockView
from anypca.models._network import Network, Passed


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the encoder: signed roots of deviances from the model without latents.

    For normal columns they are the standardised entries. For other columns they are nearly normal, grow slowly with
    the entries, and account for offsets. The input of a missing entry is 0.
    """

    family: Family
    intercept: Floats
    """(n_features,)."""
    dispersion: Floats
    """(n_features,)."""
    unit: float
    """Divisor of the inputs."""

    def of(self, rows: BlockView) -> Floats:
        """The inputs of some rows, shape (rows, n_features)."""
        eta = rows.shifted(np.broadcast_to(self.intercept, rows.x.shape))
        gradient = self.family.evaluate(rows.x, eta, self.dispersion, order=1).gradient
        size = np.sqrt(self.family.deviance(rows.x, eta, self.dispersion))
        return rows.only_observed(np.copysign(size, gradient) / self.unit)


class Encoded(NamedTuple):
    """Normal posteriors of the latents of some rows, as the encoder gives them."""

    mean: Floats
    """(rows, k)."""
    deviation: Floats
    """(rows, k)."""
    passed: list[Passed]

    @property
    def divergence(self) -> Floats:
        """Kullback-Leibler divergences from the prior, (rows,)."""
        variance = self.deviation**2
        terms = self.mean**2 + variance - 2.0 * np.log(self.deviation) - 1.0
        return np.asarray(0.5 * terms.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Model:
    """An encoder, a decoder and the noise of the entries."""

    family: Family
    inputs: Inputs
    encoder: Network
    """From inputs to means and log standard deviations of latents."""
    decoder: Network
    """From latents to predictors without offsets."""
    dispersion: Floats
    """(n_features,)."""

    @property
    def vector(self) -> Floats:
        """All parameters of the nets as one vector."""
        return np.concatenate([self.encoder.vector, self.decoder.vector])

    def with_vector(self, vector: Floats) -> Model:
        """The same model with other nets."""
        parts = np.split(vector, [self.encoder.n_parameters])
        encoder, decoder = self.encoder.with_vector(parts[0]), self.decoder.with_vector(parts[1])
        return replace(self, encoder=encoder, decoder=decoder)

    def encode(self, inputs: Floats) -> Encoded:
        """Posteriors of the latents of rows with given inputs."""
        passed = self.encoder.forward(inputs)
        mean, log_deviation = np.split(passed[-1].values, 2, axis=1)
        return Encoded(mean, np.exp(log_deviation), passed)

    def bound(self, rows: BlockView, noise: Floats) -> Floats:
        """A lower bound of the log-likelihood of each row, (rows,), by draws of standard normals (draws, rows, k)."""
        found = self.encode(self.inputs.of(rows))
        base = rows.only_observed(self.family.log_base_measure(rows.x, self.dispersion)).sum(axis=1)
        total = base - found.divergence
        for draw in noise:
            eta = rows.shifted(self.decoder(found.mean + found.deviation * draw))
            terms = self.family.evaluate(rows.x, eta, self.dispersion, order=0).value
            total = total + rows.only_observed(terms).sum(axis=1) / len(noise)
        return np.asarray(total)

    def gradient(self, rows: BlockView, noise: Floats) -> Floats:
        """Derivative of the weighted sum of `bound`, with one draw (rows, k), in the parameters of the nets."""
        found = self.encode(self.inputs.of(rows))
        z = found.mean + found.deviation * noise
        passed = self.decoder.forward(z)
        score = self.family.evaluate(
            rows.x, rows.shifted(passed[-1].values), self.dispersion, order=1
        ).gradient
        slope = rows.only_observed(score) * rows.weights[:, None]
        of_decoder, in_latents = self.decoder.backward(passed, slope)
        w = rows.weights[:, None]
        in_mean = in_latents - w * found.mean
        in_log_deviation = in_latents * found.deviation * noise - w * (found.deviation**2 - 1.0)
        outer = np.hstack([in_mean, in_log_deviation])
        return np.concatenate([self.encoder.backward(found.passed, outer)[0], of_decoder])
