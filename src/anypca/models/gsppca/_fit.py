"""From a table to the selected columns and their principal components."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import executor_for
from anypca.linalg import fix_signs
from anypca.models._arguments import check_largest
from anypca.models._context import FitContext
from anypca.models._gaussian.principal import Principal, count_rows
from anypca.models.gsppca._evidence import CompositeEvidence, inclusion_probability
from anypca.models.gsppca._noise import Moments, estimate_noise, sphericity
from anypca.models.gsppca._problem import LoadingPosterior, RelaxedProblem, start_posterior
from anypca.models.gsppca._table import EquivalentTable, Standardiser, make_standardiser, rotate_table
from anypca.solvers import Result

# Numbers of components that "auto" tries, in this order: all small ones, then steps of about a tenth to a fifth, ...
_GRID = (*range(1, 11), *range(12, 21, 2), *range(25, 51, 5), *range(60, 101, 10))
# ... until this many in a row have less evidence than the best so far: one may be a poor local optimum of the EM.
_PATIENCE = 3


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit; see `anypca.GSPPCA`."""

    n_components: int | str
    n_features_to_select: int | str
    noise: str
    prior: str
    scale: bool
    evidence: str
    n_jobs: int | None
    """Number of threads of the EM, whose table is another than the table of the session."""


@dataclass(frozen=True)
class Fitted:
    """Results of a fit."""

    table: Standardiser
    result: Result[LoadingPosterior]
    """Of the variational EM."""
    ranking: Ints
    """Columns that vary, most relevant first (p,)."""
    path: Floats
    """Evidence of the sets of 1, 2, ... columns (p,)."""
    inclusion: float
    """Prior probability that a column is active."""
    n_selected: int
    principal: Principal
    """PCA of the selected columns: components that are 0 outside of them, variances with divisor n - 1."""
    grid: Ints
    """Latent dimensions that were tried."""
    grid_evidence: Floats
    """Minus the free energy of each."""
    n_left: float
    """Number of eigenvalues without signal, infinite if unknown."""
    sphericity: float
    """Statistic of the test for equal noise."""


def fit_globally_sparse(session: FitContext, settings: Settings) -> Fitted:
    """Rank the columns by variational EM, choose how many by composite evidence, and do PCA on them."""
    n_features = session.data.n_features
    n_rows, _ = count_rows(session, "GSPPCA")
    table = make_standardiser(session.summary, n_rows, scale=settings.scale)
    _check_settings(settings, len(table.varying), n_features)
    largest = _GRID[-1] if isinstance(settings.n_components, str) else settings.n_components
    equivalent = rotate_table(session, table, min(largest, n_features - 1))
    moments = Moments(equivalent.values, table.column_squares / n_rows, n_rows)
    tried = _fit_relaxed(session, settings, equivalent, moments)
    bounds = np.array([result.trace[-1] for result in tried])
    grid = np.array([result.shared.loadings.shape[1] for result in tried])
    best, d = tried[int(np.argmax(bounds))], int(grid[np.argmax(bounds)])
    noise = estimate_noise(moments, d, settings.noise)
    # The sort is stable, so that equally relevant columns stay in their order.
    order = np.argsort(-best.shared.relevance, kind="stable")
    path = CompositeEvidence(session, table, order, d, noise, settings.evidence).path()
    inclusion = inclusion_probability(len(order), n_rows, settings.prior)
    n_selected = _choose_cardinality(settings, path, inclusion)
    principal = _find_components(session, table, equivalent, np.sort(order[:n_selected]), d, noise)
    is_whole = equivalent.rotated is not None
    test = (len(moments.values) - d, sphericity(moments, d)) if is_whole else (np.inf, 0.0)
    ranking = table.varying[order]
    return Fitted(table, best, ranking, path, inclusion, n_selected, principal, grid, bounds, *test)


def _check_settings(settings: Settings, n_varying: int, n_features: int) -> None:
    """Raise if more components or columns are requested than exist."""
    n_components, n_selected = settings.n_components, settings.n_features_to_select
    if not isinstance(n_components, str):
        check_largest(n_components, n_features, "n_features")
    if not isinstance(n_selected, str) and n_selected > n_varying:
        constant = n_features - n_varying
        what = f", {constant} of them constant" if constant else ""
        raise ValueError(
            f"n_features_to_select={n_selected} must be at most {n_varying}; X has {n_features} "
            f"columns{what}. Ask for fewer, or n_features_to_select='evidence'."
        )


def _fit_relaxed(
    session: FitContext, settings: Settings, equivalent: EquivalentTable, moments: Moments
) -> list[Result[LoadingPosterior]]:
    """The variational EM for the latent dimension asked for, or for each of the grid."""
    most = max(1, min(len(equivalent.values), len(moments.column_variances)) - 1)
    asked = settings.n_components
    grid = [d for d in _GRID if d <= most] if isinstance(asked, str) else [asked]
    problem = RelaxedProblem(equivalent.rows, moments.trace * moments.n_rows, moments.n_rows)
    tried: list[Result[LoadingPosterior]] = []
    with executor_for(equivalent.data, settings.n_jobs) as executor:
        loop = replace(session, data=equivalent.data, executor=executor).loop(problem, accelerate=False)
        for d in grid:
            tried.append(loop.run(start_posterior(equivalent, moments, d))[0])
            best = int(np.argmax([result.trace[-1] for result in tried]))
            if len(tried) - 1 - best >= _PATIENCE:
                break
    return tried


def _choose_cardinality(settings: Settings, path: Floats, inclusion: float) -> int:
    """The number of columns asked for, or the number with the largest evidence times prior."""
    if not isinstance(settings.n_features_to_select, str):
        return int(settings.n_features_to_select)
    log_odds = np.log(inclusion) - np.log1p(-inclusion)
    return int(np.argmax(path + log_odds * np.arange(1, len(path) + 1))) + 1


def _find_components(
    session: FitContext, table: Standardiser, equivalent: EquivalentTable, chosen: Ints, d: int, noise: float
) -> Principal:
    """PCA of some of the varying columns, at increasing positions ``chosen`` (q,) among them.

    It has as many components as the latent dimension d, at most q and at most the rank of the table.
    """
    support, n_features = table.varying[chosen], session.data.n_features
    k = min(d, len(chosen), len(equivalent.values))
    # The rotated table has the inner products of the whole one, and fewer rows.
    if equivalent.rotated is not None:
        _, singular, vectors = np.linalg.svd(equivalent.rotated[:, chosen], full_matrices=False)
        values, found = singular[:k] ** 2, vectors[:k]
    else:
        spectrum = session.spectrum(table.centring_of(support), divisor=1.0, n_components=k)
        values, found = spectrum.values[:k], spectrum.vectors[support, :k].T
    components = np.zeros((len(found), n_features))
    components[:, support] = found * fix_signs(found)[:, None]
    divisor = table.n_rows - 1.0
    total = float(table.column_squares.sum()) / divisor
    return Principal(np.zeros(n_features), components, values / divisor, noise, total)
