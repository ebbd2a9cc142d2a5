"""Columns of text at the command line, and a questionnaire."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import anypca
from anypca.cli import main
from anypca.cli._outcome import Outcome

SCALES, ITEMS, LEVELS = 5, 5, 6


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Forty rows with one direction, of which words know too."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=40)
    path = tmp_path_factory.mktemp("labels") / "t.csv"
    pd.DataFrame(
        {
            "height": np.round(10.0 * z + rng.normal(size=40), 2),
            "mass": np.round(5.0 * z + rng.normal(size=40), 2),
            "fit": np.take(["tight", "loose", "good"], np.digitize(z, [-0.5, 0.5])),
            "hue": np.take(["red", "blue", "green"], rng.integers(0, 3, 40)),
        }
    ).to_csv(path, index=False)
    return path


def test_orders_are_given_and_new_labels_told(table, tmp_path, capsys):
    arguments = ["fit", str(table), "--model", "epca", "-k", "1", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--family", "fit=tight<loose<good", "--drop", "mass"]) == 0
    said = capsys.readouterr().out
    assert "kind" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    found = {each["column"]: each for each in summary["column_families"]}
    assert {name: (each["kind"], each["family"]) for name, each in found.items()} == {
        "height": ("real numbers", "gaussian"),
        "fit": ("ratings", "ordinal"),
        "hue": ("categories", "nominal"),
    }
    assert found["height"]["runner_up"]
    model = anypca.load(tmp_path / "out" / "model.anypca")
    assert model.layout_.categories("fit") == ("tight", "loose", "good")
    (tmp_path / "new.csv").write_text("height,fit,hue\n3.5,good,red\n-4,tight,pink\n", encoding="utf-8")
    scores = tmp_path / "scores.csv"
    assert main(["transform", str(tmp_path / "out"), str(tmp_path / "new.csv"), "--out", str(scores)]) == 0
    assert "warning: column 'hue' holds 'pink', which it did not hold in fit" in capsys.readouterr().out
    new = pd.DataFrame({"height": [3.5, -4.0], "fit": ["good", "tight"], "hue": ["red", None]})
    np.testing.assert_allclose(pd.read_csv(scores)["component_1"], np.ravel(model.transform(new)), rtol=1e-8)


def test_an_unknown_order_is_asked_for(table, tmp_path, capsys):
    arguments = ["fit", str(table), "--model", "epca", "--out", str(tmp_path / "out")]
    assert main([*arguments, "--family", "hue=ordinal"]) == 2
    said = capsys.readouterr().err
    assert "--family hue=ordinal: the order of" in said
    assert "Say it, as in --family 'hue=" in said
    assert main([*arguments, "--family", "hue=red<blue"]) == 2
    assert "the column also holds 'green'. Name all labels." in capsys.readouterr().err


def write_questionnaire(path, n, seed=0):
    """Five scales of five items each, answers from 1 to 6, numbers of respondents, and 99 for no answer."""
    rng = np.random.default_rng(seed)
    latent = np.repeat(rng.normal(size=(n, SCALES)), ITEMS, axis=1) * 1.5 + rng.logistic(
        size=(n, SCALES * ITEMS)
    )
    answers = 1 + np.digitize(latent, [-2.5, -1.2, 0.0, 1.2, 2.5])
    answers[rng.random(answers.shape) < 0.01] = 99
    order = rng.permutation(SCALES * ITEMS)
    names = [f"{'ABCDE'[j // ITEMS]}{j % ITEMS + 1}" for j in order]
    table = pd.DataFrame(answers[:, order], columns=names)
    table.insert(0, "respondent_id", 1000 + np.arange(n))
    table.to_csv(path, index=False)


def test_a_questionnaire_has_its_scales(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Outcome, "findings", ())  # residuals are not asked for here
    write_questionnaire(tmp_path / "q.csv", 1000)
    assert main(["fit", str(tmp_path / "q.csv"), "--out", str(tmp_path / "out"), "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "taken as missing, far from all others" in said
    model = anypca.load(tmp_path / "out" / "model.anypca")
    assert model.n_components_ == SCALES
    assert "respondent_id" not in model.feature_names_in_
    assert {record.family for record in model.family_report_} == {"ordinal"}
    loadings = np.abs(model.rotate("varimax").components_)
    names = np.asarray(model.feature_names_in_)
    found = {"".join(sorted({name[0] for name in names[np.argsort(-row)[:ITEMS]]})) for row in loadings}
    assert found == set("ABCDE")
