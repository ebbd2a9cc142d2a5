"""Columns of text and categories of files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anypca.io import read_table


def make_file(path, n=40):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n) + 0.5,
            "sex": np.take(["m", "f", ""], rng.choice(3, n, p=[0.5, 0.4, 0.1])),
            "pain": np.take(["none", "mild", "severe"], rng.choice(3, n, p=[0.5, 0.3, 0.2])),
            "town": np.take(["Ulm", "Bonn", "Trier"], rng.choice(3, n, p=[0.2, 0.5, 0.3])),
            "remark": [f"word {i}" for i in range(n)],
            "prose": np.take(
                ["he came late again", "she asked for a copy", "not seen this time"], np.arange(n) % 3
            ),
        }
    )
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".xlsx":
        table.to_excel(path, index=False)
    else:
        kinds = pd.CategoricalDtype(["none", "mild", "severe"], ordered=True)
        table.astype({"pain": kinds, "town": "category"}).to_parquet(path)
    return table


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet"])
def test_text_with_few_labels_is_part_of_the_table(tmp_path, suffix):
    table = make_file(tmp_path / f"t.{suffix}")
    frame = read_table(tmp_path / f"t.{suffix}", categories=True)
    assert frame.column_names == ("age", "sex", "pain", "town")
    assert frame.labels["sex"].levels == ("f", "m")
    assert (frame.labels["pain"].levels, frame.labels["pain"].is_ordered) == (
        ("none", "mild", "severe"),
        True,
    )
    assert frame.labels["town"].levels == ("Bonn", "Trier", "Ulm")  # by how often they occur
    assert "column 'sex' read as two labels: f = 0, m = 1" in frame.notes
    assert "column 'pain' read as ordered labels: none < mild < severe" in frame.notes
    assert "column 'town' read as 3 labels: Bonn, Trier, Ulm" in frame.notes
    assert "1 column left out: 'remark' (it holds 40 different texts: names or free text)" in frame.notes
    assert "1 column left out: 'prose' (it holds 3 different texts: names or free text)" in frame.notes
    back = frame.to_pandas()
    for name in ("sex", "pain", "town"):
        assert back[name].astype(object).fillna("").tolist() == table[name].tolist()
    assert back["pain"].cat.ordered


def test_text_stays_out_unless_asked_for_or_is_kept(tmp_path):
    make_file(tmp_path / "t.csv")
    frame = read_table(tmp_path / "t.csv")
    assert (frame.column_names, frame.labels) == (("age",), {})
    frame = read_table(tmp_path / "t.csv", categories=True, keep=["remark"], drop=["town", "sex"])
    assert frame.column_names == ("age", "pain", "remark")
    assert len(frame.labels["remark"].levels) == 40


def test_the_word_none_is_missing_where_it_is_no_answer(tmp_path):
    rows = ["Köln,1", "None,None", "Bonn,3", "Köln,2", "Bonn,4", "Köln,7", "Bonn,5"]
    (tmp_path / "t.csv").write_text("town,x\n" + "\n".join(rows) + "\n", encoding="utf-8")
    frame = read_table(tmp_path / "t.csv", categories=True)
    assert frame.labels["town"].levels == ("Bonn", "Köln")
    np.testing.assert_array_equal(frame.values[:, 1], [1, 3, 2, 4, 7, 5])
    assert "1 row without any number left out: '2'" in frame.notes


@pytest.mark.parametrize(
    "labels",
    [
        ["1 - strongly disagree", "2 - disagree", "3 - neither of them", "10 - strongly agree"],
        ["(1) never", "(2) at times", "(3) always"],
        ["1=no", "2=a bit", "3=yes"],
        ["<18", "18-24", "25 to 34", "65+"],
    ],
    ids=["dash", "parentheses", "equals", "ranges"],
)
def test_answers_with_numbers_have_their_order(tmp_path, labels):
    answers = np.take(labels, np.random.default_rng(0).permutation(np.arange(60) % len(labels)))
    pd.DataFrame({"q": answers, "n": np.arange(60) % 7}).to_csv(tmp_path / "t.csv", index=False)
    frame = read_table(tmp_path / "t.csv", categories=True)
    assert frame.labels["q"].levels == tuple(labels)
    assert frame.labels["q"].is_ordered
    assert f"column 'q' read as ordered labels: {' < '.join(labels)}" in frame.notes


def test_answers_in_full_and_in_letters(tmp_path):
    answers = ["Y", "no", "Yes", "n", "NO", "y"] * 5
    pd.DataFrame({"a": answers, "b": np.arange(30) % 4}).to_csv(tmp_path / "t.csv", index=False)
    frame = read_table(tmp_path / "t.csv")
    np.testing.assert_array_equal(frame.values[:6, 0], [1, 0, 1, 0, 0, 1])
    assert "column 'a' read as 1 and 0 (n/no/y/yes)" in frame.notes
