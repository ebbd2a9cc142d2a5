"""The command line: files, account, errors."""

from __future__ import annotations

import html
import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse

import anypca
from anypca.cli import _commands, _input_table, main
from anypca.cli._fitting import Runtime
from anypca.cli._outcome import Outcome
from anypca.datasets import load_digits_counts, make_low_rank

FILES = [
    "anypca-manifest.json",
    "biplot.png",
    "contributions_columns.csv",
    "contributions_rows.csv",
    "loadings.csv",
    "model.anypca",
    "report.html",
    "scores.csv",
    "scree.png",
    "summary.json",
]
#: A line for each thing that was ignored or repaired.
MESSY_NOTES = [
    "cells are separated by semicolons",
    "3 rows with too few cells (lines 14, 27, 53): the cells lacking at the end are taken as missing",
    "commas within numbers read as decimal signs",
    "column 'patient' taken as row names",
    "column 'smoker' read as 1 and 0 (no/yes)",
    "column 'weight' has 1 cell that is no number, taken as missing: 'n/a?'; has 1 cell that is a limit and no value, "
    "taken as missing: '<50'",
    "1 column left out: 'visit' (it holds dates)",
    "1 column left out: 'comment' (it is empty)",
    "1 column left out: 'site' (it has one value only)",
    "15 cells are missing, in 5 columns: 'age', 'smoker', 'dose', '[red] $x$', 'weight'",
]
#: What is said of a column of text by models that choose families, and by others; in this place.
CITY = {
    True: "column 'city' read as two labels: Bonn = 0, Köln = 1",
    False: "1 column left out: 'city' (it holds text)",
}


def notes(*, is_read):
    """The line on the city comes among those on single columns, or after the dates."""
    place = 5 if is_read else 7
    said = [*MESSY_NOTES[:place], CITY[is_read], *MESSY_NOTES[place:]]
    gaps = "17 cells are missing, in 6 columns: 'age', 'smoker', 'dose', 'city', '[red] $x$' and 1 more"
    return [*said[:-1], gaps] if is_read else said


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_package_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "anypca", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"anypca {anypca.__version__}\n"


def test_help_version_and_nothing(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"anypca {anypca.__version__}\n"
    for arguments in ([], ["--help"], ["fit", "-h"], ["demo", "-h"]):
        assert main(arguments) == 0
        assert "Usage: anypca" in capsys.readouterr().out


def test_messy_table_to_a_report_in_one_command(messy, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert main(["fit", str(messy), "--out", str(out)]) == 0
    assert listing(out) == FILES
    said = capsys.readouterr().out
    assert "60 rows, 6 columns, 4.7 % of cells missing" in said
    assert [line for line in said.splitlines() if line.startswith("note: ")] == [
        f"note: {x}" for x in notes(is_read=True)
    ]
    assert "with SePCA" in said
    assert "converged after" in said
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "[red] $x$" in page
    for note in notes(is_read=True):
        # The report has its own words on missing cells.
        told = "17 cells missing" if note.startswith("17 cells are missing") else note
        assert html.escape(told) in page or told in page, note


@pytest.mark.parametrize("model", ["epca", "ppca"])
def test_fit_of_a_messy_table(messy, tmp_path, capsys, model):
    out = tmp_path / "new" / "out"
    assert main(["fit", str(messy), "--model", model, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "[red] $x$" in said
    assert str(out) in said

    scores = pd.read_csv(out / "scores.csv")
    assert list(scores["row"]) == [f"p{i}" for i in range(60)]
    assert list(scores.columns[1:]) == ["component_1", "component_2", "component_1_sd", "component_2_sd"]
    assert (scores[["component_1_sd", "component_2_sd"]] > 0).all(axis=None)

    loadings = pd.read_csv(out / "loadings.csv")
    for kind in ("rows", "columns"):
        parts = pd.read_csv(out / f"contributions_{kind}.csv")
        np.testing.assert_allclose(parts[["component_1", "component_2"]].sum(), 1.0)
        np.testing.assert_allclose(
            parts["cos2"], parts[["component_1_cos2", "component_2_cos2"]].sum(axis=1), atol=1e-8
        )
    names = ["age", "smoker", "dose", *(["city"] if model == "epca" else []), "[red] $x$", "weight"]
    assert list(loadings["column"]) == names
    W = loadings[["component_1", "component_2"]].to_numpy()
    np.testing.assert_allclose(W.T @ W, np.eye(2), atol=1e-6)

    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (summary["model"], summary["rows"], summary["columns"]) == (model.upper(), 60, len(names))
    assert (summary["source"], summary["path"]) == ("messy.csv", str(messy))  # it was given by its whole path
    assert summary["notes"] == notes(is_read=model == "epca")
    assert summary["components"][0]["explained_deviance_ratio"] > 0
    families = {name: group["family"] for group in summary["families"] for name in group["columns"]}
    assert families == dict(zip(loadings["column"], loadings["family"], strict=True))
    expected = {"epca": ("bernoulli", "negative_binomial"), "ppca": ("gaussian", "gaussian")}
    assert (families["smoker"], families["[red] $x$"]) == expected[model]
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("scree.png", "biplot.png"))


@pytest.mark.parametrize("components", [1, 3])
def test_fit_with_a_given_family_is_repeatable(counts, tmp_path, capsys, components):
    arguments = [
        "fit",
        str(counts),
        "--model",
        "epca",
        "--family",
        "poisson",
        "-k",
        str(components),
        "--seed",
        "3",
    ]
    for name in ("first", "second"):
        assert main([*arguments, "--out", str(tmp_path / name)]) == 0
    for name in FILES:
        if name in {"report.html", "model.anypca", "anypca-manifest.json"}:  # they tell the time
            continue
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name
    assert "poisson" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "first" / "scores.csv").columns) == 1 + 2 * components


def test_fit_of_a_sparse_table(tmp_path, capsys):
    X = make_low_rank(40, 6, 1, family="poisson", intercept=-1.0, random_state=0).X
    scipy_io.mmwrite(tmp_path / "t.mtx", sparse.coo_array(X))
    assert (
        main(
            [
                "fit",
                str(tmp_path / "t.mtx"),
                "--model",
                "epca",
                "--family",
                "poisson",
                "-o",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    assert list(pd.read_csv(tmp_path / "out" / "loadings.csv")["column"]) == [f"x{j}" for j in range(1, 7)]
    assert "the file has no names" in capsys.readouterr().out


def test_default_folder_is_named_after_the_file(counts, monkeypatch, capsys):
    monkeypatch.chdir(counts.parent)
    assert main(["fit", "counts.csv", "--model", "ppca"]) == 0
    assert listing(counts.parent / "anypca-counts") == FILES


def test_existing_folder_keeps_other_files(counts, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert main(["fit", str(counts), "--model", "ppca", "-k", "1", "--out", str(out)]) == 0
    before = (out / "scores.csv").read_bytes()
    assert main(["fit", str(counts), "--model", "ppca", "--out", str(out)]) == 0
    assert (out / "scores.csv").read_bytes() != before
    assert listing(out) == sorted([*FILES, "mine.txt"])
    assert (out / "scores.csv").read_text().startswith("row,component_1")


def test_progress_bar_on_request_and_on_terminals_only(counts, tmp_path, capsys, monkeypatch):
    words = ["fit", str(counts), "--model", "epca", "--family", "poisson", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    assert main([*words, "--progress"]) == 0
    captured = capsys.readouterr()
    assert "fitting" in captured.err
    assert "objective" in captured.err
    assert "fitting" not in captured.out
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert Runtime().shows_bar
    assert not Runtime(has_bar=False).shows_bar


def test_a_progress_bar_leaves_no_trace_in_the_model(counts, tmp_path, capsys):
    words = ["fit", str(counts), "--model", "epca", "--out"]
    assert main([*words, str(tmp_path / "a"), "--progress"]) == 0
    assert main([*words, str(tmp_path / "b"), "--no-progress"]) == 0
    first, second = (anypca.load(tmp_path / name / "model.anypca") for name in "ab")
    assert first.get_params() == second.get_params()
    np.testing.assert_array_equal(first.components_, second.components_)


def test_warnings_are_told_and_stored(counts, tmp_path, capsys, monkeypatch):
    fit = anypca.PPCA.fit

    def warned(self, X, y=None):
        warnings.warn("beware of\n dogs", UserWarning, stacklevel=2)
        return fit(self, X)

    monkeypatch.setattr(anypca.PPCA, "fit", warned)
    assert main(["fit", str(counts), "--model", "ppca", "--out", str(tmp_path / "out")]) == 0
    assert "warning: beware of dogs" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["warnings"] == ["beware of dogs"]


def test_a_table_without_signal_has_no_component(tmp_path, capsys):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(80, 6)))
    assert main(["fit", str(tmp_path / "noise.npy"), "-o", str(tmp_path / "out")]) == 0
    assert "no component: nothing in the table stands out from noise" in capsys.readouterr().out
    assert listing(tmp_path / "out") == [name for name in FILES if not name.startswith("contributions")]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["components"] == []
    assert list(pd.read_csv(tmp_path / "out" / "scores.csv").columns) == ["row"]


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        (None, [], "there is no file"),
        ("", [], "is empty"),
        ("a,b\n1,2\n3\n", [], "line 3: expected 2 cells"),
        ("a,a\n1,2\n", [], "occur more than once"),
        ("a,b\nu,v\n", [], "at least one column of numbers"),
        ("a,b\n1,2\n3,4\n5,1\n", ["--family", "poison"], "Did you mean 'poisson'?"),
        ("a,b\n1,-2\n3,4\n5,1\n", ["--family", "poisson"], "-2"),
        ("a,b\n1,inf\n3,4\n5,1\n", [], "inf"),
        ("a,b\n1,2\n3,4\n5,1\n", ["-k", "9", "--model", "epca"], "n_components=9"),
        ("a,b\n1,2\n3,4\n5,1\n", ["-k", "0"], "--components"),
        ("a,b\n1,2\n3,4\n5,1\n", ["-k", "two"], "--components"),
        ("a,b\n1,2\n3,4\n5,1\n", ["--model", "pcaa"], "--model"),
        ("a,b\n1,2\n3,4\n5,1\n", ["--model", "ppca", "--family", "poisson"], "Use --model epca"),
        ("a,b\n1,2\n3,4\n5,1\n", ["--famly", "poisson"], "--famly"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(tmp_path, capsys, content, options, complaint):
    path = tmp_path / "table.csv"
    if content is not None:
        path.write_text(content)
    before = listing(tmp_path)
    assert main(["fit", str(path), "--out", str(tmp_path / "deep" / "out"), *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert listing(tmp_path) == before


def test_no_file_and_no_command(capsys):
    assert main(["fit"]) == 2
    assert "Missing argument" in capsys.readouterr().err
    assert main(["fti"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_out_that_is_a_file_is_refused_before_the_fit(counts, capsys, monkeypatch):
    monkeypatch.setattr(_commands, "load_table", None)
    assert main(["fit", str(counts), "--out", str(counts)]) == 2
    assert "is a file, not a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "stopped, nothing written\n"),
        (PermissionError("no permission here"), 2, "error: no permission here\n"),
        (MemoryError("8 GB"), 2, "error: not enough memory (8 GB). Use fewer components or a sparse file.\n"),
        (anypca.exceptions.NonFiniteError("NaN in\niteration 3"), 2, "error: NaN in iteration 3\n"),
    ],
    ids=["ctrl-c", "permission", "memory", "non-finite"],
)
def test_failure_while_writing_leaves_nothing(counts, capsys, monkeypatch, error, code, message):
    def fail(self, path):
        path.write_text("half")
        raise error

    monkeypatch.setattr(Outcome, "write_biplot", fail)
    before = listing(counts.parent)
    assert main(["fit", str(counts), "--model", "ppca", "-o", str(counts.parent / "out")]) == code
    captured = capsys.readouterr()
    assert captured.err == message
    assert captured.out == ""
    assert listing(counts.parent) == before


@pytest.mark.parametrize("fault", [KeyError("bug"), np.linalg.LinAlgError("Singular matrix")], ids=repr)
def test_faults_of_our_own_keep_their_traceback(counts, monkeypatch, fault):
    def fail(self, X, y=None):
        raise fault

    monkeypatch.setattr(anypca.PPCA, "fit", fail)
    with pytest.raises(type(fault)):
        main(["fit", str(counts), "--model", "ppca", "-o", str(counts.parent / "out")])


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_missing_extra_is_told_in_one_line(module):
    code = f"import sys; sys.modules[{module!r}] = None; from anypca.cli import main; sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'anypca[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_demo(tmp_path, capsys, monkeypatch):
    digits = load_digits_counts()
    few = replace(digits, X=digits.X[:150], target=digits.target[:150])
    monkeypatch.setattr(_input_table, "loaders", lambda: {"digits_counts": lambda: few})
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    assert listing(out) == FILES
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "EPCA of digits_counts" in page
    assert 'src="http' not in page
    said = capsys.readouterr().out
    assert "digits_counts" in said
    assert "150 rows" in said
    assert "r3c4" in (out / "loadings.csv").read_text()
    # As the README advises.
    model = anypca.load(out / "model.anypca")
    assert (model.family, model.ridge) == ("binomial(16)", 30.0)


def test_what_makes_false_components_is_told(tmp_path, call):
    X = np.random.default_rng(0).normal(size=(100, 8))
    X[[5, 60]] *= 8.0
    pd.DataFrame(X, columns=list("abcdefgh")).to_csv(tmp_path / "table.csv", index=False)
    words = ["--model", "ppca", "-k", 1, "-o", tmp_path / "out"]
    code, said, _ = call("fit", tmp_path / "table.csv", *words)
    assert code == 0
    assert "warning: 2 rows of 100 far from the others (6, 61)" in said
    assert said.count("warning:") == 1
