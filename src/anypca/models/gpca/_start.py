"""The start of a fit: the columns' means and the principal components of the saturated parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.linalg import fix_signs, leading_directions
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import StreamedGram
from anypca.models.gpca._projection import Subspace
from anypca.models.gpca._reader import Reader, SaturatedRows, saturated_parameters
from anypca.solvers.closed_form import Centring

_TINY = np.finfo(float).tiny
# Rows or columns up to which principal components are found exactly: the eigenproblem then costs little next to a fit.
_DENSE_LIMIT = 500
# Products of the range finder; the iterations of the fit correct what five of them leave.
_PRODUCTS = 5
# Variance below this share of the squared mean is the rounding of a constant: (100 units in the last place)^2 or so.
_CONSTANT = 1e-28


@dataclass(frozen=True, eq=False)
class Start:
    """A subspace to start from, with sums over the table that the fit needs."""

    subspace: Subspace
    varies: Bools
    """Columns with more than one value (p,)."""
    saturated: float
    """Log-likelihood of a saturated model."""
    weight: float
    """Weighted number of observed entries."""
    null: Floats
    """Deviances of the columns' means, or of eta = 0 without main effects (p,)."""


@dataclass(frozen=True, kw_only=True)
class _SaturatedCentring(Centring):
    """Centred saturated parameters in place of centred entries."""

    reader: Reader

    def rows(self, block: Block) -> Floats:
        parts = [
            rows.only_observed(rows.saturated - self.mean) * np.sqrt(rows.weight)[:, None]
            for rows in self.reader.chunks(block)
        ]
        return np.concatenate(parts)


def find_start(context: FitContext, reader: Reader, *, n_components: int, fit_intercept: bool) -> Start:
    """Principal components of the saturated parameters with the main effects of the means."""
    summary, family = context.summary, reader.family
    varies = (summary.maximum > summary.minimum) & (summary.variance > _CONSTANT * summary.mean**2)
    # Rounding may take the mean of a constant column out of the support; 1 is in the support of every family.
    mean = np.clip(
        np.where(varies | (summary.weight > 0), summary.mean, 1.0), summary.minimum, summary.maximum
    )
    mean = np.where(summary.weight > 0, mean, 1.0)
    links, nothing = family.link(np.where(varies, mean, 0.5)), np.zeros(len(mean))
    null_eta = links if fit_intercept else nothing

    def sums(rows: SaturatedRows) -> Floats:
        null = family.deviance(rows.x, np.broadcast_to(null_eta, rows.x.shape))
        terms = (np.ones(rows.x.shape), rows.saturated, family.saturated(rows.x), null)
        return np.array([rows.weight @ rows.weigh(term) for term in terms])

    weight, parameters, saturated, null = reader.sum(context, sums)
    if fit_intercept:  # a column with one value has an infinite link and no deviance
        null = null * varies
    centre = parameters / np.maximum(weight, _TINY) if fit_intercept else nothing
    vectors = _leading(context, _SaturatedCentring(centre, reader=reader), n_components)
    if fit_intercept and varies.sum() >= n_components:
        vectors[~varies] = 0.0  # of rounding: columns with one value are not in any component
    # The signs of eigenvectors are chance, and the order in which loadings are made sparse depends on them.
    vectors = vectors * fix_signs(vectors.T)
    # The link of a column with one value is infinite.
    typical = np.where(varies, links, saturated_parameters(family, mean, reader.bound))
    subspace = Subspace(vectors, typical if fit_intercept else nothing, typical)
    return Start(subspace, varies, float(saturated.sum()), float(weight.sum()), null)


def _leading(context: FitContext, centring: _SaturatedCentring, n_components: int) -> Floats:
    """Leading eigenvectors (p, k): the solution for real numbers, otherwise only a start, hence rough if large."""
    data = context.data
    if centring.reader.family.has_units or min(data.n_samples, data.n_features) <= _DENSE_LIMIT:
        spectrum = context.spectrum(centring, divisor=float(data.n_samples), n_components=n_components)
        return spectrum.vectors[:, :n_components].copy()
    times = StreamedGram(context, centring, 0.0).times
    found = leading_directions(times, data.n_features, n_components, context.rng, n_products=_PRODUCTS)
    return found[0].copy()
