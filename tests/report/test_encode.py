"""The compact forms that the page's script reads."""

from __future__ import annotations

import base64
import json

import numpy as np
import pandas as pd
import pytest

from anypca._words import percent
from anypca.report._encode import MISSING, encode_column, encode_scores, plot_text, to_json
from anypca.report._html import Markup, number, table, tag


def codes_of(column):
    return np.frombuffer(base64.b64decode(column["codes"]), dtype=np.uint8)


@pytest.mark.parametrize("text", ["</script>", "<!--", "&amp;", "\u2028", "\ud800", "'\""], ids=ascii)
def test_json_is_safe_in_a_script_element(text):
    written = to_json({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert written.isascii()
    assert not set("<>&") & set(written)


def test_json_refuses_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([np.nan])


def test_text_for_plotly():
    assert plot_text("<b>&amp;") == "&lt;b&gt;&amp;amp;"


def test_scores_are_kept_to_a_screen_s_precision():
    scores = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 1e6]
    for column, values in zip(encode_scores(scores), scores.T, strict=True):
        codes = np.frombuffer(base64.b64decode(column["codes"]), dtype="<u2")
        np.testing.assert_allclose(column["low"] + column["step"] * codes, values, atol=np.ptp(values) / 1e5)


def test_constant_scores():
    (column,) = encode_scores(np.full((3, 1), 2.5))
    assert (column["low"], column["step"]) == (2.5, 0.0)


def test_few_numbers_are_kept_exactly():
    values = np.array([1.5, np.nan, -2.0, 1.5, 1e6])
    column = encode_column("x", "columns", values)
    assert (column["kind"], column["exact"]) == ("number", True)
    found = [None if code == MISSING else column["levels"][code] for code in codes_of(column)]
    assert found == [1.5, None, -2.0, 1.5, 1e6]


def test_many_numbers_are_kept_nearly():
    values = np.random.default_rng(0).lognormal(size=5000)
    column = encode_column("x", "columns", values)
    assert column["exact"] is False
    found = np.array(column["levels"])[codes_of(column)]
    # A bin holds a 255th of the rows.
    rank = np.argsort(np.argsort(values))
    assert np.abs(np.searchsorted(np.sort(values), found) - rank).max() <= 5000 / 255 + 1


def test_few_counts_of_a_column_have_a_scale():
    assert encode_column("x", "columns", np.array([0.0, 1.0, 2.0]))["kind"] == "number"
    assert encode_column("x", "columns", np.array([0.0, 1.0, 1.0]))["kind"] == "category"


CATEGORIES = [
    pytest.param(np.array(["b", "a", "b"]), ["a", "b"], [1, 0, 1], id="text"),
    pytest.param(np.array(["b", None, np.nan], dtype=object), ["b"], [0, MISSING, MISSING], id="missing"),
    pytest.param(np.array([10, 9, 10]), ["9", "10"], [1, 0, 1], id="labels"),
    pytest.param(np.array([True, False, True]), ["False", "True"], [1, 0, 1], id="bool"),
    pytest.param(
        pd.array(["u", pd.NA, "v"], dtype="string").to_numpy(), ["u", "v"], [0, MISSING, 1], id="pandas-NA"
    ),
]


@pytest.mark.parametrize(("values", "levels", "codes"), CATEGORIES)
def test_categories(values, levels, codes):
    column = encode_column("x", "metadata", values)
    assert column["kind"] == "category"
    assert column["levels"] == levels
    assert codes_of(column).tolist() == codes


def test_rare_categories_share_a_name():
    values = np.array([f"k{i}" for i in range(100)] + ["k7"] * 5)
    column = encode_column("x", "metadata", values)
    assert len(column["levels"]) == 24
    assert column["levels"][-1] == "77 others"
    assert column["levels"][codes_of(column)[-1]] == "k7"


def test_html_is_escaped_unless_markup():
    assert tag("p", "<b>", Markup("<i>x</i>"), title='"') == '<p title="&quot;">&lt;b&gt;<i>x</i></p>'
    assert "<td>&lt;</td>" in table(("a",), [("<",)])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1\u202f234\u202f567"), (-0.5, "\u22120.5"), (np.nan, "–"), (1.23456, "1.235")],
    ids=str,
)
def test_numbers(value, text):
    assert number(value) == text


def test_percent():
    assert percent(0.1234) == "12.3 %"
