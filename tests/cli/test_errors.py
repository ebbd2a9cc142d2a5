"""Bad input is told in one line that names the entry and the remedy; it ends with 2 and leaves everything as it was."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import anypca

GOOD = "a,b,c\n1,2,0\n3,4,1\n5,1,0\n2,2,1\n"

#: Content of table.csv (None: no such file), options of fit, what the line says of the entry, what of the remedy.
CASES = {
    "missing-file": (None, [], r"table\.csv", r"Did you mean tables\.csv"),
    "empty": ("", [], r"table\.csv is empty", "column names"),
    "infinite": (GOOD.replace("4", "inf"), [], r"X\[1, 1\].* is inf", "Use NaN"),
    "negative-count": (GOOD.replace("4", "-4"), ["--family", "poisson"], r"X\[1, 1\].* is -4", "family="),
    "unknown-family": (GOOD, ["--family", "poison"], "'poison'", "Did you mean 'poisson'"),
    "family-of-ppca": (GOOD, ["--model=ppca", "--family=poisson"], "--family poisson", "Use --model epca"),
    "family-of-a-column": (GOOD, ["--model", "ppca", "--family", "a=poisson"], "--family a=poisson", ""),
    "counts-only": (GOOD, ["--model", "plnpca", "--family", "gaussian"], "--family gaussian", "counts"),
    "two-families": (GOOD, ["--family", "poisson", "--family", "gaussian"], "poisson and gaussian", ""),
    "no-such-column": (GOOD.replace("a", "age", 1), ["--family", "aeg=poisson"], "aeg", "Did you mean 'age'"),
    "components": (GOOD, ["-k", "9", "--model", "epca"], "n_components=9", "Choose at most 3"),
    "unknown-option": (GOOD, ["--famly", "poisson"], "--famly", "anypca --help"),
    "parameter": (GOOD, ["--model", "epca", "--set", "n_pices=2"], "EPCA has no such parameter", ""),
    "no-pair": (GOOD, ["--model", "epca", "--set", "ridge"], "--set", "NAME=VALUE"),
    "no-offset": (GOOD, ["--offset", "effort"], "'effort'", "'a', 'b', 'c'"),
    "no-logarithm": (GOOD, ["--offset", "log(c)", "--model", "epca"], "'1'.* 0", "> 0"),
    "offset-of-ppca": (GOOD, ["--offset=a", "--model=ppca"], "ppca takes no offset", "Leave --offset out"),
    "covariates": (GOOD, ["--covariates", "a", "--model", "gpca"], "gpca takes no covariates", "Leave"),
    "id": (GOOD, ["--id", "zzz"], "'zzz'", "'a', 'b', 'c'"),
    "gaps": (GOOD.replace("4", ""), ["--model", "gsppca"], "gsppca needs a complete table", "--model auto"),
    "dask-and-threads": (GOOD, ["--dask", "tcp://x:1", "--threads", "2"], "--threads", "--dask"),
    "checkpoint": (GOOD, ["--model", "spca", "--checkpoint", "c"], "has no checkpoints", ""),
}


def contents(folder):
    """Every file and folder below a folder, with the bytes of the files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def refuse(tmp_path, call):
    """Run a command that must refuse."""

    def check(entry, remedy, *words):
        before = contents(tmp_path)
        code, out, err = call(*words)
        assert (code, out) == (2, "")
        assert re.fullmatch("error: [^\n]+\n", err), err
        assert re.search(entry, err), err
        assert re.search(remedy, err), err
        assert contents(tmp_path) == before

    return check


@pytest.mark.parametrize(("content", "options", "entry", "remedy"), CASES.values(), ids=CASES)
def test_bad_input_is_told_in_one_line(tmp_path, refuse, content, options, entry, remedy):
    path = tmp_path / "table.csv"
    (tmp_path / "tables.csv" if content is None else path).write_text(GOOD if content is None else content)
    refuse(entry, remedy, "fit", path, "--out", tmp_path / "deep" / "out", *options)


@pytest.mark.parametrize(
    ("words", "entry", "remedy"),
    [
        (["fit"], "Missing argument", "--help"),
        (["fti"], "No such command", "--help"),
        (["fit", "okas"], "okas", "anypca datasets lists them"),
        (["fit", "TABLE", "--model", "zzz", "--json"], "--model", "epca"),
        (["compare", "TABLE", "--models", "epca,pcaa"], "'pcaa'", "epca"),
        (["select", "TABLE", "--ranks", "3-1"], "--ranks", "ranges"),
        (["select", "TABLE", "--criterion", "bicc"], "bicc", "bic"),
        (["select", "TABLE", "--model", "kernel"], "KernelPCA", ""),
        (["select", "TABLE", "--ranks", "40"], "40", ""),
        (["select", "TABLE", "--methods", "parallel"], "--methods", "--compare"),
        (
            ["select", "TABLE", "--compare", "--methods", "paralel"],
            "'paralel'|paralel",
            "Did you mean 'parallel'",
        ),
        (["report", "FOLDER"], "holds no model.anypca", "anypca fit"),
        (["report", "absent"], "absent", ""),
        (["transform", "TABLE", "TABLE"], "no model file of anypca", "anypca.save"),
    ],
    ids=lambda value: "-".join(value).lower() if isinstance(value, list) else "",
)
def test_other_commands(tmp_path, refuse, monkeypatch, words, entry, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    refuse(entry, remedy, *({"TABLE": "t.csv", "FOLDER": "empty"}.get(word, word) for word in words))


@pytest.mark.parametrize("command", ["fit", "demo"])
def test_an_output_folder_that_is_a_file_is_refused_before_the_fit(tmp_path, refuse, command):
    (tmp_path / "table.csv").write_text("no table")
    (tmp_path / "taken").write_text("mine")
    words = [command, *([tmp_path / "table.csv"] if command == "fit" else [])]
    refuse("taken is a file", "Choose another output folder", *words, "--out", tmp_path / "taken")


def test_earlier_output_survives_a_failure(tmp_path, call, refuse):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text(GOOD)
    assert call("fit", path, "--out", out, "-k", 1, "--model", "ppca")[0] == 0
    path.write_text(GOOD.replace("4", "inf"))
    refuse("is inf", "Use NaN", "fit", path, "--out", out)
    assert (out / "scores.csv").exists()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "stopped, nothing written\n"),
        (PermissionError("no permission here"), 2, "error: no permission here\n"),
        (MemoryError("8 GB"), 2, "8 GB"),
        (anypca.exceptions.NonFiniteError("NaN in\niteration 3"), 2, "error: NaN in iteration 3\n"),
    ],
    ids=["ctrl-c", "permission", "memory", "non-finite"],
)
@pytest.mark.parametrize("step", ["fit", "transform"])
def test_failures_on_the_way_leave_nothing(tmp_path, call, monkeypatch, error, code, message, step):
    def fail(self, *arguments, **options):
        raise error

    (tmp_path / "t.csv").write_text(GOOD)
    monkeypatch.setattr(anypca.PPCA, step, fail)
    before = contents(tmp_path)
    found, out, err = call("fit", tmp_path / "t.csv", "--model", "ppca", "-o", tmp_path / "out")
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("fault", [KeyError("bug"), np.linalg.LinAlgError("Singular matrix")], ids=repr)
def test_faults_of_our_own_keep_their_traceback(tmp_path, call, monkeypatch, fault):
    def fail(self, X, y=None):
        raise fault

    (tmp_path / "t.csv").write_text(GOOD)
    monkeypatch.setattr(anypca.PPCA, "fit", fail)
    with pytest.raises(type(fault)):
        call("fit", tmp_path / "t.csv", "--model", "ppca", "-o", tmp_path / "out")


def test_in_a_process_of_its_own(tmp_path):
    """The exit status and the streams; without an extra the command line names it."""
    (tmp_path / "table.csv").write_text(GOOD)
    before = contents(tmp_path)
    code = "import sys; from anypca.cli import main; sys.exit(main())"
    for prefix, words, entry in (
        ("", ["fit", "table.csv", "--family", "poison"], "poisson"),
        ("import sys; sys.modules['typer'] = None; ", ["fit"], "pip install 'anypca[cli]'"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", prefix + code, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch("error: [^\n]+\n", done.stderr)
        assert entry in done.stderr
    assert contents(tmp_path) == before
