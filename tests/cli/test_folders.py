"""Offsets and covariates, new rows, and the report of a folder; data sets by name."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import anypca

TABLE = {
    "schema",
    "anypca",
    "command",
    "source",
    "rows",
    "columns",
    "missing_fraction",
    "notes",
    "model",
    "warnings",
}


@pytest.fixture
def fitted(surveyed, tmp_path, call_json):
    """A folder of EPCA with an offset and covariates."""
    words = ["--offset=log(effort)", "--covariates=height,side", "--family=poisson", "--model=epca"]
    document = call_json("fit", surveyed, *words, "-o", tmp_path / "fitted")
    assert document["offset"] == "log(effort)"
    assert document["covariate_levels"] == {"side": ["north", "south"]}
    assert any("'side'" in note and "'south'" in note for note in document["notes"])
    return tmp_path / "fitted"


def read_scores(path):
    return pd.read_csv(path).set_index("row")


def test_offset_and_covariates_reach_the_model_and_new_rows_are_aligned_by_name(
    fitted, surveyed, tmp_path, call_json
):
    table = pd.read_csv(surveyed)
    model = anypca.EPCA(2, family="poisson", random_state=0)
    covariates = np.column_stack([table["height"], table["side"] == "south"])
    model.fit(table[list("abcdef")], offset=np.log(table["effort"]), covariates=covariates)
    loadings = pd.read_csv(fitted / "loadings.csv")[["component_1", "component_2"]]
    # Both stop at a scaled gradient of 1e-5; what differs in the last bit before is not the same below that.
    np.testing.assert_allclose(loadings.T, model.components_, atol=5e-5)

    moved = table[["side", "f", "e", "effort", "d", "c", "b", "a", "height", "plot"]].assign(extra=1.5)
    moved.iloc[::-1].to_csv(tmp_path / "new.csv", index=False)
    told = call_json("transform", fitted, tmp_path / "new.csv", "--id", "plot", "-o", tmp_path / "s.csv")
    assert set(told) == TABLE | {"model_file", "n_components", "file"}
    assert any("'extra'" in note for note in told["notes"])
    before = read_scores(fitted / "scores.csv")
    pd.testing.assert_frame_equal(read_scores(tmp_path / "s.csv").loc[before.index], before, atol=1e-8)

    table.drop(columns="c").to_csv(tmp_path / "new.csv", index=False)
    told = call_json("transform", fitted, tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    assert any("missing" in note and "'c'" in note for note in told["notes"])
    assert not np.allclose(read_scores(tmp_path / "s.csv")["component_1"], before["component_1"])


def test_a_plain_offset_is_taken_as_it_is(surveyed, tmp_path, call_json):
    words = ["--offset", "height", "--model", "epca", "--family", "gaussian", "-k", 1, "-o", tmp_path / "out"]
    assert call_json("fit", surveyed, *words)["column_names"] == [*"abcdef", "effort"]
    table = pd.read_csv(surveyed)
    model = anypca.EPCA(1, family="gaussian", random_state=0)
    model.fit(table[[*"abcdef", "effort"]], offset=table["height"])
    loadings = pd.read_csv(tmp_path / "out" / "loadings.csv")["component_1"]
    np.testing.assert_allclose(loadings, model.components_[0], atol=1e-4)


CHANGES = {
    "names": (lambda t: t.rename(columns=dict(zip("abcdef", "uvwxyz", strict=True))), "no column of the fit"),
    "level": (lambda t: t.assign(side="east"), "'plot0'.* 'east'.* 'north', 'south'"),
    "offset": (lambda t: t.drop(columns="effort"), "'effort'"),
    "empty": (lambda t: t.assign(height=np.nan), "'plot0'"),
}


def test_new_rows_that_do_not_fit(fitted, surveyed, tmp_path, call):
    for name, (change, complaint) in CHANGES.items():
        change(pd.read_csv(surveyed)).to_csv(tmp_path / "new.csv", index=False)
        code, out, err = call("transform", fitted, tmp_path / "new.csv", "-o", tmp_path / "s.csv")
        assert (code, out) == (2, ""), name
        assert re.search(complaint, err), err
        assert not (tmp_path / "s.csv").exists()


def test_models_that_need_all_columns_say_so(counts, tmp_path, call):
    assert call("fit", counts, "--model", "gsppca", "-k", 2, "-o", tmp_path / "out")[0] == 0
    pd.read_csv(counts).drop(columns="c").to_csv(tmp_path / "new.csv", index=False)
    code, _, err = call("transform", tmp_path / "out", tmp_path / "new.csv")
    assert code == 2
    assert "GSPPCA needs all columns" in err
    assert "'c'" in err


def test_scores_replace_scores_only(fitted_counts, tmp_path, call):
    out, table, _ = fitted_counts
    (tmp_path / "s.csv").write_text("mine")
    words = ["transform", out, table, "-o", tmp_path / "s.csv"]
    code, _, err = call(*words)
    assert (code, (tmp_path / "s.csv").read_text()) == (2, "mine")
    assert "s.csv" in err
    assert "--force" in err
    assert call(*words, "--force")[0] == 0
    assert call(*words)[0] == 0
    pd.testing.assert_frame_equal(read_scores(tmp_path / "s.csv"), read_scores(out / "scores.csv"), atol=1e-8)


def test_report_of_a_folder(fitted, surveyed, tmp_path, call, call_json):
    (fitted / "report.html").unlink()
    assert set(call_json("report", fitted)) == TABLE | {"file"}
    assert "EPCA of surveyed.csv" in (fitted / "report.html").read_text(encoding="utf-8")
    surveyed.rename(tmp_path / "moved.csv")
    code, _, err = call("report", fitted)
    assert code == 2
    assert "--table FILE" in err
    assert call("report", fitted, "--table", tmp_path / "moved.csv")[0] == 0


def test_a_table_given_by_a_relative_path_may_move_with_its_folder(counts, tmp_path, call, monkeypatch):
    (tmp_path / "here").mkdir()
    counts.rename(tmp_path / "here" / "t.csv")
    monkeypatch.chdir(tmp_path / "here")
    assert call("fit", "t.csv", "--model", "ppca", "-k", 1, "-o", "out")[0] == 0
    assert json.loads((tmp_path / "here/out/summary.json").read_text(encoding="utf-8"))["path"] == "../t.csv"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").rename(tmp_path / "there")
    assert call("report", "there/out")[0] == 0


@pytest.mark.parametrize("name", ["model.anypca", "summary.json"])
def test_folders_that_are_mixed_are_called_incomplete(counts, tmp_path, call, name):
    for k, out in ((1, "a"), (2, "b")):
        assert call("fit", counts, "--model", "ppca", "-k", k, "-o", tmp_path / out)[0] == 0
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    for words in (["transform", tmp_path / "a", counts], ["report", tmp_path / "a"]):
        code, _, err = call(*words)
        assert code == 2
        assert f"incomplete: {name}" in err
    (tmp_path / "a" / "anypca-manifest.json").unlink()
    assert call("transform", tmp_path / "a", counts, "-o", tmp_path / "s.csv")[0] == 0


def test_data_sets_by_name(tmp_path, call, call_json, monkeypatch):
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    found = call_json("datasets")
    assert set(found) == {"schema", "anypca", "command", "folder", "variable", "datasets"}
    by_name = {row["name"]: row for row in found["datasets"]}
    assert set(by_name["iris"]) == {"name", "loader", "summary", "files", "is_found"}
    assert by_name["iris"]["is_found"]
    assert not by_name["usps"]["is_found"]
    assert "iris" in call("datasets")[1]
    # The report finds the data set by its name.
    assert call("fit", "iris", "--model", "ppca", "-o", tmp_path / "out")[0] == 0
    assert call("report", tmp_path / "out")[0] == 0


def test_fit_on_a_cluster(counts, tmp_path, call):
    distributed = pytest.importorskip("distributed")
    words = ["fit", counts, "--model", "epca", "--family", "poisson", "--seed", 1]
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        code, _, err = call(*words, "--dask", cluster.scheduler_address, "-o", tmp_path / "cluster")
        assert (code, err) == (0, "")
    assert call(*words, "-o", tmp_path / "here")[0] == 0
    there, here = (read_scores(tmp_path / name / "scores.csv") for name in ("cluster", "here"))
    pd.testing.assert_frame_equal(there, here, atol=1e-6)
