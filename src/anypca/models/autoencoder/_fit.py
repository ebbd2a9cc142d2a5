"""From a table to a trained net."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import fix_signs
from anypca.models._context import FitContext
from anypca.models._gaussian.principal import count_rows
from anypca.models._network import Network, glorot
from anypca.models.autoencoder._canonical import change_coordinates, linear_part
from anypca.models.autoencoder._problem import Nets, Scaling, SquaredError, split
from anypca.models.autoencoder._start import can_carry, carry
from anypca.solvers import Result
from anypca.solvers.closed_form import Centring
from anypca.solvers.lbfgs import lbfgs


@dataclass(frozen=True)
class Settings:
    """What is trained; see `anypca.Autoencoder`."""

    n_components: int
    hidden: tuple[int, ...]
    activation: str
    latent_activation: str
    output_activation: str
    alpha: float
    linearity: float
    init: str
    n_init: int
    standardize: bool

    @property
    def is_linear(self) -> bool:
        """Whether the latent layer is linear."""
        return self.latent_activation == "identity"


@dataclass(frozen=True, eq=False)
class AutoencoderFit:
    """A net whose first layers encode and whose last ones decode."""

    scaling: Scaling
    encoder: Network
    decoder: Network
    components: Floats
    """Principal axes of the linear part of the reconstruction (k, n_features)."""
    sizes: Floats
    """Singular values of that part, shape (k,)."""
    r2: float
    """Share of the variance that the reconstruction explains."""


def fit_autoencoder(session: FitContext, settings: Settings) -> tuple[AutoencoderFit, Result[Floats]]:
    """The best of several starts, in canonical coordinates if its latent layer is linear."""
    weight, _ = count_rows(session, "Autoencoder")
    deviations = np.sqrt(session.summary.variance)
    varies = settings.standardize & (deviations > 0)
    scaling = Scaling(session.summary.mean, np.where(varies, deviations, 1.0))
    starts = [_start(session, scaling, settings, weight) for _ in range(settings.n_init)]
    results = [
        lbfgs(
            SquaredError(session, scaling, start, settings.alpha, settings.linearity),
            start.vector,
            max_iter=session.max_iter,
            tol=session.tol,
            least_gain=session.tol,
            callback=session.callback,
        )
        for start in starts
    ]
    # Starts differ by their random weights only; the objective at the end decides.
    best = max(range(len(results)), key=lambda number: results[number].trace[-1])
    nets = starts[best].with_vector(results[best].shared)
    return _report(session, scaling, nets, is_linear=settings.is_linear), results[best]


def _start(session: FitContext, scaling: Scaling, settings: Settings, weight: float) -> Nets:
    """Random weights, which carry the principal components if that is wished and possible."""
    depth = len(settings.hidden) + 1
    inside = [session.data.n_features, *settings.hidden, settings.n_components]
    one_way = [settings.activation] * len(settings.hidden)
    ends = (settings.latent_activation, settings.output_activation)
    names = [*one_way, ends[0], *one_way, ends[1]]
    network = glorot([*inside, *reversed(inside[:-1])], names, session.rng)
    if settings.init != "pca" or not can_carry(settings.hidden, settings.n_components, ends):
        return split(network, depth)
    k = settings.n_components
    centring = Centring(scaling.centre, 1.0 / scaling.scale)
    spectrum = session.spectrum(centring, divisor=weight, n_components=min(k, session.data.n_samples))
    # More components than dimensions: the surplus ones start along no axis.
    short = k - len(spectrum.values)
    vectors = spectrum.vectors[:, :k] * fix_signs(spectrum.vectors[:, :k].T)
    axes = np.pad(vectors, ((0, 0), (0, max(short, 0))))
    deviations = np.pad(np.sqrt(spectrum.values[:k]), (0, max(short, 0)))
    deviations = np.where(deviations > 0, deviations, 1.0)
    writer = (axes * deviations).T
    nets = split(carry(network, axes / deviations, writer, depth - 1), depth)
    layer = nets.readout.layers[0]._replace(weights=writer)
    return replace(nets, readout=Network((layer,)))


def _report(session: FitContext, scaling: Scaling, nets: Nets, *, is_linear: bool) -> AutoencoderFit:
    encoder, decoder = nets.encoder, nets.decoder
    part = linear_part(session, scaling, encoder)
    if is_linear:
        encoder, decoder = change_coordinates(encoder, decoder, part)

    def squares(block: Block, _: None) -> Floats:
        x = scaling.apply(block.read().x)
        left = x - decoder(encoder(x))
        return np.asarray(block.weights @ np.column_stack([(left**2).sum(axis=1), (x**2).sum(axis=1)]))

    left, total = session.sum(squares)
    r2 = float(1.0 - left / total) if total > 0 else 0.0
    return AutoencoderFit(scaling, encoder, decoder, part.axes, part.sizes, r2)
