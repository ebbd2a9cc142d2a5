"""Whether two commits give the same estimates.

``python -m benchmarks.same_estimates record FILE`` fits every estimator with every family that it takes
(`benchmarks.estimate_cases`) and writes what the fits say: objectives, fitted attributes, and what the methods for
rows return, on training and new rows. ``python -m benchmarks.same_estimates compare BEFORE AFTER`` prints one line per
fit and exits non-zero on any miss. To record another commit, let this file import its package::

    git worktree add --detach ../before COMMIT
    PYTHONPATH=../before/src python -m benchmarks.same_estimates record before.npz

Every fit has the smallest tol of 1e-12, 1e-11, ... at which it converges (`Case.tightest` names exceptions). Objectives
must agree to 1e-8 of their size, arrays to 1e-6 of their largest entry; whole numbers, truth values and families
exactly. An array that vanished is a miss, one that is new is listed. Nothing is rotated, reordered or mirrored before
it is compared: signs and order are part of an estimate.

Left out, since they say how a fit went and not where it ended: the number of iterations, all of a trace but its end,
the status in words, the order in which components left, and the evidences of dimensions that lost, which are not
driven to convergence. ``inference="hmc"`` is left out altogether: its chains turn a difference in the last bit into
other draws.
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from anypca.exceptions import ConvergenceWarning
from benchmarks.estimate_cases import Case, Table, all_cases

OBJECTIVE_TOLERANCE = 1e-8
ARRAY_TOLERANCE = 1e-6
# Another processor rounds the matrix products that tables are drawn from differently.
TABLE_TOLERANCE = 1e-12
# A fit that needs more says nothing about the sixth digit.
LOOSEST = 1e-6
#: How a fit went, not where it ended.
_LEFT_OUT = {
    "objective_trace_", "n_iter_", "status_", "pruning_path_", "evidence_by_rank_", "family_report_",
}  # fmt: skip
#: Methods of rows, beside those that need more than the rows.
_ROW_METHODS = (
    "transform", "score_samples", "impute", "plug_in_log_likelihood", "posterior_covariance", "piece_proba",
    "predict_piece", "reconstruct",
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ record


def fit(case: Case) -> tuple[Any, float]:
    """The fitted model and the tolerance that it reached, 0 for a model without."""
    table = case.table
    given = {name: value[: table.n_fit] for name, value in table.companions.items()}
    if table.weight is not None:
        given["sample_weight"] = table.weight
    model = clone(case.model).set_params(n_jobs=1)
    if "tol" not in model.get_params():
        return model.fit(table.X[: table.n_fit], **given), 0.0
    tol = case.tightest
    model.set_params(max_iter=case.max_iter)
    while not model.set_params(tol=tol).fit(table.X[: table.n_fit], **given).converged_ and tol < LOOSEST:
        tol *= 10.0
    return model, tol


def flatten(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Numbers and arrays under their names; those of a dict or a tuple each under its own; nothing of other things."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from flatten(f"{name}[{key}]", entry)
    elif isinstance(value, tuple):
        for position, entry in enumerate(value):
            yield from flatten(f"{name}[{position}]", entry)
    elif isinstance(value, Number | np.ndarray | np.bool):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            yield name, array


def attributes_of(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The fitted public attributes that are numbers or hold them."""
    for name in dir(model):
        if name.endswith("_") and not name.startswith("_") and name not in _LEFT_OUT and hasattr(model, name):
            yield from flatten(name, getattr(model, name))


def call(model: Any, name: str, *arguments: Any, **given: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What a method returns, with standard deviations where it has them; nothing if the model lacks it."""
    if hasattr(model, name):
        method = getattr(model, name)
        takes = inspect.signature(method).parameters
        given = {key: value for key, value in given.items() if key in takes}
        if "return_std" in takes:
            given["return_std"] = True
        yield from flatten(name, method(*arguments, **given))


def rows_of(model: Any, table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """What the methods say of the rows of a table, and draws."""
    given = table.companions
    for name in _ROW_METHODS:
        yield from call(model, name, table.X, **given)
    if getattr(model, "fit_inverse_transform", True):
        yield from call(model, "inverse_transform", model.transform(table.X, **given), **given)
    row, column = np.nonzero(np.isnan(table.X))
    if not len(row):
        row = np.arange(0, len(table.X), 3)
        column = row % table.X.shape[1]
    yield from call(model, "entry_log_likelihood", table.X, row, column, table.values[row, column], **given)
    yield from call(model, "entry_posterior", table.X, row, column, **given)
    yield from call(model, "sample", len(table.X), random_state=0, **given)
    yield from call(model, "sample_latent", table.X, random_state=0, **given)
    for name in ("get_covariance", "get_precision"):
        yield from call(model, name)


def record_case(case: Case) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What to keep of a case: facts in words, and arrays by kind and name."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, tol = fit(case)
    arrays = {f"attribute/{name}": value for name, value in attributes_of(model)}
    arrays |= {f"rows/{name}": value for name, value in rows_of(model, case.table)}
    arrays["table/X"] = case.table.X
    trace = getattr(model, "objective_trace_", ())
    if len(trace):
        arrays["objective/last"] = np.asarray(trace[-1])
    facts = {
        "name": case.name,
        "tol": tol,
        "converged": bool(model.converged_),
        "n_components": int(model.n_components_),
        "family": str(getattr(model, "family_", "")),
        "seconds": time.process_time() - start,
    }
    return facts, arrays


def record(path: Path, only: str) -> int:
    """Fit all cases and write them."""
    header, arrays = [], {}
    for case in all_cases():
        if only not in case.name:
            continue
        facts, found = record_case(case)
        arrays |= {f"{case.name}/{key}": value for key, value in found.items()}
        header.append(facts)
        print(
            f"{facts['name']:<62} k {facts['n_components']} tol {facts['tol']:.0e} {facts['seconds']:6.2f} s"
            + ("" if facts["converged"] else "  NOT CONVERGED"),
            flush=True,
        )
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)
    print(
        f"{len(header)} fits in {sum(facts['seconds'] for facts in header):.0f} s of processor time: {path}"
    )
    return int(not all(facts["converged"] for facts in header))


# ----------------------------------------------------------------------------------------------- compare


@dataclass(frozen=True)
class Recorded:
    """What was kept of one case."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def of_kind(self, kind: str) -> dict[str, np.ndarray]:
        """The arrays of a kind, by name."""
        return {key.removeprefix(kind): value for key, value in self.arrays.items() if key.startswith(kind)}


@dataclass(frozen=True)
class Worst:
    """The largest difference of several arrays and where it is."""

    difference: float = 0.0
    name: str = ""

    def __str__(self) -> str:
        return f"{self.difference:.1e} {self.name:<24.24}"


def read(path: Path) -> dict[str, Recorded]:
    """The cases of a file by name."""
    with np.load(path) as stored:
        header = json.loads(str(stored["header"]))
        found: dict[str, dict[str, np.ndarray]] = {facts["name"]: {} for facts in header}
        for key in stored.files:
            if key != "header":
                name, rest = key.split("/", 1)
                found[name][rest] = stored[key]
    return {facts["name"]: Recorded(facts, found[facts["name"]]) for facts in header}


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Largest difference relative to the largest entry; infinite if shapes or gaps differ, or whole numbers do."""
    if before.shape != after.shape:
        return np.inf
    if before.dtype.kind in "biu":
        return 0.0 if np.array_equal(before, after) else np.inf
    gap = np.isnan(before)
    if not np.array_equal(gap, np.isnan(after)):
        return np.inf
    distance = np.abs(np.where(gap | (before == after), 0.0, before - after)).max(initial=0.0)
    scale = np.abs(before[np.isfinite(before)]).max(initial=0.0)
    return float(distance / scale) if distance else 0.0


def worst(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> Worst:
    """The largest difference; that of an array that vanished is infinite.

    A method that has learned to tell standard deviations returns two arrays, of which the first is compared.
    """
    there = {name: after.get(name, after.get(f"{name}[0]")) for name in before}
    found = [
        Worst(np.inf if there[name] is None else difference(value, there[name]), name)
        for name, value in before.items()
    ]
    return max(found, key=lambda one: one.difference, default=Worst())


def new_arrays(before: Recorded, after: Recorded) -> list[str]:
    """Names of arrays that only the second has."""
    return sorted(key.split("/", 1)[1] for key in after.arrays if key not in before.arrays)


def is_reordered(before: Recorded, after: Recorded) -> bool:
    """Whether the components are the same but come in another order: a near-tie that rounding has decided."""
    ours, theirs = (found.of_kind("attribute/").get("components_") for found in (before, after))
    if ours is None or theirs is None or ours.shape != theirs.shape or not ours.size:
        return False
    closest = np.abs(ours[:, None] - theirs[None]).max(axis=2)
    order = closest.argmin(axis=1)
    scale = ARRAY_TOLERANCE * np.abs(ours).max()
    return bool((closest.min(axis=1) <= scale).all() and (order != np.arange(len(order))).any())


@dataclass(frozen=True)
class Verdict:
    """How two records of a case differ."""

    objective: Worst
    attributes: Worst
    rows: Worst
    misses: tuple[str, ...]


def judge(before: Recorded, after: Recorded) -> Verdict:
    """Compare two records of one case."""
    objective, attributes, rows, table = (
        worst(before.of_kind(kind), after.of_kind(kind))
        for kind in ("objective/", "attribute/", "rows/", "table/")
    )
    misses = {
        "other table": table.difference > TABLE_TOLERANCE,
        "other dimension": before.facts["n_components"] != after.facts["n_components"],
        "other family": before.facts["family"] != after.facts["family"] and bool(before.facts["family"]),
        "not converged": before.facts["converged"] and not after.facts["converged"],
        "objective": objective.difference > OBJECTIVE_TOLERANCE,
        "attributes": attributes.difference > ARRAY_TOLERANCE,
        "rows": rows.difference > ARRAY_TOLERANCE,
        "components in another order": is_reordered(before, after),
    }
    return Verdict(objective, attributes, rows, tuple(name for name, missed in misses.items() if missed))


def line(before: Recorded, after: Recorded, verdict: Verdict) -> str:
    """One line of the table."""
    dimensions, tolerances = ((before.facts[key], after.facts[key]) for key in ("n_components", "tol"))
    return (
        f"{before.facts['name']:<58} {dimensions[0]:>2}{dimensions[1]:>3} {tolerances[0]:.0e} {tolerances[1]:.0e} "
        f"{verdict.objective.difference:>9.1e} {verdict.attributes} {verdict.rows} "
        f"{', '.join(verdict.misses) or 'same'}"
    )


def compare(first: Path, second: Path) -> int:
    """Print the table; non-zero if something differs."""
    before, after = read(first), read(second)
    print(
        f"{'estimator, family, table':<59}k    k  tol   tol   objective attributes{'':<23}rows{'':<29}verdict"
    )
    missed = 0
    for name, ours in before.items():
        if name not in after:
            print(f"{name:<58} is gone")
            missed += 1
            continue
        verdict = judge(ours, after[name])
        missed += bool(verdict.misses)
        print(line(ours, after[name], verdict))
    print_new(before, after)
    print(f"{len(before)} fits compared, {missed} differ")
    return int(missed > 0)


def print_new(before: dict[str, Recorded], after: dict[str, Recorded]) -> None:
    """List the fits and arrays that only the second record has."""
    found: dict[str, set[str]] = {}
    for name in before.keys() & after.keys():
        estimator = name.split(",")[0]
        found.setdefault(estimator, set()).update(new_arrays(before[name], after[name]))
    for estimator, names in sorted(found.items()):
        if names:
            print(f"new in {estimator}: {', '.join(sorted(names))}")
    for name in after:
        if name not in before:
            print(f"new fit: {name}")


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="fit everything and write it to a file")
    recorder.add_argument("file", type=Path)
    recorder.add_argument("--only", default="", help="cases whose name contains this")
    comparer = commands.add_parser("compare", help="compare two such files")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        return record(options.file, options.only)
    return compare(options.before, options.after)


if __name__ == "__main__":
    raise SystemExit(main())
