"""Probabilistic PCA in its principal axes, and its fit in closed form or by EM."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._compat import infer_dimension
from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import fix_signs
from anypca.models._arguments import check_rank
from anypca.models._context import FitContext
from anypca.models._gaussian.posterior import Parameters
from anypca.models._gaussian.problem import MissingProblem
from anypca.solvers import Result, Status
from anypca.solvers.closed_form import Centring, Spectrum

# Noise variance below this share of the mean variance is rounding: single components of well-scaled data come
# out at 1e-15 of the trace, and the likelihood of data of exactly low rank has no maximum.
_NOISE_FLOOR = 1e-12
# A rarely observed column must not dominate the start: its entries are scaled up at most as much as in a column of
# which a quarter is observed.
_MAX_UPSCALING = 4.0


@dataclass(frozen=True)
class Principal:
    """A model ``N(mean, U' diag(variances - noise) U + noise I)`` in its principal axes."""

    mean: Floats
    """(n_features,)"""
    components: Floats
    """U, orthonormal rows in order of decreasing variance (n_components, n_features)."""
    variances: Floats
    """Variance of x along the components, noise included (n_components,)."""
    noise: float
    total: float
    """Sum of the variances of all columns."""

    @property
    def signal(self) -> Floats:
        """Prior variances of the scores (n_components,)."""
        return np.asarray(np.maximum(self.variances - self.noise, 0.0))

    @property
    def shares(self) -> Floats:
        """Variances as shares of the total (n_components,); 0 for a constant table."""
        return np.asarray(self.variances / self.total if self.total > 0 else np.zeros_like(self.variances))

    @property
    def parameters(self) -> Parameters:
        """The model with loadings for scores of unit prior variance."""
        return Parameters(self.mean, self.components.T * np.sqrt(self.signal), self.noise)


def fit_principal(
    session: FitContext, n_components: int | float | str | None
) -> tuple[Principal, Result[Principal]]:
    """Fit by maximum likelihood, then give the variances scikit-learn's divisors.

    Parameters
    ----------
    session : FitContext
    n_components : int, float in (0, 1), "mle" or None
        As for `choose_n_components`.

    Returns
    -------
    principal : Principal
        With unbiased variances, see `unbias`.
    result : Result
        Of the maximum likelihood fit; its ``shared`` has the divisor n.
    """
    summary, n_features = session.summary, session.data.n_features
    weight, n_rows = count_rows(session, "PPCA")
    spectrum = _start_spectrum(session, n_components, weight)
    k = choose_n_components(n_components, spectrum, weight)
    floor = noise_floor(float(np.mean(summary.variance)))
    start = _from_spectrum(spectrum, k, summary.mean, n_features, floor)
    if not (session.data.may_miss or session.data.has_entry_weights):
        trace = np.array([log_likelihood(start, spectrum.trace, weight)])
        result = Result(start, trace, Status.CONVERGED, 0.0, 1)
    else:
        em = session.loop(MissingProblem(floor)).run(start.parameters)[0]
        result = Result(from_parameters(em.shared), em.trace, em.status, em.criterion, em.n_iter)
    return unbias(result.shared, weight, n_rows, floor), result


def count_rows(session: FitContext, model: str) -> tuple[float, int]:
    """Sum of the sample weights (the effective number of rows) and number of positive weights.

    Raises
    ------
    ValueError
        If there are fewer than two rows for a variance, or if the weights are too small to count rows.
    """

    def count(block: Block, _: None) -> Floats:
        return np.array([block.weights.sum(), np.count_nonzero(block.weights)])

    data = session.data
    total, positive = session.sum(count) if data.has_weights else (data.n_samples, data.n_samples)
    weight, n_rows = float(total), int(positive)
    if n_rows < 2:
        raise ValueError(
            f"{model} needs at least 2 rows; X has {n_rows} sample(s) of positive weight. Add rows."
        )
    if weight <= 1.0:
        raise ValueError(
            f"the sample weights sum to {weight:.6g}; they count rows, and variances are divided by their "
            "sum less 1. Rescale them, for instance to mean 1."
        )
    return weight, n_rows


def noise_floor(variance: float) -> float:
    """Smallest noise variance, from the mean variance of the columns; positive also for a constant table."""
    return max(_NOISE_FLOOR * variance, float(np.finfo(np.float64).tiny))


def _start_spectrum(session: FitContext, n_components: int | float | str | None, weight: float) -> Spectrum:
    """Spectrum of the covariance with divisor n; missing entries are filled with the column mean.

    Filled entries shrink covariances by the observed shares of both columns, which scaling up undoes.
    """
    data, summary = session.data, session.summary
    share = summary.weight / weight
    scale: Floats | float = np.minimum(1.0 / share, _MAX_UPSCALING) if data.may_miss else 1.0
    wanted = int(n_components) if isinstance(n_components, int | np.integer) else None
    if wanted is not None:
        check_rank(wanted, data)
    return session.spectrum(Centring(summary.mean, scale), divisor=weight, n_components=wanted)


def choose_n_components(wanted: int | float | str | None, spectrum: Spectrum, weight: float) -> int:
    """Number of components from what the user asked for.

    Parameters
    ----------
    wanted : int, float in (0, 1), "mle" or None
    spectrum : Spectrum
        All eigenvalues unless ``wanted`` is an integer.
    weight : float
        Sum of the sample weights.

    Returns
    -------
    int
    """
    if isinstance(wanted, int | np.integer):
        return int(wanted)
    n_features = len(spectrum.vectors)
    if wanted is None:
        # One dimension of those that vary is left for the noise. Counting them by rank, not by shape, gives
        # the same number for repeated rows as for weights.
        noise_level = spectrum.values[0] * max(weight, n_features) * np.finfo(np.float64).eps
        return max(1, int(np.count_nonzero(spectrum.values > noise_level)) - 1)
    if isinstance(wanted, str):
        if weight < n_features:
            raise ValueError(
                "n_components='mle' needs at least as many rows as columns; "
                f"X has {weight:.6g} rows and {n_features} columns. Give a number or a share of the variance."
            )
        return infer_dimension(spectrum.values, round(weight)) if n_features > 1 else 1
    share = np.cumsum(spectrum.values) / max(spectrum.trace, np.finfo(np.float64).tiny)
    return min(int(np.searchsorted(share, wanted, side="right")) + 1, len(share))


def _from_spectrum(spectrum: Spectrum, k: int, mean: Floats, n_features: int, floor: float) -> Principal:
    """The maximum likelihood solution: the noise is the mean of the n_features - k left eigenvalues."""
    values = spectrum.values[:k]
    rest = max(spectrum.trace - float(values.sum()), 0.0)
    noise = max(rest / (n_features - k), floor) if k < n_features else floor
    components = spectrum.vectors[:, :k].T
    components = components * fix_signs(components)[:, None]
    return Principal(mean, components, np.maximum(values, noise), noise, spectrum.trace)


def from_parameters(parameters: Parameters) -> Principal:
    """The same model in its principal axes."""
    left, singular, _ = np.linalg.svd(parameters.loadings, full_matrices=False)
    components = left.T * fix_signs(left.T)[:, None]
    variances = singular**2 + parameters.noise
    total = float(singular @ singular) + len(left) * parameters.noise
    return Principal(parameters.mean, components, variances, parameters.noise, total)


def unbias(principal: Principal, weight: float, n_rows: int, floor: float) -> Principal:
    """Variances with the divisors of scikit-learn's ``PCA``.

    Maximum likelihood divides sums of squares by n and the variance left over by n_features - k. scikit-learn
    divides by n - 1, and by min(n_samples, n_features) - k, the number of eigenvalues that can differ from 0.

    Parameters
    ----------
    principal : Principal
        Maximum likelihood solution.
    weight : float
        n, the sum of the sample weights.
    n_rows : int
        Number of rows of positive weight.
    floor : float
        Smallest noise variance.

    Returns
    -------
    Principal
    """
    k, p = principal.components.shape
    factor = weight / (weight - 1.0)
    # A weight above 1 counts a row several times; the rank is bounded by at least the number of rows.
    rank = min(max(weight, n_rows), p)
    rest = max(principal.total - float(principal.variances.sum()), 0.0)
    noise = max(factor * rest / (rank - k), floor) if rank > k else floor
    return replace(
        principal, variances=factor * principal.variances, noise=noise, total=factor * principal.total
    )


def log_likelihood(principal: Principal, trace: float, weight: float) -> float:
    """Log-likelihood of a complete table from the eigenvalues of its covariance (divisor n).

    Parameters
    ----------
    principal : Principal
        Maximum likelihood solution.
    trace : float
        Sum of all eigenvalues.
    weight : float
        Sum of the sample weights.
    """
    k, p = principal.components.shape
    rest = max(trace - float(principal.variances.sum()), 0.0)
    log_determinant = np.log(principal.variances).sum() + (p - k) * np.log(principal.noise)
    return float(-0.5 * weight * (p * np.log(2.0 * np.pi) + log_determinant + k + rest / principal.noise))
