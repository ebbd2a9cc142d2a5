"""Normal posteriors of rows (scores) and columns (loadings), and derived quantities.

Symmetric matrices are packed: their upper triangles, row by row; see `anypca.linalg`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.linalg import (
    PackedCholesky,
    congruent,
    doubled,
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    packed_times,
    unpack_symmetric,
)
from anypca.models._bilinear.evaluator import Coefficients
from anypca.priors import AdaptiveL0

# Matrices up to which LAPACK, one matrix after the other, is faster than `PackedCholesky`, all of them at once.
_FEW_MATRICES = 200
# Columns whose matrices are factored together: all at once they would take more memory than the table.
_COLUMNS_AT_ONCE = 1024
# Expected squares of loadings, in units of delta, that count as zeros: the penalty of non-zeros shrinks loadings to
# less than delta, and others settle at far larger values.
_NEAR_ZERO = 100.0


class Scores(NamedTuple):
    """q(z) of the rows of a block."""

    mean: Floats
    """(rows, k)."""
    precision: Floats
    """Packed, (rows, k (k + 1) / 2), or one row that all rows share."""

    @classmethod
    def prior(cls, n_rows: int, k: int) -> Scores:
        """The prior of every row, N(0, I)."""
        return cls(np.zeros((n_rows, k)), pack_symmetric(np.eye(k))[None].repeat(n_rows, axis=0))

    def take_components(self, keep: Ints) -> Scores:
        """Conditional posteriors of some of the components, the others being zero."""
        full = unpack_symmetric(self.precision, self.mean.shape[1])
        return Scores(self.mean[:, keep], pack_symmetric(full[:, keep][:, :, keep]))

    def with_component(self) -> Scores:
        """The scores with one more component, which is at its prior."""
        (n, k), n_matrices = self.mean.shape, len(self.precision)
        full = np.tile(np.eye(k + 1), (n_matrices, 1, 1))
        full[:, :k, :k] = unpack_symmetric(self.precision, k)
        return Scores(np.hstack([self.mean, np.zeros((n, 1))]), pack_symmetric(full))

    def towards(self, other: Scores, fraction: Floats) -> Scores:
        """Scores a fraction (rows,) of the way to others, in mean and precision."""
        pairs = zip(self, other, strict=True)
        return Scores(*(here + fraction[:, None] * (there - here) for here, there in pairs))


class Affine(NamedTuple):
    """A change of latent coordinates, ``z -> matrix (z - shift)``."""

    shift: Floats
    matrix: Floats

    def apply(self, scores: Scores) -> Scores:
        """Posteriors in the new coordinates."""
        inverse = np.linalg.inv(self.matrix)
        return Scores((scores.mean - self.shift) @ self.matrix.T, congruent(scores.precision, inverse))

    def mapping(self, m: int, *, fit_intercept: bool) -> Floats:
        """The matrix (m, m) that changes a column's coefficients such that its predictor stays."""
        k, mapping = len(self.shift), np.eye(m)
        mapping[:k, :k] = np.linalg.inv(self.matrix).T
        if fit_intercept:
            mapping[k, :k] = self.shift
        return mapping


@dataclass(frozen=True, eq=False)
class Moments:
    """Scores of a block with their covariances and second moments."""

    scores: Scores
    design: Floats
    """Means of the scores, then the fixed features (intercept and covariates), shape (rows, m)."""
    covariance: Floats
    """Packed, (rows, k (k + 1) / 2), or one row that all rows share."""
    divergence: Floats
    """KL of each row to N(0, I), shape (rows,)."""

    @classmethod
    def of(cls, scores: Scores, features: Floats, inverse: tuple[Floats, Floats] | None = None) -> Moments:
        """From posteriors and fixed features (rows, m - k), with the value of `invert` if it is known."""
        mean, k = scores.mean, scores.mean.shape[1]
        covariance, log_determinant = invert(scores.precision, k) if inverse is None else inverse
        trace = covariance[:, packed_diagonal(k)].sum(axis=1)
        divergence = 0.5 * (np.einsum("ia,ia->i", mean, mean) + trace + log_determinant - k)
        return cls(scores, np.hstack([mean, features]), covariance, divergence)

    @cached_property
    def second(self) -> Floats:
        """Second moments of scores and fixed features, packed, shape (rows, m (m + 1) / 2)."""
        second = packed_products(self.design)
        second[:, packed_position(self.design.shape[1], self.scores.mean.shape[1])] += self.covariance
        return second


def invert(packed: Floats, size: int) -> tuple[Floats, Floats]:
    """Inverses of packed positive definite matrices, packed, and the log determinants of the matrices."""
    if len(packed) <= _FEW_MATRICES:
        full = unpack_symmetric(packed, size)
        try:
            root = np.linalg.cholesky(full)
        except np.linalg.LinAlgError:  # a direction without information, which the other way leaves out
            pass
        else:
            inverse = pack_symmetric(np.linalg.inv(full))
            return inverse, 2.0 * np.log(np.einsum("iaa->ia", root)).sum(axis=1)
    factor = PackedCholesky(packed, size)
    return factor.packed_inverse(), factor.log_determinant()


@dataclass(frozen=True, eq=False)
class Loadings:
    r"""q(w) of all columns with their prior :math:`w_{jk} \sim N(0, u_j / \alpha_k)` and their dispersions."""

    mean: Floats
    """Shape (n_features, m): loadings, then intercept and covariates."""
    precision: Floats
    """Packed, shape (n_features, m (m + 1) / 2)."""
    covariance: Floats
    """Inverse of the precision, packed likewise."""
    log_determinant: Floats
    """Of the precisions, shape (n_features,)."""
    ard_precision: Floats
    """Prior precision of each component's loadings in units of the columns, shape (k,)."""
    dispersion: Floats
    """(n_features,)."""
    fixed_precision: Floats
    """Prior precision of intercept and covariates, 0 where flat, shape (n_features, m - k)."""
    units: Floats
    """Squared units of the columns' predictors, shape (n_features,)."""
    sparsity: float = 0.0
    """Price of a non-zero loading."""
    delta: float = AdaptiveL0.delta
    """Squared loadings well below it count as zeros."""
    change: Affine | None = None
    """How scores under the previous loadings translate to these."""

    @classmethod
    def starting(
        cls,
        mean: Floats,
        precision: Floats,
        ard_precision: Floats,
        dispersion: Floats,
        fixed_precision: Floats,
        units: Floats,
    ) -> Loadings:
        """A posterior by means and precisions."""
        empty = np.empty(0)
        prior = cls(mean, precision, empty, empty, ard_precision, dispersion, fixed_precision, units)
        return prior.with_posterior(mean, precision)

    def with_posterior(self, mean: Floats, precision: Floats) -> Loadings:
        """The same prior with another posterior."""
        covariance, determinant = np.empty_like(precision), np.empty(len(precision))
        for part in _runs(len(precision)):
            covariance[part], determinant[part] = invert(precision[part], mean.shape[1])
        return replace(
            self, mean=mean, precision=precision, covariance=covariance, log_determinant=determinant
        )

    def solved(self, precision: Floats, target: Floats) -> Loadings:
        """The posterior with a precision and the mean that solves ``precision mean = target``."""
        new = self.with_posterior(self.mean, precision)
        return replace(new, mean=packed_times(new.covariance, target))

    @property
    def n_components(self) -> int:
        return len(self.ard_precision)

    @property
    def coefficients(self) -> Coefficients:
        """The posterior means."""
        k = self.n_components
        return Coefficients(self.mean[:, :k], self.mean[:, k:], self.dispersion)

    def prior_precision(self) -> Floats:
        """Diagonal of the prior precision of all coefficients, shape (n_features, m)."""
        return np.hstack([self.ard_precision / self.units[:, None], self.fixed_precision])

    def with_prior(self, information: Floats) -> Floats:
        """Information of the entries, packed, plus the precision of the prior."""
        precision = np.array(information, dtype=float)
        precision[:, packed_diagonal(self.mean.shape[1])] += self.prior_precision()
        return precision

    def in_coordinates(self, mapping: Floats, change: Affine) -> Loadings:
        """Coefficients in new coordinates, ``w -> mapping w``, shape (m, m)."""
        return replace(
            self,
            mean=self.mean @ mapping.T,
            precision=congruent(self.precision, np.linalg.inv(mapping)),
            covariance=congruent(self.covariance, mapping.T),
            log_determinant=self.log_determinant - 2.0 * np.linalg.slogdet(mapping)[1],
            change=change,
        )

    @property
    def second_moment(self) -> Floats:
        """Second moments of all coefficients, packed, shape (n_features, m (m + 1) / 2)."""
        return packed_products(self.mean) + self.covariance

    @property
    def moment_around_fixed(self) -> Floats:
        """The same with intercepts and covariates' coefficients around their means.

        In variances of predictors these means cancel; squared they would leave nothing but rounding in a column whose
        mean is a million times its noise.
        """
        around = self.mean.copy()
        around[:, self.n_components :] = 0.0
        return packed_products(around) + self.covariance

    @property
    def squares(self) -> Floats:
        """Expected squares of all coefficients, shape (n_features, m)."""
        return self.mean**2 + self.covariance[:, packed_diagonal(self.mean.shape[1])]

    @property
    def gram(self) -> Floats:
        """Expected inner products of the components' loadings, in units, shape (k, k)."""
        k, mean = self.n_components, self.mean[:, : self.n_components]
        weights = 1.0 / self.units
        unknown = (weights @ self.covariance)[packed_position(self.mean.shape[1], k)]
        return np.asarray((mean * weights[:, None]).T @ mean + unpack_symmetric(unknown[None], k)[0])

    @property
    def sizes(self) -> Floats:
        """Expected squared length of each component's loadings, in units, shape (k,)."""
        return np.asarray((1.0 / self.units) @ self.squares[:, : self.n_components])

    @property
    def signal_ratio(self) -> Floats:
        """Squared loadings over their posterior variance, shape (k,)."""
        k, weights = self.n_components, 1.0 / self.units
        squared = weights @ self.mean[:, :k] ** 2
        return np.asarray(squared / (weights @ self.covariance[:, packed_diagonal(self.mean.shape[1])[:k]]))

    @property
    def deviations(self) -> Floats:
        """Standard deviations of q(w), shape (n_features, k)."""
        diagonal = packed_diagonal(self.mean.shape[1])[: self.n_components]
        return np.asarray(np.sqrt(self.covariance[:, diagonal]))

    @property
    def shrinkage(self) -> Floats:
        """Precision that the price of non-zeros amounts to at these loadings, shape (n_features, k)."""
        penalty = AdaptiveL0(weight=self.sparsity, delta=self.delta)
        return penalty.shrinkage(self.squares[:, : self.n_components])

    @property
    def snapped(self) -> Floats:
        """Means of the loadings, exactly zero where the price of non-zeros shrank them away, (n_features, k)."""
        k = self.n_components
        is_zero = (self.squares[:, :k] < _NEAR_ZERO * self.delta) & (self.sparsity > 0)
        return np.where(is_zero, 0.0, self.mean[:, :k])

    @property
    def divergence(self) -> Floats:
        """KL of each column to its prior, up to a constant of flat coordinates, shape (n_features,).

        With ``sparsity`` the price of non-zeros is added, in its adaptive form and by Jensen's bound.
        """
        return self._divergence(self.squares, self.log_determinant)

    def divergence_before(self, mapping: Floats, ard_precision: Floats) -> Floats:
        """The same in the coordinates before a ``mapping``, (m, m), with the prior of before."""
        inverse, m = np.linalg.inv(mapping), self.mean.shape[1]
        variances = self.covariance @ doubled(packed_products(inverse), m).T
        determinant = self.log_determinant + 2.0 * np.linalg.slogdet(mapping)[1]
        before = replace(self, ard_precision=ard_precision)
        return before._divergence((self.mean @ inverse.T) ** 2 + variances, determinant)

    def _divergence(self, squares: Floats, log_determinant: Floats) -> Floats:
        prior, m = self.prior_precision(), self.mean.shape[1]
        loss = (prior * squares - np.log(np.where(prior > 0, prior, 1.0))).sum(axis=1)
        if self.sparsity > 0:
            loss += 2.0 * self.sparsity * np.log1p(squares[:, : self.n_components] / self.delta).sum(axis=1)
        # A flat coordinate has no prior; its entropy enters with the constant of a unit normal.
        return np.asarray(0.5 * (loss + log_determinant - m))

    def take_components(self, keep: Ints) -> Loadings:
        """Conditional posterior of some of the components, the others being zero."""
        k, m = self.n_components, self.mean.shape[1]
        columns = np.concatenate([keep, np.arange(k, m)]).astype(int)
        full = unpack_symmetric(self.precision, m)[:, columns][:, :, columns]
        fewer = replace(self, ard_precision=self.ard_precision[keep], change=None)
        return fewer.with_posterior(self.mean[:, columns], pack_symmetric(full))

    def with_component(self, loading: Floats, variance: Floats) -> Loadings:
        """The posterior with one more component: its loadings and their variances, (n_features,) each."""
        k, m = self.n_components, self.mean.shape[1]
        old = np.concatenate([np.arange(k), np.arange(k + 1, m + 1)])
        full = np.zeros((len(self.mean), m + 1, m + 1))
        full[np.ix_(np.arange(len(full)), old, old)] = unpack_symmetric(self.precision, m)
        full[:, k, k] = 1.0 / variance
        added = start_precision(loading[:, None], variance, self.units)
        more = replace(self, ard_precision=np.append(self.ard_precision, added), change=None)
        return more.with_posterior(np.insert(self.mean, k, loading, axis=1), pack_symmetric(full))


def start_precision(loadings: Floats, variance: Floats, units: Floats) -> Floats:
    """ARD precisions (k,) of components with loadings (n_features, k) that start with variances (n_features,)."""
    return np.asarray(1.0 / ((loadings**2 + variance[:, None]) / units[:, None]).mean(axis=0))


def _runs(n_columns: int) -> Iterator[slice]:
    for start in range(0, n_columns, _COLUMNS_AT_ONCE):
        yield slice(start, min(start + _COLUMNS_AT_ONCE, n_columns))
