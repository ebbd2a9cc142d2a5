r"""Posterior of scores and loadings by the No-U-Turn sampler, at the dimension of the variational fit.

.. math:: \log p(Z, K) = \sum_{ij} s_i \ell(x_{ij}, \eta_{ij}) - \tfrac12 \|Z\|^2
   - \tfrac12 \sum_{jk} \tau_{jk} K_{jk}^2, \qquad \eta = o + [Z | F] K'

with the coefficients :math:`K = [W | B]` of loadings, intercept and covariates, their prior precisions and the
dispersions of the variational fit (empirical Bayes). The sampler works in coordinates in which the variational
posterior is a unit normal, and learns correlations. All draws are turned to common latent coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.models._bayes.chains import (
    MAX_R_HAT,
    Mixing,
    SampledResult,
    Summary,
    check_memory,
    check_sampling,
    summarise,
)
from anypca.models._bayes.points import Point, align, collect_rows, likelihood_terms
from anypca.models._block_view import BlockView, open_block
from anypca.models._context import FitContext
from anypca.models.sepca._noise import Settings
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._search import PosteriorFit, fit_posterior
from anypca.solvers.nuts import Draws, NutsOptions, sample_nuts

_WHO, _REMEDY = "inference='hmc'", "use inference='vb', which takes minutes"


@dataclass(frozen=True)
class SamplerOptions:
    """Options of the sampler: draws, tuning steps and number of chains.

    Parameters
    ----------
    n_draws : int, default=500
        Draws that each chain keeps.
    n_tune : int, default=250
        Steps before, which set step size and scales.
    n_chains : int, default=4
        Number of chains.

    See Also
    --------
    SePCA : takes them as ``inference``.
    """

    n_draws: int = 500
    n_tune: int = 250
    n_chains: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"The {name!r} parameter of SamplerOptions must be an int from 1 on; got {value!r}."
                )


@dataclass(frozen=True, eq=False)
class SampledFit(PosteriorFit):
    """The posterior by draws: ``loadings`` are mean and precision of each column's aligned draws."""

    summary: Summary
    """Scores, loadings, intercept (and coef) over chains and draws, aligned."""


@dataclass(frozen=True, eq=False)
class WhitenedDensity:
    """The log density in coordinates u: scores and coefficients are a centre plus factors times u."""

    family: Family
    rows: BlockView
    loadings: Loadings
    centre: Point
    row_factor: Floats
    """Roots of the scores' covariances, shape (n_samples, k, k)."""
    column_factor: Floats
    """Roots of the coefficients' covariances, shape (n_features, m, m)."""

    def __call__(self, position: Floats) -> tuple[float, Floats]:
        """Value and gradient at u, flat."""
        scores, joint = self.restore(position)
        with np.errstate(over="ignore", invalid="ignore"):
            found = likelihood_terms(self.family, self.rows, self.loadings.dispersion, scores, joint)
            pull = self.loadings.prior_precision() * joint
            value = found.value - 0.5 * float(np.vdot(scores, scores) + np.vdot(pull, joint))
            by_row = np.einsum("iab,ia->ib", self.row_factor, found.scores - scores)
            by_column = np.einsum("jab,ja->jb", self.column_factor, found.joint - pull)
        return value, np.concatenate([by_row.ravel(), by_column.ravel()])

    def restore(self, position: Floats) -> Point:
        """The point at u; leading axes are draws."""
        (n, k), (p, m) = self.centre.scores.shape, self.centre.joint.shape
        lead = position.shape[:-1]
        rows, columns = (
            position[..., : n * k].reshape(*lead, n, k),
            position[..., n * k :].reshape(*lead, p, m),
        )
        return Point(
            self.centre.scores + np.einsum("iab,...ib->...ia", self.row_factor, rows),
            self.centre.joint + np.einsum("jab,...jb->...ja", self.column_factor, columns),
        )


def fit_draws(
    session: FitContext, family: Family, settings: Settings, options: SamplerOptions, *, progress: bool
) -> SampledFit:
    """A variational fit, then chains of draws around it.

    The table and all draws are held in memory: tables of up to about a million entries.
    """
    check_sampling(session.data, options.n_draws, SamplerOptions.n_draws, _WHO, _REMEDY)
    start = fit_posterior(session, family, settings)
    density = _density(session, start)
    size = density.centre.scores.size + density.centre.joint.size
    check_memory(size * options.n_chains * options.n_draws, _WHO, _REMEDY)
    starts = session.rng.standard_normal((2 * options.n_chains, size))
    run = NutsOptions(options.n_draws, options.n_tune, options.n_chains, low_rank=True)
    seed = int(session.rng.integers(2**31))
    found = sample_nuts(density, starts, run, seed=seed, progress=progress)
    draws = align(density.restore(found.position.reshape(-1, size)), density.centre)
    return _conclude(session, start, found, draws)


def _density(session: FitContext, start: PosteriorFit) -> WhitenedDensity:
    rows = collect_rows(session, fit_intercept=start.problem.fit_intercept)
    local, loadings = session.executor.gather(start.local), start.loadings
    k = loadings.n_components
    precision = np.concatenate(
        [np.broadcast_to(scores.precision, (len(scores.mean), scores.precision.shape[1])) for scores in local]
    )
    centre = Point(np.concatenate([scores.mean for scores in local]).astype(float), loadings.mean)
    factors = (_inverse_root(unpack_symmetric(precision, k)), _inverse_root(_full_precision(loadings)))
    return WhitenedDensity(start.problem.family, rows, loadings, centre, *factors)


def _full_precision(loadings: Loadings) -> Floats:
    return unpack_symmetric(loadings.precision, loadings.mean.shape[1])


def _inverse_root(precision: Floats) -> Floats:
    """L with ``L L' = precision^-1``, matrix by matrix."""
    return np.swapaxes(np.linalg.inv(np.linalg.cholesky(precision)), 1, 2)


def _conclude(session: FitContext, start: PosteriorFit, found: Draws, draws: Point) -> SampledFit:
    """The fit in the form of a variational one, which has no evidence."""
    problem = start.problem
    summary = summarise(session.data, draws, found.stats, has_intercept=problem.fit_intercept)
    worst = max((float(values.max()) for values in summary.r_hat.values()), default=1.0)
    status = Mixing.CONVERGED if worst <= MAX_R_HAT else Mixing.DISAGREE
    mean = draws.joint.mean(axis=0)
    centred = draws.joint - mean
    covariance = np.einsum("sja,sjb->jab", centred, centred) / max(len(centred) - 1, 1)
    loadings = start.loadings.with_posterior(mean, pack_symmetric(np.linalg.inv(covariance)))
    trace = np.array([float(found.log_density.mean())])

    def visit(block: Block, _: Any) -> Any:
        rows = open_block(block, fit_intercept=problem.fit_intercept)
        return problem.solve_rows(rows, loadings)[0]

    local = session.map(visit)
    plain = replace(
        start,
        loadings=loadings,
        local=local,
        result=SampledResult(loadings, trace, status, worst, 1),
        deviances=start.deviances_at(session, loadings, local),
        evidence=float("nan"),
        evidence_by_rank={},
        loading_std=loadings.deviations,
    )
    return SampledFit(**vars(plain), summary=summary)
