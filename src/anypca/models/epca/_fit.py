"""Exponential-family PCA: from a checked table to a reported fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.families.mixed import count_estimated
from anypca.linalg import packed_size, varimax
from anypca.models._bilinear.alternating import Gauge, Shared, SweepSums
from anypca.models._bilinear.canonical import Canonical, orthonormal, reorder, unit_loadings, whitened
from anypca.models._bilinear.conjugate import MOST_EXACT, ConjugateProblem
from anypca.models._bilinear.dispersion import (
    estimate_dispersion,
    noise_units,
    start_dispersion,
    updated_family,
)
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.row_model import coefficient_deviations
from anypca.models._bilinear.start import BilinearFitter, residual_loadings
from anypca.models.epca._problem import RescaledProblem
from anypca.models.epca._ridge import LEAST_RIDGE, lower_ridges, noise_ridge
from anypca.priors import Leading, Prior, Ridge, Scaled
from anypca.solvers import Result

# Estimates of the dispersion between fits; three or four are usual.
_MAX_ROUNDS = 10
# Relative change of the dispersion below which another round would not change the picture, and how well the
# fits between two estimates are solved.
_ROUND_TOLERANCE = 0.01
_ROUND_SOLVE_TOLERANCE = 1e-3
# Distances from zero, in standard deviations, at which single precision still has three digits of what varies, and
# sizes of values whose squares and their inverses are far from its limits.
_MOST_DEVIATIONS = 1e3
_FAR = 1e8
# Entries whose rounding in single precision cancels to a relative error of some 1e-8 of what a component explains;
# smaller tables take no time.
_MANY_ENTRIES = 2**18
# A singular value of the predictor, as scores and loadings of balanced ridges share it, below which a component moves
# no entry by a tenth of its noise.
_VANISHED = 0.1
# The same below which a component changes the log-likelihood by less than half a nat: it has vanished.
_MIN_SINGULAR_VALUE = 1.0


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings of a fit; see `anypca.EPCA`."""

    n_components: int
    score_prior: Prior
    loading_prior: Prior
    """In units of the columns' noise; intercepts and covariates have none."""
    fit_intercept: bool
    is_white: bool = False
    """Whether scores have unit variance."""
    finds_ridge: bool = False
    """Whether the weights of the priors, which are ridges, are to be multiplied with a ridge that is found."""

    @property
    def ridges(self) -> tuple[float, float] | None:
        """Weights of the ridges of scores and loadings if both are ridges of one weight."""
        score, loading = ridge_weight(self.score_prior), ridge_weight(self.loading_prior)
        return None if score is None or loading is None else (score, loading)

    def times(self, ridge: float) -> Settings:
        """The same with priors, which are ridges, of other weights."""
        return replace(
            self, score_prior=_times(self.score_prior, ridge), loading_prior=_times(self.loading_prior, ridge)
        )

    @property
    def is_rotated(self) -> bool:
        """Whether components may be rotated to be reported."""
        return ridge_weight(self.score_prior) is not None and self.loading_prior.is_isotropic


def ridge_weight(prior: Prior) -> float | None:
    """The weight of a ridge that treats all entries alike; ``None`` for any other prior."""
    return prior.weight if isinstance(prior, Ridge) else None


def _times(prior: Prior, ridge: float) -> Prior:
    assert isinstance(prior, Ridge)
    return replace(prior, precision=ridge * np.asarray(prior.precision, dtype=float))


@dataclass(frozen=True, eq=False)
class EPCAFit:
    """A fit in reporting coordinates."""

    problem: BilinearProblem
    """Scores new rows: its score prior is in reported coordinates."""
    coefficients: Coefficients
    score_variance: Floats
    """Mean square of the training scores, shape (k,)."""
    deviances: Deviances
    result: Result[Shared]
    coef_std: Floats | None = None
    """Standard deviations of the coefficients of covariates, (n_features, n_covariates)."""


class Fitted(NamedTuple):
    """A fit with the scores of its table, which are not kept."""

    fit: EPCAFit
    local: Sequence[Any]
    """The scores of each block at the end of the last sweep, where the blocks are."""
    gauge: Gauge
    """From these to reported ones."""
    component_vanished: bool
    """Whether the ridge has removed a component."""
    ridge: float = 1.0
    """The ridge that was found, if `Settings.finds_ridge`."""


class IterationState(NamedTuple):
    """State of a fit between two rounds of sweeps."""

    family: Family
    coefficients: Coefficients
    """With the dispersion of the next round."""
    local: Sequence[Any] | None
    last: Floats
    """Dispersion of the last round."""
    has_settled: bool = False


class EPCAFitter(BilinearFitter[Settings]):
    """Fits one table; see `BilinearFitter` for the parameters."""

    def fit(self) -> Fitted:
        """Start, then fit; with the largest of some ridges under which all components stay, if one is to be found."""
        null, stand = self._begin()
        if not self.settings.finds_ridge:
            return self._fit_from(null, stand)
        # Dispersions of the model without components are so large that a column which varies much with a component
        # would tell nothing under a larger ridge, and stay out of it for ever.
        stand = self._settled(stand, null.dispersion)
        stand = stand._replace(last=stand.coefficients.dispersion)
        fitter = replace(self, family=stand.family)
        for ridge in lower_ridges(noise_ridge(fitter, replace(null, dispersion=stand.last))):
            settings = self.settings.times(ridge)
            found = EPCAFitter(self.session, self.family, settings)._fit_from(null, stand)
            if ridge <= LEAST_RIDGE or not found.component_vanished or settings.ridges is None:
                break
        return found._replace(ridge=ridge)

    def _begin(self) -> tuple[Coefficients, IterationState]:
        """The model without components, and the start of one with components."""
        session = self.session
        dispersion = start_dispersion(self.family, session.summary.mean, session.summary.variance)
        null = self.null(dispersion, self.mean_fixed())
        # The sweeps correct what a start in single precision leaves.
        rough = replace(self.visit, precision="float32" if self._suits_single else "float64")
        loadings = residual_loadings(self.family, null, rough, self.settings.n_components, session.rng)
        if not self.settings.loading_prior.is_isotropic:
            # Where the coordinates matter: few large loadings in each component.
            units = np.sqrt(noise_units(self.family, dispersion))
            loadings = loadings @ varimax(loadings / units[:, None])
        return null, IterationState(self.family, replace(null, loadings=loadings), None, dispersion)

    def _fit_from(self, null: Coefficients, stand: IterationState) -> Fitted:
        """Iterate, estimate dispersions between converged rounds, report."""
        stand = self._settled(stand, null.dispersion)
        fitter, dispersion = replace(self, family=stand.family), stand.coefficients.dispersion
        problem = fitter._problem(dispersion, is_first=stand.local is None)
        result, local, stats = self.session.loop(problem).run(Shared(stand.coefficients), stand.local)
        if stand.family is not self.family or not np.array_equal(dispersion, null.dispersion):
            null = fitter.null(dispersion, null.fixed)
        return fitter._report(problem, result, local, stats, null)

    def _settled(self, stand: IterationState, start: Floats) -> IterationState:
        """Rounds of sweeps until dispersions do not change, if there is something to estimate between them."""
        n_estimated = count_estimated(self.family, self.session.data.n_features)
        for _ in range(_MAX_ROUNDS if self.open_columns() or n_estimated else 0):
            stand = self._round(stand, start)
            if stand.has_settled:
                break
        return stand

    def _round(self, stand: IterationState, start: Floats) -> IterationState:
        """Run sweeps to convergence, then update the dispersions; ``start`` are the initial ones."""
        fitter, dispersion = replace(self, family=stand.family), stand.coefficients.dispersion
        problem = fitter._problem(dispersion, is_first=stand.local is None)
        loop = self.session.loop(problem, tol=max(self.session.tol, _ROUND_SOLVE_TOLERANCE))
        result, local, stats = loop.run(Shared(stand.coefficients), stand.local)
        fitted = result.shared.coefficients
        found = fitter._dispersion(fitted, local, start, stats.weight)
        found = _damped(stand.last, dispersion, found)
        family = updated_family(stand.family, fitted, self.visit, local)
        # A shape may go to zero; a variance is in the units of its column, as is its start.
        slack = _ROUND_TOLERANCE * dispersion + 1e-6 * start
        has_settled = family is stand.family and bool(np.all(np.abs(found - dispersion) <= slack))
        return IterationState(family, replace(fitted, dispersion=found), local, dispersion, has_settled)

    def _sizes(self, fitted: Coefficients) -> Floats:
        """Roots of the singular values of the predictor, in units of noise, under balanced ridges."""
        units = np.sqrt(noise_units(self.family, fitted.dispersion))
        return np.linalg.svd(fitted.loadings / units[:, None], compute_uv=False)

    def _dispersion(self, fitted: Coefficients, local: Sequence[Any], start: Floats, weight: float) -> Floats:
        """A new dispersion after a round; components that the ridge has made vanish take no degrees of freedom."""
        n_left = int((self._sizes(fitted) > _VANISHED).sum()) if self.settings.ridges else None
        return estimate_dispersion(self.family, fitted, self.visit, local, start, weight, n_components=n_left)

    def _problem(self, dispersion: Floats, *, is_first: bool) -> BilinearProblem:
        # Sweeps that follow are few, and dispersions would tell the rounding of rough ones.
        units = noise_units(self.family, dispersion)
        ridges = self.settings.ridges
        return self._problem_class(
            self.family,
            self.settings.score_prior,
            self._loading_prior(units),
            fit_intercept=self.settings.fit_intercept,
            constant=self.visit.log_base_measure(self.family, dispersion),
            ridges=None if ridges is None else (ridges[0], ridges[1] / units),
            fixed_ridge=self.fixed_precision,
            precision="float64",
            starts_rough=is_first and self._suits_single,
        )

    @property
    def _suits_single(self) -> bool:
        """Whether single precision covers the range of the columns and distinguishes their values."""
        summary = self.session.summary
        largest = np.maximum(np.abs(summary.minimum), np.abs(summary.maximum))
        deviation = np.sqrt(summary.variance)
        varying = deviation > 0
        is_told = largest[varying] <= _MOST_DEVIATIONS * deviation[varying]
        # The logarithm of a column's smallest value matters too.
        sizes = np.concatenate([largest, deviation, summary.minimum])
        sizes = sizes[np.concatenate([largest > 0, varying, summary.minimum > 0])]
        return bool(is_told.all() and np.all((sizes < _FAR) & (sizes > 1.0 / _FAR)))

    @property
    def _problem_class(self) -> type[BilinearProblem]:
        if self.settings.ridges is not None:
            return ConjugateProblem if self.settings.n_components > MOST_EXACT else BilinearProblem
        return BilinearProblem if ridge_weight(self.settings.score_prior) is None else RescaledProblem

    def _loading_prior(self, units: Floats) -> Prior:
        """The prior of all coefficients of columns whose eta has the given squared units."""
        prior = self.settings.loading_prior
        n_fixed = int(self.settings.fit_intercept) + self.session.data.n_covariates
        weight = ridge_weight(prior)
        if weight is not None:
            precision = np.repeat([weight, 0.0], [self.settings.n_components, n_fixed])
            found: Prior = Ridge(precision, 1.0 / units)
        else:
            found = Scaled(prior, unit=np.sqrt(units)[:, None])
            found = Leading(found, n_fixed) if n_fixed else found
        if not self.fixed_precision.any():
            return found
        none = np.zeros((len(units), self.settings.n_components))
        return Scaled(found, ridge=np.hstack([none, self.fixed_precision]))

    def _report(
        self,
        problem: BilinearProblem,
        result: Result[Shared],
        local: Sequence[Any],
        stats: SweepSums,
        null: Coefficients,
    ) -> Fitted:
        """Change to reporting coordinates, order components by the deviance they explain."""
        swept = result.shared.coefficients
        fitted = swept.with_joint(problem.loading_prior.snap(swept.joint))
        canonical = canonical_form(self.settings, self.family, fitted, stats)
        scores = self.moved(local, canonical.gauge)
        n_entries = self.session.data.n_samples * self.session.data.n_features
        rough = "float32" if n_entries >= _MANY_ENTRIES and self._suits_single else None
        found = self.visit.deviances(self.family, canonical.coefficients, scores, null, rough=rough)
        deviances, order = found.ordered()
        canonical = reorder(canonical, order)
        fit = EPCAFit(
            replace(problem, score_prior=reported_score_prior(self.settings, canonical)),
            canonical.coefficients,
            canonical.variance,
            deviances,
            result,
            self._coefficient_deviations(problem, fitted, stats),
        )
        component_vanished = bool((self._sizes(fitted) < _MIN_SINGULAR_VALUE).any())
        return Fitted(fit, local, canonical.gauge, component_vanished)

    def _coefficient_deviations(
        self, problem: BilinearProblem, fitted: Coefficients, stats: SweepSums
    ) -> Floats | None:
        """Deviations of the coefficients of covariates; ``None`` where a fit has no curvature of pairs."""
        n_covariates, m = self.session.data.n_covariates, fitted.joint.shape[1]
        if not n_covariates or stats.curvature.shape[1] != packed_size(m):
            return None
        precision = stats.curvature + problem.loading_prior.curvature(fitted.joint)
        return coefficient_deviations(precision, n_covariates)


def _damped(last: Floats, previous: Floats, found: Floats) -> Floats:
    """The next dispersions: half-way, in logarithms, for those that turn back, which would go to and fro for ever."""
    turns = (np.sign(found - previous) * np.sign(previous - last) < 0) & (found > 0)
    # Roots first: the product of two large dispersions overflows.
    return np.asarray(np.where(turns, np.sqrt(found) * np.sqrt(previous), found))


def reported_score_prior(settings: Settings, canonical: Canonical) -> Prior:
    """The training prior of the scores in reporting coordinates."""
    prior, inverse = settings.score_prior, canonical.gauge.inverse
    weight = ridge_weight(prior)
    if weight is not None:
        return Ridge(weight * inverse @ inverse.T)
    # Components are then only scaled, not rotated.
    return Scaled(prior, unit=1.0 / inverse.sum(axis=1))


def canonical_form(settings: Settings, family: Family, fitted: Coefficients, stats: SweepSums) -> Canonical:
    """The coefficients in reporting coordinates, with orthonormal loadings if the priors allow rotations.

    In a mixed table columns may have different units. Lengths and angles then use loadings divided by the standard
    deviations of the columns' noise.
    """
    units = np.ones(len(fitted.dispersion))
    if len(family.member_columns(len(units))) > 1:
        units = np.sqrt(noise_units(family, fitted.dispersion))
    if settings.is_rotated:
        found = orthonormal(fitted, stats, fit_intercept=settings.fit_intercept, units=units)
    else:
        found = unit_loadings(fitted, stats, units)
    return whitened(found) if settings.is_white else found
