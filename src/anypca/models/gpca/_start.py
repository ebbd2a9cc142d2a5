"""Where a fit starts: the columns' means and the principal components of the saturated parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Data, Executor
from anypca.linalg import fix_signs
from anypca.models.gpca._rows import Reader, Rows, Subspace
from anypca.models.gpca._saturated import saturated_parameters
from anypca.solvers.closed_form import Centring, covariance_spectrum

_TINY = np.finfo(float).tiny
# Rows or columns up to which principal components are found exactly: the eigenproblem is then nothing beside a fit.
_DENSE_LIMIT = 500
_POWER_ITERATIONS = 5
_OVERSAMPLING = 6


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


def sum_rows(data: Data, executor: Executor, reader: Reader, function: Callable[[Rows], Floats]) -> Floats:
    """Sum of an array that ``function`` makes of some rows, over all rows."""

    def visit(block: Block, _: None) -> tuple[None, Floats]:
        return None, reduce(add, (function(rows) for rows in reader.chunks(block)))

    return executor.sweep(visit, data)[1]


def find_facts(data: Data, executor: Executor, reader: Reader) -> Facts:
    """One pass over the table."""

    def visit(block: Block, _: None) -> tuple[None, Facts]:
        return None, reduce(add, (_facts_of(reader, rows) for rows in reader.chunks(block)))

    return executor.sweep(visit, data)[1]


def _facts_of(reader: Reader, rows: Rows) -> Facts:
    w = rows.weight
    counts = (w > 0)[:, None] & (True if rows.observed is None else rows.observed)
    return Facts(
        w @ counts,
        w @ rows.only_observed(rows.x),
        w @ rows.only_observed(rows.saturated),
        w @ rows.only_observed(reader.family.saturated(rows.x)),
        rows.x.min(axis=0, where=counts, initial=np.inf),
        rows.x.max(axis=0, where=counts, initial=-np.inf),
    )


def null_deviance(
    data: Data, executor: Executor, reader: Reader, facts: Facts, *, fit_intercept: bool
) -> float:
    """Deviance of the columns' means, or of eta = 0 without main effects."""
    family, varies = reader.family, facts.varies
    eta = family.link(np.where(varies, facts.mean, 0.5)) if fit_intercept else np.zeros(len(varies))
    # A column with one value has an infinite link and no deviance.
    used = varies.astype(float) if fit_intercept else np.ones(len(varies))

    def function(rows: Rows) -> Floats:
        terms = rows.only_observed(family.deviance(rows.x, np.broadcast_to(eta, rows.x.shape)))
        return np.array([rows.weight @ terms @ used])

    return float(sum_rows(data, executor, reader, function)[0])


def main_effects(reader: Reader, facts: Facts) -> Floats:
    """Links of the means (p,); of a column with one value its saturated parameter, since the link is infinite."""
    varies = facts.varies
    links = reader.family.link(np.where(varies, facts.mean, 0.5))
    return np.where(varies, links, saturated_parameters(reader.family, facts.mean, reader.bound))


@dataclass(frozen=True, kw_only=True)
class _SaturatedRows(Centring):
    """Centred saturated parameters in place of centred entries."""

    reader: Reader

    def rows(self, block: Block) -> Floats:
        parts = [
            rows.only_observed(rows.saturated - self.mean) * np.sqrt(rows.weight)[:, None]
            for rows in self.reader.chunks(block)
        ]
        return np.concatenate(parts)


def start(
    data: Data,
    executor: Executor,
    reader: Reader,
    facts: Facts,
    *,
    n_components: int,
    fit_intercept: bool,
    rng: np.random.Generator,
) -> Subspace:
    """Principal components of the saturated parameters with the main effects of the means."""
    nothing = np.zeros(data.n_features)
    centre = facts.parameters / np.maximum(facts.weight, _TINY) if fit_intercept else nothing
    centring = _SaturatedRows(centre, reader=reader)
    # For real numbers this is the answer, elsewhere only a start.
    is_exact = reader.family.has_units or min(data.n_samples, data.n_features) <= _DENSE_LIMIT
    find = _principal if is_exact else _roughly_principal
    vectors = find(data, executor, centring, n_components, rng)
    if fit_intercept and facts.varies.sum() >= n_components:
        vectors[~facts.varies] = 0.0  # of rounding: columns with one value are not in any component
    # The signs of eigenvectors are chance, and the order in which loadings are made sparse depends on them.
    vectors = vectors * fix_signs(vectors.T)
    typical = main_effects(reader, facts)
    return Subspace(vectors, typical if fit_intercept else nothing, typical)


def _principal(
    data: Data, executor: Executor, centring: Centring, n_components: int, rng: np.random.Generator
) -> Floats:
    """Leading eigenvectors (p, k) to working precision."""
    spectrum = covariance_spectrum(
        data, executor, centring, divisor=float(data.n_samples), n_components=n_components, rng=rng
    )
    return spectrum.vectors[:, :n_components].copy()


def _roughly_principal(
    data: Data, executor: Executor, centring: Centring, n_components: int, rng: np.random.Generator
) -> Floats:
    """Leading eigenvectors (p, k) by a few steps of subspace iteration, nothing larger than a block being made."""
    width = min(n_components + _OVERSAMPLING, data.n_features)
    basis = np.linalg.qr(rng.standard_normal((data.n_features, width)))[0]
    for _ in range(_POWER_ITERATIONS):

        def visit(block: Block, _: None, basis: Floats = basis) -> tuple[None, Floats]:
            rows = centring.rows(block)
            return None, rows.T @ (rows @ basis)

        image = executor.sweep(visit, data)[1]
        rotation = np.linalg.eigh(basis.T @ image)[1][:, ::-1]
        basis = np.linalg.qr(image @ rotation)[0]
    return basis[:, :n_components].copy()
