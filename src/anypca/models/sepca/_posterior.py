"""Normal posteriors of columns, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Statistics, alone
from anypca.linalg import (
    PackedCholesky,
    congruent,
    doubled,
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    unpack_symmetric,
)
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models.sepca._scores import Affine
from anypca.priors import AdaptiveL0
from anypca.solvers import Share

# Columns whose matrices are unpacked together, 4 MB with 20 components: all at once they would take more memory than
# the table.
_COLUMNS_AT_ONCE = 1024
# Expected squares of loadings, in units of delta, that count as zeros: the price draws them there, and what has settled
# elsewhere is far larger.
_NEAR_ZERO = 100.0
# Least size that the relevance of a new component is set by, in units of the variance that its loadings start with: a
# direction without any loadings would have an infinite relevance, and could not grow.
_LEAST_SIZE = 1e-3


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
        precision = np.array(information, dtype=float)
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

    def columns(self, part: slice) -> Loadings:
        """Those of some columns, with what is known of them."""

        def of(array: Any) -> Any:
            return array if np.ndim(array) == 0 else array[part]

        some = replace(
            self,
            dispersion=self.dispersion[part],
            fixed_precision=self.fixed_precision[part],
            units=of(self.units),
            pace=of(self.pace),
        )
        covariance, determinant = self.known["packed_covariance"], self.known["log_determinant"]
        return some.with_posterior(
            self.mean[part],
            self.precision[part],
            packed_covariance=None if covariance is None else covariance[part],
            log_determinant=None if determinant is None else determinant[part],
        )

    @staticmethod
    def joined(parts: Sequence[Loadings]) -> Loadings:
        """The posterior of columns side by side, whose priors are the same, with covariances and determinants."""
        first = parts[0]
        if len(parts) == 1:
            return first

        def of(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return values[0] if np.ndim(values[0]) == 0 else np.concatenate(values)

        names = ("dispersion", "fixed_precision", "units", "pace")
        return replace(first, **{name: of(name) for name in names}).with_posterior(
            of("mean"),
            of("precision"),
            packed_covariance=of("packed_covariance"),
            log_determinant=of("log_determinant"),
        )

    def in_coordinates(self, mapping: Floats, change: Affine, share: Share = alone) -> Loadings:
        """Coefficients in new coordinates, ``w -> mapping w``, shape (m, m)."""
        inverse, known = np.linalg.inv(mapping), self.packed_covariance
        precision, covariance = np.empty_like(self.precision), np.empty_like(self.precision)

        def turn(run: slice) -> None:
            for part in parts_of(run):
                precision[part] = congruent(self.precision[part], inverse)
                covariance[part] = congruent(known[part], mapping.T)

        share(turn, len(precision))
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
        for part in parts_of(slice(0, len(self.mean))):
            covariance[part] = self.factor.packed_inverse(part)
        return covariance

    @property
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

    @property
    def gram(self) -> Floats:
        """Expected inner products of the components' loadings, in units, shape (k, k)."""
        k, mean = self.n_components, self.mean[:, : self.n_components]
        weights = np.broadcast_to(1.0 / self.unit_column[:, 0], len(mean))
        position = packed_position(self.mean.shape[1], k)
        unknown = (weights @ self.packed_covariance)[position]
        return np.asarray((mean / self.unit_column).T @ mean + unpack_symmetric(unknown[None], k)[0])

    @cached_property
    def sizes(self) -> Floats:
        """Expected squared length of each component's loadings, in units, shape (k,)."""
        k = self.n_components
        return np.asarray((self.squares[:, :k] / self.unit_column).sum(axis=0))

    @cached_property
    def squares(self) -> Floats:
        """Expected squares of all coefficients, shape (n_features, m)."""
        return self.mean**2 + self.packed_covariance[:, packed_diagonal(self.mean.shape[1])]

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
        variances = self.packed_covariance @ doubled(packed_products(inverse), m).T
        determinant = self.log_determinant + 2.0 * np.linalg.slogdet(mapping)[1]
        return replace(self, alpha=alpha)._divergence((self.mean @ inverse.T) ** 2 + variances, determinant)

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


def parts_of(run: slice) -> Iterator[slice]:
    """Shorter runs of columns, one at least."""
    for start in range(run.start, max(run.stop, run.start + 1), _COLUMNS_AT_ONCE):
        yield slice(start, min(start + _COLUMNS_AT_ONCE, run.stop))


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
