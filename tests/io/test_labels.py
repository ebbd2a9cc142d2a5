"""Numbers that are no amounts, numbers that mean missing, and text with few labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.draws import generator

from anypca.io import read_table

N = 100


def spread(lowest, highest, n=N):
    """Different whole numbers over a range, no two neighbours in order."""
    values = np.linspace(lowest, highest, n).astype(int)
    return generator("order").permutation(values)


def read(folder, columns, **options):
    pd.DataFrame(columns).to_csv(folder / "t.csv", index=False)
    return read_table(folder / "t.csv", **options)


def is_told(frame, *words):
    return any(all(word in note for word in words) for note in frame.notes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("respondent_id", spread(1, 9000)),
        ("patientID", spread(1, 9000)),
        ("zip", spread(10000, 99999)),
        ("x", np.arange(5, 5 + N)),
        ("x", spread(0, N - 1)),
        ("Year", 1960 + np.arange(N) // 2),
        ("day", 20210101 + np.arange(N) % 28),
        ("created", spread(1_600_000_000, 1_700_000_000)),
        ("ticket", spread(1000, 1150)),
    ],
    ids=["id", "ID", "zip", "numbers", "order", "years", "dates", "moments", "close"],
)
def test_labels_are_left_out_unless_kept(tmp_path, name, values):
    other = np.arange(N) % 7 * 1.5
    frame = read(tmp_path, {"a": other, name: values})
    assert frame.column_names == ("a",)
    assert is_told(frame, repr(name), "keep")
    found = frame.extras.get(name, frame.row_names)
    np.testing.assert_array_equal(np.asarray(found, float), values)
    kept = read(tmp_path, {"a": other, name: values}, keep=[name])
    assert kept.column_names == ("a", name)
    np.testing.assert_array_equal(kept.values[:, 1], values)


GRID = (np.arange(N) + 0.5) / N


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("acid", np.round(stats.norm(1e6, 1e5).ppf(GRID))),
        ("x", np.round(stats.lognorm(0.7, scale=1e5).ppf(GRID))),
        ("x", np.round(stats.lognorm(2.0, scale=1e5).ppf(GRID))),
        ("x", np.round(1e5 * (1 + stats.pareto(1.2).ppf(GRID)))),
        ("total_sales", spread(100_000, 999_999)),
        ("calories", 1990 + np.arange(N) % 30),
        ("year", np.arange(N) % 9),
        ("group_id", np.arange(N) % 4),
        ("score_id", np.round(stats.norm.ppf(GRID), 3)),
    ],
    ids=["bell", "skewed", "magnitudes", "falling", "named", "no-year", "few-years", "groups", "real"],
)
def test_amounts_stay(tmp_path, name, values):
    values = generator("order").permutation(values)
    frame = read(tmp_path, {"a": np.arange(N) % 7 * 1.5, name: values})
    assert frame.column_names == ("a", name)
    np.testing.assert_allclose(frame.values[:, 1], values)


def test_numbers_that_may_identify_rows_are_named(tmp_path):
    frame = read(tmp_path, {"a": np.arange(N) % 7 * 1.5, "reference": spread(100_000, 999_999)})
    assert frame.column_names == ("a", "reference")
    assert is_told(frame, "'reference'", "drop it")


def test_a_unique_column_of_identifiers_names_the_rows(tmp_path):
    answers = [f"R_{number}" for number in range(N)]
    frame = read(tmp_path, {"a": np.arange(N) % 7 * 1.5, "ResponseId": answers})
    assert frame.row_names == tuple(answers)
    assert is_told(frame, "'ResponseId'", "row names")


def test_codes_are_hints(tmp_path):
    frame = read(tmp_path, {"a": np.arange(N) % 7 * 1.5, "region": np.arange(N) % 4}, categories=True)
    assert (frame.column_names, dict(frame.hints)) == (("a", "region"), {"region": "nominal"})
    assert is_told(frame, "'region'", "--family")


ANSWERS, AGES, COUNTS = np.arange(60) % 6 + 1.0, np.arange(60) % 47 + 20.0, np.arange(60) % 8 + 0.0


@pytest.mark.parametrize(
    ("values", "extra", "codes"),
    [
        (ANSWERS, [99], (99,)),
        (ANSWERS, [98, 99, 99], (98, 99)),
        (ANSWERS % 3 + 1, [8, 9], (8, 9)),
        (ANSWERS % 5 + 1, [8, 9], ()),
        (ANSWERS, [np.nan], ()),
        (AGES, [99], ()),
        (AGES, [999, 999], (999,)),
        (COUNTS, [-9], (-9,)),
        (COUNTS, [-8, -9, -1], (-9, -8, -1)),
        (COUNTS, [-5], ()),
        (COUNTS + 0.5, [-999, -999], (-999,)),
        (COUNTS - 3.5, [-9], ()),
        (1000 * AGES, [999999, 999999], (999999,)),
    ],
)
def test_numbers_far_from_all_others_are_missing(tmp_path, values, extra, codes):
    values = np.append(values, extra)
    frame = read(tmp_path, {"q": values, "b": np.arange(len(values)) % 5 * 0.5})
    assert frame.codes.get("q", ()) == codes
    expected = np.where(np.isin(values, codes), np.nan, values)
    np.testing.assert_array_equal(frame.values[:, 0], expected)
    np.testing.assert_array_equal(
        read_table(tmp_path / "t.csv", keep=["q"]).values[:, frame.column_names.index("q")], values
    )


def make_file(path, n=40):
    table = pd.DataFrame(
        {
            "age": np.arange(n) % 37 + 20.5,
            "sex": np.take(["m", "f", "m", "f", ""], np.arange(n) % 5),
            "pain": np.take(["none", "mild", "none", "severe"], np.arange(n) % 4),
            "town": np.take(["Ulm", "Bonn", "Trier", "Bonn", "Trier", "Bonn"], np.arange(n) % 6),
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
    path = tmp_path / f"t.{suffix}"
    table = make_file(path)
    frame = read_table(path, categories=True)
    assert frame.column_names == ("age", "sex", "pain", "town")
    assert set(frame.labels["sex"].levels) == {"f", "m"}
    assert (frame.labels["pain"].levels, frame.labels["pain"].is_ordered) == (
        ("none", "mild", "severe"),
        True,
    )
    for name in ("sex", "pain", "town"):
        assert is_told(frame, repr(name), *frame.labels[name].levels)
    assert is_told(frame, "'remark'", "40")
    assert is_told(frame, "'prose'", "3")
    back = frame.to_pandas()
    for name in ("sex", "pain", "town"):
        assert back[name].astype(object).fillna("").tolist() == table[name].tolist()
    assert back["pain"].cat.ordered
    assert read_table(path).column_names == ("age",)
    kept = read_table(path, categories=True, keep=["remark"], drop=["town", "sex"])
    assert kept.column_names == ("age", "pain", "remark")
    assert len(kept.labels["remark"].levels) == 40


def test_the_word_none_is_missing_where_it_is_no_answer(tmp_path):
    towns = ["Köln", None, "Bonn", "Köln", "Bonn", "Köln", "Bonn"]
    table = {"town": ["None" if town is None else town for town in towns], "x": [1, 9, 3, 2, 4, 7, 5]}
    frame = read(tmp_path, table, categories=True)
    assert frame.labels["town"].levels == ("Bonn", "Köln")
    assert frame.to_pandas()["town"].astype(object).where(lambda cells: cells.notna(), None).tolist() == towns


@pytest.mark.parametrize(
    "labels",
    [
        ["1 - strongly disagree", "2 - disagree", "3 - neither of them", "10 - strongly agree"],
        ["(1) never", "(2) at times", "(3) always"],
        ["1=no", "2=a bit", "3=yes"],
        ["<18", "18-24", "25 to 34", "65+"],
        ["1 - not at all", "2", "3", "4", "5", "6 - completely"],
        ["1. good", "2. bad", "3. ugly"],
    ],
    ids=["dash", "parentheses", "equals", "ranges", "ends", "points"],
)
def test_answers_with_numbers_have_their_order(tmp_path, labels):
    places = generator("answers").permutation(np.arange(60) % len(labels))
    places[places == 0] = 1
    places[7] = 0  # a rare answer is one, too
    frame = read(tmp_path, {"q": np.take(labels, places), "n": np.arange(60) % 7}, categories=True)
    assert frame.labels["q"].levels == tuple(labels)
    assert frame.labels["q"].is_ordered
    assert is_told(frame, "'q'", " < ".join(labels))


def test_answers_with_numbers_are_numbers_for_models_of_numbers(tmp_path):
    answers = np.take(["1 - not at all", "2", "3 - very"], np.arange(60) % 3)
    frame = read(tmp_path, {"q": answers, "r": answers[::-1], "n": np.arange(60) % 7})
    np.testing.assert_array_equal(frame.values[:, 0], np.arange(60) % 3 + 1)
    assert is_told(frame, "'q', 'r'", "1 - not at all")
