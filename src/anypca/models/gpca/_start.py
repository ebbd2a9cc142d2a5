"""Where a fit starts: the columns' means and the principal components of the saturated parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import fix_signs, leading_directions
from anypca.models._context import FitContext
from anypca.models.gpca._projection import Subspace
from anypca.models.gpca._reader import Reader, SaturatedRows, saturated_parameters
from anypca.solvers.closed_form import Centring

_TINY = np.finfo(float).tiny
# Rows or columns up to which principal components are found exactly: the eigenproblem is then nothing beside a fit.
_DENSE_LIMIT = 500
# Products of the range finder; the iterations of the fit correct what five of them leave.
_PRODUCTS = 5


@dataclass(frozen=True, eq=False)
class Facts:
    """What one pass tells of the observed entries, column by column (p,); they add."""

    weight: Floats
    total: Floats
    """Weighted sum of the entries."""
    parameters: Floats
    """Weighted sum of the saturated parameters."""
    saturated: Floats
    """The value of a saturated model."""
    low: Floats
    """Smallest entry of a row of positive weight."""
    high: Floats

    def __add__(self, other: Facts) -> Facts:
        return Facts(
            self.weight + other.weight,
            self.total + other.total,
            self.parameters + other.parameters,
            self.saturated + other.saturated,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def varies(self) -> Bools:
        """Which columns have more than one value."""
        return self.high > self.low

    @property
    def mean(self) -> Floats:
        """Means of the entries; 1 for a column without any, which every family supports."""
        # Rounding may take the mean of a constant column out of the support.
        mean = np.clip(self.total / np.maximum(self.weight, _TINY), self.low, self.high)
        return np.where(self.weight > 0, mean, 1.0)


def facts_of(family: Family, rows: SaturatedRows) -> Facts:
    """The facts that some rows tell."""
    w = rows.weight
    counts = (w > 0)[:, None] & (True if rows.observed is None else rows.observed)
    return Facts(
        w @ rows.weigh(np.ones(rows.x.shape)),
        w @ rows.weigh(rows.x),
        w @ rows.weigh(rows.saturated),
        w @ rows.weigh(family.saturated(rows.x)),
        rows.x.min(axis=0, where=counts, initial=np.inf),
        rows.x.max(axis=0, where=counts, initial=-np.inf),
    )


def null_deviance(session: FitContext, reader: Reader, facts: Facts, *, fit_intercept: bool) -> Floats:
    """Deviances of the columns' means, or of eta = 0 without main effects, (n_features,)."""
    family, varies = reader.family, facts.varies
    eta = family.link(np.where(varies, facts.mean, 0.5)) if fit_intercept else np.zeros(len(varies))
    # A column with one value has an infinite link and no deviance.
    used = varies.astype(float) if fit_intercept else np.ones(len(varies))

    def deviance(rows: SaturatedRows) -> Floats:
        terms = rows.weigh(family.deviance(rows.x, np.broadcast_to(eta, rows.x.shape)))
        return np.asarray(rows.weight @ terms * used)

    return reader.sum(session, deviance)


def main_effects(reader: Reader, facts: Facts) -> Floats:
    """Links of the means (p,); of a column with one value its saturated parameter, since the link is infinite."""
    varies = facts.varies
    links = reader.family.link(np.where(varies, facts.mean, 0.5))
    return np.where(varies, links, saturated_parameters(reader.family, facts.mean, reader.bound))


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


def start(
    session: FitContext, reader: Reader, facts: Facts, *, n_components: int, fit_intercept: bool
) -> Subspace:
    """Principal components of the saturated parameters with the main effects of the means."""
    data, nothing = session.data, np.zeros(session.data.n_features)
    centre = facts.parameters / np.maximum(facts.weight, _TINY) if fit_intercept else nothing
    centring = _SaturatedCentring(centre, reader=reader)
    # For real numbers this is the answer, elsewhere only a start.
    is_exact = reader.family.has_units or min(data.n_samples, data.n_features) <= _DENSE_LIMIT
    vectors = (_principal if is_exact else _roughly_principal)(session, centring, n_components)
    if fit_intercept and facts.varies.sum() >= n_components:
        vectors[~facts.varies] = 0.0  # of rounding: columns with one value are not in any component
    # The signs of eigenvectors are chance, and the order in which loadings are made sparse depends on them.
    vectors = vectors * fix_signs(vectors.T)
    typical = main_effects(reader, facts)
    return Subspace(vectors, typical if fit_intercept else nothing, typical)


def _principal(session: FitContext, centring: Centring, n_components: int) -> Floats:
    """Leading eigenvectors (p, k) to working precision."""
    # The divisor has no influence on eigenvectors.
    spectrum = session.spectrum(centring, divisor=float(session.data.n_samples), n_components=n_components)
    return spectrum.vectors[:, :n_components].copy()


def _roughly_principal(session: FitContext, centring: Centring, n_components: int) -> Floats:
    """Leading eigenvectors (p, k) by a few steps of subspace iteration, nothing larger than a block being made."""

    def multiply(basis: Floats) -> Floats:
        def visit(block: Block, _: None) -> Floats:
            rows = centring.rows(block)
            return rows.T @ (rows @ basis)

        return np.asarray(session.sum(visit))

    n_features = session.data.n_features
    return leading_directions(multiply, n_features, n_components, session.rng, n_products=_PRODUCTS)[0].copy()
