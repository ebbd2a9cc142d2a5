"""Chains of draws: limits of their cost, the container of the draws, and convergence diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import numpy as np

from anypca._arviz import import_arviz, join_groups, make_group
from anypca._typing import Floats
from anypca.engine import Data
from anypca.exceptions import NonFiniteError
from anypca.models._bayes.points import Point
from anypca.solvers import Result
from anypca.solvers.nuts import import_sampler

Shared = TypeVar("Shared")
State = TypeVar("State")

# Fewer draws than this have no R-hat, which needs four in each half of a chain, nor a covariance of a column's
# coefficients.
_MIN_DRAWS = 10
# Entries of a table from which on a fit is a matter of hours: a gradient of so many takes ten milliseconds, and a fit
# some hundred thousand of them.
_LARGE_TABLE = 1_000_000
# Memory that the draws may take: half of a small machine.
_MAX_BYTES = 4 * 2**30
# R-hat of the worst quantity above which chains disagree: between the old custom of 1.1 and 1.01 (Vehtari et al. 2021),
# which the worst of thousands of scores reaches with many more draws only.
MAX_R_HAT = 1.05
_INSTEAD = "use SePCA, which takes minutes"
# Sweeps between two reports of progress: some ten lines in a fit of the default length.
_REPORT_EVERY = 50
# Rows of the table are no "sample": ArviZ calls draws of all chains so.
_DIMS = {
    "scores": ["row", "component"],
    "loadings": ["component", "feature"],
    "intercept": ["feature"],
    "coef": ["covariate", "feature"],
    "expected": ["entry"],
}


class Mixing(Enum):
    """How sampling ended; the value is the message."""

    CONVERGED = "converged: the chains agree (largest R-hat below 1.05)"
    DISAGREE = "the chains disagree: the largest R-hat is above 1.05; increase n_draws and n_tune"


@dataclass(frozen=True, eq=False)
class SampledResult(Result[Shared]):
    """How sampling ended.

    The trace is the mean log density of scores and loadings in each round and in the final run; it is not monotone.
    The criterion is the largest R-hat; iterations are rounds, the final run included.
    """

    status: Mixing  # type: ignore[assignment]

    @property
    def converged(self) -> bool:
        return self.status is Mixing.CONVERGED


class Summary(NamedTuple):
    """Public results from the draws."""

    posterior: Any
    """arviz.InferenceData; with ArviZ 1 and later xarray.DataTree."""
    r_hat: dict[str, Floats]
    """Of each variable, entry by entry: without the axes of chains and draws."""
    ess: dict[str, Floats]
    """Bulk effective sample sizes, likewise."""


def check_sampling(data: Data, n_draws: int, default: int, who: str, remedy: str = _INSTEAD) -> None:
    """Refuse fewer draws than can be summarised; warn of a table that takes hours.

    Parameters
    ----------
    data : Data
    n_draws, default : int
        Of each chain.
    who, remedy : str
        The sampler, and what to use instead, for the messages.

    Raises
    ------
    ImportError
        If a package of the extra ``mcmc`` is missing.
    ValueError
    """
    import_sampler()
    if n_draws < _MIN_DRAWS:
        raise ValueError(
            f"{who} needs n_draws of at least {_MIN_DRAWS}, to compare chains and to summarise them; "
            f"got n_draws={n_draws}. The default is {default}."
        )
    entries = data.n_samples * data.n_features
    if entries > _LARGE_TABLE:
        warnings.warn(
            f"{who} is made for tables of up to about {_LARGE_TABLE:.0e} entries; this one has {entries:.1e}. "
            f"It may take hours; {remedy}.",
            UserWarning,
            stacklevel=5,
        )


def check_memory(n_numbers: int, who: str, remedy: str = _INSTEAD) -> None:
    """Refuse more draws than memory can hold."""
    if 8 * n_numbers > _MAX_BYTES:
        raise ValueError(
            f"{who} keeps all draws in memory; they take {8 * n_numbers / 2**30:.1f} GiB, more than "
            f"{_MAX_BYTES / 2**30:.0f}. Ask for fewer draws, or {remedy}."
        )


def summarise(
    data: Data,
    draws: Point,
    stats: Mapping[str, Any],
    *,
    has_intercept: bool,
    more: Mapping[str, Floats] | None = None,
) -> Summary:
    """Draws with named dimensions, and how well the chains agree.

    Parameters
    ----------
    data : Data
        The table, for the names of its columns.
    draws : Point
        Aligned: scores (s, n, k) and coefficients (s, p, m), chain after chain.
    stats : mapping of str to ndarray of shape (chains, draws)
        Statistics of each draw: its log density ``lp``, and others if the sampler has them.
    has_intercept : bool
        Whether the first fixed coefficient is the intercept.
    more : mapping of str to ndarray of shape (s, ...), optional
        Further variables.

    Returns
    -------
    Summary
        The group ``posterior`` has ``scores`` (chain, draw, row, component), ``loadings`` (chain, draw, component,
        feature) and, where the model has them, ``intercept`` (chain, draw, feature) and ``coef`` (chain, draw,
        covariate, feature); the group ``sample_stats`` has the stats.
    """
    if not np.isfinite(stats["lp"]).all():
        raise NonFiniteError("a chain left the finite range. Look for extreme values in X.")
    chains = stats["lp"].shape
    fixed = np.swapaxes(draws.fixed, -1, -2)
    variables = {"scores": draws.scores, "loadings": np.swapaxes(draws.loadings, -1, -2), **(more or {})}
    if has_intercept:
        variables["intercept"] = fixed[:, 0]
    if fixed.shape[1] > int(has_intercept):
        variables["coef"] = fixed[:, int(has_intercept) :]
    names = data.feature_names
    coords = {
        "row": np.arange(draws.scores.shape[1]),
        "component": np.arange(draws.scores.shape[2]),
        "feature": np.arange(data.n_features) if names is None else np.asarray(names, dtype=object),
        "covariate": np.arange(fixed.shape[1] - int(has_intercept)),
    }
    drawn = {name: values.reshape(*chains, *values.shape[1:]) for name, values in variables.items()}
    posterior = make_group(drawn, coords, {name: _DIMS[name] for name in variables if name in _DIMS})
    joined = join_groups({"posterior": posterior, "sample_stats": make_group(stats, {}, {})})
    return Summary(joined, *_compare_chains(drawn))


def _compare_chains(drawn: Mapping[str, Floats]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """R-hat and bulk effective sample size of each variable, (chains, draws, ...); of halves of a single chain."""
    arviz, r_hat, ess = import_arviz(), {}, {}
    for name, draws in drawn.items():
        half, shape = draws.shape[1] // 2, draws.shape[2:]
        several = draws if len(draws) > 1 else draws[0, : 2 * half].reshape(2, half, *shape)
        if draws.size:
            flat = several.reshape(*several.shape[:2], -1)
            group = make_group({name: flat}, {}, {})
            with np.errstate(divide="ignore", invalid="ignore"):
                found, ess[name] = (np.asarray(how(group)[name]) for how in (arviz.rhat, arviz.ess))
            # Chains in which a quantity does not vary agree.
            r_hat[name] = np.where(np.ptp(flat, axis=(0, 1)) == 0, 1.0, found).reshape(shape)
            ess[name] = ess[name].reshape(shape)
    return r_hat, ess


def keep_sweeps(
    sweep: Callable[[State], State],
    start: State,
    n_tune: int,
    n_draws: int,
    thin: int,
    report: Callable[[int, int], None],
) -> Iterator[State]:
    """The states of a Markov chain that are kept: after ``n_tune`` draws, each of ``thin`` sweeps."""
    state, n_sweeps = start, thin * (n_tune + n_draws)
    for number in range(1, n_sweeps + 1):
        state = sweep(state)
        if number > thin * n_tune and number % thin == 0:
            yield state
        if number % _REPORT_EVERY == 0:
            report(number, n_sweeps)


def judge(shared: Shared, trace: Floats, r_hat: Floats) -> SampledResult[Shared]:
    """How sampling ended, by the largest R-hat of what the chains are compared by.

    Parameters
    ----------
    shared : object
        What the draws amount to.
    trace : ndarray of shape (n_draws,)
        Mean log density of the chains.
    r_hat : ndarray
    """
    worst = float(np.max(r_hat, initial=1.0))
    status = Mixing.CONVERGED if worst <= MAX_R_HAT else Mixing.DISAGREE
    return SampledResult(shared, trace, status, worst, len(trace))
