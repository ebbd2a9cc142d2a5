"""The command line: files, account, errors."""

from __future__ import annotations

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
from anypca.cli import _run, main
from anypca.cli._app import Model
from anypca.cli._outcome import Outcome
from anypca.datasets import load_digits_counts, make_low_rank

FILES = ["biplot.png", "loadings.csv", "scores.csv", "scree.png", "summary.json"]


def messy_text():
    """Sixty rows with names, dates, answers, decimal commas, text, counts and empty cells."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    ages, doses = 50 + 10 * z + rng.normal(size=60), np.exp(z + 0.5 * rng.normal(size=60))
    lines = ["patient;visit;age;smoker;dose;city;[red] $x$"]
    for i, (age, dose, count) in enumerate(zip(ages, doses, rng.poisson(np.exp(1 + z)), strict=True)):
        smoker = "yes" if z[i] + rng.normal() > 0 else "no"
        cells = [f"{age:.1f}", smoker, f"{dose:.3f}", "Köln", str(count)]
        if i % 4 == 0:
            cells[i // 4 % 3] = ""
        lines.append(";".join([f"p{i}", f"2024-03-{i % 28 + 1}", *cells]).replace(".", ","))
    return "\n".join(lines) + "\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text(messy_text(), encoding="utf-8")
    return path


@pytest.fixture
def counts(tmp_path):
    X = make_low_rank(40, 6, 2, family="poisson", random_state=0).X
    path = tmp_path / "counts.csv"
    pd.DataFrame(X, columns=list("abcdef")).to_csv(path, index=False)
    return path


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_help_version_and_nothing(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"anypca {anypca.__version__}\n"
    for arguments in ([], ["--help"], ["fit", "-h"], ["demo", "-h"]):
        assert main(arguments) == 0
        assert "Usage: anypca" in capsys.readouterr().out


def test_every_model_is_offered():
    assert [model.value for model in Model] == list(_run.MODELS)


@pytest.mark.parametrize("model", ["epca", "ppca"])
def test_fit_of_a_messy_table(table, tmp_path, capsys, model):
    out = tmp_path / "new" / "out"
    assert main(["fit", str(table), "--model", model, "--out", str(out)]) == 0
    assert listing(out) == FILES
    said = capsys.readouterr().out
    assert "60 rows, 4 columns, 6.2 % of cells missing" in said
    assert "note: column 'patient' taken as row names" in said
    assert "[red] $x$" in said
    assert "converged after" in said
    assert str(out) in said

    scores = pd.read_csv(out / "scores.csv")
    assert list(scores["row"]) == [f"p{i}" for i in range(60)]
    assert list(scores.columns[1:]) == ["component_1", "component_2", "component_1_sd", "component_2_sd"]
    assert (scores[["component_1_sd", "component_2_sd"]] > 0).all(axis=None)

    loadings = pd.read_csv(out / "loadings.csv")
    assert list(loadings["column"]) == ["age", "smoker", "dose", "[red] $x$"]
    W = loadings[["component_1", "component_2"]].to_numpy()
    np.testing.assert_allclose(W.T @ W, np.eye(2), atol=1e-6)

    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (summary["model"], summary["rows"], summary["columns"]) == (model.upper(), 60, 4)
    assert summary["source"] == "messy.csv"
    assert len(summary["notes"]) == 5
    assert summary["components"][0]["explained_deviance_ratio"] > 0
    families = {name: group["family"] for group in summary["families"] for name in group["columns"]}
    assert families == dict(zip(loadings["column"], loadings["family"], strict=True))
    expected = {"epca": ("bernoulli", "negative_binomial"), "ppca": ("gaussian", "gaussian")}
    assert (families["smoker"], families["[red] $x$"]) == expected[model]
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("scree.png", "biplot.png"))


@pytest.mark.parametrize("components", [1, 3])
def test_fit_with_a_given_family_is_repeatable(counts, tmp_path, capsys, components):
    arguments = ["fit", str(counts), "--family", "poisson", "-k", str(components), "--seed", "3"]
    for name in ("first", "second"):
        assert main([*arguments, "--out", str(tmp_path / name)]) == 0
    for name in FILES:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name
    assert "poisson" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "first" / "scores.csv").columns) == 1 + 2 * components


def test_fit_of_a_sparse_table(tmp_path, capsys):
    X = make_low_rank(40, 6, 1, family="poisson", intercept=-1.0, random_state=0).X
    scipy_io.mmwrite(tmp_path / "t.mtx", sparse.coo_array(X))
    assert main(["fit", str(tmp_path / "t.mtx"), "--family", "poisson", "-o", str(tmp_path / "out")]) == 0
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
    (out / "scores.csv").write_text("old")
    assert main(["fit", str(counts), "--model", "ppca", "--out", str(out)]) == 0
    assert listing(out) == sorted([*FILES, "mine.txt"])
    assert (out / "scores.csv").read_text().startswith("row,component_1")


def test_verbose_shows_a_bar_on_stderr(counts, tmp_path, capsys):
    assert main(["fit", str(counts), "--family", "poisson", "-v", "--out", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "fitting" in captured.err
    assert "objective" in captured.err
    assert "fitting" not in captured.out


def test_warnings_are_told_and_stored(counts, tmp_path, capsys, monkeypatch):
    class Warned(anypca.PPCA):
        def fit(self, X, y=None):
            warnings.warn("beware of\n dogs", UserWarning, stacklevel=2)
            return super().fit(X)

    monkeypatch.setitem(_run.MODELS, "ppca", lambda job: Warned(job.n_components))
    assert main(["fit", str(counts), "--model", "ppca", "--out", str(tmp_path / "out")]) == 0
    assert "warning: beware of dogs" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["warnings"] == ["beware of dogs"]


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
        ("a,b\n1,2\n3,4\n5,1\n", ["-k", "9"], "n_components=9"),
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
    monkeypatch.setitem(_run.MODELS, "epca", None)
    assert main(["fit", str(counts), "--out", str(counts)]) == 2
    assert "is a file, not a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
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
    def fail(job):
        raise fault

    monkeypatch.setitem(_run.MODELS, "ppca", fail)
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
    monkeypatch.setattr(_run, "load_digits_counts", lambda: few)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    assert listing(out) == sorted([*FILES, "report.html"])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert "150 rows, 64 columns, no cell missing" in page
    assert "<td>negative_binomial</td>" in page
    assert 'src="http' not in page
    said = capsys.readouterr().out
    assert "handwritten digits" in said
    assert "r3c4" in (out / "loadings.csv").read_text()
