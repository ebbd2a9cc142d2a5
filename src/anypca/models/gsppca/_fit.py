"""From a table to the selected columns and their principal components."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import executor_for
from anypca.linalg import fix_signs
from anypca.models._arguments import check_largest
from anypca.models._gaussian.principal import Principal, count_rows
from anypca.models._session import Session
from anypca.models.gsppca._evidence import CompositeEvidence, EvidencePath, inclusion_probability
from anypca.models.gsppca._noise import Moments, estimate_noise
from anypca.models.gsppca._noisy import NoisyEvidence
from anypca.models.gsppca._problem import LoadingPosterior, RelaxedProblem
from anypca.models.gsppca._standardiser import Standardiser, make_standardiser
from anypca.models.gsppca._start import EquivalentTable, rotate_table, start_posterior
from anypca.solvers import Result
from anypca.solvers.closed_form import Centring

# Numbers of components that "auto" tries, in this order: all small ones, then steps of about a tenth to a fifth, ...
_GRID = (*range(1, 11), *range(12, 21, 2), *range(25, 51, 5), *range(60, 101, 10))
# ... until this many in a row have less evidence than the best so far: one may be a poor local optimum of the EM.
_PATIENCE = 3


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    n_components: int | str
    n_features_to_select: int | str
    noise: str
    prior: str
    scale: bool
    evidence: str
    n_jobs: int | None
    """Number of threads of the EM, whose table is another than that of the session."""


@dataclass(frozen=True)
class Relaxed:
    """Outcome of the variational EM for one latent dimension."""

    result: Result[LoadingPosterior]
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
    """PCA of the selected columns: components that are 0 outside of them, variances with divisor n - 1."""
    grid: Ints
    """Latent dimensions that were tried."""
    grid_evidence: Floats
    """Minus the free energy of each."""

    @property
    def support(self) -> Ints:
        """Selected columns, ascending (q,)."""
        return np.sort(self.ranking[: self.n_selected])


def fit_globally_sparse(session: Session, settings: Settings) -> Fitted:
    """Rank the columns by variational EM, choose how many by composite evidence, and do PCA on them.

    Parameters
    ----------
    session : Session
        Of a complete table.
    settings : Settings

    Returns
    -------
    Fitted
    """
    n_features = session.data.n_features
    n_rows, _ = count_rows(session, "GSPPCA")
    table = make_standardiser(session.summary, n_rows, scale=settings.scale)
    _check_settings(settings, len(table.varying), n_features)
    largest = _GRID[-1] if isinstance(settings.n_components, str) else settings.n_components
    equivalent = rotate_table(session, table, min(largest, n_features - 1))
    tried = _fit_relaxed(session, settings, equivalent, table)
    best = max(tried, key=lambda relaxed: relaxed.evidence)
    # The sort is stable, so that equally relevant columns stay in their order.
    order = np.argsort(-best.result.shared.relevance, kind="stable")
    evidence = CompositeEvidence(session, table, order, best.n_components, best.noise)
    path = NoisyEvidence(evidence).path() if settings.evidence == "noisy" else evidence.path()
    inclusion = inclusion_probability(len(order), n_rows, settings.prior)
    n_selected = _choose_cardinality(settings, path, inclusion)
    relevance = np.zeros(n_features)
    relevance[table.varying] = best.result.shared.relevance
    principal = _find_components(session, table, equivalent, order[:n_selected], best)
    grid = np.array([relaxed.n_components for relaxed in tried])
    bounds = np.array([relaxed.evidence for relaxed in tried])
    ranking = table.varying[order]
    return Fitted(table, best, relevance, ranking, path, inclusion, n_selected, principal, grid, bounds)


def _check_settings(settings: Settings, n_varying: int, n_features: int) -> None:
    """Raise if more components or columns are asked for than there are."""
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
    session: Session, settings: Settings, equivalent: EquivalentTable, table: Standardiser
) -> list[Relaxed]:
    """The variational EM for the latent dimension asked for, or for those of the grid."""
    moments = Moments(equivalent.values, table.column_squares / table.n_rows, table.n_rows)
    most = max(1, min(len(equivalent.values), len(table.varying)) - 1)
    asked = settings.n_components
    grid = [d for d in _GRID if d <= most] if isinstance(asked, str) else [asked]
    tried: list[Relaxed] = []
    with executor_for(equivalent.data, settings.n_jobs) as executor:
        inner = replace(session, data=equivalent.data, executor=executor)
        for d in grid:
            noise = estimate_noise(moments, d, settings.noise)
            tried.append(Relaxed(_run_em(inner, equivalent, moments, d), noise))
            best = int(np.argmax([relaxed.evidence for relaxed in tried]))
            if len(tried) - 1 - best >= _PATIENCE:
                break
    return tried


def _run_em(
    session: Session, equivalent: EquivalentTable, moments: Moments, d: int
) -> Result[LoadingPosterior]:
    problem = RelaxedProblem(equivalent.rows, total=moments.trace * moments.n_rows, n_rows=moments.n_rows)
    return session.loop(problem, accelerate=False).run(start_posterior(equivalent, moments, d))[0]


def _choose_cardinality(settings: Settings, path: EvidencePath, inclusion: float) -> int:
    """The number of columns asked for, or that with the largest evidence times prior."""
    if not isinstance(settings.n_features_to_select, str):
        return int(settings.n_features_to_select)
    log_odds = np.log(inclusion) - np.log1p(-inclusion)
    return int(np.argmax(path.evidence + log_odds * np.arange(1, len(path.evidence) + 1))) + 1


def _find_components(
    session: Session, table: Standardiser, equivalent: EquivalentTable, chosen: Ints, relaxed: Relaxed
) -> Principal:
    """PCA of some of the varying columns, at positions ``chosen`` (q,) among them.

    Kept are as many components as the latent dimension, at most q and at most the rank of the table.
    """
    chosen = np.sort(chosen)
    support, n_features = table.varying[chosen], session.data.n_features
    k = min(relaxed.n_components, len(chosen), len(equivalent.values))
    # The rotated table has the inner products of the whole one, and fewer rows.
    if equivalent.rotated is not None:
        _, singular, vectors = np.linalg.svd(equivalent.rotated[:, chosen], full_matrices=False)
        values, found = singular[:k] ** 2, vectors[:k]
    else:
        factor = np.zeros(n_features)
        factor[support] = 1.0 / table.scale[support]
        spectrum = session.spectrum(Centring(table.mean, factor), divisor=1.0, n_components=k)
        values, found = spectrum.values[:k], spectrum.vectors[support, :k].T
    components = np.zeros((len(found), n_features))
    components[:, support] = found * fix_signs(found)[:, None]
    divisor = table.n_rows - 1.0
    total = float(table.column_squares.sum()) / divisor
    return Principal(np.zeros(n_features), components, values / divisor, relaxed.noise, total)
