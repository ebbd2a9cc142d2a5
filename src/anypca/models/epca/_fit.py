"""Exponential-family PCA: from a checked table to a reported fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._bilinear.alternating import Shared, SweepSums
from anypca.models._bilinear.canonical import Canonical, orthonormal, reorder, unit_loadings
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._bilinear.dispersion import estimate_dispersion, noise_units, start_dispersion
from anypca.models._bilinear.fitter import BilinearFitter
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.start import residual_loadings
from anypca.priors import L1, Ridge
from anypca.solvers import Result

_MAX_ROUNDS = 10
# Relative change of the dispersion below which another round would not change the picture, and how well the
# fits between two estimates are solved.
_ROUND_TOLERANCE = 0.01
_ROUND_SOLVE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Settings:
    """Settings of a fit; see `anypca.EPCA`."""

    n_components: int
    ridge: float
    l1_strength: float | None
    """Weight of absolute scores; ``None`` for the ridge."""
    fit_intercept: bool


@dataclass(frozen=True, eq=False)
class EPCAFit:
    """A fit in reporting coordinates."""

    problem: BilinearProblem
    """Scores new rows: its score prior is that of the reported coordinates."""
    coefficients: Coefficients
    score_variance: Floats
    """Mean square of the training scores, shape (k,)."""
    deviances: Deviances
    result: Result[Shared]


class EPCAFitter(BilinearFitter[Settings]):
    """Fits one table; see `BilinearFitter` for the parameters."""

    def fit(self) -> EPCAFit:
        """Start, iterate, estimate dispersions between converged rounds, report."""
        session = self.session
        dispersion = start = start_dispersion(self.family, session.summary.mean, session.summary.variance)
        null = self.null(dispersion, self.mean_fixed())
        loadings = residual_loadings(self.family, null, self.visit, self.settings.n_components, session.rng)
        shared = Shared(Coefficients(loadings, null.fixed, dispersion))
        local: Sequence[Any] | None = None
        for _ in range(_MAX_ROUNDS if self.open_columns() else 0):
            loop = session.loop(self._problem(dispersion), tol=max(session.tol, _ROUND_SOLVE_TOLERANCE))
            result, local, stats = loop.run(shared, local)
            fitted = result.shared.coefficients
            dispersion = estimate_dispersion(self.family, fitted, self.visit, local, start, stats.weight)
            shared = Shared(replace(fitted, dispersion=dispersion))
            # A shape may go to zero; a variance is in the units of its column, as is its start.
            slack = _ROUND_TOLERANCE * fitted.dispersion + 1e-6 * start
            if np.all(np.abs(dispersion - fitted.dispersion) <= slack):
                break
        problem = self._problem(dispersion)
        result, local, stats = session.loop(problem).run(shared, local)
        return self._report(problem, result, local, stats, self.null(dispersion, null.fixed))

    def _problem(self, dispersion: Floats) -> BilinearProblem:
        settings = self.settings
        k = settings.n_components
        n_fixed = int(settings.fit_intercept) + self.session.data.n_covariates
        strength = settings.l1_strength
        scores = Ridge(np.full(k, settings.ridge)) if strength is None else L1(np.full(k, strength))
        units = noise_units(self.family, dispersion)
        return BilinearProblem(
            self.family,
            scores,
            Ridge(np.concatenate([np.full(k, settings.ridge), np.zeros(n_fixed)]), 1.0 / units),
            fit_intercept=settings.fit_intercept,
            constant=self.visit.log_base(self.family, dispersion),
            ridges=(settings.ridge, settings.ridge / units) if strength is None else None,
            eps=float(np.finfo(self.session.data.dtype).eps),
        )

    def _report(
        self,
        problem: BilinearProblem,
        result: Result[Shared],
        local: Sequence[Any],
        stats: SweepSums,
        null: Coefficients,
    ) -> EPCAFit:
        """Change to reporting coordinates, order components by the deviance they explain."""
        fitted = result.shared.coefficients
        canonical = (
            orthonormal(fitted, stats, fit_intercept=self.settings.fit_intercept)
            if self.settings.l1_strength is None
            else unit_loadings(fitted, stats)
        )
        local = self.moved(local, canonical.gauge)
        deviances = self.visit.deviances(self.family, canonical.coefficients, local, null)
        order = np.argsort(-deviances.without, kind="stable")
        canonical = reorder(canonical, order)
        return EPCAFit(
            replace(problem, score_prior=self._score_prior(canonical)),
            canonical.coefficients,
            canonical.variance,
            replace(deviances, without=deviances.without[order]),
            result,
        )

    def _score_prior(self, canonical: Canonical) -> L1 | Ridge:
        """The training prior of the scores in reporting coordinates."""
        inverse = canonical.gauge.inverse
        if self.settings.l1_strength is not None:
            return L1(self.settings.l1_strength * np.abs(inverse).sum(axis=1))
        return Ridge(self.settings.ridge * inverse @ inverse.T)
