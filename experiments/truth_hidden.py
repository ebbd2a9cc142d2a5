"""Hidden cells of five stored tables: SePCA with nothing set against EM-PCA, NMF and EPCA of its rank.

Bits (handwritten digits), species (oaks), single cells, words and a mixed table (bibliometric counts and averages). A
tenth of the cells is hidden three times; what counts is the logarithm of the probability of a hidden cell as it is
recorded, so that distributions of all kinds compare. EM-PCA is probabilistic PCA of standardised columns, NMF has the
Poisson likelihood (Kullback-Leibler divergence) and one component more, since it has no intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from anypca import EPCA, PPCA, SePCA
from anypca._typing import Floats
from anypca.datasets import (
    load_bibliometrics,
    load_mnist_5000,
    load_newsgroups4,
    load_oaks,
    load_scrna_mixology,
)
from experiments._common import Options, Outcome, Table, Target, fit_quietly, repeat, run_module
from experiments._held_out import Masked, mask

N_MASKS, LEAST = 3, 4
#: Rows and columns of the larger tables, and the share of rows in which a bit must differ.
_N_ROWS, _N_COLUMNS, _LEAST_SHARE = 300, 80, 0.05
_QUICK_COLUMNS = 12
#: Updates of NMF, and its least mean of a cell in units of the column's: where it predicts zero a count has no chance.
_N_UPDATES, _FLOOR = 300, 0.01


def _bits() -> Floats:
    """Every second pixel of handwritten digits, in both directions, dark or not, where it is not always the same."""
    images = np.asarray(load_mnist_5000().X)[: 10 * _N_ROWS : 10].reshape(-1, 28, 28)[:, ::2, ::2]
    bits = (images.reshape(len(images), -1) > 0.5 * images.max()).astype(float)
    share = bits.mean(axis=0)
    return bits[:, np.minimum(share, 1.0 - share) > _LEAST_SHARE]


def _cells() -> Floats:
    return np.asarray(load_scrna_mixology().X)[:: 3918 // _N_ROWS][:_N_ROWS, :_N_COLUMNS]


def _words() -> Floats:
    """The most frequent words of some documents."""
    X = load_newsgroups4().X
    frequent = np.sort(np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")[:_N_COLUMNS])
    return X[:: X.shape[0] // _N_ROWS][:_N_ROWS][:, frequent].toarray()


def _mixed() -> Floats:
    """Bibliometric counts, and the averages that the standardised table has beside them."""
    counts, other = load_bibliometrics("counts"), load_bibliometrics("standardized")
    own = [j for j, name in enumerate(other.feature_names) if name not in counts.feature_names]
    found = np.hstack([np.asarray(counts.X), np.asarray(other.X)[:, own]])
    return found[:: len(found) // _N_ROWS][:_N_ROWS]


TABLES: Mapping[str, Callable[[], Floats]] = {
    "bits": _bits,
    "species": lambda: np.asarray(load_oaks().X),
    "single cells": _cells,
    "words": _words,
    "mixed": _mixed,
}


def em_pca(masked: Masked, rank: int, steps: Floats) -> float:
    """Mean log-probability of hidden cells under probabilistic PCA of standardised columns."""
    centre, size = np.nanmean(masked.X, axis=0), np.nanstd(masked.X, axis=0)
    size = np.where(size > 0, size, 1.0)
    standard = (masked.X - centre) / size
    model = fit_quietly(PPCA(rank), standard)
    fitted = model.inverse_transform(model.transform(standard))
    j = masked.columns
    mean = centre[j] + size[j] * fitted[masked.rows, j]
    noise = size[j] * np.sqrt(model.noise_variance_)
    low, high = ((masked.values - mean + side * steps[j]) / noise for side in (-0.5, 0.5))
    # The probability of an interval on the side where it is not rounded to one.
    flip = np.where(low > 0, -1.0, 1.0)
    ends = np.sort([flip * low, flip * high], axis=0)
    mass = np.exp(norm.logcdf(ends[1]) + np.log1p(-np.exp(norm.logcdf(ends[0]) - norm.logcdf(ends[1]))))
    return float(np.log(np.maximum(mass, np.finfo(float).tiny)).mean())


def nmf(masked: Masked, rank: int, seed: int) -> float:
    """Mean log-probability of hidden counts under non-negative factors of Poisson means, by multiplicative updates."""
    seen, rng = ~np.isnan(masked.X), np.random.default_rng([seed, 164])
    X = np.where(seen, masked.X, 0.0)
    tiny, average = np.finfo(float).tiny, np.nanmean(masked.X, axis=0)
    W, H = rng.uniform(0.5, 1.5, (len(X), rank)), rng.uniform(0.5, 1.5, (rank, X.shape[1])) * average / rank
    for _ in range(_N_UPDATES):
        W *= (X / np.maximum(W @ H, tiny)) @ H.T / np.maximum(seen @ H.T, tiny)
        H *= W.T @ (X / np.maximum(W @ H, tiny)) / np.maximum(W.T @ seen, tiny)
    mean = np.maximum((W @ H)[masked.rows, masked.columns], _FLOOR * average[masked.columns])
    return float(poisson.logpmf(masked.values, np.maximum(mean, tiny)).mean())


def answer(name: str, seed: int, n_columns: int | None = None) -> dict[str, float]:
    """Log-probabilities of the hidden cells of one table, or of its first columns, and SePCA's rank."""
    masked = mask(TABLES[name]()[:, :n_columns], seed)
    model = fit_quietly(SePCA(n_jobs=1), masked.X)
    rank = max(int(model.n_components_), 1)
    family: Any = model.layout_.settled(model.family_)
    steps = np.broadcast_to(np.asarray(model.resolution_, dtype=float), masked.X.shape[1:])
    found = {
        "rank": float(model.n_components_),
        "SePCA": masked.l_miss(model),
        "EM-PCA": em_pca(masked, rank, steps),
        "EPCA": masked.l_miss(fit_quietly(EPCA(rank, family=family, ridge=1.0, n_jobs=1), masked.X)),
    }
    if name not in ("bits", "mixed"):
        found["NMF"] = nmf(masked, rank + 1, seed)
    return found


def run(options: Options) -> Outcome:
    """All tables and masks."""
    names = ["species"] if options.quick else list(TABLES)
    n_masks = 1 if options.quick else N_MASKS
    n_columns = _QUICK_COLUMNS if options.quick else None
    tasks = [(name, options.seed + i, n_columns) for name in names for i in range(n_masks)]
    answers = repeat(answer, tasks, options)
    rows, wins = [], 0
    for number, name in enumerate(names):
        found = answers[number * n_masks : (number + 1) * n_masks]
        means = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
        rivals = {key: means.get(key) for key in ("EM-PCA", "NMF", "EPCA")}
        is_won = all(value is None or means["SePCA"] > value for value in rivals.values())
        wins += is_won
        ranks = ", ".join(f"{each['rank']:.0f}" for each in found)
        rows.append((name, ranks, means["SePCA"], *rivals.values(), "yes" if is_won else "no"))
    head = ("table", "SePCA's ranks", "SePCA", "EM-PCA", "NMF-KL", "EPCA", "SePCA first")
    least = 1.0 if options.quick else float(LEAST)
    target = Target(f"tables of {len(names)} on which SePCA is first", float(wins), ">=", least)
    return Outcome([Table("Mean log-probability of a hidden cell", head, rows)], [target], is_whole=True)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
