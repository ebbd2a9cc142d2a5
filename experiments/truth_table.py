"""The truth table: how often SePCA and its rivals find the dimension, by family, size, rank and strength.

The components have the strength m of `experiments._truth_designs`. Finished runs are kept in the file of JSON lines
that the environment variable ``ANYPCA_CELLS`` names, so that a study goes on where it was stopped; ``--runs N`` is the
number of tables of a cell (20), of which cells without components have ten times as many and the largest size a
quarter. Rivals that take seconds are asked on the last of twenty tables, without components of two hundred; with
``ANYPCA_RIVALS=none`` SePCA is asked alone, and with ``ANYPCA_RIVALS=weak`` on the cells with m from 1.5 to 3 alone, of
which the sets of dimensions are judged. Of 30 cells whose sets cover 0.94, one of 20 tables each is likely to have less
than 0.85: what the worst cell has is to be asked with ``ANYPCA_RIVALS=weak`` and ``--runs 60`` or more.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anypca import SePCA
from anypca.selection import compare_ranks
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._journal import Journal
from experiments._rivals import RIVALS
from experiments._truth_designs import FAMILIES, WRONG, Cell, draw
from experiments._truth_picture import draw_reliability, draw_table

N_RUNS = 20
_NULL_FACTOR, _LARGE_SHARE, _SLOW_EVERY = 10, 0.25, 20
#: Rivals that take milliseconds, and those that fit models.
QUICK_RIVALS = ("parallel", "gavish_donoho", "screenot", "minka")
SLOW_RIVALS = ("parametric", "bicv", "thinning", "bic", "icl", "held_out", "biwhitening")
SIZES = ((60, 200), (100, 30), (200, 60), (300, 20))
#: The probability of the sets of dimensions, and what they must cover.
LEVEL, LEAST_COVER = 0.9, 0.85
_MOST, _LEAST_ASKED = 15, 20


def cells() -> list[Cell]:
    """All cells, at most 150."""
    found = [Cell(kind, n, p, 3) for kind in FAMILIES for n, p in SIZES]
    found += [Cell(kind, 100, 30, 0) for kind in FAMILIES]
    found += [Cell(kind, 200, 60, rank) for kind in FAMILIES for rank in (1, 6)]
    found += [Cell(kind, 200, 60, 3, 3.0) for kind in FAMILIES]
    found += [Cell("gaussian", 200, 60, rank, m, "equal") for rank in (6, 10) for m in (3.0, 4.0, 5.0, 6.0)]
    found += [
        Cell(kind, 200, 60, rank, m, "equal")
        for kind in ("poisson", "negative binomial")
        for rank, m in ((6, 4.0), (10, 4.0), (10, 6.0))
    ]
    found += [
        Cell(kind, 200, 60, 3, 5.0, how)
        for kind in ("gaussian", "poisson", "bernoulli")
        for how in ("sparse", "unequal")
    ]
    found += [Cell(kind, 200, 60, rank) for kind in WRONG for rank in (0, 3)]
    found += [
        Cell(kind, 200, 60, rank, m)
        for kind in ("gaussian", "poisson", "negative binomial", "bernoulli")
        for rank, m in ((1, 1.5), (1, 2.0), (3, 2.0), (3, 2.5))
    ]
    return [*found, Cell("gaussian", 500, 500, 3)]


class Answer(NamedTuple):
    """What was found in one table."""

    ranks: dict[str, int | None]
    """By method; None where one is not for the table."""
    probabilities: dict[str, float]
    """Of SePCA's dimensions, by number as JSON has it."""
    seconds: float
    """Of SePCA."""


def answer(cell: Cell, seed: int, rivals: Sequence[str]) -> Answer:
    """SePCA and rivals on one table."""
    X, family, offset = draw(cell, np.random.default_rng([seed, zlib.crc32(cell.name.encode())]))
    start = time.process_time()
    model = fit_quietly(SePCA(family=family, n_jobs=1), X, offset=offset)
    seconds = time.process_time() - start
    probabilities = {str(rank): share for rank, share in model.rank_probabilities_.items()}
    ranks: dict[str, int | None] = {"sepca": int(model.n_components_)}
    if rivals:
        # Columns as the model has them: one with the counts 0 and 2 alone is a yes/no answer there.
        coded, family = model.layout_.split(X), model.describe().family
        methods = [RIVALS.get(name, name) for name in rivals]
        found = compare_ranks(coded, methods, family=family, max_rank=_MOST, offset=offset)
        ranks.update({each.method: each.rank for each in found.answers})
    return Answer(ranks, probabilities, seconds)


def count_runs(cell: Cell, n_runs: int) -> int:
    """Number of tables of a cell."""
    if cell.truth == 0 and cell.kind in FAMILIES:
        return _NULL_FACTOR * n_runs
    return max(1, round(_LARGE_SHARE * n_runs)) if cell.n * cell.p > 100_000 else n_runs


def rivals_of(cell: Cell, number: int) -> tuple[str, ...]:
    """Who is asked on a table of a cell."""
    is_small, is_null = cell.n * cell.p <= 12_000, cell.truth == 0 and cell.kind in FAMILIES
    every = _SLOW_EVERY * (_NULL_FACTOR if is_null else 1)
    if not _has_rivals():
        return ()
    # The last of every few: a study that is stopped early has more tables and fewer rivals.
    return QUICK_RIVALS + (SLOW_RIVALS if number % every == every - 1 and is_small else ())


def _has_rivals() -> bool:
    return os.environ.get("ANYPCA_RIVALS") not in ("none", "weak")


def _is_weak(cell: Cell) -> bool:
    return cell.rank > 0 and 1.5 <= cell.m <= 3.0


def collect(wanted: Sequence[Cell], options: Options) -> dict[Cell, list[Answer]]:
    """The answers of all tables of the cells."""
    name = os.environ.get("ANYPCA_CELLS")
    journal = Journal(Path(name) if name and not options.quick else None)
    counts = {cell: 1 if options.quick else count_runs(cell, options.n_runs or N_RUNS) for cell in wanted}
    tasks = [
        (cell, i, (cell, options.seed + i, () if options.quick else rivals_of(cell, i)))
        for cell in wanted
        for i in range(counts[cell])
    ]
    # A study that is stopped has about the same part of the tables of every cell.
    tasks.sort(key=lambda task: task[1] / counts[task[0]])
    named = [(f"{cell.name} | seed {options.seed} | {i}", arguments) for cell, i, arguments in tasks]
    answers = journal.run(answer, named, options.n_jobs)
    found: dict[Cell, list[Answer]] = {cell: [] for cell in wanted}
    for (cell, _, _), each in zip(tasks, answers, strict=True):
        found[cell].append(Answer(*each))
    return found


def right(found: Mapping[Cell, list[Answer]], method: str = "sepca", *, within: int = 0) -> list[bool]:
    """Whether each table was answered rightly, tables that the method is not for left out."""
    ranks = [(cell.truth, each.ranks.get(method)) for cell, answers in found.items() for each in answers]
    return [abs(rank - truth) <= within for truth, rank in ranks if rank is not None]


def share(found: Mapping[Cell, list[Answer]], method: str = "sepca", *, within: int = 0) -> float:
    """Share of right answers; NaN where there is none."""
    answers = right(found, method, within=within)
    return float(np.mean(answers)) if answers else float("nan")


def credible(probabilities: Mapping[str, float]) -> set[int]:
    """The dimensions of largest probability that have 90 % together."""
    chosen, total = set(), 0.0
    for rank, probability in sorted(probabilities.items(), key=lambda pair: -pair[1]):
        chosen.add(int(rank))
        total += probability
        if total >= LEVEL:
            break
    return chosen


def cover(found: Mapping[Cell, list[Answer]]) -> float:
    """How often these sets hold the truth."""
    hits = [cell.truth in credible(each.probabilities) for cell, answers in found.items() for each in answers]
    return float(np.mean(hits)) if hits else float("nan")


def _pick(found: Mapping[Cell, list[Answer]], **wanted: Any) -> dict[Cell, list[Answer]]:
    return {
        cell: answers
        for cell, answers in found.items()
        if all(getattr(cell, name) == value for name, value in wanted.items())
    }


def _strong(found: Mapping[Cell, list[Answer]]) -> dict[Cell, list[Answer]]:
    """Correctly specified designs at m = 5."""
    return {
        cell: each
        for cell, each in found.items()
        if cell.kind in FAMILIES and cell.m == 5.0 and cell.rank <= 6
    }


def _targets(found: Mapping[Cell, list[Answer]]) -> list[Target]:
    strong = _strong(found)
    targets = [Target("m = 5, ranks 0-6, exact, all families", share(strong), ">=", 0.95)]
    targets += [
        Target(f"m = 5, exact, {kind}", share(_pick(strong, kind=kind)), ">=", 0.9) for kind in FAMILIES
    ]
    equal = _pick(found, kind="gaussian", loadings="equal")
    for rank, m, within, least in ((6, 4.0, 0, 0.8), (6, 6.0, 0, 0.95), (10, 4.0, 1, 0.9), (10, 6.0, 0, 0.9)):
        words = "within one" if within else "exact"
        value = share(_pick(equal, rank=rank, m=m), within=within)
        targets.append(Target(f"equal strengths, rank {rank}, m = {m:g}, {words}", value, ">=", least))
    null = {cell: answers for cell, answers in strong.items() if cell.truth == 0}
    targets += [
        Target(
            f"false components, {cell.kind}", float(np.mean(~np.array(right({cell: answers})))), "<=", 0.02
        )
        for cell, answers in null.items()
    ]
    fair, rivals = _fair(strong), (*QUICK_RIVALS, *SLOW_RIVALS)
    # A few tables say nothing of who is ahead.
    targets += [_ahead(fair, rival) for rival in rivals if len(right(fair, rival)) >= _LEAST_ASKED]
    return [*targets, *_set_targets(found)]


def _set_targets(found: Mapping[Cell, list[Answer]]) -> list[Target]:
    weak = {cell: answers for cell, answers in found.items() if _is_weak(cell)}
    least = min(cover({cell: answers}) for cell, answers in found.items())
    return [
        Target("90 % sets, smallest coverage of a cell", least, ">=", LEAST_COVER),
        Target("90 % sets, m from 1.5 to 3", cover(weak), ">=", LEAST_COVER),
        Target("90 % sets, m from 1.5 to 3", cover(weak), "<=", 0.97),
    ]


def _fair(found: Mapping[Cell, list[Answer]]) -> dict[Cell, list[Answer]]:
    """Cells with components: in the many without any every careful method is right."""
    return {cell: answers for cell, answers in found.items() if cell.truth > 0}


def _ahead(found: Mapping[Cell, list[Answer]], rival: str) -> Target:
    """Points, over two standard errors, that the rival is ahead of SePCA on the tables that both answered."""
    pairs = [
        (each.ranks["sepca"] == cell.truth, each.ranks[rival] == cell.truth)
        for cell, answers in found.items()
        for each in answers
        if each.ranks.get(rival) is not None
    ]
    gap = np.array([float(b) - float(a) for a, b in pairs])
    lead = float(gap.mean() - 2.0 * gap.std() / np.sqrt(len(gap)))
    return Target(f"m = 5: lead of {rival}, less two standard errors", lead, "<=", 0.1)


def _rows(found: Mapping[Cell, list[Answer]]) -> list[tuple[Any, ...]]:
    return [
        (
            cell.name,
            cell.truth,
            len(answers),
            *(100.0 * share({cell: answers}, method) for method in ("sepca", *QUICK_RIVALS)),
            100.0 * share({cell: answers}, within=1),
            100.0 * cover({cell: answers}),
            float(np.mean([each.seconds for each in answers])),
        )
        for cell, answers in found.items()
    ]


def _pooled(found: Mapping[Cell, list[Answer]]) -> list[tuple[Any, ...]]:
    """All methods, pooled over cells at m = 5 and at m = 3."""
    pools = [_fair(_strong(found)), _pick(found, m=3.0), _pick(found, rank=0)]
    return [
        (method, *(100.0 * share(pool, method) for pool in pools), len(right(pools[0], method)))
        for method in ("sepca", *QUICK_RIVALS, *SLOW_RIVALS)
    ]


def _tables(found: Mapping[Cell, list[Answer]]) -> list[Table]:
    head = ("cell", "truth", "tables", "SePCA %", *(f"{name} %" for name in QUICK_RIVALS))
    return [
        Table(
            "Exact answers of all methods, %",
            ("method", "m = 5, with components", "m = 3", "truth 0", "tables at m = 5"),
            _pooled(found),
        ),
        Table(
            "Exact answers by cell",
            (*head, "SePCA within one %", "90 % sets cover %", "s"),
            _rows(found),
        ),
    ]


def _hopeless(found: Mapping[Cell, list[Answer]]) -> str:
    """Names the cells in which no method is right in half of the tables."""
    methods = ("sepca", *QUICK_RIVALS)
    names = [
        cell.name
        for cell, answers in found.items()
        if not any(share({cell: answers}, method) >= 0.5 for method in methods)
    ]
    return f"Right in less than half of the tables by every quick method: {'; '.join(names) or 'no cell'}."


def run(options: Options) -> Outcome:
    """The truth table, its pictures and its targets."""
    wanted = [Cell(kind, 100, 30, 3) for kind in list(FAMILIES)[::4]] if options.quick else cells()
    has_all = os.environ.get("ANYPCA_RIVALS") != "weak"
    found = collect([cell for cell in wanted if has_all or _is_weak(cell)], options)
    if options.quick:
        target = Target("m = 5, exact, one table of every fourth family", share(found), ">=", 0.8)
        return Outcome(_tables(found)[1:], [target])
    pictures = []
    drawn = [("truth_table.png", draw_table), ("truth_table_sets.png", draw_reliability)]
    for name, make in drawn if _has_rivals() else [("truth_table_alone.png", draw_reliability)]:
        if (path := options.picture(name)) is not None:
            make(found, path)
            pictures.append(name)
    notes = [_hopeless(found)] if _has_rivals() else []
    targets = _targets(found) if has_all else _set_targets(found)
    return Outcome(_tables(found)[not has_all :], targets, notes, pictures, is_whole=True)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
