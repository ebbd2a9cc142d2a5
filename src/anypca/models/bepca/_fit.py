"""From a table to draws of its factors, in the coordinates in which they are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bayes.augment import augment
from anypca.models._bayes.chains import check_memory, check_sampling, judge, keep_sweeps, summarise
from anypca.models._bayes.estimator import DrawnFit
from anypca.models._bayes.points import Point, align, collect_rows, deviances_at, take_components
from anypca.models._bayes.rows import NormalRowModel, choose_entries, thin
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._context import FitContext
from anypca.models.bepca._density import FactorDensity, Factors, make_prior, start_factors
from anypca.models.bepca._gibbs import GibbsSampler
from anypca.solvers import Progress
from anypca.solvers.nuts import NutsOptions, sample_nuts

# Starts to choose from for each chain of the No-U-Turn sampler, which takes one at random: a few, so that no chain
# begins where the gradient overflows.
_STARTS = 4
# Gibbs sweeps for each draw that is kept: neighbours say nearly the same, and to compare and to keep draws costs as
# much as to draw them.
_THIN = 2


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


def fit_factors(session: FitContext, family: Family, dispersion: Floats, model: Any) -> BEPCAFit:
    """Sample, align, summarise.

    Parameters
    ----------
    session : FitContext
        Its table is held in memory as one dense array, with all draws.
    family : Family
    dispersion : ndarray of shape (n_features,)
    model : BEPCA
        With the parameters of the fit.
    """
    check_sampling(session.data, model.n_draws, type(model).n_draws, "BEPCA")
    rows = collect_rows(session, fit_intercept=model.fit_intercept)
    n, p, k = rows.n_rows, rows.n_features, model.n_components
    size = (n + 2) * k + p * (k + rows.features.shape[1])
    check_memory(size * model.n_chains * model.n_draws, "BEPCA")
    density = FactorDensity(family, rows, dispersion, make_prior(session, family, model), k)
    gibbs = make_gibbs(density)
    if model.sampler == "gibbs" and gibbs is None:
        raise ValueError(
            f"sampler='gibbs' is for bernoulli, binomial, gaussian and negative binomial columns; the table has "
            f"{family!r}. Use sampler='auto' or 'nuts'."
        )
    if gibbs is None or model.sampler == "nuts":
        draws, stats = run_nuts(session, density, model)
    else:
        draws, stats = run_gibbs(session, density, gibbs, model)
    return _conclude(session, density, draws, stats, model)


def make_gibbs(density: FactorDensity) -> GibbsSampler | None:
    """The Gibbs sampler of a density, None if its family has none."""
    rows, prior = density.rows, density.prior
    table = augment(density.family, rows.x, density.dispersion, rows.observed)
    own = augment(density.family, prior.value, density.dispersion)
    if table is None or own is None:
        return None
    return GibbsSampler(table, own.times(prior.weight), rows.features, prior)


def run_gibbs(
    session: FitContext, density: FactorDensity, sampler: GibbsSampler, model: Any
) -> tuple[Factors, dict[str, Any]]:
    """Draws of all chains, which run side by side, chain after chain, and their log densities (chains, draws)."""

    def report(number: int, n_sweeps: int) -> None:
        session.callback(Progress(number, n_sweeps, np.nan, np.nan))

    start = start_factors(session, density, model.n_chains)
    lengths = model.n_tune, model.n_draws, _THIN
    kept = list(keep_sweeps(lambda now: sampler.sweep(now, session.rng), start, *lengths, report))
    parts = (np.stack(part, axis=1) for part in zip(*kept, strict=True))
    draws = Factors(*(part.reshape(-1, *part.shape[2:]) for part in parts))
    values = [density.evaluate(draws.take(s))[0] for s in range(len(draws.scores))]
    return draws, {"lp": np.reshape(values, (model.n_chains, -1))}


def run_nuts(session: FitContext, density: FactorDensity, model: Any) -> tuple[Factors, dict[str, Any]]:
    """The same by the No-U-Turn sampler on the joint density, with more statistics."""
    starts = start_factors(session, density, _STARTS * model.n_chains)
    positions = np.stack([density.position(starts.take(s)) for s in range(len(starts.scores))])
    options = NutsOptions(model.n_draws, model.n_tune, model.n_chains)
    seed = int(session.rng.integers(2**31))
    found = sample_nuts(density, positions, options, seed=seed, progress=bool(model.verbose))
    return density.restore(found.position.reshape(-1, positions.shape[1])), found.stats


def _conclude(
    session: FitContext, density: FactorDensity, draws: Factors, stats: Mapping[str, Any], model: Any
) -> BEPCAFit:
    """Align the draws, order components by the deviance that they explain, compare chains."""
    known = {"fit_intercept": model.fit_intercept}
    aligned = align_draws(draws, centre=model.fit_intercept)
    scores, mean = aligned.draws.scores.mean(axis=0), _mean_coefficients(density, aligned.draws)
    deviances, order = deviances_at(session, density.family, mean, scores, **known).ordered()
    aligned = aligned.reordered(order)
    found, coefficients = aligned.draws, _mean_coefficients(density, aligned.draws)
    more = {"expected": expected_entries(density, draws)}
    summary = summarise(session.data, found, stats, has_intercept=model.fit_intercept, more=more)
    return BEPCAFit(
        make_row_model(density, draws, aligned),
        deviances,
        summary,
        judge(coefficients, stats["lp"].mean(axis=0), summary.r_hat["expected"]),
        coefficients,
        found.loadings.std(axis=0),
        (found.scores**2).mean(axis=(0, 1)),
        rank_bic(mean_product(draws.point), model.n_components),
    )


def make_row_model(density: FactorDensity, draws: Factors, aligned: Aligned) -> NormalRowModel:
    """Rows under some of the draws, in standard scores ``z = (v - mean) / deviation``."""
    index = thin(len(draws.scores))
    some, forward = draws.take(index), aligned.forward[index]
    loadings, deviation = some.point.loadings, np.sqrt(some.variance)
    return NormalRowModel(
        density.family,
        density.dispersion,
        loadings * deviation[:, None, :],
        np.einsum("sjk,sk->sj", loadings, some.mean) + some.point.fixed.sum(axis=-1),
        deviation[:, :, None] * forward,
        np.einsum("sk,ska->sa", some.mean - aligned.centre[index], forward),
    )


def expected_entries(density: FactorDensity, draws: Factors) -> Floats:
    """Expected values of some entries, evenly spread over the table, under each draw; (s, n_entries)."""
    row, column = choose_entries(*density.rows.x.shape)
    features, joint = density.rows.features[row], draws.joint[:, column]
    k = draws.scores.shape[2]
    eta = np.einsum("sea,sea->se", draws.scores[:, row], joint[..., :k])
    eta += np.einsum("ea,sea->se", features, joint[..., k:])
    return density.family.take(column).mean(eta, density.dispersion[column])


def _mean_coefficients(density: FactorDensity, draws: Point) -> Coefficients:
    return Coefficients(draws.loadings.mean(axis=0), draws.fixed.mean(axis=0), density.dispersion)


class Aligned(NamedTuple):
    """Draws turned to common coordinates, and the way there."""

    draws: Point
    """Scores (s, n, k) of unit second moment and coefficients (s, p, m)."""
    forward: Floats
    """New scores are ``(v - centre) forward``, shape (s, k, k)."""
    centre: Floats
    """(s, k)."""

    def reordered(self, order: Ints) -> Aligned:
        """The components in another order."""
        return Aligned(take_components(self.draws, order), self.forward[..., order], self.centre)


def align_draws(draws: Factors, *, centre: bool) -> Aligned:
    """Bring draws to scores of unit second moment, then turn them to the axes of the mean of ``V T'``.

    Parameters
    ----------
    draws : Factors
        With one leading axis.
    centre : bool
        Move the mean of each draw's scores into its intercept.
    """
    n, k = draws.scores.shape[1:]
    middle = draws.scores.mean(axis=1) if centre else np.zeros_like(draws.mean)
    moved = draws.scores - middle[:, None, :]
    values, vectors = np.linalg.eigh(np.swapaxes(moved, 1, 2) @ moved / n)
    # A direction in which a draw has no scores keeps its loadings, whatever they are.
    least = np.where(values[:, -1:] > 0, np.finfo(float).eps * values[:, -1:], 1.0)
    root = np.sqrt(np.maximum(values, least))[:, None, :]
    backward, forward = (vectors * root) @ vectors.swapaxes(1, 2), (vectors / root) @ vectors.swapaxes(1, 2)
    fixed = draws.point.fixed
    if centre:
        fixed = fixed + draws.point.loadings @ middle[:, :, None]
    standard = Point(moved @ forward, np.concatenate([draws.point.loadings @ backward, fixed], axis=-1))
    aligned = align(standard, principal_point(mean_product(standard), k, fixed.shape[-1]))
    # How the alignment turned each draw, read off from scores of unit mean square.
    turn = np.swapaxes(standard.scores, 1, 2) @ aligned.scores / n
    return Aligned(aligned, forward @ turn, middle)


def mean_product(draws: Point) -> Floats:
    """Mean of ``V T'`` over draws, without intercepts, shape (n_samples, n_features)."""
    total = np.zeros((draws.scores.shape[1], draws.joint.shape[1]))
    for scores, loadings in zip(draws.scores, draws.loadings, strict=True):
        total += scores @ loadings.T
    return total / len(draws.scores)


def principal_point(product: Floats, k: int, n_fixed: int) -> Point:
    """The k leading singular vectors of a product as scores of unit size and their loadings."""
    left, sizes, right = np.linalg.svd(product, full_matrices=False)
    signs, root = fix_signs(right[:k]), np.sqrt(len(product))
    loadings = (right[:k] * (sizes[:k] * signs / root)[:, None]).T
    return Point(left[:, :k] * signs * root, np.hstack([loadings, np.zeros((len(loadings), n_fixed))]))


def rank_bic(product: Floats, largest: int) -> dict[int, float]:
    r"""BIC of the number of dimensions of a mean predictor, larger is better.

    .. math:: -\tfrac12 \sum_{j > q} \sigma_j^2 - \tfrac12 q (N + D - q) \log N

    with the singular values of the predictor under noise of unit variance. Scores and loadings are both counted; with
    free noise the criterion would fail, since a draw has exactly k dimensions and no noise.
    """
    n, d = product.shape
    squares = np.linalg.svd(product, compute_uv=False) ** 2
    # q (n + d - q) numbers determine a matrix of rank q.
    ranks = range(min(largest, min(n, d)) + 1)
    return {q: float(-0.5 * squares[q:].sum() - 0.5 * q * (n + d - q) * np.log(n)) for q in ranks}
