"""Normal posteriors of rows and columns, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Statistics
from anypca.linalg import (
    PackedCholesky,
    congruent,
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    unpack_symmetric,
)
from anypca.models._bilinear.evaluator import Coefficients
from anypca.priors import AdaptiveL0

# Columns whose matrices are unpacked together, 4 MB with 20 components: all at once they would take more memory than
# the table.
_COLUMNS_AT_ONCE = 1024
# Expected squares of loadings, in units of delta, that count as zeros: the price draws them there, and what has settled
# elsewhere is far larger.
_NEAR_ZERO = 100.0
# Least size that the relevance of a new component is set by, in units of the variance that its loadings start with: a
# direction without any loadings would have an infinite relevance, and could not grow.
_LEAST_SIZE = 1e-3


class Scores(NamedTuple):
    """q(z) of the rows of a block."""

    mean: Floats
    """(rows, k)."""
    precision: Floats
    """Packed, (rows, k (k + 1) / 2)."""

    def take(self, keep: Ints) -> Scores:
        """Some of the components."""
        full = unpack_symmetric(self.precision, self.mean.shape[1])
        return Scores(self.mean[:, keep], pack_symmetric(full[:, keep][:, :, keep]))

    def extended(self) -> Scores:
        """With one component more, still at its prior."""
        n, k = self.mean.shape
        full = np.tile(np.eye(k + 1), (n, 1, 1))
        full[:, :k, :k] = unpack_symmetric(self.precision, k)
        return Scores(np.hstack([self.mean, np.zeros((n, 1))]), pack_symmetric(full))


class Affine(NamedTuple):
    """A change of latent coordinates, ``z -> matrix (z - shift)``."""

    shift: Floats
    matrix: Floats

    def apply(self, scores: Scores) -> Scores:
        """Posteriors in the new coordinates."""
        inverse = np.linalg.inv(self.matrix)
        return Scores((scores.mean - self.shift) @ self.matrix.T, congruent(scores.precision, inverse))


@dataclass(frozen=True, eq=False)
class Loadings:
    """q(w) of all columns, relevance and dispersion."""

    mean: Floats
    """v, shape (n_features, m): loadings, then intercept and covariates."""
    precision: Floats
    """Inverse of C, packed, shape (n_features, m (m + 1) / 2)."""
    alpha: Floats
    """Prior precision of the components, in units of the columns, shape (k,)."""
    dispersion: Floats
    """(n_features,)."""
    fixed_precision: Floats
    """Prior precision of intercept and covariates, 0 where flat, shape (n_features, m - k)."""
    sparsity: float = 0.0
    """Price of a non-zero loading."""
    delta: float = AdaptiveL0.delta
    """Squared loadings well below it count as zeros."""
    units: Floats | float = 1.0
    """Squared units of the columns' predictors, one for all or shape (n_features,): the prior is in these."""
    pace: Floats | float = 1.0
    """Part of the way that each column's next update goes, one for all or shape (n_features,)."""
    change: Affine | None = None
    """How scores under the previous loadings translate to these."""

    @property
    def n_components(self) -> int:
        return len(self.alpha)

    @property
    def coefficients(self) -> Coefficients:
        """The posterior means."""
        k = self.n_components
        return Coefficients(self.mean[:, :k], self.mean[:, k:], self.dispersion)

    @property
    def unit_column(self) -> Floats:
        """The units as a column, shape (1, 1) or (n_features, 1)."""
        return np.reshape(np.asarray(self.units, dtype=float), (-1, 1))

    def unitless(self) -> Loadings:
        """The same posterior under a prior that knows no units, with the relevance that belongs to it."""
        if isinstance(self.units, float):
            return self
        plain = replace(self, units=1.0)
        return plain.with_relevance(len(self.mean) / plain.sizes)

    def with_prior(self, information: Floats) -> Floats:
        """Information about all coefficients, packed, with the precision of their prior."""
        k, diagonal = self.n_components, packed_diagonal(self.mean.shape[1])
        precision = information.copy()
        precision[:, diagonal[:k]] += self.alpha / self.unit_column
        precision[:, diagonal[k:]] += self.fixed_precision
        return precision

    def with_posterior(
        self,
        mean: Floats,
        precision: Floats,
        *,
        factor: PackedCholesky | None = None,
        packed_covariance: Floats | None = None,
        log_determinant: Floats | None = None,
    ) -> Loadings:
        """Another posterior, with those of its properties that are known already."""
        new = replace(self, mean=mean, precision=precision)
        # A cached property looks for its value in ``__dict__`` before it computes it.
        known = {"factor": factor, "packed_covariance": packed_covariance, "log_determinant": log_determinant}
        new.__dict__.update({name: value for name, value in known.items() if value is not None})
        return new

    @property
    def known(self) -> dict[str, Any]:
        """What has been computed of the posterior, for `with_posterior`."""
        return {name: self.__dict__.get(name) for name in ("factor", "packed_covariance", "log_determinant")}

    def with_relevance(self, alpha: Floats) -> Loadings:
        """The same posterior beside another prior."""
        return replace(self, alpha=alpha).with_posterior(self.mean, self.precision, **self.known)

    def in_coordinates(self, mapping: Floats, change: Affine) -> Loadings:
        """Coefficients in new coordinates, ``w -> mapping w``, shape (m, m)."""
        inverse = np.linalg.inv(mapping)
        precision, covariance = np.empty_like(self.precision), np.empty_like(self.precision)
        for part in self._parts():
            precision[part] = congruent(self.precision[part], inverse)
            covariance[part] = congruent(self.packed_covariance[part], mapping.T)
        determinant = self.log_determinant - 2.0 * np.linalg.slogdet(mapping)[1]
        return replace(self, change=change).with_posterior(
            self.mean @ mapping.T, precision, packed_covariance=covariance, log_determinant=determinant
        )

    @cached_property
    def factor(self) -> PackedCholesky:
        return PackedCholesky(self.precision, self.mean.shape[1])

    @cached_property
    def log_determinant(self) -> Floats:
        """Log determinants of the precisions, shape (n_features,)."""
        return self.factor.log_determinant()

    @property
    def covariance(self) -> Floats:
        """C, shape (n_features, m, m); not kept, being the largest of all."""
        return self.factor.inverse()

    @property
    def deviations(self) -> Floats:
        """Standard deviations of q(w), shape (n_features, k)."""
        k = self.n_components
        return np.asarray(np.sqrt(np.einsum("jaa->ja", self.covariance[:, :k, :k])))

    @cached_property
    def signal_ratio(self) -> Floats:
        """Squared loadings over their posterior variance, shape (k,)."""
        k = self.n_components
        squared = (self.mean[:, :k] ** 2 / self.unit_column).sum(axis=0)
        variance = self.packed_covariance[:, packed_diagonal(self.mean.shape[1])[:k]]
        return np.asarray(squared / (variance / self.unit_column).sum(axis=0))

    @cached_property
    def packed_covariance(self) -> Floats:
        """C, packed, shape (n_features, m (m + 1) / 2)."""
        covariance = np.empty_like(self.precision)
        for part in self._parts():
            covariance[part] = self.factor.packed_inverse(part)
        return covariance

    @cached_property
    def second_moment(self) -> Floats:
        """M = v v' + C, packed, shape (n_features, m (m + 1) / 2)."""
        return packed_products(self.mean) + self.packed_covariance

    @property
    def moment_around_fixed(self) -> Floats:
        """The same of loadings alone, with intercepts and covariates' coefficients around their means.

        In variances of predictors these means cancel; squared they would leave nothing but rounding where a column's
        mean is a million times its noise.
        """
        around = self.mean.copy()
        around[:, self.n_components :] = 0.0
        return packed_products(around) + self.packed_covariance

    def _parts(self) -> Iterator[slice]:
        """Runs of columns."""
        for start in range(0, len(self.mean), _COLUMNS_AT_ONCE):
            yield slice(start, start + _COLUMNS_AT_ONCE)

    @cached_property
    def sizes(self) -> Floats:
        """Expected squared length of each component's loadings, in units, shape (k,)."""
        k = self.n_components
        return np.asarray((self.squares[:, :k] / self.unit_column).sum(axis=0))

    @cached_property
    def squares(self) -> Floats:
        """Expected squares of all coefficients, shape (n_features, m)."""
        return self.second_moment[:, packed_diagonal(self.mean.shape[1])]

    @property
    def shrinkage(self) -> Floats:
        """Precision that the price of non-zeros amounts to at these loadings, shape (n_features, k)."""
        return AdaptiveL0(weight=self.sparsity, delta=self.delta).shrinkage(
            self.squares[:, : self.n_components]
        )

    @cached_property
    def divergence(self) -> Floats:
        """KL of each column to its prior, up to the flat coordinates' constant, shape (n_features,).

        With ``sparsity`` the price of non-zeros is added, in its adaptive form and by Jensen's bound.
        """
        return self._divergence(self.squares, self.log_determinant)

    def divergence_from(self, mapping: Floats, alpha: Floats) -> Floats:
        """The same in the coordinates that ``mapping``, (m, m), led here from, with the relevance of before."""
        inverse, m = np.linalg.inv(mapping), self.mean.shape[1]
        weights = 2.0 * packed_products(inverse)
        weights[:, packed_diagonal(m)] *= 0.5
        determinant = self.log_determinant + 2.0 * np.linalg.slogdet(mapping)[1]
        return replace(self, alpha=alpha)._divergence(self.second_moment @ weights.T, determinant)

    def _divergence(self, expected: Floats, log_determinant: Floats) -> Floats:
        """From expected squares of the coefficients and log determinants of their precisions."""
        k, m, unit = self.n_components, self.mean.shape[1], self.unit_column
        prior = (expected[:, :k] / unit) @ self.alpha - np.log(self.alpha).sum() + k * np.log(unit[:, 0])
        if self.sparsity > 0:
            prior += 2.0 * self.sparsity * np.log1p(expected[:, :k] / self.delta).sum(axis=1)
        tau = self.fixed_precision
        prior += (tau * expected[:, k:] - np.log(np.where(tau > 0, tau, 1.0))).sum(axis=1)
        # A flat coordinate has no prior; its entropy enters with the constant of a unit normal.
        return np.asarray(0.5 * (prior + log_determinant - m))


@dataclass(frozen=True, eq=False)
class VariationalStats(Statistics):
    """What the blocks of a sweep add up to. "Entry" is before the rows' step, "exit" after it."""

    entry_columns: Floats
    """Expected log-likelihood of each column at entry, shape (n_features,)."""
    exit_columns: Floats
    """The same at exit."""
    score_divergence: float
    """Weighted sum of the rows' KL to their prior."""
    target: Floats
    """Right-hand sides of the columns' means, shape (n_features, m)."""
    information: Floats
    """Packed, shape (n_features, m (m + 1) / 2)."""
    row_decrement: float
    """Weighted sum of the rows' squared steps in units of their posterior."""
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    score_sum: Floats
    """Weighted sum of means of the scores, shape (k,)."""
    score_moment: Floats
    """Weighted sum of second moments of the scores, shape (k, k)."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Scores of a block with what follows from them."""

    scores: Scores
    factor: PackedCholesky
    design: Floats
    """(m~, f), shape (rows, m)."""
    second: Floats
    """T, packed, shape (rows, m (m + 1) / 2)."""
    trace: Floats
    """Trace of S, shape (rows,)."""

    @classmethod
    def of(cls, scores: Scores, features: Floats, *, factor: PackedCholesky | None = None) -> Moments:
        """From posteriors and fixed features, (rows, m - k); the factor of the precisions where it is known."""
        k = scores.mean.shape[1]
        factor = PackedCholesky(scores.precision, k) if factor is None else factor
        covariance = factor.packed_inverse()
        design = np.hstack([scores.mean, features])
        second = packed_products(design)
        second[:, packed_position(design.shape[1], k)] += covariance
        return cls(scores, factor, design, second, covariance[:, packed_diagonal(k)].sum(axis=1))

    def take(self, index: Ints) -> Moments:
        """Those of some rows."""
        scores = Scores(self.scores.mean[index], self.scores.precision[index])
        return Moments.of(scores, self.design[index, scores.mean.shape[1] :])

    @property
    def divergence(self) -> Floats:
        """KL of each row to N(0, I), shape (rows,)."""
        mean = self.scores.mean
        return np.asarray(
            0.5
            * (np.einsum("ia,ia->i", mean, mean) + self.trace + self.factor.log_determinant() - mean.shape[1])
        )


def between(old: Scores, new: Scores, fraction: Floats) -> Scores:
    """Part of the way from old to new, row by row, in mean and precision."""
    t = fraction[:, None]
    return Scores(old.mean + t * (new.mean - old.mean), old.precision + t * (new.precision - old.precision))


def drop_components(shared: Loadings, keep: Ints) -> Loadings:
    """The posterior without some components."""
    k, m = shared.n_components, shared.mean.shape[1]
    columns = np.concatenate([keep, np.arange(k, m)]).astype(int)
    full = unpack_symmetric(shared.precision, m)[:, columns][:, :, columns]
    return replace(
        shared,
        mean=shared.mean[:, columns],
        precision=pack_symmetric(full),
        alpha=shared.alpha[keep],
        change=None,
    )


def add_component(shared: Loadings, loading: Floats, variance: Floats) -> Loadings:
    """The posterior with one component more: its loadings and their variances, (n_features,) each."""
    k, m = shared.n_components, shared.mean.shape[1]
    old = np.concatenate([np.arange(k), np.arange(k + 1, m + 1)])
    full = np.zeros((len(shared.mean), m + 1, m + 1))
    full[np.ix_(np.arange(len(full)), old, old)] = unpack_symmetric(shared.precision, m)
    full[:, k, k] = 1.0 / variance
    return replace(
        shared,
        mean=np.insert(shared.mean, k, loading, axis=1),
        precision=pack_symmetric(full),
        alpha=np.append(shared.alpha, start_relevance(loading[:, None], variance, shared.units)),
        change=None,
    )


def start_relevance(loadings: Floats, variance: Floats, units: Floats | float) -> Floats:
    """Relevance (k,) of components with loadings (n_features, k) that start with variances (n_features,)."""
    unit = np.reshape(units, (-1, 1))
    sizes = np.maximum((loadings**2 / unit).mean(axis=0), _LEAST_SIZE * (variance / unit[:, 0]).mean())
    return np.asarray(1.0 / sizes)


def snapped(shared: Loadings) -> Floats:
    """Means of the loadings with exact zeros where the price of non-zeros has left nothing, (n_features, k)."""
    k = shared.n_components
    mean = shared.mean[:, :k]
    if shared.sparsity == 0:
        return mean
    return np.where(shared.squares[:, :k] < _NEAR_ZERO * shared.delta, 0.0, mean)
