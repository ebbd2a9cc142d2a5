"""Entries of rows, and what one slab of the latent space adds to the variational bound of each of them.

Everything that the bound and its derivatives need of a family is in `Integrals`: closed forms for Poisson counts,
nested quadrature for all others. With ``A = offset + mu + b_-' m_-`` and t the last latent coordinate, the predictor is
``A + b t`` plus a normal deviation of variance ``sum b_l^2 s_l^2`` over the other coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family, Poisson
from anypca.models._opened import OpenedBlock, observed_only
from anypca.models.piecewise._pieces import Pieces
from anypca.models.piecewise._slabs import (
    FINE,
    Integrals,
    Predictors,
    Rule,
    integrate,
    integrate_derivatives,
    linear_integrals,
    rate_integrals,
)


@dataclass(frozen=True)
class Entries:
    """Rows with what the bound needs of them."""

    x: Floats
    """Entries, a value of the support where missing (rows, n_features)."""
    observed: Bools | None
    """``None`` for complete rows."""
    offset: Floats | None
    """With what covariates add; (rows, n_features) or (rows, 1)."""
    base: Floats
    """Terms of the log-likelihood without the predictor, summed over the columns (rows,)."""
    family: Family
    dispersion: Floats
    """(n_features,)"""
    rule: Rule = FINE

    #: Whether second derivatives are rates, whose weight moves the posterior of w by ``b s^2``. Where they are not,
    #: that move is left out of the model of the curvature, which only shapes the steps.
    has_rates: ClassVar[bool] = False

    def take(self, rows: Ints) -> Entries:
        """Some of the rows."""
        observed = None if self.observed is None else self.observed[rows]
        offset = None if self.offset is None else self.offset[rows]
        return replace(self, x=self.x[rows], observed=observed, offset=offset, base=self.base[rows])

    def terms(self, matrix: Floats, low: float, high: float, m: Floats, s: Floats) -> Integrals:
        """Terms of the piece with a map (n_features, q + 1) under N(m, diag s^2) of each row; 0 where missing."""
        on = self._predictors(matrix, m, s)
        found = integrate_derivatives(self._derivatives, on, (low, high), self.rule)
        return Integrals(*(self._seen(term) for term in found))

    def values(self, pieces: Pieces, m: Floats, s: Floats, dispersion: Floats) -> Floats:
        """Expected log-likelihoods at another dispersion, all constants included (rows, n_features)."""

        def value(eta: Floats, rows: Ints) -> Floats:
            x = np.broadcast_to(self.x[rows][:, None], eta.shape)
            return self.family.evaluate(x, eta, dispersion, order=0).value

        return self._seen(self.family.log_base(self.x, dispersion) + self.expect(value, pieces, m, s))

    def expect(
        self, function: Callable[[Floats, Ints], Floats], pieces: Pieces, m: Floats, s: Floats
    ) -> Floats:
        """Expectations of a function of the predictors, also of missing entries (rows, n_features)."""
        total = np.zeros_like(self.x)
        for matrix, low, high in pieces.slabs:
            total += integrate(function, self._predictors(matrix, m, s), (low, high), self.rule)
        return total

    def _predictors(self, matrix: Floats, m: Floats, s: Floats) -> Predictors:
        """Predictors of one piece given t."""
        B = matrix[:, :-2]
        variance = (s[:, :-1] ** 2) @ (B * B).T
        return Predictors(
            self._level(matrix, m), matrix[:, -2], np.sqrt(variance), mean=m[:, -1], std=s[:, -1]
        )

    def _level(self, matrix: Floats, m: Floats) -> Floats:
        """The predictor where t is 0, shape (rows, n_features)."""
        level: Floats = m[:, :-1] @ matrix[:, :-2].T + matrix[:, -1]
        return level if self.offset is None else level + self.offset

    def _seen(self, term: Floats) -> Floats:
        """0 where the entry is missing."""
        return term if self.observed is None else np.where(self.observed, term, 0.0)

    def _derivatives(self, eta: Floats, rows: Ints) -> Sequence[Floats]:
        x = np.broadcast_to(self.x[rows][:, None], eta.shape)
        found = self.family.evaluate(x, eta, self.dispersion)
        return found.value, found.gradient, -self.family.newton_curvature(x, eta, found, self.dispersion)


@dataclass(frozen=True)
class Linear(Entries):
    """Rows whose log-likelihood is ``x eta - A(eta)``: what is linear in x has closed forms, A is integrated."""

    def terms(self, matrix: Floats, low: float, high: float, m: Floats, s: Floats) -> Integrals:
        level, b, mean, std = self._level(matrix, m), matrix[:, -2], m[:, -1:], s[:, -1:]
        linear = linear_integrals(level, b, mean, std, low, high)
        cumulants = self._cumulants(matrix, low, high, m, s)
        return Integrals(
            *(self._seen(self.x * of_eta - A) for of_eta, A in zip(linear, cumulants, strict=True))
        )

    def _cumulants(self, matrix: Floats, low: float, high: float, m: Floats, s: Floats) -> Integrals:
        """The same integrals of A in place of l."""

        def derivatives(eta: Floats, _: Ints) -> Sequence[Floats]:
            found = self.family.cumulant(eta)
            return found.value, found.gradient, found.curvature

        return integrate_derivatives(derivatives, self._predictors(matrix, m, s), (low, high), self.rule)


@dataclass(frozen=True)
class Counts(Linear):
    """Rows of Poisson counts: expected rates on a slab have closed forms."""

    has_rates = True

    def _cumulants(self, matrix: Floats, low: float, high: float, m: Floats, s: Floats) -> Integrals:
        return rate_integrals(matrix, self.offset, low, high, m, s)


def kind_of(family: Family) -> type[Entries]:
    """How the entries of a family are integrated over a slab."""
    if isinstance(family, Poisson):
        return Counts
    return Linear if family.is_linear else Entries


def read_entries(
    rows: OpenedBlock, family: Family, dispersion: Floats, pieces: Pieces, rule: Rule = FINE
) -> Entries:
    """The entries of opened rows in float64, with what the covariates of pieces add to their offsets."""
    x = rows.x.astype(np.float64, copy=False)
    base = observed_only(rows, slice(None), family.log_base(x, dispersion)).sum(axis=1)
    offset = None if rows.offset is None else rows.offset.astype(np.float64, copy=False)
    if pieces.coef.shape[1]:
        added = rows.features @ pieces.coef.T
        offset = added if offset is None else offset + added
    return kind_of(family)(x, rows.observed, offset, base, family, dispersion, rule)
