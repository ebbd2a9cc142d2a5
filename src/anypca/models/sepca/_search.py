"""The whole fit: noise model, number of components and loadings of a table, chosen by evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from anypca._typing import Floats, Ints
from anypca.exceptions import NonFiniteError
from anypca.families import Family
from anypca.linalg import varimax
from anypca.models._bilinear.dispersion import refined_family
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._bilinear.row_model import Reported
from anypca.models._context import FitContext
from anypca.models.sepca._dispersion import alternative_noise_models, dispersion_cost, estimate, is_settled
from anypca.models.sepca._evidence import evidence
from anypca.models.sepca._initialise import (
    MARGIN,
    continued_state,
    count_above_noise,
    initialise,
    restart_with_more,
    start_with,
    warm_state,
    warm_up_with_tied_ard,
    with_leading_direction,
)
from anypca.models.sepca._noise import (
    DispersionReport,
    NoiseModel,
    Settings,
    determined_rank,
    first_noise_model,
    is_normal,
    name_replaced,
)
from anypca.models.sepca._posterior import Affine, Loadings
from anypca.models.sepca._rows import PosteriorRowModel
from anypca.models.sepca._standard_errors import loading_deviations
from anypca.models.sepca._state import Removal, State, prune, sweep
from anypca.models.sepca._subsample import open_subsample
from anypca.models.sepca._sweep import VariationalProblem
from anypca.solvers import Result

# Nats by which a smaller dimension may fall behind before those below it are given up: a ratio of evidences of 20, the
# usual mark of strong evidence.
_NEAR_TIE = 3.0
# Nats that the bound of a fit with fewer components cannot make up for: its corrections are smaller, and each component
# saves an ARD precision only.
_HOPELESS = 20.0
# Rounds of fit and dispersion, and the change of the bound in nats that ends them; two to five are usual.
_MAX_ROUNDS, _SMALL_CHANGE = 25, 0.1
# Relative change of the dispersion from which on a round starts again with more components: with a smaller dispersion
# more of them may stand out.
_LARGE_CHANGE = 0.2


class Search(NamedTuple):
    """The best fit and the fits that it was compared with."""

    best: State
    evidence: float
    by_noise: dict[str, float]
    """Evidence of the noise models that were compared, less the penalty of their dispersions."""
    by_rank: dict[int, float]
    """Evidence of the dimensions that were compared."""


def fit_posterior(
    session: FitContext, family: Family, settings: Settings, start: Loadings | None = None
) -> PosteriorFit:
    """Fit a table, starting from another fit's loadings if they are given."""
    seed = int(session.rng.integers(2**31))
    noise = first_noise_model(session, family, settings)
    room = determined_rank(session.data.n_features) - MARGIN
    if noise.is_sharing_open and is_normal(family) and settings.max_components <= room:
        noise = replace(noise, by_column=True)
    state = None if start is None else warm_state(noise, start, seed)
    state = _from_subsample(noise, seed) if state is None else state
    found = search(initialise(noise, seed) if state is None else state, seed, may_restart=state is None)
    return PosteriorFit.of(found, family)


def search(state: State, seed: int, *, may_restart: bool = True) -> Search:
    """The fit with the largest evidence: over noise models, then over neighbouring numbers of components."""
    state = alternate_fit_and_dispersion(state, seed, may_restart=may_restart)
    fits = [
        state if noise is state.noise else _refit(state, noise, seed)
        for noise in alternative_noise_models(state)
    ]
    judged = [(evidence(fit) - dispersion_cost(fit), fit) for fit in fits]
    by_noise = {fit.noise.name: value for value, fit in judged}
    if judged:
        state = max(judged, key=lambda pair: pair[0])[1]
    compared = (
        [(evidence(state), state)] if state.noise.settings.is_rank_fixed else compare_ranks(state, seed)
    )
    best_evidence, best = max(compared, key=lambda pair: pair[0])
    by_rank = {
        fit.n_components: value for value, fit in sorted(compared, key=lambda pair: pair[1].n_components)
    }
    if best.noise.settings.share is not None:
        best = _leading(best, best.noise.settings.share, seed)
        best_evidence = by_rank[best.n_components] = evidence(best)
    if best.noise.settings.sparsity > 0:
        best = _sparse(best)
        best_evidence = evidence(best)
    return Search(best, best_evidence, by_noise, by_rank)


def compare_ranks(state: State, seed: int) -> list[tuple[float, State]]:
    """Fits with fewer components while the evidence grows or nearly ties, else with more while it grows."""
    compared = [(evidence(state), state)]
    best, fit = compared[0], state
    while fit.n_components and best[0] - compared[-1][0] <= _NEAR_TIE:
        fewer = _with_fewer(fit, seed)
        if fewer is None:
            break
        compared.append((evidence(fewer), fewer))
        best, fit = max(best, compared[-1], key=_value), fewer
    while best[1].n_components == max(fit.n_components for _, fit in compared):
        more = _with_more(best[1], seed)
        if more is None:
            break
        compared.append((evidence(more), more))
        best = max(best, compared[-1], key=_value)
    return compared


def _value(pair: tuple[float, State]) -> float:
    return pair[0]


def _with_fewer(state: State, seed: int) -> State | None:
    """A fit without the weakest component; ``None`` if it diverges."""
    weakest = np.array([int(np.argmin(state.loadings.signal_ratio))])
    try:
        # Intercepts of answers that a component separates grow without bound.
        with np.errstate(over="ignore"):
            fewer = state.without(weakest, "evidence")
            return alternate_fit_and_dispersion(fewer, seed, may_restart=False, rival=state.bound)
    except NonFiniteError:
        return None


def _with_more(state: State, seed: int) -> State | None:
    """A fit with one more component; ``None`` if the residuals contain none, or if it is pruned."""
    if state.n_components >= state.noise.max_rank:
        return None
    start = with_leading_direction(state, seed)
    if start is None:
        return None
    more = prune(warm_up_with_tied_ard(start) if state.noise.is_open else start, rough=True)
    if more.n_components <= state.n_components:
        return None
    more = alternate_fit_and_dispersion(more, seed, may_restart=False)
    if more.n_components <= state.n_components:
        return None
    # A component that was removed has come back: the path ends where it is still true.
    return replace(more, removals=tuple(r for r in more.removals if r.n_components > more.n_components))


def alternate_fit_and_dispersion(
    state: State, seed: int, *, may_restart: bool = True, rival: float = -np.inf
) -> State:
    """Fit in rounds, each with the dispersions that the last one's residuals give, until they change no more.

    After a round in which all components survived, or that changed the dispersions by much, the next one starts again
    from more components than were found. All rounds but the last converge roughly. A fit whose bound is far below a
    rival's in its second round is given up there.
    """
    rough, found, bound = True, -1, -np.inf
    for number in range(_MAX_ROUNDS):
        started = state.n_components
        state = prune(state, rough=rough)
        new = estimate(state)
        family = refined_family(state.noise.family, state.coefficients, state.noise.visit, state.score_means)
        stands = found == state.n_components and abs(state.bound - bound) <= _SMALL_CHANGE
        settled = stands or (is_settled(state, new) and family is state.noise.family)
        is_full = found != state.n_components == started < state.noise.max_rank
        is_far = not is_settled(state, new, _LARGE_CHANGE)
        found, bound = state.n_components, state.bound
        if number > 0 and state.bound < rival - _HOPELESS:
            break
        if may_restart and number < _MAX_ROUNDS - 2 and (is_full or is_far):
            state = restart_with_more(state.with_family(family), new, seed)
        elif number == _MAX_ROUNDS - 1 or (settled and not rough):
            break
        else:
            rough = not settled and number < _MAX_ROUNDS - 2
            state = state if settled else _with_new(state, family, new)
    return state


def _with_new(state: State, family: Family, dispersion: Floats) -> State:
    state = state.with_family(family)
    return state.with_noise(state.noise, dispersion)


def _from_subsample(noise: NoiseModel, seed: int) -> State | None:
    """The start of a tall table: the fit to a sample of its rows; ``None`` for other tables."""
    with open_subsample(noise.session) as sample:
        if sample is None:
            return None
        first = first_noise_model(sample, noise.family, noise.settings)
        return continued_state(noise, search(initialise(first, seed), seed).best, seed)


def _refit(state: State, noise: NoiseModel, seed: int) -> State:
    """A fit under another noise model, from the fit at hand unless that may have too many components for it."""
    if min(state.n_components + MARGIN, noise.settings.max_components) > noise.max_rank:
        return _grow(replace(noise, start=noise.null_dispersion), seed)
    start = state.with_noise(noise, noise.start)
    start = warm_up_with_tied_ard(start.with_noise(noise, estimate(start)))
    return alternate_fit_and_dispersion(start, seed, may_restart=False)


def _grow(noise: NoiseModel, seed: int) -> State:
    """A fit whose noise leaves room for few components: with one, two and more of them while the evidence grows.

    With too many of them columns are explained that contain only noise, and sweeps do not lead away from there.
    """
    best: tuple[float, State] | None = None
    for rank in range(1, noise.max_rank + 1):
        fit = alternate_fit_and_dispersion(start_with(noise, rank, seed), seed, may_restart=False)
        value = evidence(fit) - dispersion_cost(fit)
        if best is not None and value <= best[0]:
            break
        best = value, fit
        if fit.n_components < rank:
            break
    assert best is not None
    return best[1]


def _leading(state: State, share: float, seed: int) -> State:
    """The fit with the fewest components that explain a share of the deviance which all of them explain."""
    noise = state.noise
    null = noise.null(state.loadings.dispersion, state.null.fixed)
    found = noise.visit.deviances(noise.family, state.coefficients, state.score_means, null).shares
    order = np.argsort(-found, kind="stable")
    shares = np.cumsum(found[order]) / max(float(found.sum()), np.finfo(float).tiny)
    leaving = order[int(np.searchsorted(shares, share)) + 1 :]
    fixed = replace(noise, settings=replace(noise.settings, is_rank_fixed=True))
    state = state.without(leaving, "share").with_noise(fixed, state.loadings.dispersion)
    return alternate_fit_and_dispersion(state, seed, may_restart=False)


def _sparse(state: State) -> State:
    """The fit with a price on non-zero loadings, from the rotation in which the loadings are simplest.

    The ARD precisions stay: estimated anew, they would shrink loadings the more the more of them are zero, until none
    is left.
    """
    k, settings = state.n_components, state.noise.settings
    change = Affine(np.zeros(k), varimax(state.loadings.mean[:, :k]).T)
    loadings = state.problem.mapped(state.loadings, change)
    ard_precision = len(loadings.mean) / loadings.sizes
    loadings = replace(
        loadings, ard_precision=ard_precision, sparsity=settings.sparsity, delta=settings.delta
    )
    most = state.noise.session.max_iter
    state = sweep(
        state.with_posterior(loadings, state.noise.each(state.local, change.apply)), most, holds_ard=True
    )
    while (empty := np.flatnonzero(~(state.loadings.snapped != 0.0).any(axis=0))).size:
        state = sweep(state.without(empty, "sparsity"), most, holds_ard=True)
    return state


@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """The posterior at the chosen dimension."""

    problem: VariationalProblem
    """Gives q(z) of rows under ``loadings``."""
    loadings: Loadings
    local: Sequence[Any]
    """q(z) of the training rows, block by block."""
    result: Result[Loadings]
    removals: tuple[Removal, ...]
    null: Coefficients
    """The model without components."""
    deviances: Deviances
    evidence: float
    evidence_by_rank: dict[int, float]
    """Evidence of the dimensions that were compared."""
    loading_std: Floats
    """Standard deviations of the loadings, 0 where they are exactly zero, shape (n_features, k)."""
    dispersion_report: DispersionReport
    n_above_noise: int
    """Directions of the residuals without components above the edge of noise; see `count_above_noise`."""

    @classmethod
    def of(cls, found: Search, given: Family) -> PosteriorFit:
        """The report on the end of a search; ``given`` is the family that it started with."""
        best, noise = found.best, found.best.noise
        null = noise.null(best.loadings.dispersion, best.null.fixed)
        replaced = name_replaced(given, noise.family, len(best.loadings.mean))
        assert best.local is not None
        return cls(
            best.problem,
            best.loadings,
            best.local,
            best.result,
            best.removals,
            null,
            noise.visit.deviances(noise.family, best.coefficients, best.score_means, null),
            found.evidence,
            found.by_rank,
            loading_deviations(best),
            DispersionReport(noise.name, found.by_noise, replaced),
            count_above_noise(noise, null),
        )

    def deviances_at(self, session: FitContext, loadings: Loadings, local: Sequence[Any]) -> Deviances:
        """Deviances at other posterior means."""
        means = session.map(lambda _, scores: scores.mean, local)
        visit = Pass(session, self.problem.fit_intercept)
        return visit.deviances(self.problem.family, loadings.coefficients, means, self.null)

    @property
    def coefficients(self) -> Coefficients:
        """The posterior means, with exact zeros where the price of non-zeros shrank loadings away."""
        return replace(self.loadings.coefficients, loadings=self.loadings.snapped)

    @property
    def alpha(self) -> Floats:
        return self.loadings.ard_precision

    @property
    def rank_probabilities(self) -> dict[int, float]:
        """Posterior probabilities of the dimensions that were compared, equally likely beforehand."""
        shares = softmax(list(self.evidence_by_rank.values())) if self.evidence_by_rank else []
        return dict(zip(self.evidence_by_rank, map(float, shares), strict=True))

    def row_model(self, reported: Reported, order: Ints, signs: Floats) -> PosteriorRowModel:
        """The fit as rows see it, with components in another order and with other signs."""
        return PosteriorRowModel(reported, self.problem, replace(self.loadings, change=None), order, signs)
