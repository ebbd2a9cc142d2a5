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
from anypca.models._bilinear.dispersion import updated_family
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._bilinear.row_model import Reported
from anypca.models._context import FitContext
from anypca.models.sepca._dispersion import alternative_noise_models, dispersion_cost, estimate, is_settled
from anypca.models.sepca._evidence import evidence
from anypca.models.sepca._initialise import (
    continued_state,
    count_above_noise,
    initialise,
    warm_state,
    with_leading_direction,
)
from anypca.models.sepca._noise import (
    MAX_ROUNDS,
    STRONG_EVIDENCE,
    DispersionReport,
    NoiseModel,
    Settings,
    first_noise_model,
    name_replaced,
)
from anypca.models.sepca._posterior import Affine, Loadings
from anypca.models.sepca._rows import PosteriorRowModel
from anypca.models.sepca._standard_errors import loading_deviations
from anypca.models.sepca._state import Removal, State, prune, sweep
from anypca.models.sepca._subsample import open_subsample
from anypca.models.sepca._sweep import VariationalProblem
from anypca.solvers import Result

# Change of the bound in nats that ends rounds of fit and dispersion: it changes no comparison.
_SMALL_CHANGE = 0.1


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
    noise = first_noise_model(session, family, settings, int(session.rng.integers(2**31)))
    state = None if start is None else warm_state(noise, start)
    if state is None:
        state = _from_subsample(noise)
    return PosteriorFit.of(search(initialise(noise) if state is None else state), family)


def search(state: State) -> Search:
    """The fit with the largest evidence: over noise models, then over neighbouring numbers of components."""
    state = alternate_fit_and_dispersion(state)
    fits = [
        state if noise is state.noise else _refit(state, noise) for noise in alternative_noise_models(state)
    ]
    judged = sorted(((evidence(fit) - dispersion_cost(fit), fit) for fit in fits), key=_value)
    by_noise = {fit.noise.name: value for value, fit in judged}
    state = judged[-1][1] if judged else state
    settings = state.noise.settings
    compared = [(evidence(state), state)] if settings.is_rank_fixed else compare_ranks(state)
    by_rank = {
        fit.n_components: value for value, fit in sorted(compared, key=lambda pair: pair[1].n_components)
    }
    best = alternate_fit_and_dispersion(max(compared, key=_value)[1], rough=False)
    if settings.share is not None:
        best = _leading(best, settings.share)
    by_rank[best.n_components] = evidence(best)
    if settings.sparsity > 0:
        best = _sparse(best)
    return Search(best, evidence(best), by_noise, by_rank)


def compare_ranks(state: State) -> list[tuple[float, State]]:
    """Fits with fewer components while the evidence grows or nearly ties, then with more while it grows."""
    compared: list[tuple[float, State]] = []
    fit: State | None = state
    while fit is not None:
        compared.append((evidence(fit), fit))
        best = max(compared, key=_value)
        is_open = fit.n_components > 0 and best[0] - compared[-1][0] <= STRONG_EVIDENCE
        fit = _with_fewer(fit) if is_open else None
    while best[1].n_components == max(fit.n_components for _, fit in compared):
        more = _with_more(best[1])
        if more is None:
            break
        compared.append((evidence(more), more))
        best = max(compared, key=_value)
    return compared


def _value(pair: tuple[float, State]) -> float:
    return pair[0]


def _with_fewer(state: State) -> State | None:
    """A fit without the weakest component; ``None`` if it diverges."""
    weakest = np.array([int(np.argmin(state.loadings.signal_ratio))])
    try:
        # Intercepts of answers that a component separates grow without bound.
        with np.errstate(over="ignore"):
            return alternate_fit_and_dispersion(state.without(weakest, "evidence"))
    except NonFiniteError:
        return None


def _with_more(state: State) -> State | None:
    """A fit with one more component; ``None`` if the residuals contain none, or if it is pruned."""
    start = with_leading_direction(state) if state.n_components < state.noise.max_rank else None
    if start is None:
        return None
    more = alternate_fit_and_dispersion(start)
    if more.n_components <= state.n_components:
        return None
    # A component that was removed has come back: the path ends where it is still true.
    return replace(more, removals=tuple(r for r in more.removals if r.n_components > more.n_components))


def alternate_fit_and_dispersion(state: State, *, rough: bool = True) -> State:
    """Fit in rounds, each with the dispersions of the last one's residuals, until these or the bound are stationary.

    Fits that are compared converge roughly, to a tenth of a nat; the best one then converges to the tolerance.
    """
    bound = -np.inf
    for _ in range(MAX_ROUNDS):
        before, state = bound, prune(state, rough=rough)
        bound, new = state.bound, estimate(state)
        family = updated_family(state.noise.family, state.coefficients, state.noise.visit, state.score_means)
        is_same = is_settled(state, new) and family is state.noise.family
        if is_same or abs(bound - before) <= _SMALL_CHANGE:
            return state
        state = state.with_family(family)
        state = state.with_noise(state.noise, new)
    return prune(state, rough=rough)


def _from_subsample(noise: NoiseModel) -> State | None:
    """The start of a tall table: the fit to a sample of its rows; ``None`` for other tables."""
    with open_subsample(noise.session) as sample:
        if sample is None:
            return None
        first = first_noise_model(sample, noise.family, noise.settings, noise.seed)
        return continued_state(noise, search(initialise(first)).best)


def _refit(state: State, noise: NoiseModel) -> State:
    """A fit under another noise model, from the fit at hand unless that has too many components for it."""
    if state.n_components > noise.max_rank:
        return alternate_fit_and_dispersion(initialise(replace(noise, start=noise.null_dispersion)))
    start = state.with_noise(noise, noise.start)
    return alternate_fit_and_dispersion(start.with_noise(noise, estimate(start)))


def _leading(state: State, share: float) -> State:
    """The fit with the fewest components that explain a share of the deviance which all of them explain."""
    noise = state.noise
    null = noise.null(state.loadings.dispersion, state.null.fixed)
    found = noise.visit.deviances(noise.family, state.coefficients, state.score_means, null).shares
    order = np.argsort(-found, kind="stable")
    shares = np.cumsum(found[order]) / max(float(found.sum()), np.finfo(float).tiny)
    leaving = order[int(np.searchsorted(shares, share)) + 1 :]
    fixed = replace(noise, settings=replace(noise.settings, is_rank_fixed=True))
    state = state.without(leaving, "share").with_noise(fixed, state.loadings.dispersion)
    return alternate_fit_and_dispersion(state, rough=False)


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
