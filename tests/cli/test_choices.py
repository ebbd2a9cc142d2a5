"""Choices for single columns on the command line: families, what to read, what is an amount, codes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from anypca.cli import main
from anypca.cli._models import ModelRequest, Shape, build
from anypca.cli._options import families

SHAPE = Shape(4, False, ("Q1", "Q2", "age", "visits"), True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, ("auto", ())),
        (["poisson"], ("poisson", ())),
        (["Q*=ordinal", "visits = poisson"], ("auto", (("Q*", "ordinal"), ("visits", "poisson")))),
        (["binomial(n_trials=16)"], ("binomial(n_trials=16)", ())),
        (["gaussian", "a=binomial(n_trials=3)"], ("gaussian", (("a", "binomial(n_trials=3)"),))),
    ],
)
def test_words_for_families(words, expected):
    assert families(words) == expected


def test_families_by_column():
    wanted = ModelRequest("epca", "gaussian", by_column=(("Q*", "ordinal"), ("Q2", "poisson")))
    assert build(wanted, SHAPE).family == {"default": "gaussian", "Q1": "ordinal", "Q2": "poisson"}
    nameless = Shape(4, False, SHAPE.names, False)
    assert build(wanted, nameless).family == {"default": "gaussian", 0: "ordinal", 1: "poisson"}


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        (ModelRequest("epca", by_column=(("vists", "poisson"),)), "no such column. Did you mean 'visits'"),
        (ModelRequest("ppca", by_column=(("age", "poisson"),)), "for real values.*--family age=poisson"),
    ],
)
def test_families_that_fit_nothing(wanted, complaint):
    with pytest.raises(ValueError, match=complaint):
        build(wanted, SHAPE)


def test_two_families_for_all_columns(counts, capsys):
    assert main(["fit", str(counts), "--family", "poisson", "--family", "gaussian"]) == 2
    assert "one family for all columns; got poisson and gaussian" in capsys.readouterr().err


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(5)
    z = rng.normal(size=60)
    table = pd.DataFrame(
        {f"Q{j}": np.clip(np.round(3.5 + 1.5 * z + rng.normal(size=60)), 1, 6) for j in range(1, 5)}
    )
    table.insert(0, "respondent_id", rng.permutation(90000)[:60])
    table["visits"] = rng.poisson(np.exp(0.5 + 0.5 * z))
    table.loc[3, "Q1"] = 99
    path = tmp_path / "survey.csv"
    table.to_csv(path, index=False)
    return path


def test_choices_reach_the_fit_and_the_transform(survey, tmp_path, capsys):
    choices = [
        "--model",
        "epca",
        "-k",
        "1",
        "--family",
        "gaussian",
        "--family",
        "visits=poisson",
        "--drop",
        "Q4",
    ]
    out = tmp_path / "out"
    assert main(["fit", str(survey), *choices, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["column_names"] == ["Q1", "Q2", "Q3", "visits"]
    assert found["missing_codes"] == {"Q1": [99.0]}
    assert {group["family"]: group["columns"] for group in found["families"]} == {
        "gaussian": ["Q1", "Q2", "Q3"],
        "poisson": ["visits"],
    }
    assert any("respondent_id" in note for note in found["notes"])
    # In nine new rows 99 and running numbers could not be told from amounts; the fit knows.
    new = pd.DataFrame({"Q1": [99, *range(1, 9)], "Q2": range(1, 10), "Q3": 3, "visits": 2})
    new.to_csv(tmp_path / "new.csv", index=False)
    target = tmp_path / "scores.csv"
    assert main(["transform", str(out), str(tmp_path / "new.csv"), "--out", str(target), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"] == 4
    assert told["missing_fraction"] == pytest.approx(1 / 36)


def test_keep_puts_labels_into_the_model(tmp_path, call):
    rng = np.random.default_rng(0)
    order = rng.permutation(900_000)[:60] + 100_000
    table = {"id": order, "case": np.arange(60), "a": rng.poisson(3.0, 60), "b": rng.poisson(3.0, 60)}
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--model", "epca", "-k", 1, "--json"]
    _, told, _ = call(*words, "-o", tmp_path / "left")
    assert json.loads(told)["column_names"] == ["a", "b"]
    _, told, _ = call(*words, "-o", tmp_path / "kept", "--keep", "id,case")
    found = json.loads(told)["column_families"]
    assert [(one["column"], one["family"]) for one in found[:2]] == [("id", "gaussian"), ("case", "gaussian")]
    assert not any(one["family"] == "excluded" for one in found)
