"""What is told of a fit: pseudo-R2, its parts, expected rows of the pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, Statistics, Summary
from anypca.models._opened import open_block
from anypca.models._row_model import RowModel


@dataclass(frozen=True)
class _Scatter(Statistics):
    """Weighted sums of scores and their products."""

    weight: float
    total: Floats
    products: Floats


def score_shares(model: RowModel[Any], data: Data, executor: Executor) -> Floats:
    """Shares of the variance of the posterior means along their own principal axes, decreasing (q,)."""

    def visit(block: Block, _: None) -> tuple[None, _Scatter]:
        scores = model.scores(model.solve(open_block(block)))
        weight = np.ones(len(scores)) if block.weight is None else block.weight.astype(np.float64)
        weighted = scores * weight[:, None]
        return None, _Scatter(float(weight.sum()), weighted.sum(axis=0), weighted.T @ scores)

    sums = executor.sweep(visit, data)[1]
    mean = sums.total / sums.weight
    values = np.linalg.eigvalsh(sums.products / sums.weight - np.outer(mean, mean))[::-1]
    values = np.maximum(values, 0.0)
    return np.asarray(values / values.sum() if values.sum() > 0 else values)


def gaussian_pseudo_r2(log_likelihood: float, n_entries: float, noise: float, summary: Summary) -> float:
    """``(L - L_min) / (L_max - L_min)`` at the fitted noise variance.

    L is the exact log-likelihood; L_max has one mean per entry, L_min one per column. A density that integrates
    normal densities of this variance is nowhere above their maximum, so the ratio is at most 1.
    """
    squares = float(summary.weight @ summary.variance)
    best = -0.5 * n_entries * float(np.log(2.0 * np.pi * noise))
    if squares <= 0:
        return 0.0
    return float(1.0 - (best - log_likelihood) * 2.0 * noise / squares)


@dataclass(frozen=True)
class _CountSums(Statistics):
    total: Floats
    exposure: Floats
    base: float
    saturated: float


def poisson_pseudo_r2(bound: float, data: Data, executor: Executor) -> float:
    """The same for counts: one rate per entry against one per column, offsets in both, and the bound between."""

    def visit(block: Block, _: None) -> tuple[None, _CountSums]:
        table = block.read()
        y = table.x.astype(np.float64, copy=False)
        observed = np.ones(y.shape) if table.observed is None else table.observed.astype(np.float64)
        y = y * observed
        offset = block.offset()
        o = np.zeros((1, 1)) if offset is None else offset.astype(np.float64)
        weight = np.ones((len(y), 1)) if block.weight is None else block.weight.astype(np.float64)[:, None]
        base = float((weight * observed * (y * o - gammaln(y + 1.0))).sum())
        saturated = float((weight * observed * (xlogy(y, y) - y - gammaln(y + 1.0))).sum())
        exposure = (weight * observed * np.exp(o)).sum(axis=0)
        return None, _CountSums((weight * y).sum(axis=0), exposure, base, saturated)

    sums = executor.sweep(visit, data)[1]
    worst = sums.base + float(xlogy(sums.total, sums.total / sums.exposure).sum() - sums.total.sum())
    return float((bound - worst) / (sums.saturated - worst)) if sums.saturated > worst else 0.0
