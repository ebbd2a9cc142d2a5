"""Where the fit starts: random directions among the leading principal components, hard splits, regressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from anypca._typing import Bools, Floats
from anypca.engine import Block, Data, Executor, Summary, check_data, mark_missing, summarise
from anypca.models._gaussian.principal import Principal, fit_principal
from anypca.models._gaussian.row_model import PrincipalRowModel
from anypca.models._session import Session
from anypca.models.piecewise._pieces import Coefficients, Transfer
from anypca.solvers import Progress

# Rows and entries that starts are compared on; the chosen one is then fitted to the whole table.
_MOST_ROWS = 5000
_MOST_ENTRIES = 4_000_000
# Of PPCA with missing entries, which only has to give directions.
_PPCA_TOL = 1e-3
_PPCA_ITERATIONS = 100


@dataclass(frozen=True)
class Sample:
    """Rows on which starts are tried."""

    data: Data
    filled: Floats
    """Missing entries replaced by their means under probabilistic PCA (m, n_features)."""
    whitened: Floats
    """Leading principal scores, centred, of unit variance (m, r)."""
    weight: Floats
    """(m,)"""
    is_whole: bool
    """Whether these are all rows of the table."""


def draw_sample(data: Data, executor: Executor, n_directions: int, rng: np.random.Generator) -> Sample:
    """Take all rows, or so many that starts are cheap, with their leading principal scores.

    Parameters
    ----------
    data : Data
    executor : Executor
    n_directions : int
        Number r of principal components.
    rng : numpy.random.Generator

    Returns
    -------
    Sample
    """
    most = max(min(_MOST_ROWS, _MOST_ENTRIES // data.n_features), 20 * (n_directions + 1))
    chosen = np.ones(data.n_samples, dtype=bool)
    if data.n_samples > most:
        chosen[:] = False
        chosen[rng.choice(data.n_samples, most, replace=False)] = True
    rows, weight = _read(data, executor, chosen)
    rows, weight = rows[weight > 0], weight[weight > 0]
    part = check_data(rows, sample_weight=weight if data.has_weights else None)
    summary = summarise(part, executor)
    part = mark_missing(part, summary.has_missing)
    principal = fit_leading(part, executor, summary, n_directions, rng)[0]
    scores, filled = _project(part, executor, principal)
    centred = scores - np.average(scores, axis=0, weights=weight)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    whitened = centred / np.where(spread > 0, spread, 1.0)
    return Sample(part, filled, whitened, weight, bool(chosen.all()))


def fit_leading(
    data: Data, executor: Executor, summary: Summary, n_components: int, rng: np.random.Generator
) -> tuple[Principal, Principal]:
    """Probabilistic PCA with variances as scikit-learn's, and with the divisor n."""
    session = Session(data, executor, summary, _silent, rng, _PPCA_ITERATIONS, _PPCA_TOL)
    principal, result = fit_principal(session, n_components)
    return principal, result.shared


def _silent(progress: Progress) -> None:
    """Starts are not reported."""


def _read(data: Data, executor: Executor, chosen: Bools) -> tuple[Floats, Floats]:
    """The chosen rows, NaN where missing, and their weights."""

    def visit(block: Block, _: Any) -> tuple[tuple[Floats, Floats], float]:
        table = block.read()
        x = table.x.astype(np.float64, copy=False)
        if table.observed is not None:
            x[~table.observed] = np.nan
        weight = np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64)
        keep = chosen[block.start : block.stop]
        return (x[keep], weight[keep]), 0.0

    parts = executor.gather(executor.sweep(visit, data)[0])
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _project(data: Data, executor: Executor, principal: Principal) -> tuple[Floats, Floats]:
    """Principal scores of all rows, and the rows with missing entries filled."""

    model = PrincipalRowModel(principal)

    def visit(block: Block, _: Any) -> tuple[tuple[Floats, Floats], float]:
        rows = model.open(block)
        scores = model.scores(model.solve(rows))
        if rows.observed is None:
            return (scores, rows.x), 0.0
        return (scores, np.where(rows.observed, rows.x, model.mean(block, scores))), 0.0

    parts = executor.gather(executor.sweep(visit, data)[0])
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def random_starts(
    sample: Sample,
    transfer: Transfer,
    n_components: int,
    breakpoints: Floats,
    noise_floor: float,
    *,
    vary: bool,
    rng: np.random.Generator,
) -> Iterator[Coefficients]:
    """Endless starts: a random direction is t, by its normal scores; each piece is regressed on its rows.

    Parameters
    ----------
    sample : Sample
    transfer : callable
        The coupling.
    n_components : int
    breakpoints : ndarray of shape (K - 1,)
    noise_floor : float
    vary : bool
        Draw breakpoints too, since they are to be fitted; every other start keeps the given ones.
    rng : numpy.random.Generator

    Yields
    ------
    Coefficients
    """
    number = 0
    while True:
        r = sample.whitened.shape[1]
        basis = np.linalg.qr(rng.standard_normal((r, r)))[0][:, :n_components]
        w = sample.whitened @ basis
        w[:, -1] = normal_scores(w[:, -1], sample.weight)
        number += 1
        edges = _draw_breakpoints(breakpoints, rng) if vary and number % 2 == 0 else breakpoints
        yield regress(sample, transfer, w, edges, noise_floor)


def normal_scores(values: Floats, weight: Floats) -> Floats:
    """Standard normal quantiles at the ranks of some values, each counted with its weight; both (n,)."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values))
    rank[order] = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.asarray(ndtri(rank / weight.sum()))


def _draw_breakpoints(breakpoints: Floats, rng: np.random.Generator) -> Floats:
    """Breakpoints near the given ones in terms of probability, in order."""
    n = len(breakpoints) + 1
    probability = ndtr(breakpoints) + rng.uniform(-0.45, 0.45, len(breakpoints)) / n
    return np.asarray(ndtri(np.sort(probability)))


def regress(
    sample: Sample, transfer: Transfer, w: Floats, breakpoints: Floats, noise_floor: float
) -> Coefficients:
    """Coefficients that fit the filled rows best, given their latent points w (m, q)."""
    T = transfer(w.shape[1], breakpoints)
    u = np.column_stack([w, np.ones(len(w))])
    piece = np.searchsorted(breakpoints, w[:, -1])
    design = np.einsum("ima,ia->im", T[piece], u)
    root = np.sqrt(sample.weight)[:, None]
    matrix = np.linalg.lstsq(design * root, sample.filled * root, rcond=None)[0].T
    residual = (sample.filled - design @ matrix.T) * root
    noise = float(np.vdot(residual, residual)) / (sample.weight.sum() * len(matrix))
    return Coefficients(matrix, max(noise, 2.0 * noise_floor), breakpoints)
