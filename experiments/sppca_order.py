"""Simple Poisson PCA, table 3: how often the number of hidden factors is found.

Smallman, Underwood and Artemiou (2020), section 5.2: one, two or three hidden factors, D = 20 and 10 columns, n = 25 to
200 rows. Beyond the paper: n = 400 and 1000, and counts with Poisson noise in place of an error that does not grow
with the mean. Four methods: SPPCA by an optimiser that stops after 100 iterations, as it was probably run for the
printed table; SPPCA and SSPPCA as published, run to convergence; and the default of SPPCA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from anypca import SPPCA, SSPPCA
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._designs import make_sppca_order
from experiments._sppca import SPARSITY
from experiments._sppca_printed import TOLERANCE
from experiments._sppca_printed import n_components as components_as_printed

TRUTHS = (1, 2, 3)
SIZES = (25, 50, 100, 200)
LARGE_SIZES = (400, 1000)
#: Percentages of table 3 (D = 20) by n, for d = 1, 2, 3.
PAPER_SPPCA = {25: (94, 24, 18), 50: (82, 62, 26), 100: (62, 24, 26), 200: (24, 16, 14)}
PAPER_SSPPCA = {25: (2, 8, 4), 50: (42, 10, 8), 100: (82, 60, 18), 200: (78, 70, 50)}
#: What the default must reach at D = 20, by n and d: a comparison and a share.
TARGETS: Mapping[tuple[int, int], tuple[str, float]] = {
    **{(n, d): (">=", 0.98) for n in (100, 200) for d in TRUTHS},
    (25, 1): (">=", 0.95),
    (50, 1): (">=", 0.95),
    (50, 2): (">=", 0.75),
    (50, 3): (">=", 0.75),
    (25, 2): (">", 0.24),
    (25, 3): (">", 0.18),
}
#: Draws of the cells of table 3, of which the paper has 50; of those with D = 10, which it describes and does not
#: print; and of those beyond it. Seeds other than 0 repeat the first kind only. So few that a study takes minutes.
_N_RUNS, _N_RUNS_TEN, _N_RUNS_BEYOND, _N_RUNS_AGAIN = 20, 8, 2, 8


class Cell(NamedTuple):
    """A design."""

    noise: str
    """``"as published"`` or ``"Poisson"``."""
    n_features: int
    n_samples: int
    truth: int


def draw(cell: Cell, seed: int) -> np.ndarray:
    """The table of a cell and a seed."""
    rng = np.random.default_rng([seed, cell.n_features, cell.n_samples, cell.truth])
    drawn = make_sppca_order(cell.truth, cell.n_samples, cell.n_features, random_state=rng)
    if cell.noise == "Poisson":
        return rng.poisson(drawn.factors @ drawn.coefficients).astype(float)
    return drawn.X


def _found(model: SPPCA, X: np.ndarray) -> int:
    return int(fit_quietly(model, X).n_components_)


METHODS: Mapping[str, Callable[[np.ndarray], int]] = {
    "SPPCA, as printed": components_as_printed,
    "SPPCA, published": lambda X: _found(SPPCA(method="paper", n_jobs=1), X),
    "SSPPCA, published": lambda X: _found(SSPPCA(method="paper", sparsity=SPARSITY, n_jobs=1), X),
    "SPPCA, default": lambda X: _found(SPPCA(n_jobs=1), X),
}


def answer(method: str, noise: str, n_features: int, n_samples: int, truth: int, seed: int) -> int:
    """The dimension that a method finds in one table."""
    return METHODS[method](draw(Cell(noise, n_features, n_samples, truth), seed))


def run(options: Options) -> Outcome:
    """Share of right answers of all methods in every cell."""
    cells = Cells("sppca_order", options)
    found = {cell: _answers(cells, cell, n_runs) for cell, n_runs in _plan(options).items()}
    tables = [
        _table(f"Table 3: right dimension in %, {noise} noise, D = {D}", part)
        for noise, D in dict.fromkeys((cell.noise, cell.n_features) for cell in found)
        if (part := {c: a for c, a in found.items() if (c.noise, c.n_features) == (noise, D)})
    ]
    targets = [
        Target(f"default, D = 20, n = {n}, d = {d}: share right", _share(cell, found[cell][-1]), *bound)
        for (n, d), bound in TARGETS.items()
        if (cell := Cell("as published", 20, n, d)) in found
    ]
    return Outcome(tables, [*targets, *_decline(found)], _notes(found))


def _plan(options: Options) -> dict[Cell, int]:
    """Cells and their numbers of runs, in the order in which they are computed."""
    if options.quick:
        return {Cell("as published", 20, 100, d): 1 for d in TRUTHS}
    n_runs = _N_RUNS_AGAIN if options.seed else _N_RUNS
    printed = {Cell("as published", 20, n, d): n_runs for n in SIZES for d in TRUTHS}
    if options.seed:
        return printed
    ten = {Cell("as published", 10, n, d): _N_RUNS_TEN for n in SIZES for d in TRUTHS}
    beyond = [Cell("as published", 20, n, d) for n in LARGE_SIZES for d in TRUTHS]
    beyond += [Cell("Poisson", 20, n, d) for n in (*SIZES, *LARGE_SIZES) for d in TRUTHS]
    return printed | ten | dict.fromkeys(beyond, _N_RUNS_BEYOND)


def _answers(cells: Cells, cell: Cell, n_runs: int) -> list[list[int]]:
    """One list of answers for each method."""
    return [cells.get(answer, (method, *cell), n_runs) for method in METHODS]


def _decline(found: Mapping[Cell, Sequence[Sequence[int]]]) -> list[Target]:
    """Whether the optimiser that stops gets worse with the rows: printed are 94 to 24 % for one factor."""
    first, last = (Cell("as published", 20, n, 1) for n in (SIZES[0], SIZES[-1]))
    if not {first, last} <= set(found):
        return []
    lost = _share(first, found[first][0]) - _share(last, found[last][0])
    return [Target("as printed, d = 1: share right at n = 25 less that at n = 200", lost, ">=", 0.3)]


def _share(cell: Cell, answers: Sequence[int]) -> float:
    return float(np.mean(np.equal(answers, cell.truth)))


def _table(title: str, found: Mapping[Cell, Sequence[Sequence[int]]]) -> Table:
    head = ("n", "d", "runs", *METHODS, "paper: SPPCA", "paper: SSPPCA", *(f"{m}: answers" for m in METHODS))
    rows = []
    for cell, answers in sorted(found.items()):
        is_printed = cell.noise == "as published" and cell.n_features == 20 and cell.n_samples in PAPER_SPPCA
        paper = [
            table[cell.n_samples][cell.truth - 1] if is_printed else None
            for table in (PAPER_SPPCA, PAPER_SSPPCA)
        ]
        shares = [round(100.0 * _share(cell, a), 1) for a in answers]
        rows.append((cell.n_samples, cell.truth, len(answers[0]), *shares, *paper, *map(tally, answers)))
    return Table(title, head, rows)


def _mean_excess(found: Mapping[Cell, Sequence[Sequence[int]]], noise: str, n: int, method: int) -> float:
    """Components above the truth, in the mean of all runs with that many rows."""
    excess = [a - c.truth for c, answers in found.items() if c[:3] == (noise, 20, n) for a in answers[method]]
    return float(np.mean(excess))


def _notes(found: Mapping[Cell, Sequence[Sequence[int]]]) -> list[str]:
    notes = [
        f"{_N_RUNS} draws for each cell of table 3, where the paper has 50, {_N_RUNS_TEN} with D = 10, "
        f"{_N_RUNS_BEYOND} beyond the paper. An earlier run, without the column 'as printed', had 50, 50 and "
        "10 of them: published SPPCA at D = 20 right in 100, 0, 0 % (n = 25, d = 1, 2, 3), 100, "
        "36, 0 (50), 100, 100, 82 (100) and 100 (200); the default in 100, 30, 34 %, 100, 98, 98 %, and "
        "always from 100 rows on.",
        f"The published SSPPCA is run with a price of {SPARSITY} for a loading; the paper does not print the one it "
        "used here. 'As printed' stops each run of the optimiser after 100 iterations, R's default, and starts from "
        f"R's prcomp; its rounds end when P changes by less than {TOLERANCE:g} of itself, the epsilon that the paper "
        "does not print. It was set after a look at four other tables for each n with d = 1, on which 1e-3 to 1e-5 "
        "gave about the same, and 1e-8 the right answer nearly always. The published algorithms are run to "
        "convergence. The noise of the published design does not grow with the mean: counts of mean 20 to 220 with a "
        "noise variance of 6.",
    ]
    for noise in dict.fromkeys(cell.noise for cell in found):
        sizes = sorted({c.n_samples for c in found if c.noise == noise and c.n_features == 20})
        parts = [
            f"n = {n}: " + ", ".join(f"{_mean_excess(found, noise, n, m):+.2f}" for m in range(len(METHODS)))
            for n in sizes
        ]
        notes.append(
            f"Mean of answer minus truth at D = 20, noise {noise}, for {'; '.join(METHODS)}. {'. '.join(parts)}."
        )
    return notes


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
