"""Dispersion: one step of Newton's method uphill on the bound after each epoch."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.models.vae._bound import Model
from anypca.models.vae._rows import Rows

# Step of the differences in the logarithm of the dispersion: the second difference is then right to four digits.
_STEP = 1e-2
# Largest change of the logarithm in one epoch; there are many epochs.
_LONGEST = 0.3
# No dispersion falls below this fraction of that without latents: the table would be reproduced, not modelled.
_SMALLEST_FRACTION = 1e-6
# Rows that the step is taken from: their hundreds of thousands of entries know the dispersion to a per cent.
_MOST_ROWS = 4096


def improve_dispersion(model: Model, rows: Rows, rng: np.random.Generator) -> Floats:
    """New dispersion (n_features,), shared within a family unless columns of a mixed table have their own scales."""
    members = model.family.member_columns(len(model.dispersion))
    free = [(member, columns) for member, columns in members if member.fixed_dispersion is None]
    dispersion = model.dispersion.copy()
    if not free:
        return dispersion
    first, second = _derivatives(model, rows.spread(_MOST_ROWS), rng)
    for member, columns in free:
        own, curvature = first[columns], second[columns]
        if member.dispersion_kind == "shape" or len(members) == 1:
            own, curvature = own.sum(keepdims=True), curvature.sum(keepdims=True)
        dispersion[columns] *= np.exp(_newton(own, curvature))
    return np.asarray(np.maximum(dispersion, _SMALLEST_FRACTION * model.inputs.dispersion))


def _newton(first: Floats, second: Floats) -> Floats:
    """Steps of the logarithm; where the bound is not concave they are as long as they may be, none where it is NaN."""
    step = np.where(second < 0, -first / np.where(second < 0, second, -1.0), np.sign(first) * _LONGEST)
    return np.asarray(np.nan_to_num(np.clip(step, -_LONGEST, _LONGEST), nan=0.0))


def _derivatives(model: Model, rows: Rows, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """First and second derivatives of the bound in the log dispersion of each column, by differences."""
    found = model.encode(model.inputs.of(rows))
    z = found.mean + found.deviation * rng.standard_normal(found.mean.shape)
    eta = rows.shifted(model.decoder(z))

    def value(change: float) -> Floats:
        terms = model.family.log_likelihood(rows.x, eta, model.dispersion * np.exp(change))
        return np.asarray(rows.weights @ rows.only_observed(terms))

    low, middle, high = value(-_STEP), value(0.0), value(_STEP)
    return (high - low) / (2.0 * _STEP), (high - 2.0 * middle + low) / _STEP**2
