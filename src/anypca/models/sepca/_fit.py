"""From a session to the posterior of a table: its noise, its dimension, its loadings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.linalg import varimax
from anypca.models._bilinear.dispersion import refined_family
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.row_model import Reported
from anypca.models._session import Session
from anypca.models.sepca._candidate import Candidate, first_candidate
from anypca.models.sepca._coupling import relevance_cost
from anypca.models.sepca._dimension import compare_dimensions
from anypca.models.sepca._noise import dispersion_cost
from anypca.models.sepca._noise_report import DispersionReport, name_noise, name_replaced
from anypca.models.sepca._posterior import Loadings, snapped
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._rivals import find_rivals
from anypca.models.sepca._rounds import is_settled, with_next
from anypca.models.sepca._row_model import PosteriorRowModel
from anypca.models.sepca._sample import open_sample
from anypca.models.sepca._scores import Affine
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._spectrum import count_above_noise
from anypca.models.sepca._start import (
    End,
    continued_state,
    first_state,
    from_above,
    from_below,
    is_crowded,
    is_crowded_by_noise,
    most_determined,
    rival_state,
    warm_state,
)
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import (
    MAX_ROUNDS,
    converge,
    estimate,
    judge,
    prune,
    residuals,
    with_family,
    without,
)
from anypca.models.sepca._unseen import unseen_evidence
from anypca.models.sepca._widths import loading_deviations
from anypca.solvers import Result

# A round goes on from the fit of the last one if that kept the dimension and changed the dispersion by no more than
# this fraction. With a smaller dispersion more components may come out, for which it must start from above.
_NEAR = 0.2
# Rounds that need not converge. A component that is on its way out still holds part of the dispersion, so that further
# loose rounds could lead back and forth.
_LOOSE_ROUNDS = 3


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
    """Of the chosen dimension: the last value of the trace, and what the coupling of scores and loadings adds."""
    evidence_by_rank: dict[int, float]
    """Evidence of the dimensions that were compared; those that could not win were not driven to convergence."""
    loading_std: Floats
    """Standard deviations of the loadings, 0 where they are exactly zero, shape (n_features, k)."""
    noise: DispersionReport
    n_above_noise: int
    """Directions of the residuals without components above the edge of noise; see `count_above_noise`."""
    max_components: int
    """The largest dimension that was allowed."""
    unseen: tuple[float, ...]
    """What one, two and more components beyond the chosen ones would add; see `unseen_evidence`."""

    @property
    def coefficients(self) -> Coefficients:
        """The posterior means, with exact zeros where the price of non-zeros has left nothing."""
        return replace(self.loadings.coefficients, loadings=snapped(self.loadings))

    @property
    def alpha(self) -> Floats:
        return self.loadings.alpha

    @property
    def rank_probabilities(self) -> dict[int, float]:
        """Of the dimensions that were compared and of larger ones, all equally likely beforehand."""
        evidence = dict(self.evidence_by_rank)
        for number, gain in enumerate(self.unseen, start=1):
            rank = self.loadings.n_components + number
            evidence[rank] = max(self.evidence + gain, evidence.get(rank, -np.inf))
        if not self.unseen:
            evidence = nested_evidence(evidence, len(self.loadings.mean), self.max_components)
        shares = softmax(list(evidence.values())) if evidence else []
        return {rank: float(share) for rank, share in zip(evidence, shares, strict=True)}

    def row_model(self, reported: Reported, order: Ints, signs: Floats) -> PosteriorRowModel:
        """The fit as rows see it, with components in another order and with other signs."""
        # The loadings are copied without what sweeps have cached beside them: a loaded model computes these anew,
        # and they may differ in the last bit.
        return PosteriorRowModel(reported, self.problem, replace(self.loadings, pace=1.0), order, signs)


def fit_posterior(
    session: Session, family: Family, settings: Settings, start: Loadings | None = None
) -> PosteriorFit:
    """Choose the model of the noise, then the dimension, both by evidence, from the end of another fit if given.

    The dispersion is settled under a first candidate, whose residuals may call for rivals; these are settled from
    there, and the best of them takes its place.
    """
    seed = int(session.rng.integers(2**31))
    candidate = first_candidate(session, family, settings)
    warm = None if start is None else warm_state(candidate, start, seed)
    ends = _sample_ends(candidate, seed) if warm is None else {}
    state = settle(warm, seed) if warm is not None else _settle_first(candidate, ends, seed)
    rivals, state = _fit_rivals(state, ends, seed)
    noise = _report_noise(rivals, state, family)
    null = state.candidate.null(state.loadings.dispersion, state.null.fixed)
    compared = compare_dimensions(state, seed)
    best = max(compared, key=lambda state: state.evidence)
    if settings.sparsity > 0:
        best = judge(_sparse(best))
    visit = best.candidate.visit
    assert best.local is not None
    return PosteriorFit(
        best.problem,
        best.loadings,
        best.local,
        best.result,
        best.removals,
        null,
        visit.deviances(best.problem.family, best.means, best.score_means, null),
        best.evidence,
        {state.n_components: state.evidence for state in sorted(compared, key=lambda s: s.n_components)},
        loading_deviations(best),
        noise,
        count_above_noise(best.candidate, replace(null, dispersion=best.loadings.dispersion)),
        settings.max_components,
        unseen_evidence(best),
    )


def nested_evidence(evidence_by_rank: Mapping[int, float], n_columns: int, most: int) -> dict[int, float]:
    """Evidences of the dimensions that were compared, and of the next larger one up to ``most``.

    A component without loadings leaves the evidence as it is, less the cost of its relevance. So no dimension has
    less than that of the one below it, and one whose last component faded, or was never tried, has just that.
    """
    found: dict[int, float] = {}
    below, cost = -np.inf, relevance_cost(1, n_columns)
    for rank in range(min(evidence_by_rank, default=0), min(max(evidence_by_rank, default=-2) + 1, most) + 1):
        below = found[rank] = max(evidence_by_rank.get(rank, -np.inf), below - cost)
    return found


def _sample_ends(candidate: Candidate, seed: int) -> Mapping[Any, End]:
    """Where fits to a sample of the rows of a tall table end, by what tells their candidates; none for other tables."""
    with open_sample(candidate.session) as sample:
        if sample is None:
            return {}
        first = first_candidate(sample, candidate.family, candidate.settings)
        state = _settle_first(first, {}, seed)
        rivals, best = _fit_rivals(state, {}, seed)
        chosen = max(compare_dimensions(best, seed), key=lambda state: state.evidence)
        return {
            fitted.candidate.key: End.of(fitted)
            for fitted in (state, *(rival for rival, _ in rivals), chosen)
        }


def _settle_first(candidate: Candidate, ends: Mapping[Any, End], seed: int) -> State:
    """The first candidate with its dispersion, from where its fit to a sample ended if there was one."""
    if candidate.key in ends:
        return settle(continued_state(candidate, ends[candidate.key]), seed, may_restart=False)
    if is_crowded_by_noise(candidate):
        own = replace(candidate, by_column=True)
        return _settle_own(own, candidate.mean_fixed(), seed)
    return settle(first_state(candidate, seed), seed)


def _fit_rivals(state: State, ends: Mapping[Any, End], seed: int) -> tuple[list[tuple[State, float]], State]:
    """Fits under the models of the noise that are compared, with their evidence, and the best or the one at hand."""
    rivals = [
        state if rival is state.candidate else _settle_rival(state, rival, ends, seed)
        for rival in find_rivals(state, seed)
    ]
    judged = [(rival, penalised_evidence(rival)) for rival in rivals]
    return judged, max(judged, key=lambda pair: pair[1])[0] if judged else state


def _settle_rival(state: State, rival: Candidate, ends: Mapping[Any, End], seed: int) -> State:
    """Another candidate with its dispersion, from where its fit to a sample ended if there was one."""
    known = ends.get(rival.key)
    if known is not None:
        return settle(continued_state(rival, known), seed, may_restart=False)
    if is_crowded(rival, state.n_components):
        return _settle_own(rival, state.null.fixed, seed)
    return settle(rival_state(state, rival, seed), seed, may_restart=False)


def _settle_own(candidate: Candidate, fixed: Floats, seed: int) -> State:
    """A candidate whose noise leaves room for few components, from one, two and more of them.

    It ends where a component leaves, and where the last two have gained nothing.
    """
    most = min(most_determined(candidate), candidate.settings.max_components)
    found: list[tuple[float, State]] = []
    for rank in range(1, max(most, 1) + 1):
        state = settle(from_below(candidate, rank, fixed, seed), seed, may_restart=False)
        found.append((penalised_evidence(state), state))
        best = max(found, key=lambda pair: pair[0])
        if state.n_components < rank or best not in found[-2:]:
            break
    return best[1]


def _report_noise(judged: Sequence[tuple[State, float]], best: State, given: Family) -> DispersionReport:
    """What was compared."""
    evidence = {name_noise(rival.candidate): value for rival, value in judged}
    replaced = name_replaced(given, best.candidate.family, len(best.loadings.mean))
    return DispersionReport(name_noise(best.candidate), evidence, replaced)


def penalised_evidence(state: State) -> float:
    """The evidence less what the free dispersions cost: the bound knows nothing of their number."""
    state = judge(state)
    return state.evidence - dispersion_cost(residuals(state))


def settle(state: State, seed: int, *, may_restart: bool = True) -> State:
    """Fit in rounds, each with the dispersion that the residuals of the last one give, until it changes no more.

    After a round that changed the dimension, or the dispersion by much, or in which all components lasted, the next one
    starts again from more components than were found, if it may. Else it goes on from where the last one ended. The
    first rounds are loose, those that follow rough until the dispersion is settled, and the last round converges.
    """
    rough = True
    loose, found, most = True, -1, state.candidate.settings.max_components
    before: Floats | None = None
    # The last round would converge to what sweeps with close expectations leave at once.
    is_sharpened = state.candidate.is_sharpened and not state.problem.sharp
    for number in range(MAX_ROUNDS):
        started = state.n_components
        rough = rough and number < MAX_ROUNDS - 1
        state = prune(state, loose=loose, rough=rough)
        may_hold_more = may_restart and found != state.n_components == started < most
        new = estimate(state)
        family = refined_family(state.candidate.family, state.means, state.candidate.visit, state.score_means)
        settled = is_settled(state, new) and family is state.candidate.family
        if number == MAX_ROUNDS - 1 or (settled and (not rough or is_sharpened)):
            break
        is_near = settled or (state.n_components == found and is_settled(state, new, rtol=_NEAR))
        found = state.n_components
        state = with_family(state, family)
        is_new = may_hold_more or (may_restart and not is_near)
        if is_new:
            state, before = from_above(state, new, seed), None
        else:
            state, before = with_next(state, new, before if is_near else None)
        # A loose round that is settled is followed by the last one.
        rough = rough and (not settled or may_hold_more)
        loose = loose and rough and number + 1 < _LOOSE_ROUNDS
    return state


def _sparse(state: State) -> State:
    """The fit with a price on non-zero loadings, from the rotation in which the loadings are simplest.

    The relevance stays what it is there. It says how large D loadings are; estimated anew, it would take those that are
    zero by now for small ones and shrink the others, of which more would become zero, until none is left.
    """
    k, settings = state.n_components, state.candidate.settings
    change = Affine(np.zeros(k), varimax(state.loadings.mean[:, :k]).T)
    loadings = state.problem.mapped(state.loadings, change)
    mean_squares = loadings.sizes / len(loadings.mean)
    relevance = 1.0 / mean_squares
    loadings = replace(loadings, alpha=relevance, sparsity=settings.sparsity, delta=settings.delta)
    state = converge(state.moved(loadings, state.candidate.each(state.local, change.apply)), is_held=True)
    while (empty := np.flatnonzero(~(snapped(state.loadings) != 0.0).any(axis=0))).size:
        state = converge(without(state, empty, "sparsity"), is_held=True)
    return state
