"""Choosing the dimension: prune by relevance, settle by evidence, dispersion between fits that have settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.linalg import varimax
from anypca.models._bilinear.dispersion import has_settled, start_dispersion
from anypca.models._bilinear.kernel import Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models.sepca._dispersion import (
    DispersionModel,
    gamma_models,
    scaled_models,
    scales_differ,
    steady_columns,
    under_dispersed,
)
from anypca.models.sepca._neighbours import Neighbours
from anypca.models.sepca._posterior import (
    Affine,
    Loadings,
    VariationalStats,
    snapped,
)
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._sweeps import (
    MAX_ROUNDS,
    ROUND_TOLERANCE,
    State,
    means_of,
    signal_ratio,
)
from anypca.models.sepca._variational import VariationalProblem
from anypca.solvers import Result

# Components beyond those found that a round with another dispersion starts from.
_MARGIN = 4
# A round goes on from the last one's fit if that kept the dimension and changed the dispersion by no more than this.
_NEAR = 0.2
# Rounds that need not converge; more of them could go round in circles.
_LOOSE_ROUNDS = 3
# Nats by which a smaller dimension may fall behind before those below it are given up.
_NEAR_TIE = 3.0


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
    """Evidence of the dimensions that were compared; those that could not win were not driven to convergence."""
    null: Coefficients
    evidence: float
    """Of the chosen dimension: the last value of the trace, and what the coupling of scores and loadings adds."""


class VariationalFitter(Neighbours):
    """Fits one table; see the module's first line, and `Sweeps` for the parameters."""

    def fit(self, rng: np.random.Generator) -> VariationalFit:
        """Rounds of fit and dispersion, then neighbouring dimensions by evidence."""
        seed = int(rng.integers(2**31))
        state, null = self._rounds(*self._first_dispersion(seed), self.settings.max_components, seed)
        candidates = self._candidates(state, seed)
        if candidates:
            states = [self._with_dispersion(state, null, candidate, seed) for candidate in candidates]
            best = int(np.argmax([self._penalised(*pair) for pair in zip(candidates, states, strict=True)]))
            self.family, self.by_column = candidates[best].family, candidates[best].by_column
            self.removals, state, null = states[best]
        return self._settle(state, null, seed)

    def _rounds(
        self, dispersion: Floats, null: Coefficients, rank: int, seed: int
    ) -> tuple[State, Coefficients]:
        """Fits, each with the dispersion that the one before left, until it stands.

        They come from above until dimension and dispersion have about settled, and then go on from where they are.
        """
        local: Sequence[Any] | None = None
        start = self._start(rank, dispersion, null, seed)
        found = -1
        self.removals = []
        loose = True
        for number in range(MAX_ROUNDS):
            state = self._pruned(start, local, loose=loose)
            new = self._estimate(state)
            settled = has_settled(self.family, new, dispersion, rtol=ROUND_TOLERANCE)
            if number == MAX_ROUNDS - 1 or (settled and not loose):
                break
            null = self._null(new, null.fixed)
            k = state.loadings.n_components
            if settled or (k == found and has_settled(self.family, new, dispersion, rtol=_NEAR)):
                start, local = replace(state.loadings, dispersion=new), state.local
            else:
                self.removals = []
                rank = min(self.settings.max_components, k + _MARGIN)
                start, local = self._start(rank, new, null, seed), None
            dispersion, found = new, k
            loose = loose and not settled and number + 1 < _LOOSE_ROUNDS
        return state, null

    def _candidates(self, state: State, seed: int) -> list[DispersionModel]:
        """Models of the dispersion that the residuals call for, beside the one at hand."""
        if self.settings.dispersion is not None or self.by_column:
            return []
        means, local = means_of(state.loadings), self._score_means(state.local)
        chosen = under_dispersed(
            state.problem, state.loadings, means, self.visit, local, self.session.summary, seed
        )
        if chosen.any():
            return scaled_models(self.family, chosen, self.session.summary.mean, state.loadings.dispersion)
        steady = steady_columns(self.family, means, self.visit, local)
        if steady.any():
            return gamma_models(self.family, steady, state.loadings.dispersion)
        if scales_differ(self.family, means, self.visit, local):
            shared, own = (
                DispersionModel(self.family, state.loadings.dispersion, by_column=by) for by in (False, True)
            )
            return [shared, own]
        return []

    def _with_dispersion(
        self, state: State, null: Coefficients, model: DispersionModel, seed: int
    ) -> tuple[list[Removal], State, Coefficients]:
        """The fit with another model of the dispersion.

        It comes from above, since a dispersion found with too few components covers for those that are missing.
        """
        self.family, self.by_column = model.family, model.by_column
        self._null_dispersion = start_dispersion(
            self.family, self.session.summary.mean, self.session.summary.variance, by_column=self.by_column
        )
        start = replace(state.loadings, dispersion=model.start)
        dispersion = self._estimate(replace(state, result=replace(state.result, shared=start)))
        rank = min(self.settings.max_components, state.loadings.n_components + _MARGIN)
        null = self._null(dispersion, null.fixed)
        loadings = self._start(rank, dispersion, null, seed)
        strongest = min(state.loadings.alpha.min(initial=np.inf), loadings.alpha.min(initial=np.inf))
        held = self._held(replace(loadings, alpha=np.full(rank, strongest)), None)
        loadings, local = held.loadings, held.local
        self.removals = []
        loose = True
        for number in range(MAX_ROUNDS):
            state = self._pruned(loadings, local, loose=loose)
            new = self._estimate(state)
            settled = has_settled(self.family, new, state.loadings.dispersion, rtol=ROUND_TOLERANCE)
            if number == MAX_ROUNDS - 1 or (settled and not loose):
                break
            loadings, local = replace(state.loadings, dispersion=new), state.local
            loose = loose and not settled and number + 1 < _LOOSE_ROUNDS
        return self.removals, state, self._null(state.loadings.dispersion, null.fixed)

    def _penalised(self, model: DispersionModel, found: tuple[Any, State, Any]) -> float:
        """Evidence less what the dispersions that were fitted cost."""
        state = found[1]
        return state.evidence - 0.5 * model.n_dispersions * float(np.log(max(state.stats.weight, 1.0)))

    def _first_dispersion(self, seed: int) -> tuple[Floats, Coefficients]:
        """Dispersion after one component: without any, signal would count as dispersion."""
        start = start_dispersion(
            self.family, self.session.summary.mean, self.session.summary.variance, by_column=self.by_column
        )
        if self.settings.dispersion is not None:
            for columns in self._open_columns():
                start[columns] = self.settings.dispersion
        self._null_dispersion = start
        null = self._null(start, self._mean_fixed())
        if not self._has_open_dispersion or self.settings.max_components == 0:
            return start, null
        state = self._converged(self._start(1, start, null, seed), loose=True)
        dispersion = self._estimate(state)
        return dispersion, self._null(dispersion, null.fixed)

    def _settle(self, state: State, null: Coefficients, seed: int) -> VariationalFit:
        """Compare with neighbouring dimensions by evidence and take the best."""
        # Bounds are good enough to prune by; evidence and posterior come from expectations.
        self.sharp = self._has_bounds
        if self.sharp:
            state = self._converged(state.loadings, state.local)
        state = self._judged(self._alive(state))
        evidence = {state.loadings.n_components: state.evidence}
        lowest, removals = state, list(self.removals)
        while lowest.loadings.n_components and state.evidence - lowest.evidence <= _NEAR_TIE:
            weakest = np.array([int(np.argmin(signal_ratio(lowest.loadings)))])
            without = self._without(lowest, weakest, "evidence")
            found = self._neighbour(without.loadings, without.local, state)
            assert found is not None
            lowest = found
            evidence[lowest.loadings.n_components] = lowest.evidence
            if lowest.evidence > state.evidence:
                state, removals = lowest, list(self.removals)
        self.removals = removals
        while state.loadings.n_components == max(evidence) < self.settings.max_components:
            larger = self._larger(state, seed)
            if larger is None:
                break
            evidence[larger.loadings.n_components] = larger.evidence
            if larger.evidence > state.evidence:
                state = larger
                # What had left has come back.
                self.removals = [r for r in self.removals if r.n_components > state.loadings.n_components]
        if self.settings.sparsity > 0:
            state = self._judged(self._sparse(state))
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

    def _sparse(self, state: State) -> State:
        """The fit with a price on non-zero loadings, from the rotation in which the loadings are simplest."""
        k = state.loadings.n_components
        rotation = varimax(state.loadings.mean[:, :k])
        change = Affine(np.zeros(k), rotation.T)
        loadings = state.problem.mapped(state.loadings, change)
        sizes = loadings.sizes / len(loadings.mean)
        loadings = replace(loadings, alpha=1.0 / sizes, sparsity=self.settings.sparsity)
        local = self._each(state.local, change.apply)
        while True:
            state = self._converged(loadings, local)
            empty = np.flatnonzero(~(snapped(state.loadings) != 0.0).any(axis=0))
            if empty.size == 0:
                return state
            state = self._without(state, empty, "sparsity")
            loadings, local = state.loadings, state.local

    def deviances(self, fit: VariationalFit) -> Deviances:
        """Deviances at the posterior means."""
        means = self._score_means(fit.local)
        return self.visit.deviances(self.family, means_of(fit.loadings), means, fit.null)
