"""Sweeps of the variational posterior of one table: starting, pruning, dispersion between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.dispersion import estimate_dispersion, has_settled, noise_units
from anypca.models._bilinear.fitter import BilinearFitter
from anypca.models._bilinear.kernel import Coefficients
from anypca.models._bilinear.start import residual_loadings
from anypca.models._session import Session
from anypca.models.sepca._coupling import coupling_gain
from anypca.models.sepca._dispersion import (
    poisson_columns,
    with_scales,
)
from anypca.models.sepca._posterior import (
    Loadings,
    Scores,
    VariationalStats,
    drop_components,
)
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._variational import VariationalProblem
from anypca.solvers import Result

# A component whose loadings are this small a fraction of their posterior variance has no signal.
_PRUNE_RATIO = 0.05
_FADING_RATIO, _FADING_RATE = 0.3, 0.7
# A component that survives ends with squared loadings of about their posterior variance or more.
_SURVIVING_RATIO = 1.0
# Sweeps between two looks at the components.
SWEEPS_PER_LOOK = 3
# Nats between two looks below which loose pruning ends: components of about the same size turn for hundreds of sweeps
# more, which is left to the fit that is kept.
_NEGLIGIBLE = 0.05
# Variance of the loadings before the first sweep, in units of the noise: too small to shrink the first scores.
START_VARIANCE = 1e-3
# Of the normal prior on the intercept of a column without variation: ten units of the predictor wide.
_INTERCEPT_PRECISION = 0.01
MAX_ROUNDS = 8
ROUND_TOLERANCE = 0.02
_MAX_HELD_ROUNDS = 25


@dataclass(frozen=True)
class VariationalOptions:
    """Settings of a fit; see `anypca.SePCA`."""

    max_components: int
    fit_intercept: bool
    dispersion: float | None
    """A fixed dispersion for families that leave it open; ``None`` estimates it."""
    sparsity: float = 0.0
    """Price of a non-zero loading."""
    by_column: bool = False
    """Each column has a dispersion of its own; otherwise only where the residuals call for it."""


@dataclass(frozen=True, eq=False)
class State:
    """A fit at one dimension."""

    result: Result[Loadings]
    local: Sequence[Any]
    stats: VariationalStats
    problem: VariationalProblem
    n_sweeps: int

    @property
    def loadings(self) -> Loadings:
        return self.result.shared

    coupling: float = 0.0
    """What the coupling of scores and loadings adds to the bound; see `coupling_gain`."""

    @property
    def bound(self) -> float:
        return float(self.result.trace[-1])

    @property
    def evidence(self) -> float:
        return self.bound + self.coupling


def signal_ratio(loadings: Loadings) -> Floats:
    """Squared loadings over their posterior variance, shape (k,)."""
    k = loadings.n_components
    squared = (loadings.mean[:, :k] ** 2 / loadings.unit_column).sum(axis=0)
    variance = np.einsum("jaa->ja", loadings.covariance[:, :k, :k])
    ratio: Floats = squared / (variance / loadings.unit_column).sum(axis=0)
    return ratio


def is_fading(ratio: Floats, before: Floats | None) -> Bools:
    """Components without signal: nothing left, or little and less than a few sweeps ago, shape (k,).

    Below a third of what survivors have and falling there is no way back.
    """
    gone: Bools = ratio < _PRUNE_RATIO
    if before is not None:
        gone |= (ratio < _FADING_RATIO) & (ratio < _FADING_RATE * before)
    return gone


def means_of(loadings: Loadings) -> Coefficients:
    k = loadings.n_components
    return Coefficients(loadings.mean[:, :k], loadings.mean[:, k:], loadings.dispersion)


def joined(before: State, after: State) -> State:
    """The later of two runs of the same model, with the trace of both."""
    trace = np.concatenate([before.result.trace, after.result.trace[1:]])
    return replace(after, result=replace(after.result, trace=trace, n_iter=len(trace)))


class Sweeps(BilinearFitter[VariationalOptions]):
    """Fits one table; see the module's first line, and `BilinearFitter` for the parameters."""

    def __init__(self, session: Session, family: Family, settings: VariationalOptions) -> None:
        super().__init__(session, family, settings)
        self.removals: list[Removal] = []
        self.n_sweeps = 0
        self._null_dispersion: Floats = np.ones(session.data.n_features)
        self._constant: tuple[Any, float] | None = None
        self.by_column = settings.by_column
        self.sharp = False
        if settings.by_column:
            self.family = with_scales(family, poisson_columns(family, np.zeros(session.data.n_features)))

    @property
    def _has_open_dispersion(self) -> bool:
        return self.settings.dispersion is None and bool(self._open_columns())

    @property
    def _has_bounds(self) -> bool:
        """Whether some family only bounds its expectations."""
        members = self.family.member_columns(self.session.data.n_features)
        return any(member.expectation == "bound" for member, _ in members)

    def _start(self, k: int, dispersion: Floats, null: Coefficients, seed: int) -> Loadings:
        rng = np.random.default_rng(seed)
        loadings = residual_loadings(self.family, null, self.visit, k, rng)
        mean = np.hstack([loadings, null.fixed])
        variance = START_VARIANCE * noise_units(self.family, dispersion)
        precision = np.outer(1.0 / variance, pack_symmetric(np.eye(mean.shape[1])))
        units = self._units(dispersion)
        column = np.reshape(units, (-1, 1))
        sizes = np.maximum((loadings**2 / column).mean(axis=0), 1e-3 * (variance / column[:, 0]).mean())
        return Loadings(mean, precision, 1.0 / sizes, dispersion, self._fixed_precision(), units=units)

    def _units(self, dispersion: Floats) -> Floats | float:
        """Where columns with units stand beside others, the prior must know them; else the relevance does."""
        if len(self.family.member_columns(self.session.data.n_features)) == 1:
            return 1.0
        return noise_units(self.family, dispersion)

    def _fixed_precision(self) -> Floats:
        """A wide prior on the intercepts of constant columns, which would run away; flat elsewhere."""
        precision = np.zeros(
            (self.session.data.n_features, int(self.settings.fit_intercept) + self.session.data.n_covariates)
        )
        if self.settings.fit_intercept:
            for member, columns in self.family.member_columns(self.session.data.n_features):
                is_constant = self.session.summary.minimum[columns] == self.session.summary.maximum[columns]
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
    ) -> State:
        """Sweeps, with the relevance held where asked for."""
        problem = VariationalProblem(
            self.family,
            self.settings.fit_intercept,
            self._log_base(loadings.dispersion),
            float(np.finfo(self.session.data.dtype).eps),
            hold,
            self.sharp,
        )
        loop = self.session.loop(problem, max_iter=max_iter, tol=tol, accelerate=False)
        # The scores at hand are in the coordinates of these loadings already.
        result, local, stats = loop.run(replace(loadings, change=None), local)
        self.n_sweeps += result.n_iter
        return State(result, local, stats, problem, self.n_sweeps)

    def _log_base(self, dispersion: Floats) -> float:
        """Constant terms of the likelihood, kept from run to run: gamma functions take longer than a sweep."""
        key = (self.family, dispersion.tobytes())
        if self._constant is None or self._constant[0] != key:
            self._constant = key, self.visit.log_base(self.family, dispersion)
        return self._constant[1]

    def _converged(
        self, loadings: Loadings, local: Sequence[Any] | None = None, *, loose: bool = False
    ) -> State:
        tol = max(self.session.tol, 1e-3) if loose else self.session.tol
        return self._run(loadings, local, max_iter=self.session.max_iter, tol=tol)

    def _pruned(
        self, loadings: Loadings, local: Sequence[Any] | None = None, *, loose: bool = False
    ) -> State:
        """Sweep, removing components without signal, to convergence of what is left.

        ``loose``: or until that hardly gains. A component may then still be on its way out.
        """
        before: Floats | None = None
        state = self._run(loadings, local, max_iter=SWEEPS_PER_LOOK, tol=self.session.tol)
        while state.loadings.n_components:
            ratio = signal_ratio(state.loadings)
            weak = np.flatnonzero(is_fading(ratio, before))
            before = ratio
            if weak.size:
                state = self._without(state, weak, "relevance")
                before = np.delete(ratio, weak)
            elif (
                state.result.converged
                or state.result.n_iter <= 1
                or self.n_sweeps > 20 * self.session.max_iter
            ):
                break
            more = self._run(state.loadings, state.local, max_iter=SWEEPS_PER_LOOK, tol=self.session.tol)
            gain = more.bound - state.bound
            state = more if weak.size else joined(state, more)
            if (
                loose
                and not weak.size
                and gain < _NEGLIGIBLE
                and (signal_ratio(state.loadings) > _SURVIVING_RATIO).all()
            ):
                return state
        return joined(state, self._converged(state.loadings, state.local))

    def _alive(self, state: State) -> State:
        """A converged state without components that have faded on the way."""
        while (gone := np.flatnonzero(is_fading(signal_ratio(state.loadings), None))).size:
            without = self._without(state, gone, "relevance")
            state = self._converged(without.loadings, without.local)
        return state

    def _held(self, loadings: Loadings, local: Sequence[Any] | None) -> State:
        """Dispersion and posterior with the same relevance for all components.

        A dispersion that covers for a component makes it fade before it has shown its worth; the two are therefore
        brought into agreement before the component is judged.
        """
        loadings = replace(loadings, alpha=np.full(loadings.n_components, loadings.alpha.min(initial=np.inf)))
        for _ in range(_MAX_HELD_ROUNDS):
            state = self._run(loadings, local, max_iter=SWEEPS_PER_LOOK, tol=self.session.tol, hold=True)
            new = self._estimate(state)
            is_settled = has_settled(self.family, new, loadings.dispersion, rtol=ROUND_TOLERANCE)
            loadings, local = replace(state.loadings, dispersion=new), state.local
            if is_settled:
                break
        return replace(state, result=replace(state.result, shared=loadings))

    def _without(self, state: State, gone: Ints, reason: str) -> State:
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

    def _estimate(self, state: State) -> Floats:
        """Dispersion from the residuals at the posterior means."""
        if not self._has_open_dispersion:
            return state.loadings.dispersion
        return estimate_dispersion(
            self.family,
            means_of(state.loadings),
            self.visit,
            self._score_means(state.local),
            self._null_dispersion,
            state.stats.weight,
            by_column=self.by_column,
        )

    def _score_means(self, local: Sequence[Any]) -> Sequence[Any]:
        return self._each(local, lambda scores: scores.mean)

    def _judged(self, state: State) -> State:
        """The state with all of its evidence."""
        if state.loadings.n_components == 0:
            return state
        problem, loadings = state.problem, replace(state.loadings, change=None)

        def visit(block: Block, scores: Scores) -> Floats:
            parts = problem.coupling(block, loadings, scores)
            return np.concatenate([part.ravel() for part in parts])

        total = self.session.sum(visit, state.local)
        size = loadings.precision.size
        likelihood, unknown = (
            part.reshape(loadings.precision.shape) for part in (total[:size], total[size : 2 * size])
        )
        rows = total[2 * size :].reshape(loadings.precision.shape[1], -1)
        return replace(state, coupling=coupling_gain(loadings, likelihood, unknown, rows))
