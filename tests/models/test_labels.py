"""Columns of text, answers and categories in data frames."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.draws import generator

import anypca
from anypca import EPCA, PPCA, SePCA
from anypca.exceptions import DataConversionWarning
from anypca.selection import diagnose

SIZES, COLOURS = ["S", "M", "L", "XL"], ["red", "green", "blue"]


def make_frame(n=150, seed=0):
    """Draw two directions; text, answers and categories, all of which depend on them, and names."""
    rng = generator("frame", seed)
    z = rng.normal(size=(n, 2))
    grade = np.array(["c", "b", "a"])[np.digitize(z.sum(axis=1), [-0.7, 0.7])]
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in rng.permutation(10 * n)[:n]],
            "sex": np.where(z[:, 0] + rng.logistic(size=n) > 0, "m", "f"),
            "smoker": pd.array(z[:, 1] + rng.logistic(size=n) > 0, dtype="boolean"),
            "colour": np.take(COLOURS, np.digitize(z[:, 1] + 0.5 * rng.normal(size=n), [0.0, 1.0])),
            "size": np.take(SIZES, np.digitize(z[:, 0] + 0.5 * rng.normal(size=n), [-1.0, 0.0, 1.0])),
            "grade": pd.Categorical(grade, categories=["f", "c", "b", "a"], ordered=True),
            "age": 40.0 + 10.0 * z[:, 0] + 5.0 * rng.normal(size=n),
            "weight": 70.0 + 8.0 * z[:, 1] + 4.0 * rng.normal(size=n),
        }
    )
    return frame


def with_holes(frame):
    frame = frame.copy()
    for j, name in enumerate(frame.columns):
        frame.loc[frame.index[3 * j :: 11], name] = None
    return frame


@pytest.fixture(scope="module")
def model():
    return EPCA(2, random_state=0).fit(with_holes(make_frame()))


def test_each_kind_of_column_has_its_family(model):
    report = {record.column: record for record in model.family_report_}
    assert {name: record.family for name, record in report.items()} == {
        "name": "excluded",
        "sex": "bernoulli",
        "smoker": "bernoulli",
        "colour": "nominal",
        "size": "ordinal",
        "grade": "ordinal",
        "age": "gaussian",
        "weight": "gaussian",
    }
    assert report["sex"].rule == "two labels, f = 0 and m = 1"
    assert report["size"].rule == "ordered labels, S < M < L < XL"
    assert report["grade"].rule == "ordered labels, c < b < a"  # f never occurs
    assert report["name"].rule == "a different one in every row: names"
    assert model.layout_.names[:4] == ("sex", "smoker", "colour=red", "colour=green|rest")
    assert model.layout_.categories("colour") == ("red", "green", "blue")


def test_empty_cells_get_labels_and_others_stay(model):
    frame = with_holes(make_frame())
    frame.index = [f"row {i}" for i in range(len(frame))]
    filled = model.impute(frame)
    assert list(filled.columns) == list(frame.columns)
    assert_array_equal(filled.index, frame.index)
    assert filled.drop(columns="name").notna().all(axis=None)
    assert filled["grade"].dtype == pd.CategoricalDtype(["c", "b", "a"], ordered=True)
    assert filled["smoker"].dtype == bool
    for name in frame.columns:
        seen = frame[name].notna().to_numpy()
        assert (filled[name].to_numpy()[seen] == frame[name].to_numpy()[seen]).all()
    assert filled["name"].isna().sum() == frame["name"].isna().sum()  # nothing is known of names


def test_unknown_labels_are_missing_and_told(model):
    new, same = make_frame(20, seed=1), make_frame(20, seed=1)
    new.loc[3, "colour"] = "pink"
    same.loc[3, "colour"] = None
    with pytest.warns(DataConversionWarning, match="column 'colour' holds 'pink'.*red, green, blue"):
        found = model.transform(new)
    assert_array_equal(found, model.transform(same))


def test_set_output_gives_frames_with_labels(model):
    copy = deepcopy(model).set_output(transform="pandas")
    drawn = copy.sample(50, random_state=0)
    assert set(drawn["size"]) <= set(SIZES)
    assert set(drawn["colour"]) == set(COLOURS)
    assert drawn["name"].isna().all()
    back = copy.inverse_transform(model.transform(make_frame()))
    assert set(back["sex"]) == {"f", "m"}
    chances = copy.class_probabilities(model.transform(make_frame()), "colour")
    assert list(chances.columns) == ["red", "green", "blue"]
    assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    assert list(copy.class_probabilities(model.transform(make_frame()), "sex").columns) == ["f", "m"]


def test_a_saved_model_knows_the_labels_but_no_names(model, tmp_path):
    anypca.save(model, tmp_path / "model")
    again, frame = anypca.load(tmp_path / "model"), make_frame(30, seed=2)
    assert again.layout_ == model.layout_
    assert_array_equal(again.transform(frame), model.transform(frame))
    assert b"person" not in (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "objects"])
def test_other_tables_say_the_same(model, kind):
    frame = with_holes(make_frame())
    frame["grade"] = frame["grade"].astype(object)
    build = {
        "polars": lambda: pl.from_pandas(frame).with_columns(pl.col("grade").cast(pl.Enum(["c", "b", "a"]))),
        "pyarrow": lambda: pa.Table.from_pandas(
            frame.astype({"grade": pd.CategoricalDtype(["c", "b", "a"], ordered=True)})
        ),
        "objects": lambda: frame.astype(object).to_numpy(),
    }
    X = build[kind]()
    if kind == "objects":
        found = EPCA(2, random_state=0, family={5: "excluded"}).fit(X)
        assert found.layout_.names[:3] == ("x1", "x2", "x3=red")
        assert found.impute(X)[3, 1] in ("f", "m")
        return
    found = EPCA(2, random_state=0).fit(X)
    assert found.layout_.labels == model.layout_.labels
    assert_array_equal(found.transform(X), model.transform(with_holes(make_frame())))
    assert found.impute(X)["sex"].to_list() == model.impute(with_holes(make_frame()))["sex"].to_list()


def test_users_may_insist():
    frame = make_frame(60).drop(columns="name")
    given = {"sex": "bernoulli", "colour": "nominal", "size": "nominal", "grade": "excluded"}
    found = EPCA(1, family=given, random_state=0, max_iter=500).fit(frame)
    assert [record.family for record in found.family_report_][:5] == [
        "bernoulli",
        "bernoulli",
        "nominal",
        "nominal",
        "excluded",
    ]
    with pytest.raises(ValueError, match=r"column 'colour' is to be ordinal, and the order .* is not known"):
        EPCA(1, family={"colour": "ordinal"}).fit(frame)
    with pytest.raises(ValueError, match=r"column 'sex' holds 2 labels \(f, m\), and family 'poisson'"):
        EPCA(1, family={"sex": "poisson"}).fit(frame)
    with pytest.raises(ValueError, match=r"is the string '[mf]'"):
        PPCA(1).fit(frame)


def test_categories_that_know_nothing_make_no_component():
    """Plain indicators of three categories exclude each other, which looks like two components each."""
    rng = generator("labels")
    frame = pd.DataFrame(np.take(["a", "b", "c"], rng.integers(0, 3, (300, 6))), columns=list("uvwxyz"))
    assert SePCA(random_state=0).fit(frame).n_components_ == 0


def test_text_that_holds_numbers_is_no_category():
    frame = pd.DataFrame({"x": ["1", "2", "3.5", "7"], "y": [1.0, 2.0, 3.0, 5.0]})
    with pytest.raises(ValueError, match=r"is the string '1'.*Convert numeric text"):
        EPCA(1).fit(frame)


def test_reports_and_diagnostics_take_the_frame(model, tmp_path):
    frame = with_holes(make_frame())
    model.report(tmp_path / "report.html", frame)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a different one in every row: names" in text
    assert "colour=green|rest" in text
    assert '"levels":["L","M","S","XL"]' in text  # a column to colour by
    assert isinstance(diagnose(model, frame), tuple)


def dated(frame):
    """The same with dates of five kinds."""
    days = pd.date_range("2020-02-27", periods=len(frame), freq="D")
    return frame.assign(
        when=days,
        zoned=days.tz_localize("UTC"),
        day=[day.date() for day in days],
        text=[f"{day:%d.%m.%Y}" for day in days],
        few=[f"{day:%b %Y}" for day in days],
    )


DATES = ["when", "zoned", "day", "text", "few"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("family", ["auto", "gaussian"])
def test_dates_are_left_out_and_told(family, library):
    plain = make_frame(60)[["age", "weight"]]
    frame = dated(plain)
    if library == "polars":
        frame = pl.from_pandas(frame)
    elif library == "pyarrow":
        frame = pa.Table.from_pandas(frame)
    with pytest.warns(DataConversionWarning, match="'when', 'zoned', .* hold dates and are left out"):
        model = EPCA(1, family=family, random_state=0).fit(frame)
    assert_allclose(model.components_[:, 2:], 0.0)
    expected = EPCA(1, family=family, random_state=0).fit(plain)
    assert_allclose(model.components_[:, :2], expected.components_, rtol=1e-9)
    assert_allclose(model.transform(frame), expected.transform(plain), rtol=1e-9)
    if family == "auto":
        assert [record.rule for record in model.family_report_ if record.family == "excluded"] == [
            "dates"
        ] * 5


def test_dates_come_back_as_they_were(tmp_path):
    frame = dated(make_frame(60)[["age", "weight"]])
    frame.loc[3, "age"] = np.nan
    with pytest.warns(DataConversionWarning, match="hold dates"):
        model = EPCA(1, random_state=0).fit(frame)
    anypca.save(model, tmp_path / "m")
    again = anypca.load(tmp_path / "m").impute(frame)
    assert not again["age"].isna().any()
    assert list(again["when"]) == list(frame["when"])
    assert list(again["few"]) == list(frame["few"])


def test_dates_of_a_table_of_counts():
    rng = generator("labels")
    frame = dated(pd.DataFrame(rng.poisson(3.0, (60, 4)), columns=list("abcd")))
    with pytest.warns(DataConversionWarning, match="hold dates"):
        model = EPCA(1, random_state=0).fit(frame)
    found = {record.column: record.family for record in model.family_report_}
    assert [found[name] for name in DATES] == ["excluded"] * 5
    assert found["a"] == "negative_binomial"
