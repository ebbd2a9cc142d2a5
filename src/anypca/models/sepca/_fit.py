"""Choosing the dimension: prune by relevance, settle by evidence, dispersion between converged fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Data, Executor, Summary
from anypca.families import Family
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.dispersion import estimate_dispersion, start_dispersion
from anypca.models._bilinear.kernel import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass, Total
from anypca.models._bilinear.start import mean_coefficients, null_coefficients, residual_loadings
from anypca.models.sepca._posterior import Loadings, Scores, VariationalStats, drop_components
from anypca.models.sepca._variational import VariationalProblem
from anypca.solvers import Callback, Loop, Result

# A component whose loadings are this small a fraction of their posterior variance has no signal.
_PRUNE_RATIO = 0.05
# Sweeps between two looks at the components.
_SWEEPS_PER_LOOK = 4
# Precision of the loadings before the first sweep: small enough a variance not to shrink the first scores.
_START_PRECISION = 1e3
# Of the normal prior on the intercept of a column without variation: ten units of the predictor wide.
_INTERCEPT_PRECISION = 0.01
_MAX_ROUNDS = 8
_ROUND_TOLERANCE = 0.02


class Removal(NamedTuple):
    """A component that left."""

    iteration: int
    """Sweeps done when it left, counted over the whole fit."""
    n_components: int
    """Number of components before."""
    alpha: float
    """Its relevance then: precision of its loadings."""
    ratio: float
    """Squared loadings over their posterior variance."""
    reason: str
    """``"relevance"`` or ``"evidence"``."""


@dataclass(frozen=True)
class VariationalOptions:
    """Settings of a fit; see `anypca.SePCA`."""

    max_components: int
    fit_intercept: bool
    max_iter: int
    tol: float
    dispersion: float | None
    """A fixed dispersion for families that leave it open; ``None`` estimates it."""


@dataclass(frozen=True, eq=False)
class _State:
    """A fit at one dimension."""

    result: Result[Loadings]
    local: Sequence[Any]
    stats: VariationalStats
    problem: VariationalProblem
    n_sweeps: int

    @property
    def loadings(self) -> Loadings:
        return self.result.shared

    @property
    def evidence(self) -> float:
        return float(self.result.trace[-1])


@dataclass(frozen=True, eq=False)
class VariationalFit:
    """The chosen fit."""

    problem: VariationalProblem
    loadings: Loadings
    local: Sequence[Any]
    stats: VariationalStats
    result: Result[Loadings]
    removals: tuple[Removal, ...]
    evidence_by_rank: dict[int, float]
    """Bounds of the dimensions that were fitted to convergence with the final dispersion."""
    null: Coefficients


def signal_ratio(loadings: Loadings) -> Floats:
    """Squared loadings over their posterior variance, shape (k,)."""
    k = loadings.n_components
    squared = (loadings.mean[:, :k] ** 2).sum(axis=0)
    ratio: Floats = squared / np.einsum("jaa->a", loadings.covariance[:, :k, :k])
    return ratio


def _means_of(loadings: Loadings) -> Coefficients:
    k = loadings.n_components
    return Coefficients(loadings.mean[:, :k], loadings.mean[:, k:], loadings.dispersion)


def _joined(before: _State, after: _State) -> _State:
    """The later of two runs of the same model, with the trace of both."""
    trace = np.concatenate([before.result.trace, after.result.trace[1:]])
    return replace(after, result=replace(after.result, trace=trace, n_iter=len(trace)))


class VariationalFitter:
    """Fits one table; see the module's first line.

    Parameters
    ----------
    data, executor, summary
        The checked table.
    family : Family
    options : VariationalOptions
    callback : callable or None
    """

    def __init__(
        self,
        data: Data,
        executor: Executor,
        summary: Summary,
        family: Family,
        options: VariationalOptions,
        callback: Callback | None = None,
    ) -> None:
        self.data = data
        self.executor = executor
        self.summary = summary
        self.family = family
        self.options = options
        self.callback = callback
        self.visit = Pass(data, executor, options.fit_intercept)
        self.removals: list[Removal] = []
        self.n_sweeps = 0

    def fit(self, rng: np.random.Generator) -> VariationalFit:
        """Rounds of fit and dispersion, then neighbouring dimensions by evidence."""
        seed = int(rng.integers(2**31))
        dispersion, null = self._first_dispersion(seed)
        for _ in range(_MAX_ROUNDS):
            self.removals = []
            state = self._pruned(self._start(self.options.max_components, dispersion, null, seed))
            new = self._estimate(state)
            if np.allclose(new, dispersion, rtol=_ROUND_TOLERANCE, atol=1e-4):
                break
            dispersion = new
            null = self._null(dispersion, null.fixed)
        return self._settle(state, null, seed)

    def _first_dispersion(self, seed: int) -> tuple[Floats, Coefficients]:
        """Dispersion after one component: without any, signal would count as dispersion."""
        start = start_dispersion(self.family, self.summary.mean, self.summary.variance)
        if self.options.dispersion is not None:
            for member, columns in self.family.member_columns(self.data.n_features):
                if member.fixed_dispersion is None:
                    start[columns] = self.options.dispersion
        self._null_dispersion = start
        means = mean_coefficients(
            self.family, self.summary, self.data.n_covariates, fit_intercept=self.options.fit_intercept
        )
        null = self._null(start, means)
        if not self._has_open_dispersion or self.options.max_components == 0:
            return start, null
        state = self._converged(self._start(1, start, null, seed), loose=True)
        dispersion = self._estimate(state)
        return dispersion, self._null(dispersion, null.fixed)

    @property
    def _has_open_dispersion(self) -> bool:
        groups = self.family.member_columns(self.data.n_features)
        return self.options.dispersion is None and any(g[0].fixed_dispersion is None for g in groups)

    def _null(self, dispersion: Floats, fixed: Floats) -> Coefficients:
        start = Coefficients(np.zeros((self.data.n_features, 0)), fixed, dispersion)
        return null_coefficients(self.family, start, self.visit, tol=self.options.tol)

    def _start(self, k: int, dispersion: Floats, null: Coefficients, seed: int) -> Loadings:
        rng = np.random.default_rng(seed)
        loadings = residual_loadings(self.family, null, self.visit, k, rng)
        mean = np.hstack([loadings, null.fixed])
        precision = np.tile(pack_symmetric(_START_PRECISION * np.eye(mean.shape[1])), (len(mean), 1))
        sizes = np.maximum((loadings**2).mean(axis=0), 1e-6)
        return Loadings(mean, precision, 1.0 / sizes, dispersion, self._fixed_precision())

    def _fixed_precision(self) -> Floats:
        """A wide prior on the intercepts of constant columns, which would run away; flat elsewhere."""
        precision = np.zeros((self.data.n_features, int(self.options.fit_intercept) + self.data.n_covariates))
        if self.options.fit_intercept:
            for member, columns in self.family.member_columns(self.data.n_features):
                is_constant = self.summary.minimum[columns] == self.summary.maximum[columns]
                # With units, a constant is a value like any other and its column says where it lies.
                precision[columns, 0] = np.where(
                    is_constant & (not member.has_units), _INTERCEPT_PRECISION, 0.0
                )
        return precision

    def _run(self, loadings: Loadings, local: Sequence[Any] | None, *, max_iter: int, tol: float) -> _State:
        problem = VariationalProblem(
            self.family,
            self.options.fit_intercept,
            self.visit.log_base(self.family, loadings.dispersion),
            float(np.finfo(self.data.dtype).eps),
        )
        loop = Loop(
            problem,
            self.data,
            self.executor,
            max_iter=max_iter,
            tol=tol,
            accelerate=False,
            callback=self.callback,
        )
        # The scores at hand are in the coordinates of these loadings already.
        result, local, stats = loop.run(replace(loadings, change=None), local)
        self.n_sweeps += result.n_iter
        return _State(result, local, stats, problem, self.n_sweeps)

    def _converged(
        self, loadings: Loadings, local: Sequence[Any] | None = None, *, loose: bool = False
    ) -> _State:
        tol = max(self.options.tol, 1e-3) if loose else self.options.tol
        return self._run(loadings, local, max_iter=self.options.max_iter, tol=tol)

    def _pruned(self, loadings: Loadings) -> _State:
        """Sweep, removing components without signal, to convergence of what is left."""
        state = self._run(loadings, None, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol)
        while state.loadings.n_components:
            ratio = signal_ratio(state.loadings)
            weak = np.flatnonzero(ratio < _PRUNE_RATIO)
            if weak.size:
                # Dead components go together; of those still fading only the weakest, for the rest may recover.
                dead = np.flatnonzero(ratio < 0.1 * _PRUNE_RATIO)
                state = self._without(
                    state, dead if dead.size else weak[[np.argmin(ratio[weak])]], "relevance"
                )
            elif (
                state.result.converged
                or state.result.n_iter <= 1
                or self.n_sweeps > 20 * self.options.max_iter
            ):
                break
            more = self._run(state.loadings, state.local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol)
            state = more if weak.size else _joined(state, more)
        return _joined(state, self._converged(state.loadings, state.local))

    def _without(self, state: _State, gone: Ints, reason: str) -> _State:
        """The same state with fewer components."""
        k = state.loadings.n_components
        ratio = signal_ratio(state.loadings)
        for count, component in enumerate(sorted(gone, key=lambda c: ratio[c])):
            self.removals.append(
                Removal(
                    self.n_sweeps,
                    k - count,
                    float(state.loadings.alpha[component]),
                    float(ratio[component]),
                    reason,
                )
            )
        keep = np.setdiff1d(np.arange(k), gone)
        local = self._select(state.local, keep)
        result = replace(state.result, shared=drop_components(state.loadings, keep))
        return replace(state, result=result, local=local)

    def _select(self, local: Sequence[Any], keep: Ints) -> Sequence[Any]:
        def visit(_: Any, scores: Scores | None) -> tuple[Scores, Total]:
            assert scores is not None
            return scores.take(keep), Total(np.zeros(1))

        return self.executor.sweep(visit, self.data, local)[0]

    def _estimate(self, state: _State) -> Floats:
        """Dispersion from the residuals at the posterior means."""
        if not self._has_open_dispersion:
            return state.loadings.dispersion
        return estimate_dispersion(
            self.family,
            _means_of(state.loadings),
            self.visit,
            self._score_means(state.local),
            self._null_dispersion,
            state.stats.weight,
        )

    def _score_means(self, local: Sequence[Any]) -> Sequence[Any]:
        def visit(_: Any, scores: Any) -> tuple[Any, Total]:
            return scores.mean, Total(np.zeros(1))

        return self.executor.sweep(visit, self.data, local)[0]

    def deviances(self, fit: VariationalFit) -> Deviances:
        """Deviances at the posterior means."""
        found = self.visit.deviances(self.family, _means_of(fit.loadings), self._score_means(fit.local))
        null = float(self.visit.deviances(self.family, fit.null, None)[0])
        return Deviances(null, float(found[0]), found[1:])

    def _settle(self, state: _State, null: Coefficients, seed: int) -> VariationalFit:
        """Compare with neighbouring dimensions by the bound and take the best."""
        evidence = {state.loadings.n_components: state.evidence}
        while state.loadings.n_components:
            weakest = np.array([int(np.argmin(signal_ratio(state.loadings)))])
            removals = list(self.removals)
            smaller = self._without(state, weakest, "evidence")
            smaller = self._converged(smaller.loadings, smaller.local)
            evidence[smaller.loadings.n_components] = smaller.evidence
            if smaller.evidence <= state.evidence:
                self.removals = removals
                break
            state = smaller
        larger_rank = max(evidence) + 1
        if larger_rank == state.loadings.n_components + 1 and larger_rank <= self.options.max_components:
            start = self._start(larger_rank, state.loadings.dispersion, null, seed)
            larger = self._converged(start)
            evidence[larger_rank] = larger.evidence
            if larger.evidence > state.evidence and signal_ratio(larger.loadings).min() > _PRUNE_RATIO:
                state = larger
        return VariationalFit(
            state.problem,
            state.loadings,
            state.local,
            state.stats,
            state.result,
            tuple(self.removals),
            dict(sorted(evidence.items())),
            null,
        )
