"""The JSON output: its keys are a promise, see docs/command_line.md."""

from __future__ import annotations

import pytest

from anypca.cli._printing import dump, plain

HEAD = {"schema", "anypca", "command"}
FIT = {
    "source",
    "path",
    "model",
    "parameters",
    "seed",
    "rows",
    "columns",
    "column_names",
    "missing_fraction",
    "reading",
    "offset",
    "covariates",
    "covariate_levels",
    "missing_codes",
    "notes",
    "warnings",
    "findings",
    "families",
    "column_families",
    "converged",
    "n_iter",
    "objective",
    "n_components",
    "zero_loadings_fraction",
    "components",
    "files",
    "folder",
}
COMPARE = {
    "source",
    "rows",
    "columns",
    "missing_fraction",
    "notes",
    "held_out_fraction",
    "n_splits",
    "models",
}
COMPARED = {
    "name",
    "model",
    "held_out_log_likelihood",
    "standard_error",
    "n_components",
    "explained_deviance",
    "zero_loadings_fraction",
    "seconds",
    "converged",
    "remarks",
}
SELECT = {
    "source",
    "model",
    "seed",
    "rows",
    "columns",
    "missing_fraction",
    "notes",
    "warnings",
    "criterion",
    "best_rank",
    "n_components",
    "ranks",
}
TABLE = {"source", "rows", "columns", "missing_fraction", "notes"}
TRANSFORM = TABLE | {"model", "model_file", "n_components", "warnings", "file"}
REPORT = TABLE | {"model", "warnings", "file"}


def test_fit_transform_and_report(counts, tmp_path, call_json):
    out = tmp_path / "out"
    found = call_json("fit", counts, "--model", "epca", "--family", "poisson", "-o", out)
    assert set(found) == HEAD | FIT
    assert (found["schema"], found["command"], found["n_components"]) == (1, "fit", 2)
    assert set(found["components"][0]) == {"name", "explained_deviance_ratio", "top_loadings"}
    assert set(found["families"][0]) == {"family", "reason", "columns"}
    assert set(call_json("transform", out, counts, "-o", tmp_path / "s.csv")) == HEAD | TRANSFORM
    assert set(call_json("report", out)) == HEAD | REPORT


def test_compare(counts, call_json):
    found = call_json("compare", counts, "--models", "ppca", "-k", 1)
    assert set(found) == HEAD | COMPARE
    assert set(found["models"][0]) == COMPARED


def test_select(counts, call_json):
    found = call_json("select", counts, "--model", "ppca", "--ranks", "1,2")
    assert set(found) == HEAD | SELECT
    assert [row["rank"] for row in found["ranks"]] == [1, 2]


def test_datasets(call_json, monkeypatch, tmp_path):
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    found = call_json("datasets")
    assert set(found) == HEAD | {"folder", "variable", "datasets"}
    assert set(found["datasets"][0]) == {"name", "loader", "summary", "files", "is_found"}
    by_name = {row["name"]: row for row in found["datasets"]}
    assert by_name["digits_counts"]["is_found"]
    assert by_name["digits_counts"]["files"] == []
    assert not by_name["oaks"]["is_found"]


def test_errors_are_no_json(counts, call):
    code, out, err = call("fit", counts, "--model", "zzz", "--json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_numbers_that_json_does_not_know(value):
    assert plain({"a": [value, 1.5]}) == {"a": [None, 1.5]}
    assert "NaN" not in dump("fit", {"a": value})


def test_select_compare(counts, tmp_path, call_json):
    out = tmp_path / "out"
    found = call_json(
        "select", counts, "--compare", "--methods", "parallel,minka", "--family", "poisson", "-o", out
    )
    assert set(found) == HEAD | TABLE | {"family", "seed", "warnings", "methods"}
    assert [set(row) for row in found["methods"]] == [{"method", "rank", "seconds", "remark"}] * 2
    assert {"selection.csv", "selection.json", "selection.png"} <= {path.name for path in out.iterdir()}
