"""Amounts and counts with extra zeros under ``family="auto"``, and which family has the highest evidence.

Log-normal amounts, 150 x 25, whose logarithms have noise of 1.2, with three components or none; Poisson counts, 200 x
30, of which 30 in 100 are zero whatever their mean, with three components. The weakest component is five times as
strong as what can be detected (`experiments._truth_designs`). Positive tables of 150 x 12 with two components, made as
gaussian, gamma and log-normal, recorded with two decimals: the family that made a table must have the highest evidence.
"""

from __future__ import annotations

import numpy as np

from anypca import SePCA
from anypca._typing import Floats
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._truth_designs import FAMILIES, Cell, Makers, _loadings, _poisson

N_RUNS, N_TABLES = 20, 20
FAMILY_NAMES = ("gaussian", "gamma", "log_normal")
_NOISE, _ZEROS, _DECIMALS = 1.2, 0.3, 2
#: Real numbers so far from zero that none is negative.
_CENTRE = 10.0


def _amounts(rng: np.random.Generator, p: int) -> Makers:
    intercept = 2.0 + 0.5 * rng.normal(size=p)

    def observe(eta: Floats) -> Floats:
        amount = np.exp(eta + _NOISE * rng.normal(size=eta.shape))
        return np.maximum(np.round(amount, _DECIMALS), 10.0**-_DECIMALS)

    return Makers(intercept, np.full(p, _NOISE**-2), observe)


def _extra_zeros(rng: np.random.Generator, p: int) -> Makers:
    made = _poisson(rng, p)

    def observe(eta: Floats) -> Floats:
        return np.where(rng.random(eta.shape) < _ZEROS, 0.0, made.observe(eta))

    return made._replace(information=(1.0 - _ZEROS) * made.information, observe=observe)


def _real(rng: np.random.Generator, p: int) -> Makers:
    made = FAMILIES["gaussian"].draw(rng, p)
    return made._replace(intercept=_CENTRE + 0.5 * rng.normal(size=p))


_MAKERS = {
    "log-normal amounts": _amounts,
    "extra zeros": _extra_zeros,
    "gaussian": _real,
    "gamma": FAMILIES["gamma"].draw,
    "log_normal": FAMILIES["log-normal"].draw,
}


def make(kind: str, n: int, p: int, rank: int, seed: int) -> Floats:
    """A table of a kind, its weakest component of strength 5."""
    rng = np.random.default_rng([seed, n, rank, list(_MAKERS).index(kind)])
    made = _MAKERS[kind](rng, p)
    loadings = _loadings(Cell(kind, n, p, rank), made, rng)
    return made.observe(made.intercept + rng.normal(size=(n, rank)) @ loadings.T)


def dimension(kind: str, n: int, p: int, rank: int, seed: int) -> tuple[int, str]:
    """The dimension under ``auto``, and the families."""
    model = fit_quietly(SePCA(random_state=0, n_jobs=1), make(kind, n, p, rank, seed))
    chosen = sorted({record.family for record in model.family_report_})
    return int(model.n_components_), ", ".join(chosen)


def evidences(kind: str, n: int, p: int, rank: int, seed: int) -> list[float]:
    """Evidence of the families on one table."""
    X = np.maximum(np.round(make(kind, n, p, rank, seed), _DECIMALS), 10.0**-_DECIMALS)
    models = [SePCA(family=family, random_state=0, n_jobs=1) for family in FAMILY_NAMES]
    return [float(fit_quietly(model, X).evidence_) for model in models]


def run(options: Options) -> Outcome:
    """Dimensions, and the order of evidences."""
    cells = Cells("families_amounts", options, first=61_000)
    n_runs, n_tables = (2, 1) if options.quick else (N_RUNS, N_TABLES)
    cases = [
        ("log-normal amounts", 150, 25, 0),
        ("log-normal amounts", 150, 25, 3),
        ("extra zeros", 200, 30, 3),
    ]
    if options.quick:
        cases = cases[:2]
    rows, targets = [], []
    for case in cases:
        found = cells.get(dimension, case, n_runs)
        kind, n, p, rank = case
        name = f"{kind}, {n} x {p}, rank {rank}"
        right = float(np.mean([each[0] == rank for each in found]))
        rows.append(
            (name, len(found), tally([each[0] for each in found]), "; ".join(sorted({f[1] for f in found})))
        )
        targets.append(Target(name, right, ">=", 0.9))
    table = Table("Components found", ("tables", "runs", "components", "families"), rows)
    order, share = _order(cells, n_tables, (100, 8) if options.quick else (150, 12))
    targets.append(Target("right family has the highest evidence", share, ">=", 0.95))
    return Outcome([table, order], targets, is_whole=True)


def _order(cells: Cells, n_tables: int, shape: tuple[int, int]) -> tuple[Table, float]:
    """Which family wins on tables of each, by how much, and the share of those that made the table."""
    rows, right = [], []
    for number, name in enumerate(FAMILY_NAMES):
        found = np.array(cells.get(evidences, (name, *shape, 2), n_tables))
        lead = found[:, number] - np.delete(found, number, axis=1).max(axis=1)
        rows.append((name, len(found), int((lead > 0).sum()), float(lead.min()), float(np.median(lead))))
        right.append(lead > 0)
    head = ("made as", "tables", "highest evidence", "smallest lead", "median lead")
    return Table("Evidence of the family that made a table", head, rows), float(np.mean(right))


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
