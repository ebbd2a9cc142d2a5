"""Choosing the dimension: prune by relevance, settle by evidence, dispersion between converged fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Data, Executor, Summary
from anypca.families import Family
from anypca.linalg import pack_symmetric, varimax
from anypca.models._bilinear.dispersion import estimate_dispersion, has_settled, start_dispersion
from anypca.models._bilinear.kernel import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass, Total
from anypca.models._bilinear.start import mean_coefficients, null_coefficients, residual_loadings
from anypca.models.sepca._dispersion import (
    DispersionModel,
    poisson_columns,
    scaled_models,
    scales_differ,
    under_dispersed,
    with_scales,
)
from anypca.models.sepca._posterior import (
    Affine,
    Loadings,
    Scores,
    VariationalStats,
    add_component,
    drop_components,
    snapped,
)
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._variational import VariationalProblem
from anypca.solvers import Callback, Loop, Result

# A component whose loadings are this small a fraction of their posterior variance has no signal.
_PRUNE_RATIO = 0.05
_FADING_RATIO, _FADING_RATE = 0.3, 0.7
# Sweeps between two looks at the components.
_SWEEPS_PER_LOOK = 3
# Precision of the loadings before the first sweep: small enough a variance not to shrink the first scores.
_START_PRECISION = 1e3
# Of the normal prior on the intercept of a column without variation: ten units of the predictor wide.
_INTERCEPT_PRECISION = 0.01
_MAX_ROUNDS = 8
_ROUND_TOLERANCE = 0.02
_MAX_HELD_ROUNDS = 25
# Components beyond those found that a round with another dispersion starts from.
_MARGIN = 4
# A round goes on from the last one's fit if that kept the dimension and changed the dispersion by no more than this.
_NEAR = 0.2
# A neighbour is given up when it lags by this many times the gain of its last few sweeps.
_PATIENCE = 20.0


@dataclass(frozen=True)
class VariationalOptions:
    """Settings of a fit; see `anypca.SePCA`."""

    max_components: int
    fit_intercept: bool
    max_iter: int
    tol: float
    dispersion: float | None
    """A fixed dispersion for families that leave it open; ``None`` estimates it."""
    sparsity: float = 0.0
    """Price of a non-zero loading."""
    by_column: bool = False
    """Each column has a dispersion of its own; otherwise only where the residuals call for it."""


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

    gap: float = 0.0
    """What the bound gains when expectations take the place of the family's own bound of them."""

    @property
    def bound(self) -> float:
        return float(self.result.trace[-1])

    @property
    def evidence(self) -> float:
        return self.bound + self.gap


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
    evidence: float
    """Of the chosen dimension: the last value of the trace, with expectations in place of the families' bounds."""


def signal_ratio(loadings: Loadings) -> Floats:
    """Squared loadings over their posterior variance, shape (k,)."""
    k = loadings.n_components
    squared = (loadings.mean[:, :k] ** 2).sum(axis=0)
    ratio: Floats = squared / np.einsum("jaa->a", loadings.covariance[:, :k, :k])
    return ratio


def _lags(value: float, goal: float, gain: float) -> bool:
    """Whether a goal is out of reach at the present rate of gain."""
    return goal - value > _PATIENCE * max(gain, 0.0)


def _is_fading(ratio: Floats, before: Floats | None) -> Bools:
    """Components without signal: nothing left, or little and less than a few sweeps ago, shape (k,).

    A component that survives ends with squared loadings of about their posterior variance or more: below a third of
    that and falling there is no way back.
    """
    gone: Bools = ratio < _PRUNE_RATIO
    if before is not None:
        gone |= (ratio < _FADING_RATIO) & (ratio < _FADING_RATE * before)
    return gone


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
        self._constant: tuple[Any, float] | None = None
        self.by_column = options.by_column
        if options.by_column:
            self.family = with_scales(family, poisson_columns(family, np.zeros(data.n_features)))

    def fit(self, rng: np.random.Generator) -> VariationalFit:
        """Rounds of fit and dispersion, then neighbouring dimensions by evidence."""
        seed = int(rng.integers(2**31))
        state, null = self._rounds(*self._first_dispersion(seed), self.options.max_components, seed)
        candidates = self._candidates(state, seed)
        if candidates:
            states = [self._with_dispersion(state, null, candidate, seed) for candidate in candidates]
            best = int(np.argmax([self._penalised(*pair) for pair in zip(candidates, states, strict=True)]))
            self.family, self.by_column = candidates[best].family, candidates[best].by_column
            self.removals, state, null = states[best]
        return self._settle(state, null, seed)

    def _rounds(
        self, dispersion: Floats, null: Coefficients, rank: int, seed: int
    ) -> tuple[_State, Coefficients]:
        """Fits, each with the dispersion that the one before left, until it stands.

        They come from above until dimension and dispersion have about settled, and then go on from where they are.
        """
        local: Sequence[Any] | None = None
        start = self._start(rank, dispersion, null, seed)
        found = -1
        self.removals = []
        for _ in range(_MAX_ROUNDS):
            state = self._pruned(start, local)
            new = self._estimate(state)
            if has_settled(self.family, new, dispersion, rtol=_ROUND_TOLERANCE):
                break
            null = self._null(new, null.fixed)
            k = state.loadings.n_components
            if k == found and has_settled(self.family, new, dispersion, rtol=_NEAR):
                start, local = replace(state.loadings, dispersion=new), state.local
            else:
                self.removals = []
                rank = min(self.options.max_components, k + _MARGIN)
                start, local = self._start(rank, new, null, seed), None
            dispersion, found = new, k
        return state, null

    def _candidates(self, state: _State, seed: int) -> list[DispersionModel]:
        """Models of the dispersion that the residuals call for, beside the one at hand."""
        if self.options.dispersion is not None or self.by_column:
            return []
        means, local = _means_of(state.loadings), self._score_means(state.local)
        chosen = under_dispersed(state.problem, state.loadings, means, self.visit, local, self.summary, seed)
        if chosen.any():
            return scaled_models(self.family, chosen, self.summary.mean, state.loadings.dispersion)
        if scales_differ(self.family, means, self.visit, local):
            shared, own = (
                DispersionModel(self.family, state.loadings.dispersion, by_column=by) for by in (False, True)
            )
            return [shared, own]
        return []

    def _with_dispersion(
        self, state: _State, null: Coefficients, model: DispersionModel, seed: int
    ) -> tuple[list[Removal], _State, Coefficients]:
        """The fit with another model of the dispersion.

        It comes from above, since a dispersion found with too few components covers for those that are missing.
        """
        self.family, self.by_column = model.family, model.by_column
        self._null_dispersion = start_dispersion(
            self.family, self.summary.mean, self.summary.variance, by_column=self.by_column
        )
        start = replace(state.loadings, dispersion=model.start)
        dispersion = self._estimate(replace(state, result=replace(state.result, shared=start)))
        rank = min(self.options.max_components, state.loadings.n_components + _MARGIN)
        null = self._null(dispersion, null.fixed)
        loadings = self._start(rank, dispersion, null, seed)
        strongest = min(state.loadings.alpha.min(initial=np.inf), loadings.alpha.min(initial=np.inf))
        held = self._held(replace(loadings, alpha=np.full(rank, strongest)), None)
        loadings, local = held.loadings, held.local
        self.removals = []
        for _ in range(_MAX_ROUNDS):
            state = self._pruned(loadings, local)
            new = self._estimate(state)
            if has_settled(self.family, new, state.loadings.dispersion, rtol=_ROUND_TOLERANCE):
                break
            loadings, local = replace(state.loadings, dispersion=new), state.local
        return self.removals, state, self._null(state.loadings.dispersion, null.fixed)

    def _penalised(self, model: DispersionModel, found: tuple[Any, _State, Any]) -> float:
        """Evidence less what the dispersions that were fitted cost."""
        state = found[1]
        return state.evidence - 0.5 * model.n_dispersions * float(np.log(max(state.stats.weight, 1.0)))

    def _held(self, loadings: Loadings, local: Sequence[Any] | None) -> _State:
        """Dispersion and posterior with the same relevance for all components.

        A dispersion that covers for a component makes it fade before it has shown its worth; the two are therefore
        brought into agreement before the component is judged.
        """
        loadings = replace(loadings, alpha=np.full(loadings.n_components, loadings.alpha.min(initial=np.inf)))
        for _ in range(_MAX_HELD_ROUNDS):
            state = self._run(loadings, local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol, hold=True)
            new = self._estimate(state)
            is_settled = has_settled(self.family, new, loadings.dispersion, rtol=_ROUND_TOLERANCE)
            loadings, local = replace(state.loadings, dispersion=new), state.local
            if is_settled:
                break
        return replace(state, result=replace(state.result, shared=loadings))

    def _first_dispersion(self, seed: int) -> tuple[Floats, Coefficients]:
        """Dispersion after one component: without any, signal would count as dispersion."""
        start = start_dispersion(
            self.family, self.summary.mean, self.summary.variance, by_column=self.by_column
        )
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

    def _run(
        self,
        loadings: Loadings,
        local: Sequence[Any] | None,
        *,
        max_iter: int,
        tol: float,
        hold: bool = False,
        still: bool = False,
    ) -> _State:
        """Sweeps, with the relevance held and the latent coordinates still where asked for."""
        problem = VariationalProblem(
            self.family,
            self.options.fit_intercept,
            self._log_base(loadings.dispersion),
            float(np.finfo(self.data.dtype).eps),
            hold,
            still,
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

    def _log_base(self, dispersion: Floats) -> float:
        """Constant terms of the likelihood, kept from run to run: gamma functions take longer than a sweep."""
        key = (self.family, dispersion.tobytes())
        if self._constant is None or self._constant[0] != key:
            self._constant = key, self.visit.log_base(self.family, dispersion)
        return self._constant[1]

    def _converged(
        self, loadings: Loadings, local: Sequence[Any] | None = None, *, loose: bool = False
    ) -> _State:
        tol = max(self.options.tol, 1e-3) if loose else self.options.tol
        return self._run(loadings, local, max_iter=self.options.max_iter, tol=tol)

    def _pruned(self, loadings: Loadings, local: Sequence[Any] | None = None) -> _State:
        """Sweep, removing components without signal, to convergence of what is left."""
        before: Floats | None = None
        state = self._run(loadings, local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol)
        while state.loadings.n_components:
            ratio = signal_ratio(state.loadings)
            weak = np.flatnonzero(_is_fading(ratio, before))
            before = ratio
            if weak.size:
                state = self._without(state, weak, "relevance")
                before = np.delete(ratio, weak)
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
        local = self._each(state.local, lambda scores: scores.take(keep))
        result = replace(state.result, shared=drop_components(state.loadings, keep))
        return replace(state, result=result, local=local)

    def _each(self, local: Sequence[Any], change: Callable[[Scores], Any]) -> Sequence[Any]:
        """Something made of the scores of each block, where the blocks are."""

        def visit(_: Any, scores: Scores | None) -> tuple[Any, Total]:
            assert scores is not None
            return change(scores), Total(np.zeros(1))

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
            by_column=self.by_column,
        )

    def _score_means(self, local: Sequence[Any]) -> Sequence[Any]:
        return self._each(local, lambda scores: scores.mean)

    def deviances(self, fit: VariationalFit) -> Deviances:
        """Deviances at the posterior means."""
        found = self.visit.deviances(self.family, _means_of(fit.loadings), self._score_means(fit.local))
        null = float(self.visit.deviances(self.family, fit.null, None)[0])
        return Deviances(null, float(found[0]), found[1:])

    def _settle(self, state: _State, null: Coefficients, seed: int) -> VariationalFit:
        """Compare with neighbouring dimensions by the bound and take the best."""
        state = self._tightened(state)
        evidence = {state.loadings.n_components: state.evidence}
        while state.loadings.n_components:
            weakest = np.array([int(np.argmin(signal_ratio(state.loadings)))])
            removals = list(self.removals)
            without = self._without(state, weakest, "evidence")
            smaller = self._neighbour(without.loadings, without.local, state)
            assert smaller is not None
            evidence[smaller.loadings.n_components] = smaller.evidence
            if smaller.evidence <= state.evidence:
                self.removals = removals
                break
            state = smaller
        while state.loadings.n_components == max(evidence) < self.options.max_components:
            larger = self._larger(state, seed)
            if larger is None:
                break
            evidence[larger.loadings.n_components] = larger.evidence
            if larger.evidence > state.evidence:
                state = larger
        if self.options.sparsity > 0:
            state = self._tightened(self._sparse(state))
        return VariationalFit(
            state.problem,
            state.loadings,
            state.local,
            state.stats,
            state.result,
            tuple(self.removals),
            dict(sorted(evidence.items())),
            null,
            state.evidence,
        )

    def _sparse(self, state: _State) -> _State:
        """The fit with a price on non-zero loadings, from the rotation in which the loadings are simplest."""
        k = state.loadings.n_components
        rotation = varimax(state.loadings.mean[:, :k])
        change = Affine(np.zeros(k), rotation.T)
        loadings = state.problem.mapped(state.loadings, change)
        sizes = loadings.sizes / len(loadings.mean)
        loadings = replace(loadings, alpha=1.0 / sizes, sparsity=self.options.sparsity)
        local = self._each(state.local, change.apply)
        while True:
            state = self._converged(loadings, local)
            empty = np.flatnonzero(~(snapped(state.loadings) != 0.0).any(axis=0))
            if empty.size == 0:
                return state
            state = self._without(state, empty, "sparsity")
            loadings, local = state.loadings, state.local

    def _larger(self, state: _State, seed: int) -> _State | None:
        """A fit with one component more, from the strongest direction in the residuals; ``None`` if it fades."""
        loading = residual_loadings(
            self.family,
            _means_of(state.loadings),
            self.visit,
            1,
            np.random.default_rng(seed),
            self._score_means(state.local),
        )
        loadings = add_component(state.loadings, loading[:, 0], _START_PRECISION)
        local = self._each(state.local, Scores.extended)
        if self._has_open_dispersion:
            held = self._held(loadings, local)
            loadings, local = held.loadings, held.local
        if self._has_bounds:
            return self._held_neighbour(loadings, local, state)
        return self._neighbour(loadings, local, state, may_fade=True)

    @property
    def _has_bounds(self) -> bool:
        """Whether some family only bounds its expectations."""
        members = self.family.member_columns(self.data.n_features)
        return any(member.expectation == "bound" for member, _ in members)

    def _held_neighbour(self, loadings: Loadings, local: Sequence[Any], rival: _State) -> _State | None:
        """A fit with one component more whose relevance is held; ``None`` if its evidence stays behind.

        Where a family only bounds its expectations, components that raise the evidence may fade under the bound.
        """
        alpha = loadings.alpha.copy()
        alpha[-1] = alpha[:-1].max(initial=alpha[-1]) if len(alpha) > 1 else alpha[-1]
        loadings = replace(loadings, alpha=alpha)
        before = -np.inf
        for _ in range(self.options.max_iter // _SWEEPS_PER_LOOK + 1):
            state = self._run(loadings, local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol, hold=True)
            state = self._tightened(state)
            if state.result.n_iter <= 1 or _lags(state.evidence, rival.evidence, state.evidence - before):
                break
            loadings, local, before = state.loadings, state.local, state.evidence
        if state.evidence <= rival.evidence:
            return state
        state = self._tightened(
            self._run(
                state.loadings,
                state.local,
                max_iter=self.options.max_iter,
                tol=self.options.tol,
                hold=True,
                still=True,
            )
        )
        free = self._chasing(state.loadings, state.local, -np.inf, may_fade=True)
        free = None if free is None else self._tightened(free)
        return free if free is not None and free.evidence >= state.evidence else state

    def _neighbour(
        self, loadings: Loadings, local: Sequence[Any], rival: _State, *, may_fade: bool = False
    ) -> _State | None:
        """A fit of this dimension with a dispersion of its own, as far as it can still reach the rival's evidence."""
        # Bounds are chased; what the rival's expectations add to its bound, they may add here.
        goal = rival.bound - rival.gap - 1.0
        state = self._chasing(loadings, local, goal, may_fade=may_fade)
        for _ in range(_MAX_ROUNDS):
            if state is None:
                return None
            new = self._estimate(state)
            if has_settled(self.family, new, state.loadings.dispersion, rtol=_ROUND_TOLERANCE):
                break
            before = state.bound
            state = self._chasing(
                replace(state.loadings, dispersion=new), state.local, goal, may_fade=may_fade
            )
            if state is not None and _lags(state.bound, goal, state.bound - before):
                break
        return None if state is None else self._tightened(state)

    def _chasing(
        self, loadings: Loadings, local: Sequence[Any], goal: float, *, may_fade: bool
    ) -> _State | None:
        """Sweep until convergence, or until the goal is out of reach; ``None`` when a component fades."""
        state = self._run(loadings, local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol)
        ratio: Floats | None = None
        while True:
            before, ratio = ratio, signal_ratio(state.loadings)
            if may_fade and _is_fading(ratio, before).any():
                return None
            if state.result.converged or state.result.n_iter >= self.options.max_iter:
                return state
            more = self._run(state.loadings, state.local, max_iter=_SWEEPS_PER_LOOK, tol=self.options.tol)
            gain = more.bound - state.bound
            state = _joined(state, more)
            if _lags(state.bound, goal, gain):
                return state

    def _tightened(self, state: _State) -> _State:
        """The state with expectations in place of the families' bounds of them, for comparisons."""
        if not self._has_bounds:
            return state
        problem, loadings = state.problem, replace(state.loadings, change=None)

        def visit(block: Block, scores: Scores | None) -> tuple[Scores, Total]:
            assert scores is not None
            return scores, Total(np.array([problem.gap(block, loadings, scores)]))

        return replace(state, gap=float(self.executor.sweep(visit, self.data, state.local)[1].array[0]))
