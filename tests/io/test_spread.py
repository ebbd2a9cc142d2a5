"""Whole numbers that differ in every row: labels and amounts told apart by their spread."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.io import read_table
from anypca.io._spread import find_labels, is_distinct


def rng():
    return np.random.default_rng(20240611)


def different(draw, n):
    """Some of many draws, all different, in an order of their own."""
    found = np.unique(np.round(draw(8 * n)))
    return rng().permutation(found)[:n]


LABELS = {
    "six-digits": lambda m: rng().integers(100_000, 1_000_000, m),
    "telephones": lambda m: (
        rng().choice([212, 415, 646], m, p=[0.8, 0.15, 0.05]) * 10**7 + rng().integers(10**6, 10**7, m)
    ),
    "close": lambda m: rng().integers(1, 4 * m, m),
    "sites": lambda m: rng().integers(1, 12, m) * 1000 + rng().permuted(np.arange(m) % 300),
    "newer-more": lambda m: 1e7 * np.sqrt(rng().random(m)),
    "year-and-number": lambda m: rng().integers(2015, 2024, m) * 10**6 + rng().integers(1, 300_000, m),
    "very-long": lambda m: rng().integers(10**17, 9 * 10**17, m),
}
AMOUNTS = {
    "bell": lambda m: rng().normal(1e6, 1e5, m),
    "skewed": lambda m: np.exp(rng().normal(12, 0.7, m)),
    "magnitudes": lambda m: np.exp(rng().normal(12, 2.0, m)),
    "falling": lambda m: 1e5 * (1 + rng().pareto(1.2, m)),
    "rounded": lambda m: np.round(rng().integers(10_000, 99_999, m), -(rng().integers(0, 2, m)[0] + 1)),
    "below-zero": lambda m: rng().integers(-50_000, 50_000, m),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    values = different(LABELS[name], 100).astype(float)
    assert is_distinct(values)
    assert list(find_labels({"x": values}, {})[0]) == ["x"]


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts(name):
    values = different(AMOUNTS[name], 100).astype(float)
    assert is_distinct(values)
    assert find_labels({"x": values}, {}) == ({}, [])


def test_a_name_can_say_that_it_is_an_amount():
    values = different(LABELS["six-digits"], 100)
    names = {"order": True, "total_sales": False, "PopulationK": False, "price": False, "popular": True}
    assert {name: bool(find_labels({name: values}, {})[0]) for name in names} == names


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (different(LABELS["six-digits"], 30), "label"),
        (different(lambda m: rng().integers(1, 100_000, m), 30), "doubt"),
        (different(AMOUNTS["magnitudes"], 30), "amount"),
    ],
    ids=["one-length", "lengths-differ", "skewed"],
)
def test_of_few_rows_only_numbers_of_one_length_are_labels(values, found):
    reasons, doubtful = find_labels({"x": values.astype(float)}, {})
    assert ("label" if reasons else "doubt" if doubtful else "amount") == found


def test_too_few_rows_say_nothing():
    assert not is_distinct(different(LABELS["six-digits"], 19))
    assert not is_distinct(different(LABELS["six-digits"], 30) + 0.5)
    assert not is_distinct(np.repeat(different(LABELS["six-digits"], 30), 2))


def test_what_goes_with_another_column_is_no_label():
    even = different(LABELS["six-digits"], 80).astype(float)
    noise = rng().normal(size=80)
    assert find_labels({"x": even}, {"y": noise})[0]
    assert not find_labels({"x": even}, {"y": even + 1e5 * noise})[0]


def test_an_order_of_rows_that_two_columns_have_does_not_count():
    label = np.sort(different(LABELS["six-digits"], 80)).astype(float)
    assert find_labels({"x": label}, {"trend": np.arange(80) + rng().normal(size=80)})[0]
    wavy = label + 3e4 * np.sin(np.arange(80.0))
    assert not find_labels({"x": np.round(wavy)}, {"waves": np.arange(80) + 9 * np.sin(np.arange(80.0))})[0]


def test_three_columns_that_go_together_are_amounts_and_two_are_not_yet():
    base = different(LABELS["six-digits"], 80).astype(float)
    alike = {name: base + 1000 * shift for shift, name in enumerate("abc")}
    assert find_labels(alike, {})[0] == {}
    assert set(find_labels({name: alike[name] for name in "ab"}, {})[0]) == {"a", "b"}


def test_many_columns_are_not_left_out_by_chance():
    normal = np.random.default_rng(5).normal(1e6, 1e5, (60, 50)).round()
    columns = {f"x{j}": normal[:, j] for j in range(50)}
    alone = [name for name, values in columns.items() if find_labels({name: values}, {})[0]]
    together = find_labels(columns, {})[0]
    assert len(together) <= 1 < len(alone)


def test_a_file_says_so_and_keep_insists(tmp_path):
    path, n = tmp_path / "orders.csv", 100
    order, amount = different(LABELS["six-digits"], n), different(AMOUNTS["skewed"], n)[::-1]
    rows = "".join(f"{order[i]:.0f},{amount[i]:.0f},{i % 7}\n" for i in range(n))
    path.write_text("reference,spent,visits\n" + rows)
    frame = read_table(path)
    assert frame.column_names == ("spent", "visits")
    assert frame.notes == (
        "column 'reference' left out: every row has another whole number, and they are spread as labels are "
        "(keep it to use it as an amount)",
    )
    kept = read_table(path, keep=["reference"])
    assert kept.column_names == ("reference", "spent", "visits")
    assert (kept.notes, kept.insisted) == ((), ())
