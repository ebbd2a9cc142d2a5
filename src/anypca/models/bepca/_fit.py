"""From a table to draws of its factors, aligned and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._bayes.augment import augment
from anypca.models._bayes.chains import check_memory, check_sampling, judge, refuse_non_finite, summarise
from anypca.models._bayes.estimator import DrawnFit
from anypca.models._bayes.normal_rows import NormalRowModel
from anypca.models._bayes.points import Point, collect_rows, deviances_at
from anypca.models._bayes.rows import choose_entries, thin
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._context import FitContext
from anypca.models.bepca._density import FactorDensity, Factors
from anypca.models.bepca._gibbs import GibbsSampler
from anypca.models.bepca._report import Aligned, align_draws, mean_product, rank_bic
from anypca.models.bepca._settings import Settings
from anypca.models.bepca._start import make_prior, start_factors
from anypca.solvers import Progress
from anypca.solvers.nuts import NutsOptions, sample_nuts

# Starts to choose from for each chain of the No-U-Turn sampler, which takes one at random: a few, so that no chain
# begins where the gradient overflows.
_STARTS = 4
# Gibbs sweeps for each draw that is kept: neighbours say nearly the same, and to compare and to keep draws costs as
# much as to draw them.
_THIN = 2
# Sweeps between two reports of progress: some ten lines in a fit of the default length.
_REPORT_EVERY = 50


class Run(NamedTuple):
    """What a sampler found: draws of all chains, chain after chain, and what is known of each."""

    draws: Factors
    stats: Mapping[str, Any]
    """Of shape (chains, draws), with the log density ``lp``."""


@dataclass(frozen=True, eq=False)
class BEPCAFit(DrawnFit):
    """A posterior by draws."""

    coefficients: Coefficients
    """Posterior means of loadings and intercepts."""
    loading_std: Floats
    """(n_features, k)."""
    score_variance: Floats
    """Posterior means of the mean squares of the training scores, shape (k,)."""
    rank_bic: Mapping[int, float]


def fit_factors(session: FitContext, family: Family, dispersion: Floats, settings: Settings) -> BEPCAFit:
    """Sample, align, summarise.

    Parameters
    ----------
    session : FitContext
        Its table is held in memory as one dense array, with all draws.
    family : Family
    dispersion : ndarray of shape (n_features,)
    settings : Settings

    Raises
    ------
    ImportError
        If a package of the extra ``mcmc`` is missing.
    ValueError
        If fewer draws are asked for than can be summarised, or the sampler does not serve the family.
    """
    check_sampling(session.data, settings.n_draws, Settings.n_draws, "BEPCA")
    rows = collect_rows(session, fit_intercept=settings.fit_intercept)
    prior = make_prior(session, family, settings)
    density = FactorDensity(family, rows, dispersion, prior, settings.n_components)
    n_numbers = density.position(_chain(start_factors(session, density, 1), 0)).size
    check_memory(n_numbers * settings.n_chains * settings.n_draws, "BEPCA")
    run = _sample(session, density, settings)
    refuse_non_finite(run.stats["lp"])
    return _conclude(session, density, run, settings)


def _sample(session: FitContext, density: FactorDensity, settings: Settings) -> Run:
    """Draws by the sampler of the family, or the one that was asked for."""
    gibbs = make_gibbs(density)
    if settings.sampler == "gibbs" and gibbs is None:
        raise ValueError(
            f"sampler='gibbs' is for bernoulli, binomial, gaussian and negative binomial columns; the table has "
            f"{density.family!r}. Use sampler='auto' or 'nuts'."
        )
    if gibbs is None or settings.sampler == "nuts":
        return run_nuts(session, density, settings)
    return run_gibbs(session, density, gibbs, settings)


def make_gibbs(density: FactorDensity) -> GibbsSampler | None:
    """The Gibbs sampler of a density, None if its family has none."""
    rows, prior = density.rows, density.prior
    table = augment(density.family, rows.x, density.dispersion, rows.observed)
    own = augment(density.family, prior.value, density.dispersion)
    if table is None or own is None:
        return None
    return GibbsSampler(table, own.times(prior.weight), rows.features, prior)


def run_gibbs(session: FitContext, density: FactorDensity, sampler: GibbsSampler, settings: Settings) -> Run:
    """All chains side by side, sweep after sweep."""
    start = start_factors(session, density, settings.n_chains)
    n_tune, n_sweeps = _THIN * settings.n_tune, _THIN * (settings.n_tune + settings.n_draws)
    kept, logs = [], []
    for number, factors in enumerate(sampler.run(start, n_sweeps, session.rng), start=1):
        if number > n_tune and number % _THIN == 0:
            kept.append(factors)
            logs.append([density.evaluate(_chain(factors, c))[0] for c in range(settings.n_chains)])
        if number % _REPORT_EVERY == 0:
            session.callback(Progress(number, n_sweeps, float(np.mean(logs[-1:] or np.nan)), np.nan))
    parts = (np.stack(part, axis=1) for part in zip(*kept, strict=True))
    draws = Factors(*(part.reshape(-1, *part.shape[2:]) for part in parts))
    return Run(draws, {"lp": np.array(logs).T})


def run_nuts(session: FitContext, density: FactorDensity, settings: Settings) -> Run:
    """Chains of the No-U-Turn sampler on the joint density."""
    starts = start_factors(session, density, _STARTS * settings.n_chains)
    positions = np.stack([density.position(_chain(starts, s)) for s in range(len(starts.scores))])
    options = NutsOptions(settings.n_draws, settings.n_tune, settings.n_chains)
    seed = int(session.rng.integers(2**31))
    found = sample_nuts(density, positions, options, seed=seed, progress=settings.progress)
    flat = found.position.reshape(-1, found.position.shape[-1])
    return Run(density.restore(flat), found.stats)


def _chain(factors: Factors, number: int) -> Factors:
    """One of several along the leading axis."""
    return Factors(*(part[number] for part in factors))


def _conclude(session: FitContext, density: FactorDensity, run: Run, settings: Settings) -> BEPCAFit:
    """Align the draws, order components by the deviance that they explain, compare chains."""
    aligned = align_draws(run.draws, centre=settings.fit_intercept)
    deviances, order = deviances_at(
        session,
        density.family,
        _mean_coefficients(density, aligned.draws),
        aligned.draws.scores.mean(axis=0),
        fit_intercept=settings.fit_intercept,
    ).ordered()
    aligned = aligned.reordered(order)
    draws = aligned.draws
    more = {"expected": expected_entries(density, run.draws)}
    summary = summarise(session.data, draws, run.stats, has_intercept=settings.fit_intercept, more=more)
    coefficients = _mean_coefficients(density, draws)
    return BEPCAFit(
        make_row_model(density, run.draws, aligned),
        deviances,
        summary,
        judge(coefficients, run.stats["lp"].mean(axis=0), summary.r_hat["expected"]),
        coefficients,
        draws.loadings.std(axis=0),
        (draws.scores**2).mean(axis=(0, 1)),
        rank_bic(mean_product(run.draws), settings.n_components),
    )


def make_row_model(density: FactorDensity, draws: Factors, aligned: Aligned) -> NormalRowModel:
    """Rows under some of the draws, in standard scores ``z = (v - mean) / deviation``."""
    index = thin(len(draws.scores))
    _, _, mean, variance = some = Factors(*(part[index] for part in draws))
    deviation = np.sqrt(variance)
    forward = aligned.forward[index]
    shift = np.einsum("sk,ska->sa", mean - aligned.centre[index], forward)
    return NormalRowModel(
        density.family,
        density.dispersion,
        some.loadings * deviation[:, None, :],
        np.einsum("sjk,sk->sj", some.loadings, mean) + some.fixed.sum(axis=-1),
        deviation[:, :, None] * forward,
        shift,
    )


def expected_entries(density: FactorDensity, draws: Factors) -> Floats:
    """Expected values of some entries, evenly spread over the table, under each draw; (s, n_entries)."""
    row, column = choose_entries(*density.rows.x.shape)
    features = density.rows.features[row]
    pairs = zip(draws.scores, draws.joint, strict=True)
    designs = ((np.hstack([scores[row], features]), joint[column]) for scores, joint in pairs)
    eta = np.array([np.einsum("ea,ea->e", *design) for design in designs])
    return density.family.take(column).mean(eta, density.dispersion[column])


def _mean_coefficients(density: FactorDensity, draws: Point) -> Coefficients:
    return Coefficients(draws.loadings.mean(axis=0), draws.fixed.mean(axis=0), density.dispersion)
