r"""Joint mode of scores, loadings and relevance, as published, with the degenerate scale profiled out.

The objective is

.. math:: J = \nu \Big( \sum_{ij} \log p(x_{ij} | \eta_{ij}) - \tfrac12 \|Z\|^2 \Big)
              - \tfrac12 \sum_k \alpha_k \|w_k\|^2 + \tfrac D2 \sum_k \log \alpha_k - \kappa \#\{w_{jk} \ne 0\}

with the count of non-zeros in its adaptive form. It grows without bound as a component vanishes, so useful answers are
local: components are removed one at a time when their relevance passes a threshold, which is higher at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Bernoulli, Binomial
from anypca.linalg import PackedCholesky, packed_diagonal
from anypca.models._bilinear.alternating import Gauge, Shared, SweepSums, intercept_shift
from anypca.models._bilinear.dispersion import estimate_dispersion, has_settled, start_dispersion
from anypca.models._bilinear.fitter import BilinearFitter
from anypca.models._bilinear.kernel import Coefficients, Kernel
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.start import (
    link_loadings,
    residual_loadings,
)
from anypca.models._opened import OpenedBlock
from anypca.models.sepca._removal import Removal
from anypca.priors import AdaptiveL0, Ridge
from anypca.solvers import Result, Status

# The threshold on alpha is raised by this factor in the first rounds, so that no component leaves too early.
_EARLY_FACTOR = 5.0
_EARLY_ROUNDS = 10
# Bits say on which side of zero eta lies but not how far. From too near, components fade that would last: of the two
# sizes at which one can rest, the lower repels.
_REACH = 2.0
_SWEEPS_PER_ROUND = 20
# Squared length of loadings that are gone.
_NOTHING = 1e-100
_MAX_ROUNDS = 5
_ROUND_TOLERANCE = 0.02


@dataclass(frozen=True)
class MapOptions:
    """Settings of a fit; see `anypca.SePCA`."""

    max_components: int
    fit_intercept: bool
    dispersion: float | None
    nu: float
    """Weight of the data against the prior of the loadings."""
    sparsity: float
    """kappa, the price of a non-zero loading."""
    threshold: float | None
    """alpha beyond which a component leaves; ``None`` is 100 D times the largest mean curvature."""


@dataclass(frozen=True, eq=False)
class MapFit:
    """The mode, in coordinates in which the scores have unit second moments."""

    problem: BilinearProblem
    """Scores new rows: its score prior is that of the reported coordinates."""
    coefficients: Coefficients
    loading_std: Floats
    """From the curvature at the mode, shape (n_features, k)."""
    alpha: Floats
    deviances: Deviances
    result: Result[Shared]
    removals: tuple[Removal, ...]
    joint: float
    """``log p(X, Z, W | alpha)`` with weight 1: the published criterion."""
    evidence: float
    """The same less the log-determinants of Laplace's approximation."""


@dataclass(frozen=True, eq=False)
class _State:
    result: Result[Shared]
    local: Sequence[Any]
    stats: SweepSums
    alpha: Floats
    value: float
    """J."""

    @property
    def coefficients(self) -> Coefficients:
        return self.result.shared.coefficients


class MapFitter(BilinearFitter[MapOptions]):
    """Fits one table; see the module's first lines, and `BilinearFitter` for the parameters."""

    def fit(self, rng: np.random.Generator) -> MapFit:
        """Rounds of modes and relevance, removing components that pass the threshold."""
        start = start_dispersion(self.family, self.session.summary.mean, self.session.summary.variance)
        open_columns = self._open_columns()
        if self.settings.dispersion is not None:
            for columns in open_columns:
                start[columns] = self.settings.dispersion
        seed = int(rng.integers(2**31))
        dispersion = start
        if self.settings.sparsity > 0 and open_columns and self.settings.dispersion is None:
            # Where all variation still counts as dispersion no loading is worth its price, and that would stay so.
            free = replace(self.settings, sparsity=0.0)
            without = MapFitter(self.session, self.family, free)
            dispersion = without.fit(np.random.default_rng(seed)).coefficients.dispersion
        for _ in range(_MAX_ROUNDS):
            fit, local, weight = self._fit_with(dispersion, np.random.default_rng(seed))
            if not open_columns or self.settings.dispersion is not None:
                break
            new = estimate_dispersion(self.family, fit.coefficients, self.visit, local, start, weight)
            if has_settled(self.family, new, dispersion, rtol=_ROUND_TOLERANCE):
                break
            dispersion = new
        return fit

    def _fit_with(self, start: Floats, rng: np.random.Generator) -> tuple[MapFit, Sequence[Any], float]:
        """A fit with given dispersion, the scores, and the sum of the sample weights."""
        null = self._null(start, self._mean_fixed())
        self._constant = self.visit.log_base(self.family, start)
        shared = Shared(Coefficients(self._loadings(null, rng), null.fixed, start))
        alpha = _relevance(shared.coefficients.loadings)
        local: Sequence[Any] | None = None
        removals: list[Removal] = []
        trace: list[float] = []
        status = Status.MAX_ITER
        n_sweeps = 0
        for round_ in range(self.session.max_iter):
            state = self._profiled(self._run(shared, local, alpha))
            n_sweeps += state.result.n_iter
            trace.append(state.value)
            gone = self._gone(state, round_)
            if gone.size:
                removals.extend(self._removals(state, gone, n_sweeps))
                keep = np.delete(np.arange(len(state.alpha)), gone)
                shared, local, alpha = self._without(state, keep)
                trace = []
                continue
            shared, local, alpha = state.result.shared, state.local, state.alpha
            if _stands(trace, self.session.tol) and round_ >= min(_EARLY_ROUNDS, self.session.max_iter - 2):
                status = Status.CONVERGED
                break
        criterion = abs(trace[-1] - trace[-2]) if len(trace) > 1 else 0.0
        # The last state is that of its own modes and relevance.
        result = Result(shared, np.array(trace), status, criterion, n_sweeps)
        fit, local = self._report(replace(state, result=result), tuple(removals), null)
        return fit, local, state.stats.weight

    def _loadings(self, null: Coefficients, rng: np.random.Generator) -> Floats:
        # Without an intercept the residuals at eta = 0 say little: the data themselves, on the scale of eta, do.
        find = residual_loadings if self.settings.fit_intercept else link_loadings
        loadings = find(self.family, null, self.visit, self.settings.max_components, rng)
        for member, columns in self.family.member_columns(len(loadings)):
            if isinstance(member, Bernoulli | Binomial):
                loadings[columns] *= _REACH
        return loadings

    def _problem(self, alpha: Floats) -> BilinearProblem:
        nu = self.settings.nu
        k = len(alpha)
        n_fixed = int(self.settings.fit_intercept) + self.session.data.n_covariates
        precision = np.concatenate([alpha / nu, np.zeros(n_fixed)])
        prior: Ridge | AdaptiveL0 = Ridge(precision)
        if self.settings.sparsity > 0:
            weight = np.concatenate([np.full(k, self.settings.sparsity / nu), np.zeros(n_fixed)])
            prior = AdaptiveL0(precision, weight)
        return BilinearProblem(
            self.family,
            Ridge(np.ones(k)),
            prior,
            fit_intercept=self.settings.fit_intercept,
            constant=self._constant,
            eps=float(np.finfo(self.session.data.dtype).eps),
        )

    def _run(self, shared: Shared, local: Sequence[Any] | None, alpha: Floats) -> _State:
        loop = self.session.loop(self._problem(alpha), max_iter=_SWEEPS_PER_ROUND, tol=0.1 * self.session.tol)
        result, local, stats = loop.run(shared, local)
        return _State(result, local, stats, alpha, self._value(float(result.trace[-1]), alpha))

    def _value(self, weighted: float, alpha: Floats) -> float:
        """J from the problem's objective, which is J / nu without the relevance's own term."""
        finite = alpha[np.isfinite(alpha)]
        return self.settings.nu * weighted + 0.5 * self.session.data.n_features * float(np.log(finite).sum())

    def _profiled(self, state: _State) -> _State:
        """The best scale of each component and its relevance.

        These are ``||z||^2 = (D + 2 kappa #) / nu`` and ``alpha = D / ||w||^2``. The prediction is unchanged; the
        scores are rescaled when they are next visited.
        """
        loadings = state.coefficients.loadings
        size = np.diag(state.stats.score_gram)
        count = len(loadings) + 2.0 * self.settings.sparsity * np.count_nonzero(self._snap(loadings), axis=0)
        usable = (size > _NOTHING) & ((loadings**2).sum(axis=0) > _NOTHING)
        scale = np.where(usable, np.sqrt(count / self.settings.nu / np.where(usable, size, 1.0)), 1.0)
        coefficients = replace(state.coefficients, loadings=loadings / scale)
        shift = np.zeros((coefficients.fixed.shape[1], len(scale)))
        gauge = Gauge(shift, np.diag(scale), np.diag(1.0 / scale))
        alpha = _relevance(coefficients.loadings)
        problem = self._problem(np.where(np.isfinite(alpha), alpha, 0.0))
        gained = replace(
            state.stats,
            score_penalty=0.5 * float((scale**2 * size).sum()),
            score_sum=state.stats.score_sum * scale,
            score_gram=state.stats.score_gram * np.outer(scale, scale),
        )
        shared = Shared(coefficients, gauge)
        value = self._value(problem.objective(shared, gained), alpha)
        return _State(replace(state.result, shared=shared), state.local, gained, alpha, value)

    def _snap(self, loadings: Floats) -> Floats:
        if self.settings.sparsity == 0:
            return loadings
        k = loadings.shape[1]
        return AdaptiveL0(np.zeros(k), np.ones(k)).snap(loadings)

    def _gone(self, state: _State, round_: int) -> Ints:
        """The least relevant component, if it passes the threshold, or all that have no loadings left."""
        empty = np.flatnonzero(~np.isfinite(state.alpha))
        if empty.size or len(state.alpha) == 0:
            return empty
        threshold = self.settings.threshold
        if threshold is None:
            diagonal = packed_diagonal(state.coefficients.joint.shape[1])
            # Mean curvature of the entries: its sum over rows weighted by z^2, whose mean the profile fixed.
            curvature = state.stats.curvature[:, diagonal[: len(state.alpha)]].max(initial=0.0)
            information = curvature / max(float(np.diag(state.stats.score_gram).max()), np.finfo(float).tiny)
            threshold = 100.0 * self.session.data.n_features * max(information, 1e-300)
        if round_ < _EARLY_ROUNDS:
            threshold *= _EARLY_FACTOR
        worst = np.array([np.argmax(state.alpha)])
        passing: Ints = worst[state.alpha[worst] >= threshold]
        return passing

    def _removals(self, state: _State, gone: Ints, n_sweeps: int) -> list[Removal]:
        sizes = (state.coefficients.loadings**2).sum(axis=0)
        k = len(state.alpha)
        return [
            Removal(n_sweeps, k - count, float(state.alpha[c]), float(sizes[c]), "relevance")
            for count, c in enumerate(gone)
        ]

    def _without(self, state: _State, keep: Ints) -> tuple[Shared, Sequence[Any], Floats]:
        gauge = state.result.shared.gauge
        assert gauge is not None
        local = self._each(self._moved(state.local, gauge), lambda scores: scores[:, keep])
        old = state.coefficients
        return Shared(replace(old, loadings=old.loadings[:, keep])), local, state.alpha[keep]

    def _report(
        self, state: _State, removals: tuple[Removal, ...], null: Coefficients
    ) -> tuple[MapFit, Sequence[Any]]:
        """Scores of unit second moment, centred if there is an intercept to take their mean; exact zeros."""
        stats, old = state.stats, state.coefficients
        k = len(state.alpha)
        centre = stats.score_sum / stats.weight if self.settings.fit_intercept else np.zeros(k)
        moment = np.diag(stats.score_gram) / stats.weight - centre**2
        scale = np.sqrt(np.where(moment > 0, moment, 1.0))
        shift = intercept_shift(centre, old.fixed.shape[1])
        fixed = old.fixed + old.loadings @ shift.T
        coefficients = Coefficients(self._snap(old.loadings) * scale, fixed, old.dispersion)
        before = state.result.shared.gauge
        local = state.local if before is None else self._moved(state.local, before)
        local = self._moved(local, Gauge(shift, np.diag(1.0 / scale), np.diag(scale)))
        deviances = self.visit.deviances(self.family, coefficients, local, null)
        problem = self._problem(state.alpha)
        precision = stats.curvature.copy()
        precision[:, packed_diagonal(old.joint.shape[1])[:k]] += state.alpha / self.settings.nu
        columns = PackedCholesky(precision, old.joint.shape[1])
        std = np.sqrt(np.einsum("jaa->ja", columns.inverse()))[:, :k] * scale
        joint = self._joint(state)
        rows = self._row_determinant(coefficients, local, scale)
        fit = MapFit(
            replace(problem, score_prior=Ridge(scale**2), loading_prior=Ridge(np.zeros(old.joint.shape[1]))),
            coefficients,
            std,
            state.alpha / scale**2,
            deviances,
            state.result,
            removals,
            joint,
            joint - 0.5 * (float(columns.log_determinant().sum()) + rows),
        )
        return fit, local

    def _joint(self, state: _State) -> float:
        """``log p(X, Z, W | alpha)`` up to the normal priors' powers of 2 pi, which Laplace's integral takes back."""
        likelihood = float(state.stats.exit_columns.sum()) + state.stats.offset_value + self._constant
        size = (state.coefficients.loadings**2).sum(axis=0)
        prior = 0.5 * float(
            (state.alpha * size).sum() - self.session.data.n_features * np.log(state.alpha).sum()
        )
        return likelihood - state.stats.score_penalty - prior

    def _row_determinant(self, coefficients: Coefficients, local: Sequence[Any], scale: Floats) -> float:
        """Sum over rows of the log-determinant of the scores' precision, in the coordinates of the prior N(0, I)."""
        prior = Ridge(scale**2).curvature(scale[None])
        units = 2.0 * float(np.log(scale).sum())

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            sums = Kernel(self.family, coefficients, rows).row_sums(scores)
            logs = PackedCholesky(sums.curvature + prior, len(scale)).log_determinant() - units
            return np.array([rows.weights @ logs])

        return float(self.visit.sum(function, local)[0]) if len(scale) else 0.0


def _relevance(loadings: Floats) -> Floats:
    """``alpha_k = D / ||w_k||^2``, infinite for a component without loadings, shape (k,)."""
    size = (loadings**2).sum(axis=0)
    alpha: Floats = np.divide(len(loadings), size, out=np.full(len(size), np.inf), where=size > _NOTHING)
    return alpha


def _stands(trace: list[float], tol: float) -> bool:
    """Whether the objective changed by less than a fraction ``tol`` in the last round."""
    return len(trace) > 1 and abs(trace[-1] - trace[-2]) <= tol * abs(trace[-2])


def scaled_nu(n_samples: int, n_features: int) -> float:
    """The weight at which pure noise of unit information just fails to keep a component."""
    return float(4.0 * n_features / (np.sqrt(n_samples) + np.sqrt(n_features)) ** 2)
