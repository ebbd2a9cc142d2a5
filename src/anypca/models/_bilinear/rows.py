"""Scores of rows with frozen coefficients, each row solved to its own convergence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.exceptions import ConvergenceWarning, NonFiniteError
from anypca.families import Family
from anypca.linalg import PackedCholesky, packed_size
from anypca.models._bilinear.kernel import Coefficients, Kernel
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._opened import OpenedBlock
from anypca.priors import Prior, Ridge

_MAX_NEWTON = 200


class RowFit(NamedTuple):
    """Modes of rows."""

    scores: Floats
    """(rows, k)."""
    value: Floats
    """Log-likelihood at the mode without constants, shape (rows,)."""
    curvature: Floats
    """Curvature of the log-likelihood at the mode, without the prior, packed, shape (rows, k (k + 1) / 2)."""
    converged: Bools
    """(rows,)."""


@dataclass
class _Progress:
    """State of the rows while they are solved; rows leave when they have converged."""

    scores: Floats
    value: Floats
    curvature: Floats
    converged: Bools


def solve_rows(problem: BilinearProblem, coefficients: Coefficients, rows: OpenedBlock) -> RowFit:
    """Mode of the penalised log-likelihood of each row, by damped Newton from zero.

    A row's answer does not depend on its neighbours: each has its own step length and its own stop.
    """
    kernel = Kernel(problem.family, coefficients, rows)
    n, k = rows.n_rows, coefficients.loadings.shape[1]
    state = _Progress(np.zeros((n, k)), np.zeros(n), np.zeros((n, packed_size(k))), np.zeros(n, dtype=bool))
    active = np.arange(n)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MAX_NEWTON):
            some = kernel if active.size == n else kernel.take(active)
            scores = state.scores[active]
            sums = some.row_sums(scores, observed=True)
            state.value[active], state.curvature[active] = sums.value, sums.curvature
            newton = problem.newton_rows(scores, sums.gradient, sums.curvature)
            # A gain that the objective cannot resolve is taken unseen, as the last step: Newton's error squares.
            solved = newton.decrement <= problem.slack(sums.value)
            state.converged[active[solved]] = True
            state.scores[active[solved]] += newton.step[solved]
            active, going = active[~solved], ~solved
            if active.size == 0:
                break
            state.scores[active] = problem.halve(
                some.take(going), scores[going], newton.step[going], sums.value[going], first=1.0
            )
    return RowFit(state.scores, state.value, state.curvature, state.converged)


def check_solved(found: RowFit, numbers: Ints) -> None:
    """Raise where the fitted model gives a row no likelihood: the intercepts of such a fit have diverged."""
    bad = ~np.isfinite(found.value)
    if bad.any():
        raise NonFiniteError(
            f"the log-likelihood of row {numbers[np.argmax(bad)]} overflows under the fitted model, whose "
            "maximum likelihood estimate is infinite. Fit again with a larger ridge."
        )
    warn_unsolved(found.converged, numbers)


def warn_unsolved(converged: Bools, numbers: Ints) -> None:
    """Warn when some rows, of the given numbers in their table, ran out of steps before their optimum."""
    if not converged.all():
        warnings.warn(
            f"{int(np.sum(~converged))} rows, the first being row {numbers[np.argmin(converged)]}, have no "
            "converged scores: their likelihood may have no finite maximum. "
            "Fit again with a larger ridge, or leave them out.",
            ConvergenceWarning,
            stacklevel=2,
        )


def covariances(prior: Prior, found: RowFit) -> Floats:
    """Of the scores, from the curvature at their modes (Laplace), shape (rows, k, k)."""
    precision = found.curvature + prior.curvature(found.scores)
    return PackedCholesky(precision, found.scores.shape[1]).inverse()


def standard_deviations(prior: Prior, found: RowFit) -> Floats:
    """Of the scores, from the curvature at their modes (Laplace), shape (rows, k)."""
    variances: Floats = np.einsum("iaa->ia", covariances(prior, found))
    return np.sqrt(variances)


def integrate_rows(
    rows: OpenedBlock, found: RowFit, prior: Ridge, family: Family, dispersion: Floats
) -> tuple[Floats, Floats]:
    """Marginal log-likelihoods of rows and entropies of their scores in prior units, by Laplace; (rows,) each.

    ``found`` are the modes under ``prior``, whose precision is diagonal.
    """
    base = family.log_base(rows.x, dispersion)
    if rows.observed is not None:
        base = np.where(rows.observed, base, 0.0)
    k = found.scores.shape[1]
    precision = PackedCholesky(found.curvature + prior.curvature(found.scores), k)
    determinant = precision.log_determinant() - np.log(prior.precision).sum()
    joint: Floats = found.value + base.sum(axis=1) - prior.value(found.scores)
    entropy: Floats = 0.5 * (k * np.log(2.0 * np.pi * np.e) - determinant)
    return joint - 0.5 * determinant, entropy
