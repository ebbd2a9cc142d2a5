"""Text files as people have them: the numbers to the last digits, and a note on all that was guessed or repaired."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator

from anypca.io import read_table

MESSY = Path(__file__).parent / "messy"
EXPECTED = tomllib.loads((MESSY.parent / "messy.toml").read_text(encoding="utf-8"))
NAN = np.nan
#: Ten good rows: a few short or spoilt cells among them are repaired.
GOOD = "".join(f"{i},{i + 1},{i % 3}\n" for i in range(10))


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def is_told(frame, *words):
    """Whether one note holds all these words."""
    return any(all(word in note for word in words) for note in frame.notes)


@pytest.mark.parametrize("name", sorted(path.name for path in MESSY.iterdir() if "unclosed" not in path.name))
def test_messy_file(name):
    expected = EXPECTED[name]
    frame = read_table(MESSY / name)
    assert list(frame.column_names) == expected["columns"]
    np.testing.assert_allclose(frame.values, expected["values"], rtol=1e-12, atol=0)
    for words in expected["notes"]:
        assert is_told(frame, *words), (words, frame.notes)
    assert bool(frame.notes) == bool(expected["notes"])


DIALECTS = {
    "comma": ("a,b\n1,2.5\n3,4\n", "t.csv"),
    "semicolon": ("a;b\n1;2.5\n3;4\n", "t.csv"),
    "decimal-comma": ("a;b\n1;2,5\n3;4\n", "t.csv"),
    "tab": ("a\tb\n1\t2.5\n3\t4\n", "t.tsv"),
    "tab-decimal-comma": ("a\tb\n1\t2,5\n3\t4\n", "t.txt"),
    "blanks": ("a  b\n1 2.5\n3   4 \n", "t.txt"),
    "bom-crlf-blank-line": ("\ufeffa,b\r\n1,2.5\r\n\r\n3,4\r\n", "t.CSV"),
    "old-mac": ("a,b\r1,2.5\r3,4\r", "t.csv"),
    "quotes-and-blanks": ('"a", "b"\n"1", 2.5\n3 , 4\n', "t.csv"),
    "trailing-delimiter": ("a,b,\n1,2.5,\n3,4,\n", "t.csv"),
    "trailing-delimiter-in-data-only": ("a,b\n1,2.5,\n3,4,\n", "t.csv"),
}


@pytest.mark.parametrize(("text", "name"), DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gzip"])
def test_text_dialects_give_the_same_table(tmp_path, text, name, encoding):
    path = tmp_path / name
    if encoding == "gzip":
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_bytes(text.removeprefix("\ufeff" if encoding != "utf-8" else "").encode(encoding))
    frame = read_table(path)
    np.testing.assert_array_equal(frame.values, [[1.0, 2.5], [3.0, 4.0]])
    assert (frame.column_names, frame.row_names) == (("a", "b"), ("1", "2"))
    assert (frame.n_rows, frame.n_columns, frame.is_sparse) == (2, 2, False)


def test_a_clean_file_has_nothing_to_tell(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n3,4\n")).notes == ()


def test_one_of_everything(tmp_path):
    text = (
        "patient;visit;age;smoker;alive;dose;city;mixed;empty;const\n"
        "p1;2024-01-03;51;yes;True;1,5;Bonn;3;;7\n"
        "p2;2024-02-03;;no;False;0,25;Köln;4;;7\n"
        "p3;2024-03-03;NA;YES;;?;Bonn;n/a?;;7\n"
        "p4;;;;;;;;;\n"
        "p5;2024-05-01;33;;True;2;Ulm;5;;7\n"
    )
    frame = read_table(write(tmp_path, text))
    assert frame.column_names == ("age", "smoker", "alive", "dose", "const")
    assert frame.row_names == ("p1", "p2", "p3", "p5")
    expected = [[51, 1, 1, 1.5, 7], [NAN, 0, 0, 0.25, 7], [NAN, 1, NAN, NAN, 7], [33, NAN, 1, 2, 7]]
    np.testing.assert_array_equal(frame.values, expected)
    assert frame.missing_fraction == pytest.approx(5 / 20)
    told = [("'patient'",), ("'smoker'", "no/yes"), ("'alive'",), ("'visit'", "dates"), ("'city'", "text")]
    told += [("'mixed'", "'n/a?'"), ("'empty'", "empty"), ("'p4'",), ("missing", "'age'", "'dose'")]
    for words in told:
        assert is_told(frame, *words), words
    assert list(frame.extras["city"]) == ["Bonn", "Köln", "Bonn", "Ulm"]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        ("y n y", [1, 0, 1]),
        ("T f T", [1, 0, 1]),
        ("no no no", [0, 0, 0]),
        ("true no yes", [1, 0, 1]),
        ("Y no Yes n NO y", [1, 0, 1, 0, 0, 1]),
    ],
)
def test_answers_become_ones_and_zeros(tmp_path, cells, numbers):
    frame = read_table(write(tmp_path, "a,b\n" + "".join(f"5,{cell}\n" for cell in cells.split())))
    np.testing.assert_array_equal(frame.values[:, 1], numbers)
    assert is_told(frame, "'b'", "1 and 0")
    assert read_table(write(tmp_path, "a,b\n5,T\n6,T\n")).column_names == ("a",)


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("gene,a,b\ng1,1,2\ng2,3,4\n", ("g1", "g2"), ("a", "b")),
        ("a,b,id\n1,2,17\n3,4,18\n", ("17", "18"), ("a", "b")),
        ("a,Sample\n1,s1\n3,s2\n", ("s1", "s2"), ("a",)),
        (",a\n0,1\n1,3\n", ("0", "1"), ("a",)),
        ("a\tb\nr1\t1\t2\nr2\t3\t4\n", ("r1", "r2"), ("a", "b")),
        ("day,a\n2024-01-01,1\n2024-01-02,3\n", ("2024-01-01", "2024-01-02"), ("a",)),
        ("group,a\nx,1\nx,3\n", ("1", "2"), ("a",)),
        ("id,a\n7,1\n7,3\n", ("1", "2"), ("a",)),
        ("id;a;b\n007;1;2\n1.10;3;4\n1.1;2;7\n", ("007", "1.10", "1.1"), ("a", "b")),
    ],
    ids=[
        "text",
        "id-last",
        "sample",
        "saved-index",
        "r-names",
        "dates",
        "repeated-text",
        "repeated-id",
        "zeros",
    ],
)
def test_row_names(tmp_path, text, rows, columns):
    frame = read_table(write(tmp_path, text))
    assert (frame.row_names, frame.column_names) == (rows, columns)
    assert frame.notes


def test_given_row_names(tmp_path):
    path = write(tmp_path, "a,b,who\n1,2,017\n3,4,018\n")
    frame = read_table(path, id_column="who")
    assert (frame.column_names, frame.row_names, frame.notes) == (("a", "b"), ("017", "018"), ())
    repeated = read_table(write(tmp_path, "a,who\n1,u\n3,u\n"), id_column="who")
    assert repeated.row_names == ("1", "2")
    assert is_told(repeated, "'who'")


@pytest.mark.parametrize(
    ("text", "options", "names", "values"),
    [
        ("junk\nmore,junk\na,b\n1,2\n3,4\n", {"skip": 2}, ("a", "b"), [[1, 2], [3, 4]]),
        ("a,b\nu,v\n1,2\n3,4\n", {"header": 2}, ("a u", "b v"), [[1, 2], [3, 4]]),
        ("u,v\n1,2\n3,4\n", {"header": 0, "skip": 1}, ("x1", "x2"), [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", {}, ("x1", "x2"), [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", {"header": True}, ("1", "2"), [[3, 4]]),
        ("a|b\n1|2,5\n3|4\n", {"delimiter": "|", "decimal": ","}, ("a", "b"), [[1, 2.5], [3, 4]]),
        ("% note\na,b\n1,2\n% note\n3,4\n", {"comment": "%"}, ("a", "b"), [[1, 2], [3, 4]]),
        ("#a,b\n1,2\n3,4\n", {}, ("a", "b"), [[1, 2], [3, 4]]),
        ("#a,b\n1,2\n3,4\n", {"comment": ""}, ("#a", "b"), [[1, 2], [3, 4]]),
        ("A sentence\n1;2;3\n4;5;6\n", {}, ("x1", "x2", "x3"), [[1, 2, 3], [4, 5, 6]]),
        ("id,a\n#1,2\n#2,3\n#3,4\n", {}, ("a",), [[2], [3], [4]]),
        ("1;2,5\n3;4,5\n", {}, ("x1", "x2"), [[1, 2.5], [3, 4.5]]),
        ("a\n1,5\n2,5\n", {}, ("a",), [[1.5], [2.5]]),
        ("my column\n1\n2\n", {}, ("my column",), [[1], [2]]),
        ('"a\n b",c\n1,2\n3,4\n', {}, ("a b", "c"), [[1, 2], [3, 4]]),
        ("a,b\n nan ,NA\n1,2\n -,3\n", {}, ("a", "b"), [[1, 2], [NAN, 3]]),
        ("a,b\n1e3,-.5\n2,99999999999999999999999\n", {}, ("a", "b"), [[1000, -0.5], [2, 1e23]]),
        ('a,b\n"1,234",1\n"5,678",2\n', {}, ("a", "b"), [[1234, 1], [5678, 2]]),
        ("a,b\n1%,1\n2 %,2\n", {}, ("a", "b"), [[0.01, 1], [0.02, 2]]),
    ],
)
def test_lines_names_and_numbers(tmp_path, text, options, names, values):
    frame = read_table(write(tmp_path, text), **options)
    assert frame.column_names == names
    np.testing.assert_allclose(frame.values, values, rtol=1e-15)


@pytest.mark.parametrize(("decimal", "dose"), [(".", [1.25, 2, 3.125]), (",", [1250, 2, 3125])])
def test_a_given_decimal_sign_settles_doubts(decimal, dose):
    frame = read_table(MESSY / "thousands_point_doubtful.csv", decimal=decimal)
    np.testing.assert_allclose(frame.values[:, frame.column_names.index("dose")], dose, rtol=1e-12)


def test_what_stands_far_down_is_seen(tmp_path):
    path = write(tmp_path, "a;b\n" + "850;1,5\n" * 500 + "4.970;2,5\n")
    np.testing.assert_array_equal(read_table(path).values[-1], [4970, 2.5])


def test_a_few_short_rows_and_spoilt_cells_are_missing(tmp_path):
    frame = read_table(write(tmp_path, "a,b,c\n" + GOOD + "7\n8,9\n"))
    np.testing.assert_array_equal(frame.values[-2:], [[7, NAN, NAN], [8, 9, NAN]])
    assert is_told(frame, "12", "13", "missing")
    frame = read_table(write(tmp_path, "a;b\n" + "".join(f"{i},5;{i}\n" for i in range(19)) + "<5;7\n"))
    np.testing.assert_array_equal(frame.values[:, 0], [*(i + 0.5 for i in range(19)), NAN])
    assert is_told(frame, "'a'", "'<5'")


def test_encodings_other_than_utf_8_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe\n1\n2\n".encode("latin-1"))
    frame = read_table(path)
    assert frame.column_names == ("größe",)
    assert is_told(frame, "UTF-8")


def test_dates_of_all_styles_are_left_out(tmp_path):
    days = pd.date_range("2020-01-30", periods=30, freq="9D")
    for style in ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y", "%B %d, %Y", "%b-%y"):
        table = {"when": days.strftime(style), "a": np.arange(30) % 7, "b": 1.5 * np.arange(30)}
        pd.DataFrame(table).to_csv(tmp_path / "d.csv", index=False)
        frame = read_table(tmp_path / "d.csv")
        assert frame.column_names == ("a", "b"), style
        assert is_told(frame, "'when'")


def test_columns_set_aside_keep_step_with_the_rows(tmp_path):
    text = "id,a,b,effort,site\nr1,1,2,10,u\nr2,,,20,v\nr3,3,4,30,\n"
    frame = read_table(write(tmp_path, text), aside=["effort", "site"])
    assert (frame.column_names, frame.row_names) == (("a", "b"), ("r1", "r3"))
    np.testing.assert_array_equal(frame.extras["effort"], [10.0, 30.0])
    assert list(frame.extras["site"]) == ["u", None]
    assert not is_told(frame, "site")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"columns": ["Q*"]}, ("Q1", "Q2")),
        ({"drop": ["Q*", "visits"]}, ("age",)),
        ({"columns": ["Q*", "age"], "drop": ["Q2"]}, ("Q1", "age")),
        ({"keep": ["respondent_id"]}, ("respondent_id", "Q1", "Q2", "age", "visits")),
    ],
    ids=["columns", "drop", "both", "keep"],
)
def test_columns_by_pattern(options, names):
    assert read_table(MESSY / "questionnaire.csv", **options).column_names == names


def test_tables_are_turned_on_request():
    frame = read_table(MESSY / "totals.csv", transpose=True)
    assert (frame.column_names, frame.row_names) == (("north", "south", "east"), ("apples", "pears"))
    np.testing.assert_array_equal(frame.values, [[12, 30, 7], [3.5, 4.25, 1.25]])
    flat = read_table(MESSY / "otu_table.tsv", transpose=False)
    assert flat.column_names == ("gut1", "gut2", "skin1")


def test_codes_for_missing_values():
    frame = read_table(MESSY / "questionnaire.csv")
    assert dict(frame.codes) == {"Q1": (99.0,), "Q2": (98.0, 99.0), "visits": (-9.0,)}
    kept = read_table(MESSY / "questionnaire.csv", keep=["Q*"])
    assert kept.values[1, 0] == 99
    assert dict(kept.codes) == {"visits": (-9.0,)}
    # Given codes are not looked for again.
    given = read_table(MESSY / "questionnaire.csv", codes={"Q1": (99, 6)})
    assert np.isnan(given.values[[1, 4], 0]).all()
    assert given.values[3, 1] == 99


def test_one_note_for_one_code_of_many_columns(tmp_path):
    answers = generator("answers").integers(1, 6, (60, 20)).astype(float)
    answers[np.arange(20), np.arange(20)] = 99
    pd.DataFrame(answers, columns=[f"Q{j}" for j in range(20)]).to_csv(tmp_path / "q.csv", index=False)
    notes = [note for note in read_table(tmp_path / "q.csv").notes if "99" in note]
    assert len(notes) == 1
    assert "'Q0', 'Q1'" in notes[0]
