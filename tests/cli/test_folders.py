"""Offsets and covariates; projecting new rows; the report of a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anypca
from anypca.cli import _commands
from anypca.cli._input_table import TableRequest, load_table


@pytest.fixture
def fitted(surveyed, tmp_path, call):
    """A folder of EPCA with an offset and covariates."""
    out = tmp_path / "fitted"
    words = [
        "--offset",
        "log(effort)",
        "--covariates",
        "height,side",
        "--family",
        "poisson",
        "--model",
        "epca",
    ]
    code, _, err = call("fit", surveyed, *words, "-o", out)
    assert (code, err) == (0, "")
    return out


def test_offset_and_covariates_reach_the_model(fitted, surveyed):
    table = pd.read_csv(surveyed)
    model = anypca.EPCA(2, family="poisson", random_state=0)
    covariates = np.column_stack([table["height"], table["side"] == "south"])
    model.fit(table[list("abcdef")], offset=np.log(table["effort"]), covariates=covariates)
    loadings = pd.read_csv(fitted / "loadings.csv")
    # Both stop at a scaled gradient of 1e-5; what differs in the last bit before is not the same below that.
    np.testing.assert_allclose(
        loadings[["component_1", "component_2"]].to_numpy().T, model.components_, atol=5e-5
    )
    summary = json.loads((fitted / "summary.json").read_text())
    assert summary["offset"] == "log(effort)"
    assert summary["covariate_levels"] == {"side": ["north", "south"]}
    assert "covariate 'side' is text: one column for each of 'south'" in summary["notes"]


def test_plain_offset_is_taken_as_it_is(surveyed):
    table = load_table(TableRequest(str(surveyed), offset="height"))
    np.testing.assert_array_equal(table.offset, pd.read_csv(surveyed)["height"])
    assert table.frame.column_names == (*"abcdef", "effort")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--offset", "efort"], "no column 'efort'. Did you mean 'effort'"),
        (["--offset", "side"], "--offset side: expected numbers; the column holds text such as"),
        (["--offset", "log(height)"], r"a logarithm needs values > 0; row 'plot\d+' has -"),
        (["--covariates", "plot", "--id", "plot"], "cannot both name the rows"),
        (["--offset", "effort", "--model", "ppca"], "ppca takes no offset. Leave --offset out"),
        (["--covariates", "height", "--model", "kernel"], "kernel takes no covariates"),
        (["--id", "zzz"], "no column 'zzz'"),
        (["--set", "ridgee=2", "--model", "epca"], "Did you mean 'ridge'"),
        (["--dask", "tcp://x:1", "--threads", "2"], "--threads has no effect with --dask"),
    ],
    ids=lambda value: "-".join(value)[2:] if isinstance(value, list) else "",
)
def test_options_that_cannot_be_honoured(surveyed, tmp_path, call, options, complaint):
    code, out, err = call("fit", surveyed, *options, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert re.fullmatch("error: [^\n]+\n", err)
    assert re.search(complaint, err), err
    assert not (tmp_path / "out").exists()


def test_no_scheduler_at_the_address(counts, tmp_path, call, monkeypatch):
    import distributed

    def refuse(address, timeout):
        raise OSError("Timed out")

    monkeypatch.setattr(distributed, "Client", refuse)
    code, _, err = call("fit", counts, "--dask", "tcp://127.0.0.1:9", "-o", tmp_path / "out")
    assert code == 2
    assert "no scheduler answers there" in err


def test_fit_on_a_cluster(counts, tmp_path, call):
    import distributed

    words = ["fit", counts, "--model", "epca", "--family", "poisson", "--seed", 1]
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        code, _, err = call(*words, "--dask", cluster.scheduler_address, "-o", tmp_path / "cluster")
        assert (code, err) == (0, "")
    assert call(*words, "-o", tmp_path / "here")[0] == 0
    there, here = (pd.read_csv(tmp_path / name / "scores.csv", index_col=0) for name in ("cluster", "here"))
    pd.testing.assert_frame_equal(there, here, atol=1e-6)


def test_new_rows_are_aligned_by_name(fitted, surveyed, tmp_path, call):
    table = pd.read_csv(surveyed)
    moved = table[["side", "f", "e", "effort", "d", "c", "b", "a", "height", "plot"]].assign(extra=1.5)
    moved.iloc[::-1].to_csv(tmp_path / "new.csv", index=False)
    code, said, err = call(
        "transform", fitted, tmp_path / "new.csv", "--id", "plot", "-o", tmp_path / "s.csv"
    )
    assert (code, err) == (0, "")
    assert "columns that the fit does not know are left out: 'extra'" in said
    again, before = (
        pd.read_csv(path).set_index("row") for path in (tmp_path / "s.csv", fitted / "scores.csv")
    )
    pd.testing.assert_frame_equal(again.loc[before.index], before, atol=1e-8)


def test_columns_that_new_rows_lack_are_missing(fitted, surveyed, tmp_path, call):
    pd.read_csv(surveyed).drop(columns="c").to_csv(tmp_path / "new.csv", index=False)
    code, said, _ = call("transform", fitted, tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    assert code == 0
    assert "columns of the fit that the table lacks are taken as missing: 'c'" in said
    before = pd.read_csv(fitted / "scores.csv")
    assert not np.allclose(pd.read_csv(tmp_path / "s.csv")["component_1"], before["component_1"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda t: t.rename(columns=dict(zip("abcdef", "uvwxyz", strict=True))),
            "no column of the fit is in this table",
        ),
        (
            lambda t: t.assign(side="east"),
            "row 'plot0' is 'east', which the fit has not seen. Use one of 'north', 'south'",
        ),
        (lambda t: t.drop(columns="effort"), "no column 'effort'"),
        (lambda t: t.assign(height=np.nan), "row 'plot0' has no value"),
    ],
    ids=["names", "level", "offset", "empty"],
)
def test_new_rows_that_do_not_fit(fitted, surveyed, tmp_path, call, change, complaint):
    change(pd.read_csv(surveyed)).to_csv(tmp_path / "new.csv", index=False)
    code, out, err = call("transform", fitted, tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    assert (code, out) == (2, "")
    assert re.search(complaint, err), err
    assert not (tmp_path / "s.csv").exists()


def test_models_that_need_all_columns_say_so(counts, tmp_path, call):
    assert call("fit", counts, "--model", "gsppca", "-k", 2, "-o", tmp_path / "out")[0] == 0
    pd.read_csv(counts).drop(columns="c").to_csv(tmp_path / "new.csv", index=False)
    code, _, err = call("transform", tmp_path / "out", tmp_path / "new.csv")
    assert code == 2
    assert "GSPPCA needs all columns of the fit; 'c' are not in this table" in err


def test_arrays_are_aligned_by_place(counts, tmp_path, call):
    assert call("fit", counts, "--model", "ppca", "-o", tmp_path / "out")[0] == 0
    X = pd.read_csv(counts).to_numpy(dtype=float)
    np.save(tmp_path / "new.npy", X)
    code, _, _ = call(
        "transform", tmp_path / "out" / "model.anypca", tmp_path / "new.npy", "-o", tmp_path / "s.csv"
    )
    assert code == 0
    before = pd.read_csv(tmp_path / "out" / "scores.csv")["component_1"]
    np.testing.assert_allclose(pd.read_csv(tmp_path / "s.csv")["component_1"], before, atol=1e-8)
    np.save(tmp_path / "narrow.npy", X[:, :4])
    code, _, err = call("transform", tmp_path / "out", tmp_path / "narrow.npy", "-o", tmp_path / "n.csv")
    assert code == 2
    assert "no column of the fit" in err


def test_report_of_a_folder(fitted, surveyed, tmp_path, call):
    (fitted / "report.html").unlink()
    code, _, err = call("report", fitted)
    assert (code, err) == (0, "")
    assert "EPCA of surveyed.csv" in (fitted / "report.html").read_text(encoding="utf-8")
    surveyed.rename(tmp_path / "moved.csv")
    code, _, err = call("report", fitted)
    assert code == 2
    assert "no longer at" in err
    assert "--table FILE" in err
    assert call("report", fitted, "--table", tmp_path / "moved.csv")[0] == 0


def test_a_table_given_by_a_relative_path_may_move_with_its_folder(tmp_path, call, monkeypatch):
    (tmp_path / "here").mkdir()
    np.savetxt(tmp_path / "here" / "t.csv", np.random.default_rng(0).normal(size=(20, 3)), delimiter=",")
    monkeypatch.chdir(tmp_path / "here")
    assert call("fit", "t.csv", "--model", "ppca", "-k", 1, "-o", "out")[0] == 0
    assert json.loads(Path("out/summary.json").read_text(encoding="utf-8"))["path"] == "../t.csv"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").rename(tmp_path / "there")
    assert call("report", "there/out")[0] == 0


def test_report_of_a_data_set_is_found_by_its_name(tmp_path, call):
    assert call("fit", "digits_counts", "--model", "ppca", "-o", tmp_path / "out")[0] == 0
    assert call("report", tmp_path / "out")[0] == 0


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda folder: folder.mkdir(), "holds no model.anypca. Give the folder that anypca fit wrote"),
        (lambda folder: None, "there is no file"),
        (lambda folder: folder.write_bytes(b"PK"), "is no model file of anypca"),
    ],
    ids=["empty", "absent", "foreign"],
)
def test_folders_without_a_model(tmp_path, call, make, complaint):
    make(tmp_path / "out")
    code, _, err = call("report", tmp_path / "out")
    assert code == 2
    assert complaint in err


@pytest.mark.parametrize("command", ["transform", "report"])
def test_ctrl_c_leaves_whole_files_or_none(fitted, surveyed, tmp_path, call, monkeypatch, command):
    (fitted / "report.html").write_text("old")

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    if command == "report":
        monkeypatch.setattr(_commands, "write_folder_report", stop)
    else:
        monkeypatch.setattr(_commands, "project", stop)
    words = (
        ["report", fitted]
        if command == "report"
        else ["transform", fitted, surveyed, "-o", tmp_path / "s.csv"]
    )
    before = sorted(tmp_path.rglob("*"))
    assert call(*words)[0] == 130
    assert sorted(tmp_path.rglob("*")) == before
    assert (fitted / "report.html").read_text() == "old"
