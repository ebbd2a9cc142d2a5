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
            "colour": np.take(COLOURS, np.digitize(z[:, 1] + 0.5 * rng.normal(size=n), [0.3, 1.5])),
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
    kinds = ["excluded", "bernoulli", "bernoulli", "nominal", "ordinal", "ordinal"]
    assert [record.family for record in report.values()][:6] == kinds
    for name, words in (
        ("sex", "f = 0 and m = 1"),
        ("size", "S < M < L < XL"),
        ("grade", "c < b < a"),
        ("name", "names"),
    ):
        assert words in report[name].rule  # of the grades f never occurs
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


def test_unknown_labels_are_missing_with_a_warning(model):
    new, same = make_frame(20, seed=1), make_frame(20, seed=1)
    new.loc[3, "colour"] = "pink"
    same.loc[3, "colour"] = None
    with pytest.warns(DataConversionWarning, match="column 'colour' holds 'pink'.*red, green, blue"):
        found = model.transform(new)
    assert_array_equal(found, model.transform(same))


def test_set_output_gives_frames_with_labels(model):
    copy = deepcopy(model).set_output(transform="pandas")
    drawn = copy.sample(400, random_state=0)
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


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_other_frames_give_the_same_model(model, kind):
    frame = with_holes(make_frame())
    if kind == "polars":
        grade = pl.col("grade").cast(pl.Enum(["c", "b", "a"]))
        X = pl.from_pandas(frame.astype({"grade": object})).with_columns(grade)
    else:
        X = pa.Table.from_pandas(frame.astype({"grade": pd.CategoricalDtype(["c", "b", "a"], ordered=True)}))
    found = EPCA(2, random_state=0).fit(X)
    assert found.layout_.labels == model.layout_.labels
    assert_allclose(found.transform(X), model.transform(frame), rtol=1e-6, atol=1e-8)
    assert found.impute(X)["sex"].to_list() == model.impute(frame)["sex"].to_list()


def test_families_may_be_given():
    frame = make_frame(60).drop(columns="name")
    given = {"sex": "bernoulli", "colour": "nominal", "size": "nominal", "grade": "excluded"}
    found = EPCA(1, family=given, random_state=0, max_iter=500).fit(frame)
    kinds = ["bernoulli", "bernoulli", "nominal", "nominal", "excluded"]
    assert [record.family for record in found.family_report_][:5] == kinds
    for column, family in (("colour", "ordinal"), ("sex", "poisson")):
        with pytest.raises(ValueError, match=f"column '{column}' .*{family}"):
            EPCA(1, family={column: family}).fit(frame)
    with pytest.raises(ValueError, match=r"is the string '[mf]'"):
        PPCA(1).fit(frame)


def test_categories_without_structure_make_no_component():
    """Plain indicators of three categories exclude each other, which looks like two components each."""
    rng = generator("labels")
    frame = pd.DataFrame(np.take(["a", "b", "c"], rng.integers(0, 3, (300, 6))), columns=list("uvwxyz"))
    assert SePCA(random_state=0).fit(frame).n_components_ == 0


def test_text_that_holds_numbers_is_no_category():
    frame = pd.DataFrame({"x": ["1", "2", "3.5", "7"], "y": [1.0, 2.0, 3.0, 5.0]})
    with pytest.raises(ValueError, match=r"is the string '1'.*Convert numeric text"):
        EPCA(1).fit(frame)


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


@pytest.mark.parametrize(
    "convert", [lambda x: x, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
@pytest.mark.parametrize("family", ["auto", "gaussian"])
def test_dates_are_left_out_with_a_warning(family, convert):
    plain = make_frame(60)[["age", "weight"]]
    frame = convert(dated(plain))
    with pytest.warns(DataConversionWarning, match=r"'when', 'zoned', .* dates"):
        model = EPCA(1, family=family, random_state=0).fit(frame)
    assert_allclose(model.components_[:, 2:], 0.0)
    expected = EPCA(1, family=family, random_state=0).fit(plain)
    assert_allclose(model.components_[:, :2], expected.components_, rtol=1e-9)
    assert_allclose(model.transform(frame), expected.transform(plain), rtol=1e-9)
    if family == "auto":
        assert [record.rule for record in model.family_report_][2:] == ["dates"] * 5


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
