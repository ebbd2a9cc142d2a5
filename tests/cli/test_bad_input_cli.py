"""The command line tells bad input in one line, exits with 2 and leaves no partial output."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from anypca.cli import main

GOOD = "a,b,c\n1,2,0\n3,4,1\n5,1,0\n2,2,1\n"

#: Content of table.csv (None: no such file), further options, what the line says of the entry, what of the remedy.
CASES = {
    "missing-file": (None, [], r"there is no file .*table\.csv", r"Did you mean tables\.csv"),
    "empty": ("", [], r"table\.csv is empty", "Expected a line of column names"),
    "names-only": ("a,b\n", [], "only column names", "Add the data"),
    "ragged": ("a,b\n1,2\n3\n", [], "line 3: expected 2 cells .* found 1", "Mend that line"),
    "words-only": ("a,b\nu,v\nw,x\n", [], "none numeric", "Check the delimiter"),
    "same-names": ("a,a\n1,2\n", [], "'a' occur more than once", "Rename these columns"),
    "binary": ("\0\1\2" * 9, [], "not a text file", "Save the table as CSV"),
    "one-row": ("a,b\n1,2\n", ["--model", "epca"], r"n_components=2 .* \(1, 2\)", "Choose at most 1"),
    "one-row-ppca": ("a,b\n1,2\n", ["--model", "ppca"], "X has 1 sample", "Add rows"),
    "infinite": (GOOD.replace("4", "inf"), [], r"X\[1, 1\].* is inf", "Use NaN"),
    "negative-count": (GOOD.replace("4", "-4"), ["--family", "poisson"], r"X\[1, 1\].* is -4", "Use family="),
    "half-in-binary": (GOOD, ["--family", "bernoulli"], r"0 or 1; X\[0, 1\].* is 2", "Use family="),
    "beyond-trials": (GOOD, ["--family", "binomial(4)"], r"X\[2, 0\].* is 5", "Set n_trials"),
    "zero-in-gamma": (GOOD, ["--family", "gamma"], r"> 0; X\[0, 2\].* is 0", "treat zeros as missing"),
    "unknown-family": (GOOD, ["--family", "poison"], "unknown family 'poison'", "Did you mean 'poisson'"),
    "no-trials": (GOOD, ["--family", "binomial"], "needs the number of trials", r"'binomial\(16\)'"),
    "trials-in-words": (GOOD, ["--family", "binomial(ten)"], "'ten' .* is not a number", r"binomial\(2\)"),
    "family-of-ppca": (
        GOOD,
        ["--model", "ppca", "--family", "poisson"],
        "--family poisson",
        "Use --model epca",
    ),
    "too-many-components": (GOOD, ["-k", "9", "--model", "epca"], "n_components=9", "Choose at most 3"),
    "no-components": (GOOD, ["-k", "0"], "Invalid value for '--components'", "See anypca --help"),
    "components-in-words": (
        GOOD,
        ["-k", "three"],
        "Invalid value for '--components'.* integer",
        "See anypca --help",
    ),
    "unknown-model": (GOOD, ["--model", "pcaa"], "Invalid value for '--model'", "See anypca --help"),
    "unknown-option": (GOOD, ["--famly", "poisson"], "No such option: --famly", "See anypca --help"),
    "negative-seed": (GOOD, ["--seed", "-1"], "Invalid value for '--seed'.* 0", "See anypca --help"),
    "long-delimiter": (GOOD, ["--delimiter", ";;"], "got ';;'", "must be a single character"),
    "strange-decimal": (GOOD, ["--decimal", ";"], "got ';'", "must be '.' or ','"),
}


def contents(folder):
    """Every file and folder below a folder, with the bytes of the files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def check_refusal(tmp_path, code, out, err, before, entry, remedy):
    assert code == 2
    assert out == ""
    assert re.fullmatch("error: [^\n]+\n", err), err
    assert re.search(entry, err), err
    assert re.search(remedy, err), err
    assert contents(tmp_path) == before


def refuse(tmp_path, capsys, path, options, entry, remedy):
    """Run ``anypca fit``, which must refuse."""
    before = contents(tmp_path)
    code = main(["fit", str(path), "--out", str(tmp_path / "deep" / "out"), *options])
    captured = capsys.readouterr()
    check_refusal(tmp_path, code, captured.out, captured.err, before, entry, remedy)


@pytest.mark.parametrize(("content", "options", "entry", "remedy"), CASES.values(), ids=CASES)
def test_bad_input_is_told_in_one_line(tmp_path, capsys, content, options, entry, remedy):
    path = tmp_path / "table.csv"
    if content is None:
        (tmp_path / "tables.csv").write_text(GOOD)
    else:
        path.write_text(content)
    refuse(tmp_path, capsys, path, options, entry, remedy)


def test_table_is_long_enough():
    assert len(CASES) >= 15


@pytest.mark.parametrize(
    "name",
    ["table.xlsx", "table.h5ad", "table.npz", "table.npy", "table.mtx", "table.parquet", "table.csv.gz"],
)
def test_files_that_are_not_what_they_are_called(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(b"PK nothing of the kind")
    refuse(
        tmp_path, capsys, tmp_path / name, [], re.escape(name), "Write the file again|Save the table|Compress"
    )


def test_matrix_file_with_a_negative_count(tmp_path, capsys):
    table = sparse.random_array((9, 5), density=0.5, rng=0, format="csr")
    table.data[0] = -1.0
    sparse.save_npz(tmp_path / "table.npz", table)
    refuse(
        tmp_path,
        capsys,
        tmp_path / "table.npz",
        ["--family", "poisson"],
        r"X\[0, \d\].* is -1",
        "Use family=",
    )


def test_empty_column_of_an_array(tmp_path, capsys):
    table = np.arange(12.0).reshape(4, 3)
    table[:, 1] = np.nan
    np.save(tmp_path / "table.npy", table)
    refuse(tmp_path, capsys, tmp_path / "table.npy", [], r"column\(s\) 1", "Drop these columns")


@pytest.mark.parametrize("command", ["fit", "demo"])
def test_output_folder_that_is_a_file(tmp_path, capsys, command):
    (tmp_path / "table.csv").write_text(GOOD)
    (tmp_path / "taken").write_text("mine")
    words = [command, *([str(tmp_path / "table.csv")] if command == "fit" else [])]
    before = contents(tmp_path)
    code = main([*words, "--out", str(tmp_path / "taken")])
    captured = capsys.readouterr()
    check_refusal(
        tmp_path, code, captured.out, captured.err, before, "taken is a file", "Choose another output folder"
    )


def test_earlier_output_survives_a_failure(tmp_path, capsys):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text(GOOD)
    assert main(["fit", str(path), "--out", str(out), "-k", "1", "--model", "ppca"]) == 0
    capsys.readouterr()
    path.write_text(GOOD.replace("4", "inf"))
    before = contents(tmp_path)
    code = main(["fit", str(path), "--out", str(out)])
    captured = capsys.readouterr()
    check_refusal(tmp_path, code, captured.out, captured.err, before, "is inf", "Use NaN")
    assert (out / "scores.csv").exists()


def test_the_installed_program_does_the_same(tmp_path):
    """The exit status and the streams of a real process, without a folder given for the output."""
    content, options, entry, remedy = CASES["unknown-family"]
    (tmp_path / "table.csv").write_text(content)
    before = contents(tmp_path)
    code = "import sys; from anypca.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "table.csv", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    check_refusal(tmp_path, done.returncode, done.stdout, done.stderr, before, entry, remedy)
