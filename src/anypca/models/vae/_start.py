"""Start of the training: probabilistic PCA of the inputs of the encoder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from anypca._typing import Floats
from anypca.engine import check_data
from anypca.families import Family
from anypca.models._bilinear.dispersion import start_dispersion
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import mean_coefficients, null_coefficients
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext, open_context
from anypca.models._gaussian.principal import Principal, fit_principal
from anypca.models._network import Layer, Network
from anypca.models.vae._model import Inputs, Model

# Smallest share of the inputs' variance that counts as noise at the start: a table without noise has no density.
_LEAST_NOISE = 1e-3
# Gradient per entry at which the intercepts are accurate enough as a start: training changes them by far more.
_NULL_TOL = 1e-6
# Candidate scale factors of the initial loadings. Inputs of counts are linear in the predictor only near the
# intercepts, and large loadings overflow in exponentials; loadings of normal columns need no scaling.
_FACTORS = (1.0, 0.5, 0.25, 0.125, 0.0)


def make_skip(
    linear: Floats, bias: Floats, hidden: Sequence[int], activation: str, rng: np.random.Generator
) -> Network:
    """A net that starts as ``x linear + bias``; the outputs of its random hidden units have weight 0."""
    sizes = [len(linear), *hidden]
    layers = [_random_layer(n_in, n_out, activation, rng) for n_in, n_out in itertools.pairwise(sizes)]
    rows = [linear, np.zeros((hidden[-1], linear.shape[1]))] if hidden else [linear]
    return Network((*layers, Layer(np.vstack(rows), bias, "identity")), has_skip=True)


def _random_layer(n_in: int, n_out: int, activation: str, rng: np.random.Generator) -> Layer:
    """Initialise units with inputs of unit variance and with kinks spread over the range of the inputs.

    The output has linear terms already, so that units that are linear near 0 would add nothing at first: with biases of
    0, probabilistic PCA is a saddle point, which delays the training.
    """
    bound = np.sqrt(3.0 / n_in)
    weights = rng.uniform(-bound, bound, (n_in, n_out))
    return Layer(weights, rng.uniform(-1.0, 1.0, n_out), activation)


def null_inputs(session: FitContext, family: Family, rows: BlockView) -> Inputs:
    """The model without latents, which defines the inputs of the encoder."""
    summary = session.summary
    dispersion = start_dispersion(family, summary.mean, summary.variance)
    fixed = mean_coefficients(family, summary, 0, fit_intercept=True)
    start = Coefficients(np.zeros((len(fixed), 0)), fixed, dispersion)
    null = null_coefficients(family, start, Pass(session, fit_intercept=True), tol=_NULL_TOL)
    raw = Inputs(family, null.fixed[:, 0], dispersion, 1.0)
    size = float(np.sqrt(np.mean(raw.of(rows) ** 2)))
    return replace(raw, unit=size if size > 0 else 1.0)


def linear_start(
    inputs: Inputs,
    rows: BlockView,
    n_components: int,
    hidden: Sequence[int],
    activation: str,
    rng: np.random.Generator,
) -> Model:
    """A model whose decoder and encoder are linear: for complete normal tables probabilistic PCA and its posterior.

    The inputs of other families are linear in the predictor as long as this stays near the intercepts.
    """
    principal = _principal(inputs.of(rows), rows.weights, n_components)
    noise = max(principal.noise, _LEAST_NOISE)
    signal = np.sqrt(np.maximum(principal.variances - noise, 0.0))
    per_input = inputs.unit / np.sqrt(_curvature(inputs, rows))
    loadings = signal[:, None] * principal.components
    total = signal**2 + noise
    # The posterior of probabilistic PCA: its means in the first half of the outputs, log deviations in the second.
    linear = np.hstack([loadings.T / total, np.zeros_like(loadings.T)])
    bias = np.concatenate([-principal.mean @ (loadings.T / total), 0.5 * np.log(noise / total)])
    return Model(
        family=inputs.family,
        inputs=inputs,
        encoder=make_skip(linear, bias, hidden, activation, rng),
        decoder=make_skip(loadings * per_input, inputs.intercept, hidden, activation, rng),
        dispersion=_dispersion(inputs, noise),
    )


def _principal(inputs: Floats, weights: Floats, n_components: int) -> Principal:
    """The maximum likelihood fit; components that so few rows cannot have are 0."""
    k = min(n_components, len(inputs))
    with open_context(check_data(inputs, sample_weight=weights), n_jobs=1) as session:
        found = fit_principal(session, k)[1].shared
    more = n_components - k
    components = np.pad(found.components, ((0, more), (0, 0)))
    return replace(found, components=components, variances=np.pad(found.variances, (0, more)))


def _curvature(inputs: Inputs, rows: BlockView) -> Floats:
    """Mean information about the predictor of an entry of each column, without latents, (n_features,)."""
    eta = rows.shifted(np.broadcast_to(inputs.intercept, rows.x.shape))
    found = inputs.family.evaluate(rows.x, eta, inputs.dispersion, order=2).curvature
    count = rows.weights @ (np.ones_like(rows.x) if rows.observed is None else rows.observed)
    mean = (rows.weights @ rows.only_observed(found)) / count
    # A column that cannot vary has no information; any positive number will do, for it has no loadings.
    return np.where(mean > 0, mean, 1.0)


def _dispersion(inputs: Inputs, noise: float) -> Floats:
    """The residual variance for columns with units of their own, else the dispersion without latents."""
    dispersion = inputs.dispersion.copy()
    for member, columns in inputs.family.member_columns(len(dispersion)):
        if member.has_units and member.fixed_dispersion is None:
            dispersion[columns] *= noise * inputs.unit**2
    return dispersion


def scale_loadings(model: Model, judge: Callable[[Model], float]) -> Model:
    """Scale the loadings of the start by the factor with the largest bound; 0 removes the latents."""
    return max((_scaled(model, factor) for factor in _FACTORS), key=judge)


def _scaled(model: Model, factor: float) -> Model:
    *hidden, last = model.decoder.layers
    weights = last.weights.copy()
    weights[: model.decoder.n_inputs] *= factor
    layers = (*hidden, last._replace(weights=weights))
    return replace(model, decoder=replace(model.decoder, layers=layers))
