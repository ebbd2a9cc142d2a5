"""Where sweeps of the posterior start: components from the residuals of the model without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anypca._typing import Floats
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.start import residual_directions, residual_loadings
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._posterior import Loadings, Scores, add_component
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._sweeps import State, converge, estimate, hold
from anypca.solvers import Result, Status

# Variance of the loadings before the first sweep, in units of the noise: too small to shrink the first scores.
_START_VARIANCE = 1e-3
_LEAST_SIZE = 1e-3
# Of the normal prior on the intercept of a column without variation: ten units of the predictor wide.
_INTERCEPT_PRECISION = 0.01
# Components beyond those found that a round with another dispersion starts from.
_MARGIN = 4
# Squared singular values of n x p unit noise end at n + p + 2 sqrt(n p), those of components that variational PCA keeps
# begin at n + p + 2.91 sqrt(n p).
_NOISE = 2.25


def first_state(candidate: Candidate, seed: int) -> State:
    """Start from all components, with the dispersion after one component: without any, signal would count as noise."""
    rank, fixed = candidate.settings.max_components, candidate.mean_fixed()
    if not candidate.has_open_dispersion or rank == 0:
        return _begin(candidate, rank, candidate.start, fixed, seed)
    one = converge(_begin(candidate, 1, candidate.start, fixed, seed), loose=True)
    return replace(_begin(candidate, rank, estimate(one), one.null.fixed, seed), n_sweeps=one.n_sweeps)


def from_above(state: State, dispersion: Floats, seed: int) -> State:
    """Start again with another dispersion, from a few more components than were found."""
    candidate = state.candidate
    rank = min(candidate.settings.max_components, state.n_components + _MARGIN)
    start = _begin(candidate, rank, dispersion, state.null.fixed, seed)
    return replace(start, n_sweeps=state.n_sweeps)


def rival_state(state: State, rival: Candidate, seed: int) -> State:
    """Start with another candidate.

    It starts from above, since a dispersion found with too few components covers for those that are missing.
    """
    means = replace(state.means, dispersion=rival.start)
    dispersion = rival.estimate(means, state.score_means, state.weight)
    start = from_above(replace(state, candidate=rival), dispersion, seed)
    strongest = min(old.loadings.alpha.min(initial=np.inf) for old in (state, start))
    alpha = np.full(start.n_components, strongest)
    return hold(start.moved(replace(start.loadings, alpha=alpha), None))


def with_direction(state: State, seed: int) -> State | None:
    """The state with one component more, the strongest direction in its residuals.

    ``None`` if that direction is no stronger than in noise.
    """
    candidate, data = state.candidate, state.candidate.session.data
    found = residual_directions(
        candidate.family, state.means, candidate.visit, 1, np.random.default_rng(seed), state.score_means
    )
    n, p = data.n_samples, data.n_features
    if found.strength < n + p + _NOISE * np.sqrt(n * p):
        return None
    variance = _START_VARIANCE * noise_units(candidate.family, state.loadings.dispersion)
    loadings = add_component(state.loadings, found.loadings[:, 0], variance)
    return state.moved(loadings, candidate.each(state.local, Scores.extended))


def _begin(candidate: Candidate, rank: int, dispersion: Floats, fixed: Floats, seed: int) -> State:
    """A state before its first sweep; intercepts and covariates are fitted from ``fixed``."""
    session, family = candidate.session, candidate.family
    null = candidate.null(dispersion, fixed)
    problem = VariationalProblem(
        family,
        candidate.settings.fit_intercept,
        candidate.visit.log_base(family, dispersion),
        float(np.finfo(session.data.dtype).eps),
    )
    directions = residual_loadings(family, null, candidate.visit, rank, np.random.default_rng(seed))
    mean = np.hstack([directions, null.fixed])
    variance = _START_VARIANCE * noise_units(family, dispersion)
    precision = np.outer(1.0 / variance, pack_symmetric(np.eye(mean.shape[1])))
    units = _units(candidate, dispersion)
    column = np.reshape(units, (-1, 1))
    sizes = np.maximum((directions**2 / column).mean(axis=0), _LEAST_SIZE * (variance / column[:, 0]).mean())
    loadings = Loadings(mean, precision, 1.0 / sizes, dispersion, _fixed_precision(candidate), units=units)
    nothing = Result(loadings, np.empty(0), Status.MAX_ITER, np.inf, 0)
    return State(candidate, problem, null, nothing, None)


def _units(candidate: Candidate, dispersion: Floats) -> Floats | float:
    """Where columns with units stand beside others, the prior must know them; else the relevance does."""
    if len(candidate.family.member_columns(len(dispersion))) == 1:
        return 1.0
    return noise_units(candidate.family, dispersion)


def _fixed_precision(candidate: Candidate) -> Floats:
    """A wide prior on the intercepts of constant columns, which would run away; flat elsewhere."""
    data, summary = candidate.session.data, candidate.session.summary
    fit_intercept = candidate.settings.fit_intercept
    precision = np.zeros((data.n_features, int(fit_intercept) + data.n_covariates))
    if fit_intercept:
        for member, columns in candidate.family.member_columns(data.n_features):
            is_constant = summary.minimum[columns] == summary.maximum[columns]
            # With units, a constant is a value like any other and its column says where it lies.
            precision[columns, 0] = np.where(is_constant & (not member.has_units), _INTERCEPT_PRECISION, 0.0)
    return precision
