"""From a table to the selected columns and their principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Data, Executor, Summary, executor_for
from anypca.linalg import fix_signs
from anypca.models._gaussian.principal import count_rows
from anypca.models.gsppca._evidence import CompositeEvidence, EvidencePath, inclusion_probability
from anypca.models.gsppca._noise import Moments, estimate_noise
from anypca.models.gsppca._problem import Posterior, RelaxedProblem, Rows, make_posterior
from anypca.models.gsppca._table import Standardiser, Working, make_standardiser, make_working
from anypca.solvers import Callback, Loop, Result
from anypca.solvers.closed_form import Centring, covariance_spectrum

# Numbers of components that "auto" tries, in this order, ...
_GRID = (*range(1, 11), *range(12, 21, 2), *range(25, 51, 5), *range(60, 101, 10))
# ... until this many in a row have less evidence than the best so far.
_PATIENCE = 3


@dataclass(frozen=True)
class Task:
    """What to fit, and how."""

    n_components: int | str
    n_features_to_select: int | str
    noise: str
    prior: str
    scale: bool
    tol: float
    max_iter: int
    n_jobs: int | None
    rng: np.random.Generator


@dataclass(frozen=True)
class Relaxed:
    """Outcome of the variational EM for one latent dimension."""

    result: Result[Posterior]
    noise: float
    """Noise variance of the inactive columns, estimated before the EM."""

    @property
    def n_components(self) -> int:
        """Latent dimension."""
        return int(self.result.shared.loadings.shape[1])

    @property
    def evidence(self) -> float:
        """The bound that the EM maximises: minus the free energy."""
        return float(self.result.trace[-1])


@dataclass(frozen=True)
class Principal:
    """Principal components of the selected columns."""

    components: Floats
    """(k, n_features), orthonormal, 0 outside the support."""
    variances: Floats
    """Variances along them, divisor n - 1 (k,)."""
    total: float
    """Variance of all columns, divisor n - 1."""


@dataclass(frozen=True)
class Fitted:
    """Everything a fit found."""

    table: Standardiser
    relaxed: Relaxed
    relevance: Floats
    """u of all columns (n_features,), 0 for constant ones."""
    ranking: Ints
    """Columns that vary, most relevant first (p,)."""
    path: EvidencePath
    inclusion: float
    """Prior probability that a column is active."""
    n_selected: int
    principal: Principal
    grid: Ints
    """Latent dimensions that were tried."""
    grid_evidence: Floats
    """Minus the free energy of each."""

    @property
    def support(self) -> Ints:
        """Selected columns, ascending (q,)."""
        return np.sort(self.ranking[: self.n_selected])


def fit_globally_sparse(
    task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback
) -> Fitted:
    """Rank the columns by variational EM, choose how many by composite evidence, and do PCA on them.

    Parameters
    ----------
    task : Task
    data : Data
        Complete.
    executor : Executor
    summary : Summary
    callback : Callback

    Returns
    -------
    Fitted
    """
    n_rows, n_positive = count_rows(data, executor)
    _check_rows(n_rows, n_positive)
    table = make_standardiser(summary, n_rows, scale=task.scale)
    _check_counts(task, len(table.varying), data.n_features)
    largest = _GRID[-1] if isinstance(task.n_components, str) else task.n_components
    working = make_working(data, executor, table, min(largest, data.n_features - 1), task.rng)
    tried = _fit_relaxed(task, working, table, callback)
    best = max(tried, key=lambda relaxed: relaxed.evidence)
    # Stable, so that equally relevant columns stay in their order.
    order = np.argsort(-best.result.shared.relevance, kind="stable")
    path = CompositeEvidence(data, executor, table, order, best.n_components, best.noise).path()
    inclusion = inclusion_probability(len(order), n_rows, task.prior)
    n_selected = _choose_cardinality(task, path, inclusion)
    ranking = table.varying[order]
    relevance = np.zeros(data.n_features)
    relevance[table.varying] = best.result.shared.relevance
    principal = _find_components(task, data, executor, table, working, order[:n_selected], best.n_components)
    grid = np.array([relaxed.n_components for relaxed in tried])
    evidence = np.array([relaxed.evidence for relaxed in tried])
    return Fitted(table, best, relevance, ranking, path, inclusion, n_selected, principal, grid, evidence)


def _check_rows(n_rows: float, n_positive: int) -> None:
    """A variance needs two rows, and its divisor n - 1 weights that count rows."""
    if n_positive < 2:
        raise ValueError(f"GSPPCA needs at least 2 rows; X has {n_positive} sample(s) of positive weight.")
    if n_rows <= 1.0:
        raise ValueError(
            f"the sample weights sum to {n_rows:.6g}; they count rows, and variances are divided by their "
            "sum less 1. Rescale them, for instance to mean 1."
        )


def _check_counts(task: Task, n_varying: int, n_features: int) -> None:
    """Raise if more components or columns are asked for than there are."""
    if not isinstance(task.n_components, str) and task.n_components > n_features:
        raise ValueError(
            f"n_components={task.n_components} must be at most n_features={n_features}. "
            "Ask for fewer components, or n_components='auto'."
        )
    if not isinstance(task.n_features_to_select, str) and task.n_features_to_select > n_varying:
        constant = n_features - n_varying
        what = f", {constant} of them constant" if constant else ""
        raise ValueError(
            f"n_features_to_select={task.n_features_to_select} must be at most {n_varying}; X has {n_features} "
            f"columns{what}. Ask for fewer, or n_features_to_select='evidence'."
        )


def _fit_relaxed(task: Task, working: Working, table: Standardiser, callback: Callback) -> list[Relaxed]:
    """The variational EM for the latent dimension asked for, or for those of the grid."""
    moments = Moments(working.values, table.column_squares / table.n_rows, table.n_rows)
    with executor_for(working.data, task.n_jobs) as executor:
        if not isinstance(task.n_components, str):
            return [_run_em(task, task.n_components, working, executor, moments, callback)]
        tried: list[Relaxed] = []
        most = max(1, min(len(working.values), len(table.varying)) - 1)
        for d in (d for d in _GRID if d <= most):
            tried.append(_run_em(task, d, working, executor, moments, callback))
            best = int(np.argmax([relaxed.evidence for relaxed in tried]))
            if len(tried) - 1 - best >= _PATIENCE:
                break
    return tried


def _run_em(
    task: Task, d: int, working: Working, executor: Executor, moments: Moments, callback: Callback
) -> Relaxed:
    noise = estimate_noise(moments, d, task.noise)
    problem = RelaxedProblem(working.rows, total=moments.trace * moments.n_rows, n_rows=moments.n_rows)
    loop: Loop[Posterior, None, Rows] = Loop(
        problem,
        working.data,
        executor,
        max_iter=task.max_iter,
        tol=task.tol,
        accelerate=False,
        callback=callback,
    )
    return Relaxed(loop.run(start_posterior(working, moments, d))[0], noise)


def start_posterior(working: Working, moments: Moments, d: int) -> Posterior:
    """The maximum likelihood solution of probabilistic PCA, with every column fully relevant.

    Parameters
    ----------
    working : Working
    moments : Moments
    d : int
        Latent dimension; dimensions beyond the rank of the table start, and stay, at 0.

    Returns
    -------
    Posterior
    """
    p = len(moments.column_variances)
    # The maximum likelihood noise is 0 when rows are fewer than components; a share of the variance is not.
    noise = max(estimate_noise(moments, d, "bc"), 1e-6 * moments.trace / p)
    k = min(d, len(working.values))
    loadings = np.zeros((p, d))
    loadings[:, :k] = working.vectors[:, :k] * np.sqrt(np.maximum(working.values[:k] - noise, 0.0))
    prior_variance = moments.trace / (p * d)
    return make_posterior(np.ones(p), loadings, np.full((p, d), prior_variance), prior_variance, noise)


def _choose_cardinality(task: Task, path: EvidencePath, inclusion: float) -> int:
    if not isinstance(task.n_features_to_select, str):
        return int(task.n_features_to_select)
    log_odds = np.log(inclusion) - np.log1p(-inclusion)
    return int(np.argmax(path.evidence + log_odds * np.arange(1, len(path.evidence) + 1))) + 1


def _find_components(
    task: Task,
    data: Data,
    executor: Executor,
    table: Standardiser,
    working: Working,
    chosen: Ints,
    n_components: int,
) -> Principal:
    """PCA of some of the varying columns.

    Parameters
    ----------
    chosen : ndarray of shape (q,)
        Positions among the varying columns.
    n_components : int
        Kept are at most this many, at most q and at most the rank of the table.
    """
    chosen = np.sort(chosen)
    k = min(n_components, len(chosen), len(working.values))
    components = np.zeros((k, data.n_features))
    support = table.varying[chosen]
    if working.rotated is not None:
        _, singular, vectors = np.linalg.svd(working.rotated[:, chosen], full_matrices=False)
        k = min(k, len(singular))
        values, components = singular[:k] ** 2, components[:k]
        components[:, support] = vectors[:k]
    else:
        factor = np.zeros(data.n_features)
        factor[support] = 1.0 / table.scale[support]
        spectrum = covariance_spectrum(
            data, executor, Centring(table.mean, factor), divisor=1.0, n_components=k, rng=task.rng
        )
        values = spectrum.values[:k]
        components[:, support] = spectrum.vectors[support, :k].T
    components *= fix_signs(components)[:, None]
    divisor = table.n_rows - 1.0
    return Principal(components, values / divisor, float(table.column_squares.sum()) / divisor)
