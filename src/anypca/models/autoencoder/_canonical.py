"""The coordinates in which a linear latent layer is reported.

A net whose latent layer is linear computes the same function in any affine coordinates of its latents. Those that are
reported do not depend on which the training has ended in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import fix_signs
from anypca.models._context import FitContext
from anypca.models._network import Layer, Network
from anypca.models.autoencoder._problem import Scaling


class LinearPart(NamedTuple):
    """The regression ``z B = P S T'`` of rows on centred latents z, which no change of coordinates of z alters."""

    mean: Floats
    """Of the latents (k,)."""
    rotation: Floats
    """``B T``: from centred latents to their coordinates along the axes, shape (k, k)."""
    axes: Floats
    """T': orthonormal rows (k, n_features), the strongest first, signs fixed."""
    sizes: Floats
    """S, shape (k,)."""


def linear_part(session: FitContext, scaling: Scaling, encoder: Network) -> LinearPart:
    """Regress the standardised rows of a table on their latents."""

    def moments(block: Block, _: None) -> Floats:
        x = scaling.apply(block.read().x)
        z = np.hstack([np.ones((len(x), 1)), encoder(x)])
        return np.asarray((z * block.weights[:, None]).T @ np.hstack([z, x]))

    sums = session.sum(moments)
    k = len(sums) - 1
    mean = sums[0, 1 : k + 1] / sums[0, 0]
    centred = sums[1:] - np.outer(mean, sums[0])
    inner, cross = centred[:, 1 : k + 1], centred[:, k + 1 :]
    # In units of their deviations latents of very different sizes make no ill-conditioned equations.
    unit = np.sqrt(np.maximum(np.diag(inner), np.finfo(float).tiny))
    values, basis = np.linalg.eigh(inner / np.outer(unit, unit))
    # A latent that no row moves, or moves as another does, has no say: eigenvalues at rounding level are left out.
    roots = np.sqrt(np.where(values > k * np.finfo(float).eps * values[-1], values, np.inf))
    whitener = (basis / roots) / unit[:, None]
    _, sizes, axes = np.linalg.svd(whitener.T @ cross, full_matrices=False)
    axes = axes * fix_signs(axes)[:, None]
    return LinearPart(mean, whitener @ (whitener.T @ cross) @ axes.T, axes, sizes)


def change_coordinates(encoder: Network, decoder: Network, part: LinearPart) -> tuple[Network, Network]:
    """The same net with latents along the axes of its linear part."""
    if np.linalg.matrix_rank(part.rotation) < len(part.rotation):
        return encoder, decoder  # a dead latent: there are no coordinates to change to
    last, first = encoder.layers[-1], decoder.layers[0]
    shifted = (last.bias - part.mean) @ part.rotation
    coded = Layer(last.weights @ part.rotation, shifted, last.activation)
    bias = first.bias + part.mean @ first.weights
    opened = Layer(np.linalg.solve(part.rotation, first.weights), bias, first.activation)
    return Network((*encoder.layers[:-1], coded)), Network((opened, *decoder.layers[1:]))
