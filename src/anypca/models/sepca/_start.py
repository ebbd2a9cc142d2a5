"""Where sweeps of the posterior start: components from the residuals of the model without any."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.start import Directions, residual_directions
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._noise import is_normal
from anypca.models.sepca._posterior import Loadings, add_component, start_relevance
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._rounds import ROUND_TOLERANCE, is_settled
from anypca.models.sepca._scores import Scores
from anypca.models.sepca._spectrum import count_above_noise
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import (
    estimate,
    look,
    solve_rows,
    with_candidate,
    with_dispersion,
)
from anypca.models.sepca._weight import count_rows
from anypca.solvers import Result, Status

# Variance of the loadings before the first sweep, in units of the noise's or of 1 where the noise of eta is larger. A
# predictor at a score of 1 is then uncertain by 3 % of the noise's standard deviation, too little to shrink scores.
_START_VARIANCE = 1e-3
# Precision of the normal prior on the intercept of a column that does not vary: its standard deviation is 10, and
# exp(10) or a probability of 1 - exp(-10) is beyond what such a column can tell.
_INTERCEPT_PRECISION = 0.01
# Components beyond those found that a round with another dispersion starts from: a smaller dispersion may let several
# more come out, and those that are too many leave within a few sweeps.
_MARGIN = 4
# Strength, n + p + 1.75 sqrt(n p), from which on a direction of the residuals is tried. Squared singular values of n x
# p unit noise end at n + p + 2 sqrt(n p), those of components that variational PCA keeps begin at n + p + 2.91 sqrt(n
# p) (Nakajima et al. 2013; ``experiments/sepca_analytic.py`` has the formula). The dispersion holds the component that
# is missing, and other weak ones too, so that its direction may lie below the edge in units of it.
_NOISE = 1.75
# Rounds with the relevance held, of three sweeps each. Up to six are usual; a limit for what does not come to rest.
_MAX_HELD_ROUNDS = 25


def first_state(candidate: Candidate, seed: int) -> State:
    """Start from all components that are allowed, with the dispersion that is left by those that nobody can miss.

    With too few components signal would count as noise, and no component could get beyond it. Where the noise is known
    a few components beyond those that stand out are enough to start from: if all of them last, `settle` tries more.
    """
    rank, fixed = candidate.settings.max_components, candidate.mean_fixed()
    if rank == 0:
        return _begin(candidate, rank, candidate.start, fixed, seed)
    visible = max(1, count_above_noise(candidate, candidate.null(candidate.start, fixed)))
    if not candidate.has_open_dispersion:
        return _begin(candidate, min(rank, visible + _MARGIN), candidate.start, fixed, seed)
    few = hold(_begin(candidate, visible, candidate.start, fixed, seed))
    if visible == rank:
        return few
    return replace(_begin(candidate, rank, estimate(few), few.null.fixed, seed), n_sweeps=few.n_sweeps)


def warm_state(candidate: Candidate, start: Loadings, seed: int) -> State | None:
    """Start from the posterior of another fit; ``None`` if that was of other columns.

    Its dispersions may be those of another model of the noise, hence they are brought into agreement with it.
    """
    k = start.n_components
    dispersion = start.dispersion if candidate.has_open_dispersion else candidate.start
    if len(start.mean) != candidate.session.data.n_features or k > candidate.settings.max_components:
        return None
    state = _begin(candidate, k, dispersion, candidate.mean_fixed(), seed)
    if state.loadings.mean.shape != start.mean.shape:
        return None
    known = replace(state.loadings, mean=start.mean, precision=start.precision, alpha=start.alpha)
    state = state.moved(known, None)
    return hold(state) if candidate.has_open_dispersion else state


@dataclass(frozen=True, eq=False)
class End:
    """Where the fit of a candidate to a sample of rows ended."""

    loadings: Loadings
    weight: float
    """Sum of the weights of the sample."""
    removals: tuple[Removal, ...]
    n_sweeps: int

    @classmethod
    def of(cls, state: State) -> End:
        return cls(
            replace(state.loadings, change=None, pace=1.0), state.weight, state.removals, state.n_sweeps
        )


def continued_state(candidate: Candidate, end: End) -> State:
    """Go on with the whole table from where the fit to a sample of its rows ended."""
    known = end.loadings
    null = candidate.null(known.dispersion, candidate.mean_fixed())
    # More rows tell the loadings that much better; with the precision of the sample scores would be shrunken.
    precision = known.precision * (count_rows(candidate.session) / end.weight)
    loadings = replace(
        known.with_posterior(known.mean, precision), fixed_precision=_fixed_precision(candidate)
    )
    state = _unswept(candidate, null, loadings)
    return solve_rows(replace(state, removals=end.removals, n_sweeps=end.n_sweeps))


def from_above(state: State, dispersion: Floats, seed: int) -> State:
    """Start again with another dispersion, from a few more components than were found."""
    candidate = state.candidate
    rank = min(candidate.settings.max_components, state.n_components + _MARGIN, most_determined(candidate))
    start = _begin(candidate, rank, dispersion, state.null.fixed, seed)
    return replace(start, n_sweeps=state.n_sweeps)


def from_below(candidate: Candidate, rank: int, fixed: Floats, seed: int) -> State:
    """Start from the strongest directions, held until the noise has come down to what they leave."""
    return hold(_begin(candidate, rank, candidate.null_dispersion, fixed, seed))


def most_determined(candidate: Candidate) -> int:
    """Most components beside which the noise of a candidate is determined.

    With more of them columns are explained that hold nothing but noise, and in tables of many rows sweeps do not lead
    away from there.
    """
    p = candidate.session.data.n_features
    return most_determined_of(p) if candidate.by_column and is_normal(candidate.family) else p


def most_determined_of(p: int) -> int:
    """Largest k with ``(p - k)^2 >= p + k``: p columns have noise of their own (Ledermann 1937, Psychometrika 2)."""
    return int(p + 0.5 - np.sqrt(2.0 * p + 0.25))


def is_crowded(own: Candidate, n_components: int) -> bool:
    """Whether a fit with noise of the columns' own should not start from above so many components."""
    return min(n_components + _MARGIN, own.settings.max_components) > most_determined(own)


def is_crowded_by_noise(candidate: Candidate) -> bool:
    """Whether more directions stand out of equal shares of noise than could be components.

    Then it is the shares that differ, which tables of many rows tell of any columns, and a fit with equal ones would
    only look for components in their place.
    """
    if not is_normal(candidate.family) or candidate.by_column or not candidate.may_have_own:
        return False
    visible = count_above_noise(candidate, candidate.null(candidate.start, candidate.mean_fixed()))
    return visible > most_determined(replace(candidate, by_column=True))


def rival_state(state: State, rival: Candidate, seed: int) -> State:
    """Start with another candidate, from more components than were found.

    A dispersion found with too few components holds the signal of those that are missing; hence the components are
    held until it has come down.
    """
    start = with_candidate(state, rival, rival.start)
    start = from_above(start, estimate(start), seed)
    strongest = min(old.loadings.alpha.min(initial=np.inf) for old in (state, start))
    alpha = np.full(start.n_components, strongest)
    return hold(start.moved(replace(start.loadings, alpha=alpha), None))


def with_direction(state: State, seed: int) -> State | None:
    """The state with one component more, the strongest direction in its residuals.

    ``None`` if that direction is hardly stronger than the strongest in noise.
    """
    candidate = state.candidate
    found = residual_directions(
        candidate.family, state.means, candidate.visit, 1, np.random.default_rng(seed), state.score_means
    )
    # Noise has as many dimensions less, of rows and of columns, as components have taken.
    n, p = (max(size - state.n_components, 1.0) for size in (state.weight, float(len(state.loadings.mean))))
    if found.strength < n + p + _NOISE * np.sqrt(n * p):
        return None
    loadings = add_component(
        state.loadings, found.loadings[:, 0], _start_variance(state.loadings.units, found)
    )
    return state.moved(loadings, candidate.each(state.local, Scores.extended))


def _begin(candidate: Candidate, rank: int, dispersion: Floats, fixed: Floats, seed: int) -> State:
    """A state before its first sweep; intercepts and covariates are fitted from ``fixed``."""
    family, null = candidate.family, candidate.null(dispersion, fixed)
    directions = residual_directions(family, null, candidate.visit, rank, np.random.default_rng(seed))
    mean = np.hstack([directions.loadings, null.fixed])
    units = noise_units(family, dispersion)
    variance = _start_variance(units, directions)
    precision = np.outer(1.0 / variance, pack_symmetric(np.eye(mean.shape[1])))
    alpha = start_relevance(directions.loadings, variance, units)
    loadings = Loadings(mean, precision, alpha, dispersion, _fixed_precision(candidate), units=units)
    return _unswept(candidate, null, loadings)


def _unswept(candidate: Candidate, null: Coefficients, loadings: Loadings) -> State:
    """A state that has a posterior of the loadings only."""
    problem = VariationalProblem(
        candidate.family,
        candidate.settings.fit_intercept,
        candidate.constant(loadings.dispersion),
        float(np.finfo(candidate.session.data.dtype).eps),
        sharp=candidate.has_rare_answers,
    )
    # A state has a result; this one is that of no sweep.
    nothing = Result(loadings, np.empty(0), Status.MAX_ITER, np.inf, 0)
    return State(candidate, problem, null, nothing, None)


def _start_variance(units: Floats | float, directions: Directions) -> Floats:
    """Of the loadings, shape (n_features,): counts of ten thousand tell their eta to a hundredth, without units."""
    return _START_VARIANCE * np.minimum(units, directions.noise)


def _fixed_precision(candidate: Candidate) -> Floats:
    """Prior precisions of intercepts and covariates: wide for intercepts of constant columns, else flat.

    The likelihood of a column of zeros, or of ones, grows without bound with its intercept.
    """
    data, summary = candidate.session.data, candidate.session.summary
    fit_intercept = candidate.settings.fit_intercept
    precision = np.zeros((data.n_features, int(fit_intercept) + data.n_covariates))
    if fit_intercept:
        for member, columns in candidate.family.member_columns(data.n_features):
            is_constant = summary.minimum[columns] == summary.maximum[columns]
            # In a column with units a constant is a value like any other, and its intercept is that value.
            precision[columns, 0] = np.where(is_constant & (not member.has_units), _INTERCEPT_PRECISION, 0.0)
    return precision


def hold(state: State) -> State:
    """Bring dispersion and posterior into agreement while all components keep the same relevance.

    A dispersion that was found without a component holds that component's signal too, and makes it fade before it has
    shown its worth. With its relevance held it cannot fade; the dispersion falls to what the component leaves.
    """
    alpha = np.full(state.n_components, state.loadings.alpha.min(initial=np.inf))
    state = state.moved(replace(state.loadings, alpha=alpha), state.local)
    for _ in range(_MAX_HELD_ROUNDS):
        # What is for a first dispersion need not be closer in a large table than its rough sweeps are.
        state = look(state, rough=state.candidate.is_large, is_held=True)
        new = estimate(state)
        settled = is_settled(state, new, rtol=ROUND_TOLERANCE)
        state = with_dispersion(state, new)
        if settled:
            break
    return state
