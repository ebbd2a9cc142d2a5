"""Held-out entries of a table, and how well ranks of exponential-family PCA predict them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca import EPCA, SePCA
from anypca.selection import EntryShuffleSplit
from experiments._common import fit_quietly


@dataclass(frozen=True, eq=False)
class Masked:
    """A table with some entries made missing."""

    X: np.ndarray
    """NaN at the hidden entries and where the table had none."""
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    """The hidden entries."""

    def l_miss(self, model: Any) -> float:
        """Mean log-likelihood of the hidden entries under a model fitted to the others."""
        return float(model.entry_log_likelihood(self.X, self.rows, self.columns, self.values).mean())

    def draws(self, model: Any) -> np.ndarray:
        """Draws of the predictor at the hidden entries by sampled `SePCA`, shape (n_draws, n_entries)."""
        found = model.posterior_.posterior
        scores, loadings = (
            found["scores"].values[:, :, self.rows],
            found["loadings"].values[..., self.columns],
        )
        eta = np.einsum("cdek,cdke->cde", scores, loadings)
        if "intercept" in found:
            eta += found["intercept"].values[..., self.columns]
        return eta.reshape(-1, len(self.rows))


@dataclass(frozen=True)
class Choice:
    """What was chosen for one masked table, and how well all ranks predict it."""

    curve: Mapping[int, float]
    """L_miss of `EPCA` by rank."""
    chosen: int
    """The rank of `SePCA`, fitted to the same masked table."""
    own: float
    """L_miss of `SePCA` itself."""


def mask(X: np.ndarray, seed: int, fraction: float = 0.1) -> Masked:
    """Hide a share of the observed entries at random; every row and column keeps one."""
    ((rows, columns),) = EntryShuffleSplit(1, fraction=fraction, random_state=seed).split(X)
    hidden = np.array(X, dtype=float)
    hidden[rows, columns] = np.nan
    return Masked(hidden, rows, columns, np.asarray(X, dtype=float)[rows, columns])


def choose(
    masked: Masked,
    family: Any,
    ranks: Iterable[int],
    max_components: int,
    ridge: float = 1.0,
    **options: Any,
) -> Choice:
    """The rank of `SePCA` among those of `EPCA`, all fitted to the entries that are left.

    Parameters
    ----------
    masked : Masked
    family : str or Family
    ranks : iterable of int
        Compared; the chosen one is added.
    max_components : int
        Where `SePCA` starts.
    ridge : float
        Of `EPCA`.
    **options
        Parameters that both models have.
    """

    model = fit_quietly(SePCA(max_components, family=family, n_jobs=1, **options), masked.X)
    wanted = sorted({*ranks, model.n_components_})
    curve = epca_curve(masked, family, wanted, ridge=ridge, **options)
    return Choice(curve, int(model.n_components_), masked.l_miss(model))


def epca_curve(masked: Masked, family: Any, ranks: Iterable[int], **options: Any) -> dict[int, float]:
    """L_miss of `EPCA` by rank."""
    return {
        k: masked.l_miss(fit_quietly(EPCA(k, family=family, n_jobs=1, **options), masked.X)) for k in ranks
    }


def mean_curve(choices: Iterable[Choice]) -> dict[int, float]:
    """L_miss averaged over tables, for the ranks that all of them have."""
    return _summary(choices, np.mean)


def median_curve(choices: Iterable[Choice]) -> dict[int, float]:
    """The median of L_miss over tables, for the ranks that all of them have: no single table decides it."""
    return _summary(choices, np.median)


def _summary(choices: Iterable[Choice], of: Callable[[list[float]], Any]) -> dict[int, float]:
    curves = [choice.curve for choice in choices]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    return {rank: float(of([curve[rank] for curve in curves])) for rank in common}


def way_to_worst(choices: Iterable[Choice]) -> float:
    """Where the chosen ranks lie on the way from the best rank (0) to the worst (1).

    Best and worst are those of the averaged curve; what was chosen for each table is averaged at its own rank. It may
    be negative: choosing anew for every table can beat every fixed rank.
    """
    choices = list(choices)
    curve = mean_curve(choices)
    best, worst = max(curve.values()), min(curve.values())
    return (best - float(np.mean([choice.curve[choice.chosen] for choice in choices]))) / (best - worst)
