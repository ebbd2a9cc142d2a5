"""Dispersions of columns from the bound: where the expected log-likelihood is largest.

Residuals at shrunken posterior means, over the degrees of freedom of a least-squares fit, come out too large: 1.12
where the truth is 1, against 1.05 for expected squares, which include what is unknown of the predictor. Columns with a
dispersion of their own are drawn to what the others say, by a prior that is part of the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family, Gaussian, ScaledPoisson, StudentT
from anypca.models._bilinear.dispersion import DISPERSION_GRID, as_recorded, estimate_dispersion
from anypca.models._opened import OpenedBlock, observed_only, open_block, weigh
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._expectation import Expectation
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._scores import Moments, Scores

# Observations that the prior of a column's own noise amounts to. They tell a logarithm to within sqrt(2 / 6) = 0.58, a
# factor of 1.8, about what the noise of columns differs by; without any, a component could copy a column.
_PSEUDO_OBSERVATIONS = 6.0
# Steps between two values of the grid at which its spline is looked at: 0.07 of a logarithm, the standard error of a
# variance from 400 entries.
_FINE = 8
# Standard deviations of the prior of logarithms: from columns that hardly differ to sizes over a range of e^11.
_SPREADS = np.geomspace(0.1, 2.8, 9)
# Values of the grid at which a shared dispersion is looked for at once: the best, two on either side for the spline.
_WINDOW = 5
# A dispersion below this fraction of that without components means that the column is reproduced and not modelled.
_SMALLEST_FRACTION = 1e-6


def is_normal(member: Family) -> bool:
    """Whether the dispersion with the largest bound is an expected squared residual."""
    return isinstance(member, Gaussian | StudentT)


def is_gridded(member: Family) -> bool:
    """Whether the dispersion is looked for on a grid; that of a quasi-likelihood, which has no density, is not."""
    return not is_normal(member) and not isinstance(member, ScaledPoisson)


def typical_noise(noise: Floats, null: Floats) -> Floats:
    """What columns would have with the median share of their dispersion without components, shape (n_columns,)."""
    return float(np.exp(np.median(np.log(noise / null)))) * null


def pooled(noise: Floats, count: Floats, null: Floats) -> Floats:
    """Columns' own noise with pseudo-observations at the median share, which has no units, shape (n_columns,)."""
    return np.asarray(
        (count * noise + _PSEUDO_OBSERVATIONS * typical_noise(noise, null)) / (count + _PSEUDO_OBSERVATIONS)
    )


def noise_prior(noise: Floats, null: Floats) -> float:
    """Log of the inverse-gamma prior that the pseudo-observations stand for, relative to its mode."""
    ratio = noise / typical_noise(noise, null)
    return -0.5 * _PSEUDO_OBSERVATIONS * float((np.log(ratio) + 1.0 / ratio - 1.0).sum())


class OwnDispersions(NamedTuple):
    """Dispersions of columns under a normal prior of their logarithms, of which mean and spread are fitted."""

    dispersion: Floats
    """(n_columns,)."""
    gain: float
    """Marginal log-likelihood over that of one dispersion for all."""
    cost: float
    """Log-likelihood at ``dispersion`` over the marginal one."""


def own_dispersions(values: Floats) -> OwnDispersions:
    """From log-likelihoods at the values of the grid, shape (n_grid, n_columns)."""
    logs, fine = _fine(values)
    top = fine.max(axis=0)
    centres, spreads = (part.ravel() for part in np.meshgrid(logs[::_FINE], _SPREADS))
    priors = -0.5 * ((logs - centres[:, None]) / spreads[:, None]) ** 2
    priors -= logsumexp(priors, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        marginal = np.log(np.exp(priors) @ np.exp(fine - top)).sum(axis=1) + top.sum()
    best = int(np.argmax(marginal))
    posterior = fine + priors[best][:, None]
    found = logs @ np.exp(posterior - logsumexp(posterior, axis=0))
    reached = sum(float(np.interp(at, logs, column)) for at, column in zip(found, fine.T, strict=True))
    shared, own = float(fine.sum(axis=1).max()), float(marginal[best])
    return OwnDispersions(np.exp(found), own - shared, reached - own)


def _fine(values: Floats, numbers: slice = slice(None)) -> tuple[Floats, Floats]:
    """Logarithms of dispersions between those of the grid, or of a part of it, and the values there."""
    logs = np.log(DISPERSION_GRID[numbers])
    fine = np.linspace(logs[0], logs[-1], (len(logs) - 1) * _FINE + 1)
    return fine, CubicSpline(logs, values, axis=0)(fine)


class _Cells(NamedTuple):
    """Some columns of one family in a block, with the moments of their predictors; (rows, columns) each."""

    columns: Ints
    family: Family
    x: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Residuals:
    """A posterior as its dispersions are estimated from it."""

    candidate: Candidate
    problem: VariationalProblem
    loadings: Loadings
    local: Sequence[Any] | None
    weight: float
    """Sum of the sample weights."""

    def dispersions(self) -> Floats:
        """Those with the largest bound, shape (n_features,)."""
        candidate = self.candidate
        if not candidate.has_open_dispersion:
            return self.loadings.dispersion
        groups = candidate.open_members()
        is_quasi = any(isinstance(member, ScaledPoisson) for member, _ in groups)
        found = self._by_moments() if is_quasi else self.loadings.dispersion.copy()
        for member, columns in groups:
            if is_normal(member):
                found[columns] = self._noise(member, columns)
            elif is_gridded(member):
                is_own = candidate.by_column
                multiple = self.own(member, columns).dispersion if is_own else self._shared(member, columns)
                found[columns] = multiple * candidate.grid_units[columns]
        return as_recorded(found, groups, candidate.session.summary)

    def own(self, member: Family, columns: Ints) -> OwnDispersions:
        """Dispersions of the columns' own, in units of the grid."""
        return own_dispersions(self._values(member, columns))

    def looseness(self) -> float:
        """What families whose expectations are known to lie too low have to be given back."""
        dispersion = self.loadings.dispersion

        def terms(cells: _Cells) -> list[Floats]:
            phi = dispersion[cells.columns].astype(cells.mean.dtype, copy=False)
            return [cells.family.looseness(cells.x, cells.mean, cells.variance, phi)]

        groups = self.candidate.family.member_columns(len(dispersion))
        return sum(float(self._sum(*group, 1, terms).sum()) for group in groups if group[0].is_loose)

    def _shared(self, member: Family, columns: Ints) -> float:
        """The dispersion with the largest log-likelihood, in units of the grid; a shape may be 0, the border."""
        last = len(DISPERSION_GRID) - 1
        known = self.loadings.dispersion[columns[0]] / self.candidate.grid_units[columns[0]]
        centre = int(np.searchsorted(DISPERSION_GRID, known))
        while True:
            start = min(max(centre - _WINDOW // 2, 0), last + 1 - _WINDOW)
            numbers = slice(start, start + _WINDOW)
            values = self._values(member, columns, numbers).sum(axis=1)
            best = start + int(np.argmax(values))
            if best in (start, start + _WINDOW - 1) and best not in (0, last):
                centre = best
                continue
            logs, fine = _fine(values, numbers)
            is_border = best == 0 and member.dispersion_kind == "shape"
            return 0.0 if is_border else float(np.exp(logs[np.argmax(fine)]))

    def _noise(self, member: Family, columns: Ints) -> Floats:
        """Noise of normal columns, in the ratios that they have, or of each its own."""
        dispersion, null = self.loadings.dispersion[columns], self.candidate.null_dispersion[columns]
        squares, count = self._squares(member, columns)
        if not self.candidate.has_own(member):
            return _floored(dispersion * squares.sum() / max(float(count.sum()), 1.0), null)
        return pooled(_floored(dispersion * squares / np.maximum(count, 1.0), null), count, null)

    def _by_moments(self) -> Floats:
        """From Pearson residuals at the posterior means."""
        candidate, means = self.candidate, self.loadings.coefficients
        local = candidate.each(self.local, lambda scores: scores.mean)
        return estimate_dispersion(
            candidate.family,
            means,
            candidate.visit,
            local,
            candidate.null_dispersion,
            self.weight,
            by_column=candidate.by_column,
        )

    def _squares(self, member: Family, columns: Ints) -> tuple[Floats, Floats]:
        """Expected squared residuals in units of the dispersion, and entries; (n_columns,) each."""
        dispersion = self.loadings.dispersion

        def terms(cells: _Cells) -> list[Floats]:
            phi = dispersion[cells.columns].astype(cells.mean.dtype, copy=False)
            _, gradient, curvature = cells.family.expect(cells.x, cells.mean, cells.variance, phi)
            return [gradient * gradient / curvature + curvature * cells.variance, np.ones_like(cells.mean)]

        found = self._sum(member, columns, 2, terms)
        return found[0], found[1]

    def _values(self, member: Family, columns: Ints, numbers: slice = slice(None)) -> Floats:
        """Expected log-likelihoods of the columns at dispersions of the grid, (n_grid, n_columns)."""
        grid, units = DISPERSION_GRID[numbers], self.candidate.grid_units

        def terms(cells: _Cells) -> list[Floats]:
            unit = units[cells.columns].astype(cells.mean.dtype, copy=False)
            return [
                cells.family.expect(cells.x, cells.mean, cells.variance, phi * unit).value for phi in grid
            ]

        return self._sum(member, columns, len(grid), terms) + self.candidate.bases[numbers][:, columns]

    def _sum(
        self, member: Family, columns: Ints, n_terms: int, terms: Callable[[_Cells], list[Floats]]
    ) -> Floats:
        """Weighted sums over rows of each of the terms, (n_terms, n_columns)."""
        problem, loadings = self.problem, replace(self.loadings, change=None)

        def visit(block: Block, scores: Scores) -> Floats:
            rows = open_block(block, fit_intercept=problem.fit_intercept)
            found = np.zeros((n_terms, rows.n_features))
            for cells in _cells(Expectation.of(problem.family, loadings, rows), scores, member, columns):
                for number, term in enumerate(terms(cells)):
                    found[number, cells.columns] = rows.weights @ weigh(rows, cells.columns, term)
            return found[:, columns]

        return np.asarray(self.candidate.session.sum(visit, self.local))


def log_prior(candidate: Candidate, dispersion: Floats) -> float:
    """Log prior of the columns' own noise; it is part of the evidence."""
    if not candidate.has_open_dispersion:
        return 0.0
    return sum(
        noise_prior(dispersion[columns], candidate.null_dispersion[columns])
        for member, columns in candidate.open_members()
        if is_normal(member) and candidate.has_own(member)
    )


def dispersion_cost(residuals: Residuals) -> float:
    """What the free dispersions cost in evidence: half the logarithm of the number of rows each, as in BIC.

    Equal shares of the columns' variances rest on as many numbers as noise of their own. Dispersions on the grid have
    a prior, of which mean and spread are fitted, and cost what their log-likelihood is above the marginal one.
    """
    candidate, half = residuals.candidate, 0.5 * float(np.log(max(residuals.weight, 1.0)))
    cost = 0.0
    for member, columns in candidate.open_members():
        if is_gridded(member) and candidate.by_column:
            cost += residuals.own(member, columns).cost + 2.0 * half
        else:
            has_many = candidate.has_own(member) or (member.has_units and not candidate.is_raw)
            cost += half * (len(columns) if has_many else 1)
    return cost


def _cells(expectation: Expectation, scores: Scores, member: Family, columns: Ints) -> Iterator[_Cells]:
    """The columns of one family, tile after tile."""
    rows: OpenedBlock = expectation.rows
    for tile, _, eta, variance in expectation.predictors(Moments.of(scores, rows.features)):
        inside = columns[(columns >= tile.start) & (columns < tile.stop)]
        if inside.size:
            part, at = member.take(np.searchsorted(columns, inside)), inside - tile.start
            # Means may overflow where the likelihood has no maximum, and at missing entries.
            mean, spread = (observed_only(rows, inside, array[:, at]) for array in (eta, variance))
            yield _Cells(inside, part, rows.x[:, inside], mean, spread)


def _floored(found: Floats, null: Floats) -> Floats:
    """Dispersions that are not too small a fraction of those without components."""
    return np.asarray(np.maximum(found, _SMALLEST_FRACTION * null))
