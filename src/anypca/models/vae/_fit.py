"""From a table to a trained variational autoencoder."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bayes.points import collect_rows
from anypca.models._bilinear.passes import Deviances
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._gaussian.principal import count_rows
from anypca.models.vae._model import Model
from anypca.models.vae._posterior import Likelihood
from anypca.models.vae._row_model import DecodedRowModel
from anypca.models.vae._start import linear_start, null_inputs, scale_loadings
from anypca.models.vae._training import Judge, Schedule, split_rows, train
from anypca.solvers import Result

# Number and standard deviation of draws from which a row's further starts are chosen. Unusual rows have their mode in
# the tail of the prior, where a few draws of the prior miss it.
_N_STARTS = 256
_SPREADS = (1.0, 2.0)
# Rows for the mean slopes of the decoder: the standard error is about one per cent.
_MOST_ROWS = 4096


@dataclass(frozen=True)
class Settings:
    """Settings of the training; see `anypca.VAE`."""

    n_components: int
    hidden: tuple[int, ...]
    activation: str
    validation_fraction: float
    score_draws: int
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class VAEFit:
    """A trained model."""

    rows: DecodedRowModel
    components: Floats
    """Mean slopes of the predictor along the latents (k, n_features)."""
    shares: Floats
    """Of the null deviance that each latent explains, (k,)."""
    n_parameters: int


def fit_vae(session: FitContext, family: Family, settings: Settings) -> tuple[VAEFit, Result[Model]]:
    """Train from probabilistic PCA, and report in coordinates that do not depend on the training's."""
    count_rows(session, "VAE")
    rows, rng, k = collect_rows(session, fit_intercept=False), session.rng, settings.n_components
    inputs = null_inputs(session, family, rows)
    seen, judge = split_rows(rows, settings.validation_fraction, k, rng)
    start = linear_start(inputs, seen, k, settings.hidden, settings.activation, rng)
    # Scale on the rows that the start was fitted to: for normal columns it is their best linear model.
    fitted = Judge(seen, rng.standard_normal((1, len(seen.x), k)))
    result = train(scale_loadings(start, fitted), seen, judge, settings.schedule, rng, session.callback)
    return _report(result.shared, rows, settings, rng), result


def _report(model: Model, rows: BlockView, settings: Settings, rng: np.random.Generator) -> VAEFit:
    """The model in its canonical coordinates: along the principal axes of the mean slopes of the decoder."""
    some = rows.spread(_MOST_ROWS)
    latents = model.encode(model.inputs.of(some)).mean
    slopes = model.decoder.features(latents)[1].mean(axis=0) @ model.decoder.layers[-1].weights
    eta = some.shifted(model.decoder(latents))
    found = model.family.evaluate(some.x, eta, model.dispersion, order=2).curvature
    # Slopes are measured in units of the noise.
    unit = np.sqrt(some.only_observed(found).mean(axis=0))
    rotation, sizes, _ = np.linalg.svd(slopes * unit, full_matrices=False)
    rotation = rotation * fix_signs(rotation.T @ slopes)
    return VAEFit(
        rows=_row_model(model, rotation, settings.score_draws, rng),
        components=rotation.T @ slopes,
        shares=_explained(model, rows, latents=model.encode(model.inputs.of(rows)).mean) * _shares(sizes),
        n_parameters=model.encoder.n_parameters + model.decoder.n_parameters,
    )


def _row_model(model: Model, rotation: Floats, n_draws: int, rng: np.random.Generator) -> DecodedRowModel:
    """The model for rows; without the encoder's standard deviations, which refer to the coordinates of the training."""
    k, (*hidden, last) = len(rotation), model.encoder.layers
    means = last._replace(weights=last.weights[:, :k] @ rotation, bias=last.bias[:k] @ rotation)
    return DecodedRowModel(
        family=model.family,
        dispersion=model.dispersion,
        inputs=model.inputs,
        encoder=replace(model.encoder, layers=(*hidden, means)),
        decoder=model.decoder.in_coordinates(rotation),
        noise=rng.standard_normal((n_draws, k)),
        starts=rng.standard_normal((_N_STARTS, k)) * np.repeat(_SPREADS, _N_STARTS // len(_SPREADS))[:, None],
    )


def _shares(sizes: Floats) -> Floats:
    squares = sizes**2
    return np.asarray(squares / max(float(squares.sum()), np.finfo(float).tiny))


def _explained(model: Model, rows: BlockView, latents: Floats) -> float:
    """Mean over columns of the share of the deviance that latents explain, each row at the mode of its posterior."""
    points = Likelihood(model.family, model.dispersion, model.decoder).modes(rows, latents).points

    def deviance(eta: Floats) -> Floats:
        terms = model.family.deviance(rows.x, rows.shifted(eta), model.dispersion)
        return np.asarray(rows.weights @ rows.only_observed(terms))

    null = deviance(np.broadcast_to(model.inputs.intercept, rows.x.shape))
    return float(Deviances(np.array([null, deviance(model.decoder(points)), null])).shares[0])
