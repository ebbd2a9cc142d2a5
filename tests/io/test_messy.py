"""Files as people have them: the numbers to the last digits, and every line that is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anypca.io import read_table

MESSY = Path(__file__).parent / "messy"
NAN = np.nan
SEMICOLONS, COMMAS = "cells are separated by semicolons", "commas within numbers read as decimal signs"


def named(column):
    return f"column {column!r} taken as row names"


def without(column, what, example):
    return f"column {column!r} read without {what}: {example}"


def no_amount(column, why):
    return f"column {column!r} left out: {why} (keep it to use it as an amount)"


def coded(column, cells):
    return f"column {column!r}: {cells} taken as missing, far from all others (keep it to use them)"


#: File, columns, values by row, notes.
NUMBERS = {
    "thousands_comma.csv": (
        ["people", "area"],
        [[126949, 118.7], [1331685, 141.1], [850, 2], [1073096, 405]],
        [without("people", "thousands marks", "'126,949' is 126949"), named("city")],
    ),
    "thousands_point_decimal_comma.csv": (
        ["count", "mass"],
        [[4970, 3.5], [850, 12.25], [12300, 0.75], [1021, 1]],
        [SEMICOLONS, COMMAS, without("count", "thousands marks", "'4.970' is 4970"), named("plot")],
    ),
    "thousands_and_decimals_german.csv": (
        ["sales", "staff"],
        [[1234.5, 12], [12345678.25, 7], [99, 1]],
        [SEMICOLONS, COMMAS, without("sales", "thousands marks", "'1.234,5' is 1234.5"), named("firm")],
    ),
    "thousands_blank.tsv": (
        ["flow", "depth"],
        [[1234, 2], [12345, 3], [7000, 5], [88, 7]],
        [without("flow", "thousands marks", "'1 234' is 1234"), named("site")],
    ),
    "thousands_apostrophe.csv": (
        ["assets", "branches"],
        [[1250000.5, 3], [980, 4], [2001, 9]],
        [without("assets", "thousands marks", "\"1'250'000.5\" is 1250000.5"), named("bank")],
    ),
    "thousands_point_alone.csv": (
        ["a", "visits"],
        [[5, 4970], [12, 850], [20, 1200], [35, 12031]],
        [without("visits", "thousands marks", "'4.970' is 4970")],
    ),
    "thousands_point_doubtful.csv": (
        ["a"],
        [[0.5], [1.25], [2]],
        [
            "1 column left out: 'dose' ('1.250' may be a fraction or thousands; give the decimal sign)",
        ],
    ),
    "bars.csv": (
        ["x", "y"],
        [[1.5, 2], [3, 4], [2, 7]],
        ["cells are separated by vertical bars", named("name")],
    ),
    "currency_letters.csv": (
        ["lisbon", "oslo"],
        [[1200.5, 95], [15, 41.5], [-7, 1]],
        [
            without("lisbon", "currency 'R$' and thousands marks", "'R$ 1,200.50' is 1200.5"),
            without("oslo", "currency 'kr'", "'kr 95' is 95"),
            named("item"),
        ],
    ),
    "sums_without_name.csv": (
        ["births", "deaths"],
        [[57, 40], [84, 12], [29, 15], [81, 3.5]],
        ["the last row left out: it holds sums of the others", named("region")],
    ),
    "units_joined.csv": (
        ["depth m", "acidity"],
        [[1.5, 7.1], [2.25, 6.9], [4, 8]],
        ["2 rows of column names joined, as in 'depth m'", named("site")],
    ),
    "indian_groups.csv": (
        ["income"],
        [[1234567], [105000], [9999]],
        [without("income", "thousands marks", "'12,34,567' is 1234567"), named("state")],
    ),
    "percent.csv": (
        ["share", "turnout"],
        [[0.12, 0.005], [0.075, 1], [0, 0.6325]],
        ["2 columns read as shares ('share', 'turnout'): '12%' is 0.12", named("who")],
    ),
    "limits.csv": (
        ["lead", "ph"],
        np.column_stack(
            [
                [0.5, NAN, 0.25, 0.125, 1.5, 2.5, 0.75, 0.5, 0.5, 0.5],
                [7.1, 7.2, 7.3, 7.4, 7.5, 7.6, 7.7, 7.8, 7.9, 6.9],
            ]
        ),
        [
            named("well"),
            "column 'lead' has 1 cell that is a limit and no value, taken as missing: '<0.01'",
            "1 column left out: 'zinc' (3 of its 10 cells are limits and not values, the first is '<0.01'; put "
            "numbers in their place to use it)",
            "1 cell is missing, in 1 column: 'lead'",
        ],
    ),
    "currency_before.csv": (
        ["price", "cost"],
        [[3.5, 1096.63], [12, -5.1], [0.99, -7.25]],
        [
            without("price", "currency '€'", "'€3.50' is 3.5"),
            without(
                "cost",
                "currency '$' and thousands marks, with parentheses as minus signs",
                "'($7.25)' is -7.25",
            ),
            named("item"),
        ],
    ),
    "currency_after.csv": (
        ["price"],
        [[3.5], [1012], [-0.99]],
        [
            SEMICOLONS,
            COMMAS,
            without("price", "currency '€' and thousands marks", "'1.012,00 €' is 1012"),
            named("item"),
        ],
    ),
    "units.csv": (
        ["weight", "fever", "sugar"],
        [[70.1, 36.6, 91], [85, 38.25, 102], [64.35, -40, 88]],
        [
            without("weight", "unit 'kg'", "'70.1 kg' is 70.1"),
            without("fever", "unit '°C'", "'36.6 °C' is 36.6"),
            without("sugar", "unit 'mg/dL'", "'91 mg/dL' is 91"),
            named("person"),
        ],
    ),
    "units_differ.csv": (
        ["age"],
        [[31], [45], [28], [60]],
        [named("person"), "1 column left out: 'weight' (its cells have different units: 'kg', 'lb')"],
    ),
    "two_conventions.csv": (
        ["rain"],
        [[10], [20], [30], [40]],
        [
            SEMICOLONS,
            named("plot"),
            "1 column left out: 'yield' (its numbers are written in different ways, as '1,5')",
        ],
    ),
    "doubt.csv": (
        ["a", "b"],
        [[1.5, 1.5], [2.5, 2.5], [3.5, 3.25]],
        [
            SEMICOLONS,
            COMMAS,
            named("site"),
            "1 column left out: 'c' ('1,234' may be a fraction or thousands; give the decimal sign)",
        ],
    ),
    "title.csv": (
        ["flow", "oxygen"],
        [[3.5, 8], [4.25, 9], [1.5, 7]],
        [
            "1 row above the column names left out: 'Survey of the river spring 2024'",
            named("station"),
        ],
    ),
    "title_padded.csv": (
        ["births", "deaths", "area"],
        [[120, 98, 4.5], [230, 201, 7.25], [87, 90, 2.5]],
        [
            "2 rows above the column names left out: 'Annual report', 'prepared by the office'",
            named("district"),
        ],
    ),
    "title.xlsx": (
        ["yield", "price", "share"],
        [[1.5, 3.5, 0.12], [2.25, 4.25, 0.075], [3, 5, 0.8]],
        [
            "1 row above the column names left out: 'Results of the trial'",
            without("price", "currency '€'", "'€3.50' is 3.5"),
            "column 'share' read as shares: '12%' is 0.12",
            named("plot"),
        ],
    ),
    "header_groups.csv": (
        ["Blood hb", "Blood wbc", "Urine ph", "Urine protein"],
        [[13.5, 6.1, 6.5, 0], [12.25, 7.5, 7, 1], [15, 4.9, 5.5, 0]],
        ["2 rows of column names joined, as in 'Urine protein'", named("patient")],
    ),
    "header_units.csv": (
        ["age years", "height cm", "mass kg"],
        [[31, 170.5, 71], [45, 182, 88.25], [28, 165, 59.5]],
        ["2 rows of column names joined, as in 'mass kg'"],
    ),
    "comments.tsv": (
        ["minute", "a", "b"],
        np.column_stack(
            [
                [1, 2, 4, 7, 9, 12, 13, 15, 18, 20, 21, 25, 27, 28, 30, 33, 36],
                [2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5],
                [3, 4, 7, 1, 2, 3, 5, 6, 8, 9, 1, 2, 3, 4, 5, 6, 7],
            ]
        ),
        ["3 comment lines left out (beginning with '#')"],
    ),
    "totals.csv": (
        ["apples", "pears"],
        [[12, 3.5], [30, 4.25], [7, 1.25]],
        ["the last row ('Total') left out: it holds sums of the others", named("shop")],
    ),
    "otu_table.tsv": (
        ["otu1", "otu2", "otu3", "otu4"],
        [[10, 0, 7, 1], [0, 25, 8, 2], [3, 1, 0, 99]],
        [
            "1 comment line left out (beginning with '#')",
            named("OTU ID"),
            "1 column left out: 'taxonomy' (it holds text)",
            "the table is turned, so that its columns are rows ('OTU ID' names features); left out: 'taxonomy'",
        ],
    ),
    "questionnaire.csv": (
        ["Q1", "Q2", "age", "visits"],
        np.column_stack(
            [
                [1, NAN, 3, 2, 6, 5, 4, 1, 2, 3],
                [6, 2, 5, NAN, NAN, 1, 4, 3, 2, 6],
                [31, 45, 28, 60, 33, 47, 52, 39, 71, 22],
                [0, 3, NAN, 1, 2, 0, 5, 1, 4, NAN],
            ]
        ),
        [
            no_amount("respondent_id", "its name says that it labels rows"),
            coded("Q1", "1 cell equal to 99"),
            coded("Q2", "2 cells equal to 98 or 99"),
            coded("visits", "2 cells equal to -9"),
            "5 cells are missing, in 3 columns: 'Q1', 'Q2', 'visits'",
        ],
    ),
    "labels.csv": (
        ["height"],
        [[170.5], [165.25], [181], [175.5], [169], [158.75], [190], [172.5], [166]],
        [
            no_amount("nr", "its name says that it labels rows"),
            no_amount("zip_code", "its name says that it labels rows"),
            no_amount("year", "it holds years"),
        ],
    ),
    "dates.csv": (
        ["temp"],
        [[-3.5], [-1.25], [0]],
        [named("when"), "1 column left out: 'day' (it holds dates)"],
    ),
    "totals_of_more_rows.csv": (
        ["weight", "height"],
        [[12.5, 3], [30, 4.25], [7, 1.25]],
        [
            "the last row left out: it is called 'Total' where the others have numbers",
            "column 'order_id' left out: its name says that it labels rows (keep it to use it as an amount)",
        ],
    ),
    "totals_and_source.csv": (
        ["sales", "units"],
        [[10.5, 3], [20.25, 4], [30, 5]],
        ["the last row ('Total') left out: it holds sums of the others, with 1 row below", named("region")],
    ),
    "sums_and_means.csv": (
        ["apples", "pears"],
        [[3, 5], [4, 6], [8, 1]],
        [
            "the last row ('Sum') left out: it holds sums of the others; the last row ('Mean') left out: it holds "
            "means of the others",
            named("shop"),
        ],
    ),
    "zeros_before.csv": (
        ["month", "sold"],
        [[i % 12 + 1, i % 5] for i in range(32)],
        [no_amount("code", "its numbers have zeros before them, as labels have")],
    ),
    "more_than_numbers.csv": (
        ["age", "dose"],
        [[30, 1.5], [41, 2.5], [52, 3.25]],
        [
            "1 column left out: 'mean' (its cells hold more than a number each, as '4.5 ± 0.2')",
            "1 column left out: 'pressure' (its cells hold more than a number each, as '120/80')",
        ],
    ),
    "minus_after.csv": (
        ["change", "bookings"],
        [[-41.2, 3], [12, 5], [-1107.5, 2]],
        [
            SEMICOLONS,
            COMMAS,
            "column 'change' read without thousands marks, with minus signs after numbers: '41,20-' is -41.2",
            named("account"),
        ],
    ),
    "fortran.csv": (["energy", "steps"], [[2500, 1], [0.0125, 4], [-7, 2]], []),
    "minus_sign.csv": (["depth", "change"], [[1, -3.5], [2, 2.25], [3, -0.001]], []),
    "quote_in_the_middle.csv": (["price"], [[1], [2], [3]], [named("screen")]),
    "windows_1252.csv": (
        ["Größe", "Einkommen (€)", "Anteil"],
        [[164.5, 2609.18, 0.215], [171, 912, 0.03], [180.25, 12000.5, 1]],
        [
            "the file is not in UTF-8; read as Windows-1252, so check names with accents",
            "cells are separated by semicolons",
            "commas within numbers read as decimal signs",
            "column 'Einkommen (€)' read without currency '€' and thousands marks: '2.609,18 €' is 2609.18",
            "column 'Anteil' read as shares: '21,5 %' is 0.215",
        ],
    ),
    "utf_16.txt": (["red", "green"], [[4, 0], [7, 3], [1, 12]], [named("probe")]),
    "accounting.csv": (
        ["profit", "debt"],
        [[-1315.32, 5], [290.1, 7], [-12, 9]],
        [
            "column 'profit' read without thousands marks, with parentheses as minus signs: '(1,315.32)' is -1315.32",
            named("year_end"),
        ],
    ),
    "title_blank_two_headers.csv": (
        ["Money income", "Money rent", "People adults", "People children"],
        [[2609, 315, 2, 0], [3120, 402, 1, 3], [1980, 290, 2, 1]],
        [
            "3 rows above the column names left out: 'Household survey 2021', 'Prepared by the bureau'",
            "2 rows of column names joined, as in 'People children'",
            "the last row ('Total') left out: it holds sums of the others",
            named("Region"),
        ],
    ),
    "otu_numbers.tsv": (
        ["1000", "1037", "2048"],
        [[10, 0, 7], [0, 25, 8]],
        [
            "1 comment line left out (beginning with '#')",
            named("OTU ID"),
            "1 column left out: 'taxonomy' (it holds text)",
            "the table is turned, so that its columns are rows ('OTU ID' names features); left out: 'taxonomy'",
        ],
    ),
    "line_break_in_a_cell.csv": (["a", "b"], [[1, 2], [3, 4], [5, 6]], [named("name")]),
    "compact_dates.csv": (
        ["a"],
        [[9], [1], [49], [4], [81]],
        [
            "1 column left out: 'clock' (it holds dates)",
            no_amount("day", "it holds dates"),
            no_amount("born", "it holds years"),
        ],
    ),
    "two_sheets.xlsx": (
        ["oak", "ash"],
        [[5, 1], [0, 7], [2, 3]],
        ["sheet 'data' read; left out: 'README'", named("plot")],
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_messy_file(name):
    columns, values, notes = NUMBERS[name]
    frame = read_table(MESSY / name)
    assert list(frame.column_names) == columns
    np.testing.assert_allclose(frame.values, values, rtol=1e-12, atol=0)
    assert list(frame.notes) == notes


@pytest.mark.parametrize(("decimal", "dose"), [(".", [1.25, 2, 3.125]), (",", [1250, 2, 3125])])
def test_a_given_decimal_sign_settles_doubts(decimal, dose):
    frame = read_table(MESSY / "thousands_point_doubtful.csv", decimal=decimal)
    np.testing.assert_allclose(frame.values[:, frame.column_names.index("dose")], dose, rtol=1e-12)


def test_an_open_quotation_mark_is_named_by_its_line():
    with pytest.raises(ValueError, match=r"unclosed_quote\.csv, line 3: a quotation mark opens a cell there"):
        read_table(MESSY / "unclosed_quote.csv")
    # The next quotation mark closes it, and one row would be lost.
    with pytest.raises(ValueError, match=r"in_names\.csv, line 3: a quotation mark opens a cell there"):
        read_table(MESSY / "unclosed_quote_in_names.csv")


def test_an_open_quotation_mark_in_a_long_file(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 500 + '3.4,"5\n' + "1,2\n" * 50_000)
    with pytest.raises(ValueError, match="line 502: a quotation mark"):
        read_table(path)


def test_thousands_far_down_are_seen(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a;b\n" + "850;1,5\n" * 500 + "4.970;2,5\n")
    np.testing.assert_array_equal(read_table(path).values[-1], [4970, 2.5])


@pytest.mark.parametrize(
    ("text", "options", "names", "values"),
    [
        ("junk\nmore,junk\na,b\n1,2\n3,4\n", {"skip": 2}, ("a", "b"), [[1, 2], [3, 4]]),
        ("a,b\nu,v\n1,2\n3,4\n", {"header": 2}, ("a u", "b v"), [[1, 2], [3, 4]]),
        ("u,v\n1,2\n3,4\n", {"header": 0, "skip": 1}, ("x1", "x2"), [[1, 2], [3, 4]]),
        ("% note\na,b\n1,2\n% note\n3,4\n", {"comment": "%"}, ("a", "b"), [[1, 2], [3, 4]]),
        ("#a,b\n1,2\n3,4\n", {}, ("a", "b"), [[1, 2], [3, 4]]),
        ("#a,b\n1,2\n3,4\n", {"comment": ""}, ("#a", "b"), [[1, 2], [3, 4]]),
        ("A sentence\n1;2;3\n4;5;6\n", {}, ("x1", "x2", "x3"), [[1, 2, 3], [4, 5, 6]]),
        ("id,a\n#1,2\n#2,3\n#3,4\n", {}, ("a",), [[2], [3], [4]]),
    ],
    ids=["skip", "header-2", "header-0", "comment", "names-in-comment", "no-comments", "no-names", "data"],
)
def test_what_stands_above_the_data(tmp_path, text, options, names, values):
    path = tmp_path / "t.csv"
    path.write_text(text)
    frame = read_table(path, **options)
    assert frame.column_names == names
    np.testing.assert_array_equal(frame.values, values)


def test_lines_keep_their_numbers_below_titles_and_comments(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("# note\nTitle\n\na,b\n1,2\n3,4\n5,6,7\n8,9\n")
    with pytest.raises(ValueError, match="line 7: expected 2 cells"):
        read_table(path)


def test_all_lines_skipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="all lines are comments or skipped"):
        read_table(path, skip=9)


def test_keep_insists():
    frame = read_table(MESSY / "questionnaire.csv", keep=["respondent_id", "Q*"])
    assert frame.column_names == ("respondent_id", "Q1", "Q2", "age", "visits")
    assert frame.values[1, 1] == 99
    assert frame.n_missing == 2
    assert dict(frame.codes) == {"visits": (-9.0,)}
    with pytest.raises(ValueError, match=r"no column is called 'zip'. It has 'respondent_id', 'Q1'"):
        read_table(MESSY / "questionnaire.csv", keep=["zip"])


def test_given_codes_are_not_found_again():
    frame = read_table(MESSY / "questionnaire.csv", codes={"Q1": (99, 6)})
    assert np.isnan(frame.values[[1, 4], 0]).all()
    assert frame.values[3, 1] == 99


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"columns": ["Q*"]}, ("Q1", "Q2")),
        ({"drop": ["Q*", "visits"]}, ("age",)),
        ({"columns": ["Q*", "age"], "drop": ["Q2"]}, ("Q1", "age")),
    ],
    ids=["columns", "drop", "both"],
)
def test_columns_by_pattern(options, names):
    assert read_table(MESSY / "questionnaire.csv", **options).column_names == names


def test_columns_of_arrays_by_pattern(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(12.0).reshape(3, 4))
    frame = read_table(tmp_path / "t.npy", columns=["x[1-3]"], drop=["x2"])
    assert frame.column_names == ("x1", "x3")
    np.testing.assert_array_equal(frame.values, [[0, 2], [4, 6], [8, 10]])


def test_tables_are_turned_on_request(tmp_path):
    frame = read_table(MESSY / "totals.csv", transpose=True)
    assert (frame.column_names, frame.row_names) == (("north", "south", "east"), ("apples", "pears"))
    np.testing.assert_array_equal(frame.values, [[12, 30, 7], [3.5, 4.25, 1.25]])
    flat = read_table(MESSY / "otu_table.tsv", transpose=False)
    assert flat.column_names == ("gut1", "gut2", "skin1")
    np.save(tmp_path / "t.npy", np.ones((3, 2)))
    assert read_table(tmp_path / "t.npy", transpose=True).values.shape == (2, 3)
    with pytest.raises(ValueError, match="has no columns to set aside"):
        read_table(MESSY / "totals.csv", transpose=True, aside=["pears"])


def test_there_are_files_of_every_case():
    refused = {"unclosed_quote.csv", "unclosed_quote_in_names.csv"}
    assert {path.name for path in MESSY.iterdir()} == {*NUMBERS, *refused}
    assert len(NUMBERS) >= 25


def test_one_line_for_one_code_of_many_columns(tmp_path):
    answers = np.random.default_rng(0).integers(1, 6, (60, 20)).astype(float)
    answers[np.arange(20), np.arange(20)] = 99
    pd.DataFrame(answers, columns=[f"Q{j}" for j in range(20)]).to_csv(tmp_path / "q.csv", index=False)
    notes = [note for note in read_table(tmp_path / "q.csv").notes if "99" in note]
    assert len(notes) == 1
    assert notes[0].startswith("20 columns ('Q0', 'Q1', ")
    assert "'Q19'): 20 cells equal to 99 taken as missing" in notes[0]


@pytest.mark.parametrize("style", ["%Y-%m-%d", "%d.%m.%Y", "%d %b %Y", "%B %d, %Y", "%b-%y"])
def test_dates_of_all_styles_are_left_out(tmp_path, style):
    days = pd.date_range("2020-01-30", periods=30, freq="9D")
    frame = pd.DataFrame(
        {"when": [f"{day:{style}}" for day in days], "a": np.arange(30) % 7, "b": 1.5 * np.arange(30)}
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    read = read_table(tmp_path / "d.csv", id_column=None)
    assert list(read.column_names) == ["a", "b"]
    assert any("'when'" in note and ("dates" in note or "row names" in note) for note in read.notes)
