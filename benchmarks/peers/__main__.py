"""The league table: ``python -m benchmarks.peers --python INTERPRETER [--page FILE] [--same] [--rows N] [--quick]``.

Every program of `benchmarks.peers.programs` fits the same tables on one thread, each call in a process of its own.
Counts are thinned: four fifths of each count, by chance, are fitted, the rest judges the expected counts. Programs
that iterate are called with 4, 16, 64, ... iterations until ``--cap`` processor seconds are spent. Those that fit the
same model (Poisson counts, log link, size factors, intercepts, k components, no penalty) are timed to relative gaps of
the deviance above the smallest that any of them has reached, without imports: whole calls, with the fewest iterations
that reach the gap, found by halving to a factor of 1.3. A call that does not end, or fails, is told. The interpreter is
that of an environment with glmpca, statsmodels, fastglmpca, torch, pyPLNmodels, mofapy2 and prince.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from benchmarks.tables import make_table

GAPS = (1e-2, 1e-3, 1e-4)
#: Programs whose objective is the deviance of the same model.
SAME = ("anypca EPCA", "glmpca", "fastglmpca")
COUNTS = (
    *SAME,
    "anypca EPCA, ridge 1",
    "anypca PLNPCA",
    "pyPLNmodels",
    "mofapy2",
    "scikit-learn NMF",
    "scikit-learn PCA",
    "scikit-learn SparsePCA",
    "scikit-learn KernelPCA",
    "prince CA",
)
REALS = (
    "anypca PPCA",
    "mofapy2",
    "scikit-learn IterativeImputer + PCA",
    "scikit-learn PCA",
    "prince PCA",
)
#: Programs without iterations to count.
DIRECT = ("scikit-learn PCA", "scikit-learn KernelPCA", "prince CA", "prince PCA")
_BUDGETS = (4, 16, 64, 256, 1024)
#: Factor between the numbers of iterations that miss and reach a gap.
_STEP = 1.3
_KEPT = 0.8
#: Of the tables of Poisson counts.
ROWS = (1000, 4000, 16_000)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PACKAGES = ("glmpca", "fastglmpca", "pyPLNmodels", "torch", "mofapy2", "prince", "scikit-learn", "numpy")


@dataclass
class Calls:
    """What the calls of one program on one table have shown."""

    budgets: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    """Deviances of counts, mean squared errors of numbers that were fitted."""
    held_out: float = np.nan
    """Of the last call: nats per row above the model without components, or root mean squared error."""
    megabytes: float = 0.0
    failure: str = ""

    def note(self, budget: int, seconds: float, loss: float) -> None:
        """A call that has ended."""
        self.budgets.append(budget)
        self.seconds.append(seconds)
        self.losses.append(loss)

    def reach(self, goal: float) -> float | None:
        """Processor seconds of the fastest call that gets there."""
        reached = [s for s, loss in zip(self.seconds, self.losses, strict=True) if loss <= goal]
        return min(reached, default=None)

    def bracket(self, goal: float) -> tuple[int, int] | None:
        """The most iterations that miss a goal and the fewest that reach it."""
        pairs = list(zip(self.budgets, self.losses, strict=True))
        enough = min((budget for budget, loss in pairs if loss <= goal), default=None)
        if enough is None:
            return None
        return max((budget for budget, loss in pairs if budget < enough and loss > goal), default=1), enough


class Counts:
    """A table of counts, thinned."""

    def __init__(self, name: str, counts: Any, k: int, programs: tuple[str, ...] = COUNTS) -> None:
        rng = np.random.default_rng(0)
        known = rng.binomial(counts.astype(int), _KEPT)
        rows, columns = known.any(axis=1), known.any(axis=0)
        self.x = known[rows][:, columns].astype(float)
        self.rest = counts[rows][:, columns] - self.x
        self.name, self.k, self.programs = f"{name} {len(self.x)} x {self.x.shape[1]}, k = {k}", k, programs
        self.offset = np.log(self.x.mean(axis=1))
        size = self.x.sum(axis=1, keepdims=True)
        self.null = self._likelihood(size * (self.x.sum(axis=0) / size.sum()))

    def store(self) -> dict[str, Any]:
        return {"x": self.x, "k": self.k, "offset": self.offset}

    def loss(self, mean: Any) -> float:
        rate = np.maximum(mean, 1e-12)
        return float(2.0 * (xlogy(self.x, self.x / rate) - self.x + rate).sum())

    def _likelihood(self, mean: Any) -> float:
        rate = np.maximum(mean, 1e-12) * (1.0 - _KEPT) / _KEPT
        return float((xlogy(self.rest, rate) - rate - gammaln(self.rest + 1.0)).sum() / len(self.x))

    def held_out(self, mean: Any) -> float:
        """Nats per row of the counts that were left out, above the model without components."""
        return self._likelihood(mean) - self.null


class Reals:
    """A table of real numbers of which some are hidden."""

    def __init__(self, n: int, p: int, k: int) -> None:
        rng = np.random.default_rng(0)
        self.whole = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(n, p))
        self.hidden = rng.random((n, p)) < 0.2
        self.x = np.where(self.hidden, np.nan, self.whole)
        self.name, self.k, self.programs = f"real numbers {n} x {p}, 20 % hidden, k = {k}", k, REALS

    def store(self) -> dict[str, Any]:
        return {"x": self.x, "k": self.k}

    def loss(self, mean: Any) -> float:
        return float(np.nanmean((self.x - mean) ** 2))

    def held_out(self, mean: Any) -> float:
        """Root mean squared error of the entries that were hidden."""
        return float(np.sqrt(np.mean((self.whole - mean)[self.hidden] ** 2)))


def tables(*, quick: bool, same: bool = False, rows: Sequence[int] = ROWS) -> Iterator[Any]:
    """The tables, one at a time; with ``same`` those of the programs of the same model, for these alone."""
    if quick:
        yield Counts("Poisson counts", make_table(60, 30, 2, size=0.6).toarray(), 2, SAME if same else COUNTS)
        if not same:
            yield Reals(60, 10, 2)
        return
    for n in rows:
        programs = SAME if same or n > 4000 else COUNTS
        yield Counts("Poisson counts", make_table(n, 1000, 10).toarray(), 10, programs)
    if same:
        return
    try:
        from anypca.datasets import load_pbmc_facs

        counts = load_pbmc_facs().X
        dense = counts[:1000].toarray() if hasattr(counts, "toarray") else np.asarray(counts[:1000])
        yield Counts("pbmc, cells and genes", dense[:, np.argsort(-dense.sum(axis=0))[:1000]], 10)
    except FileNotFoundError as error:
        print(f"pbmc is left out: {error}")
    yield Reals(1000, 50, 5)


def call(program: str, path: Path, budget: int, options: argparse.Namespace) -> dict[str, Any] | str:
    """One call in a process of its own: what it expects, its time and memory; or why there is nothing."""
    python = sys.executable if program.startswith(("anypca", "scikit-learn")) else options.python
    result = path.with_suffix(".result.npz")
    command = [
        python,
        "-P",  # else modules beside the file would hide packages of the same name
        str(Path(__file__).with_name("programs.py")),
        program,
        str(path),
        str(budget),
        str(result),
    ]
    environment = os.environ | dict.fromkeys(_THREADS, "1")
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=options.patience
        )
    except subprocess.TimeoutExpired:
        return f"no end within {options.patience:g} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:100]
    with np.load(result) as found:
        return dict(found)


def follow(program: str, table: Any, path: Path, options: argparse.Namespace) -> Calls:
    """Calls with more and more iterations, until the time is spent."""
    calls = Calls()
    for budget in (0,) if program in DIRECT else _BUDGETS:
        found = call(program, path, budget, options)
        if isinstance(found, str):
            calls.failure = found
            break
        if not np.isfinite(found["mean"]).all():
            calls.failure = f"expects something infinite after {budget} iterations"
            break
        calls.note(budget, float(found["seconds"]), table.loss(found["mean"]))
        calls.held_out, calls.megabytes = table.held_out(found["mean"]), float(found["megabytes"])
        # Four times as many iterations take up to four times as long.
        if sum(calls.seconds) + 4.0 * calls.seconds[-1] > options.cap or _has_ended(calls):
            break
    return calls


def refine(found: dict[str, Calls], table: Any, path: Path, options: argparse.Namespace) -> None:
    """Further calls of the programs of the same model, between those that miss a gap and those that reach it."""
    same = [program for program in SAME if program in found and found[program].losses]
    best = min((min(found[program].losses) for program in same), default=np.inf)
    for program in same:
        for gap in GAPS:
            while bracket := found[program].bracket(best * (1.0 + gap)):
                low, high = bracket
                middle = round(np.sqrt(low * high))
                if high <= _STEP * low or middle in (low, high):
                    break
                answer = call(program, path, middle, options)
                if isinstance(answer, str):
                    break
                found[program].note(middle, float(answer["seconds"]), table.loss(answer["mean"]))


def _has_ended(calls: Calls) -> bool:
    """Whether four times the iterations changed nothing."""
    return len(calls.losses) > 1 and abs(calls.losses[-2] - calls.losses[-1]) <= 1e-7 * abs(calls.losses[-1])


def lines(table: Any, found: dict[str, Calls]) -> list[str]:
    """The part of the page on one table."""
    is_counts = isinstance(table, Counts)
    what = (
        "held-out nats per row above the null model"
        if is_counts
        else "root mean squared error of hidden entries"
    )
    same = [min(found[program].losses) for program in SAME if program in found and found[program].losses]
    head = " | ".join(f"s to {gap:g}" for gap in GAPS) if is_counts else "mean square of fitted"
    text = [f"## {table.name}", "", f"| program | s of the longest call | {head} | {what} | MB | remark |"]
    text.append("|---|---|" + "---|" * (len(GAPS) if is_counts else 1) + "---|---|---|")
    for program, calls in found.items():
        last = f"{max(calls.seconds):.1f}" if calls.seconds else ""
        if is_counts:
            goals = [calls.reach(min(same) * (1.0 + gap)) if program in SAME else None for gap in GAPS]
            middle = " | ".join(_shown(goal, calls, program) for goal in goals)
        else:
            middle = f"{calls.losses[-1]:.3f}" if calls.losses else ""
        judged = f"{calls.held_out:.3f}" if calls.losses else ""
        text.append(f"| {program} | {last} | {middle} | {judged} | {calls.megabytes:.0f} | {calls.failure} |")
    return [*text, "", *([ahead(found, min(same) * (1.0 + GAPS[-1])), ""] if is_counts and same else [])]


def ahead(found: dict[str, Calls], goal: float) -> str:
    """How many times longer the peers of the same model take to a goal; for one that misses it, its longest call."""
    ours = found[SAME[0]].reach(goal)
    if ours is None:
        return f"{SAME[0]} does not come to a gap of {GAPS[-1]:g}."
    told = []
    for program in SAME[1:]:
        if program in found and found[program].seconds:
            theirs = found[program].reach(goal)
            factor = (max(found[program].seconds) if theirs is None else theirs) / ours
            told.append(f"{program} {'more than ' if theirs is None else ''}{factor:.1f}")
    return (
        f"Times to a gap of {GAPS[-1]:g} in units of that of {SAME[0]}: {', '.join(told) or 'no peer ran'}."
    )


def _shown(goal: float | None, calls: Calls, program: str) -> str:
    if program not in SAME or not calls.seconds:
        return ""
    return f"> {max(calls.seconds):.1f}" if goal is None else f"{goal:.2f}"


def floors() -> str:
    """What a product and an exponential take here and now."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(512, 1000)), rng.normal(size=(1000, 55))
    best_product = min(_timed(lambda: a @ b) for _ in range(20))
    best_exp = min(_timed(lambda: np.exp(a)) for _ in range(20))
    return (
        f"Floors in the same run: a product of 512 x 1000 by 1000 x 55 does {2 * a.size * 55 / best_product / 1e9:.0f} "
        f"GFLOP/s, an exponential takes {best_exp / a.size * 1e9:.1f} ns."
    )


def _timed(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def versions(python: str) -> str:
    """Of the peers, in their environment, and of anypca."""
    code = (
        "import importlib.metadata as m\n"
        f"for n in {_PACKAGES!r}:\n"
        "    try: print(n, m.version(n))\n"
        "    except m.PackageNotFoundError: print(n, 'not installed')"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    import anypca

    return ", ".join([f"anypca {anypca.__version__}", *done.stdout.strip().splitlines()])


def write_page(parts: list[str], options: argparse.Namespace) -> str:
    """The page."""
    today = datetime.date.today().isoformat()
    head = [
        "# anypca and its peers, measured",
        "",
        f"Written by `python -m benchmarks.peers` on {today}; {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, one thread, processor seconds. {versions(options.python)}.",
        "",
        "Counts are thinned: four fifths of each are fitted, the rest judges. Times to a gap are those of the fastest",
        "call whose deviance is so near to the smallest that EPCA, glmpca and fastglmpca have reached, all three",
        f"without a penalty; calls have 4, 16, 64, ... iterations while they fit into {options.cap:g} s, then numbers",
        f"between, to a factor of {_STEP:g}. `>`: the gap was not reached in the longest call. Others fit other",
        "models, and have no gap. PCA, SparsePCA and KernelPCA see log(1 + x / size); what they expect is scaled to",
        "the columns' means. mofapy2 has neither size factors nor intercepts for counts, and what it expects,",
        "log(1 + exp(z'w)), is our reading: its figures on counts tell of that reading, not of the program. Memory is",
        "that of the process, libraries included.",
        "",
        floors(),
        "",
    ]
    return "\n".join([*head, *parts]).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the page, and write it if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="an interpreter that can import the peers")
    parser.add_argument("--cap", type=float, default=15.0, help="processor seconds of a program on a table")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a call is ended")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--quick", action="store_true", help="small tables")
    parser.add_argument("--same", action="store_true", help="the programs of the same model alone, on counts")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="sizes of the Poisson tables")
    options = parser.parse_args(arguments)
    parts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for table in tables(quick=options.quick, same=options.same, rows=options.rows):
            path = Path(folder) / "table.npz"
            np.savez(path, **table.store())
            found = {program: follow(program, table, path, options) for program in table.programs}
            refine(found, table, path, options)
            parts += lines(table, found)
            print("\n".join(parts[-len(found) - 6 :]), flush=True)
    page = write_page(parts, options)
    if options.page is not None:
        options.page.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
