"""``anypca fit``: what it prints, the files it writes, and the choices for single columns."""

from __future__ import annotations

import html
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import wraps

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator

import anypca
from anypca.datasets import load_digits_counts

FILES = [
    "anypca-manifest.json",
    "biplot.png",
    "contributions_columns.csv",
    "contributions_rows.csv",
    "loadings.csv",
    "model.anypca",
    "report.html",
    "scores.csv",
    "scree.png",
    "summary.json",
]
#: Keys of the document, which are a promise.
KEYS = (
    "schema anypca command source path model parameters seed rows columns column_names missing_fraction reading offset "
    "covariates covariate_levels missing_codes notes warnings findings families column_families converged n_iter "
    "objective n_components zero_loadings_fraction components files folder"
)


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def read_components(path, suffix=""):
    table = pd.read_csv(path)
    return table[[name for name in table if name.startswith("component_") and name.endswith(f"{suffix}")]]


def test_the_package_runs_as_a_program(tmp_path):
    for words in (
        ["-m", "anypca", "--version"],
        ["-c", "import sys; from anypca.cli import main; sys.exit(main())"],
    ):
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout.startswith(f"anypca {anypca.__version__}\n" if words[0] == "-m" else "")
    assert "Usage: anypca" in done.stdout
    assert listing(tmp_path) == []


def test_help_version_and_nothing(call):
    assert call("--version") == (0, f"anypca {anypca.__version__}\n", "")
    for words in ([], ["--help"], ["fit", "-h"], ["demo", "-h"]):
        code, out, _ = call(*words)
        assert code == 0
        assert "Usage: anypca" in out


@pytest.mark.parametrize("model", ["auto", "epca", "ppca"])
def test_a_messy_table_to_a_report_in_one_command(messy, tmp_path, call, model):
    out = tmp_path / "new" / "out"
    code, said, err = call("fit", messy, "--model", model, "--out", out)
    assert (code, err) == (0, "")
    assert listing(out) == FILES
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    name = {"auto": "SePCA"}.get(model, model.upper())
    names = ["age", "smoker", "dose", *(["city"] if model != "ppca" else []), "[red] $x$", "weight"]
    assert (summary["model"], summary["rows"], summary["column_names"]) == (name, 60, names)
    assert (summary["source"], summary["path"]) == ("messy.csv", str(messy))  # it was given by its whole path

    # All that was guessed, repaired or left out is told: on the terminal, in the summary and in the report.
    page = (out / "report.html").read_text(encoding="utf-8")
    assert [
        line.removeprefix("note: ") for line in said.splitlines() if line.startswith("note: ")
    ] == summary["notes"]
    for words in (["14, 27, 53"], ["'patient'"], ["'smoker'", "no/yes"], ["'weight'", "'n/a?'", "'<50'"]):
        assert any(all(word in note for word in words) for note in summary["notes"]), words
    for left_out in ("visit", "comment", "site"):
        (note,) = (note for note in summary["notes"] if f"'{left_out}'" in note)
        assert note in html.unescape(page)
    for words in ("60 rows", f"with {name}", "[red] $x$", "converged after", str(out)):
        assert words in said
    n_missing = 17 if model != "ppca" else 15
    assert f"{100 * n_missing / 60 / len(names):.1f} % of cells missing" in said
    assert summary["missing_fraction"] == pytest.approx(n_missing / 60 / len(names))

    scores, loadings = pd.read_csv(out / "scores.csv"), pd.read_csv(out / "loadings.csv")
    k = summary["n_components"]
    assert list(scores["row"]) == [f"p{i}" for i in range(60)]
    assert read_components(out / "scores.csv", "_sd").shape == (60, k)
    assert (read_components(out / "scores.csv", "_sd") > 0).all(axis=None)
    assert list(loadings["column"]) == names
    families = {each: group["family"] for group in summary["families"] for each in group["columns"]}
    assert families == dict(zip(loadings["column"], loadings["family"], strict=True))
    assert families["smoker"] == ("gaussian" if model == "ppca" else "bernoulli")
    for kind in ("rows", "columns"):
        parts = pd.read_csv(out / f"contributions_{kind}.csv")
        each = [f"component_{j + 1}" for j in range(k)]
        np.testing.assert_allclose(parts[each].sum(), 1.0)
        np.testing.assert_allclose(
            parts["cos2"], parts[[f"{name}_cos2" for name in each]].sum(axis=1), atol=1e-8
        )
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("scree.png", "biplot.png"))


def test_the_files_hold_the_model(fitted_counts):
    out, table, document = fitted_counts
    assert set(KEYS.split()) <= set(document)
    assert (document["schema"], document["command"], document["n_components"]) == (1, "fit", 2)
    assert set(document["components"][0]) == {"name", "explained_deviance_ratio", "top_loadings"}
    assert set(document["families"][0]) == {"family", "reason", "columns"}
    assert {*document["files"], "anypca-manifest.json"} == set(listing(out)) == set(FILES)
    saved = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert {key: document[key] for key in saved if key != "path"} == {
        key: saved[key] for key in saved if key != "path"
    }

    X = pd.read_csv(table)
    model = anypca.EPCA(2, family="poisson", random_state=3).fit(X)
    stored = anypca.load(out / "model.anypca")
    np.testing.assert_allclose(stored.components_, model.components_, rtol=1e-6, atol=1e-9)
    scores, std = stored.transform(X, return_std=True)
    found = pd.read_csv(out / "scores.csv").drop(columns="row")
    assert list(found) == ["component_1", "component_2", "component_1_sd", "component_2_sd"]
    np.testing.assert_allclose(found, np.hstack([scores, std]), rtol=1e-8)
    loadings = pd.read_csv(out / "loadings.csv")
    assert list(loadings["column"]) == list("abcdef")
    np.testing.assert_allclose(loadings[["component_1", "component_2"]].T, stored.components_, rtol=1e-8)
    np.testing.assert_allclose(loadings["intercept"], stored.intercept_, rtol=1e-8)
    shares = [each["explained_deviance_ratio"] for each in document["components"]]
    np.testing.assert_allclose(shares, stored.explained_deviance_ratio_)
    own = anypca.interpretation.contributions(stored, scores)
    for kind, expected in (("rows", own.rows), ("columns", own.columns)):
        parts = pd.read_csv(out / f"contributions_{kind}.csv")
        np.testing.assert_allclose(parts[["component_1", "component_2"]], expected, rtol=1e-8)


def test_the_same_command_gives_the_same_files(fitted_counts, tmp_path, call):
    out, table, _ = fitted_counts
    again = tmp_path / "again"
    assert call("fit", table, "--model", "epca", "--family", "poisson", "--seed", 3, "-o", again)[0] == 0
    for name in set(FILES) - {"report.html", "model.anypca", "anypca-manifest.json", "summary.json"}:
        assert (again / name).read_bytes() == (out / name).read_bytes(), name


def test_a_progress_bar_or_lines_leave_no_trace_in_the_model(counts, tmp_path, call, monkeypatch):
    words = ["fit", counts, "--model", "epca", "--family", "poisson", "--out"]
    _, out, err = call(*words, tmp_path / "a", "--progress")
    assert "fitting" in err
    assert "objective" in err
    assert "fitting" not in out
    monkeypatch.setenv("ANYPCA_PROGRESS_SECONDS", "0")
    assert call(*words, tmp_path / "b")[2].startswith("fitting: iteration 1, objective ")
    assert call(*words, tmp_path / "b", "--no-progress")[2] == ""
    first, second = (anypca.load(tmp_path / name / "model.anypca") for name in "ab")
    assert first.get_params() == second.get_params()
    assert first.verbose == 0
    np.testing.assert_array_equal(first.components_, second.components_)


def test_folders_that_exist(counts, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "anypca-counts"
    assert call("fit", "counts.csv", "--model", "ppca", "-k", 1)[0] == 0
    assert listing(out) == FILES
    (out / "mine.txt").write_text("mine")
    before = (out / "scores.csv").read_bytes()
    assert call("fit", "counts.csv", "--model", "ppca")[0] == 0
    assert (out / "scores.csv").read_bytes() != before
    assert listing(out) == sorted([*FILES, "mine.txt"])
    # What others wrote is replaced on request only.
    (out / "scores.csv").write_text("mine")
    code, _, err = call("fit", "counts.csv", "--model", "ppca")
    assert (code, (out / "scores.csv").read_text()) == (2, "mine")
    assert "scores.csv" in err
    assert "--force" in err
    assert call("fit", "counts.csv", "--model", "ppca", "--force")[0] == 0
    assert call("fit", "counts.csv", "--model", "ppca")[0] == 0


def test_warnings_of_the_fit_are_told_and_stored(counts, tmp_path, call_json, call, monkeypatch):
    fit = anypca.PPCA.fit

    def warned(self, X, y=None):
        warnings.warn("beware of\n dogs", UserWarning, stacklevel=2)
        return fit(self, X)

    monkeypatch.setattr(anypca.PPCA, "fit", warned)
    words = ["fit", counts, "--model", "ppca", "--out", tmp_path / "out"]
    assert "warning: beware of dogs" in call(*words)[1]
    assert call_json(*words)["warnings"] == ["beware of dogs"]


def test_a_fit_that_did_not_converge_is_told_and_no_error(counts, tmp_path, call):
    words = ["--model", "epca", "--family", "poisson", "--set", "max_iter=1"]
    code, said, _ = call("fit", counts, *words, "-o", tmp_path / "out")
    assert code == 0
    assert "NOT converged" in said
    assert "warning:" in said
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["converged"] is False


def test_a_table_without_signal_has_no_component(tmp_path, call):
    # The columns of a Hadamard matrix are orthogonal: all directions are alike.
    H = np.array([[1.0]])
    for _ in range(6):
        H = np.block([[H, H], [H, -H]])
    np.save(tmp_path / "noise.npy", H[:, 1:7])
    code, said, _ = call("fit", tmp_path / "noise.npy", "--family", "gaussian", "-o", tmp_path / "out")
    assert code == 0
    assert "no component" in said
    assert listing(tmp_path / "out") == [name for name in FILES if not name.startswith("contributions")]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["components"] == []
    assert list(pd.read_csv(tmp_path / "out" / "scores.csv").columns) == ["row"]


def test_demo(tmp_path, call, monkeypatch):
    digits = load_digits_counts()
    few = replace(digits, X=digits.X[:150], target=digits.target[:150])
    monkeypatch.setattr(anypca.datasets, "load_digits_counts", wraps(load_digits_counts)(lambda: few))
    out = tmp_path / "demo"
    code, said, _ = call("demo", "--out", out)
    assert code == 0
    assert listing(out) == FILES
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "EPCA of digits_counts" in page
    assert 'src="http' not in page
    assert "150 rows" in said
    assert "r3c4" in (out / "loadings.csv").read_text()
    # As the README advises.
    model = anypca.load(out / "model.anypca")
    assert (model.family, model.ridge) == ("binomial(16)", 30.0)


def test_names_that_a_spreadsheet_would_run(tmp_path, call):
    names = ["=1+1", "+x", "-x", "@SUM(A1)", "-5", "plain"]
    table = pd.DataFrame({"id": [f"{name}{i}" for i in range(5) for name in names]})
    for j, name in enumerate(names):
        table[name] = [(7 * i + (j + 2) * i * i) % 11 for i in range(len(table))]
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--model", "ppca", "--id", "id"]
    assert call(*words, "-o", tmp_path / "safe")[0] == 0
    assert call(*words, "-o", tmp_path / "raw", "--raw")[0] == 0
    safe, raw = (pd.read_csv(tmp_path / kind / "loadings.csv")["column"].tolist() for kind in ("safe", "raw"))
    assert raw == names
    assert safe == ["'=1+1", "'+x", "'-x", "'@SUM(A1)", "-5", "plain"]
    assert pd.read_csv(tmp_path / "safe" / "scores.csv")["row"][0] == "'=1+10"
    # The model knows the columns by their own names.
    assert call("transform", tmp_path / "safe", tmp_path / "t.csv", "-o", tmp_path / "s.csv")[0] == 0


@pytest.fixture
def survey(tmp_path):
    z = np.linspace(-2, 2, 60)
    table = pd.DataFrame(
        {f"Q{j}": np.clip(np.round(3.5 + z + np.cos(j * np.arange(60))), 1, 6) for j in range(1, 5)}
    )
    table.insert(0, "respondent_id", generator("order").permutation(90000)[:60])
    table["visits"] = generator("visits").poisson(np.exp(0.5 + 0.5 * z))
    table.loc[3, "Q1"] = 99
    path = tmp_path / "survey.csv"
    table.to_csv(path, index=False)
    return path


def test_choices_for_single_columns_reach_the_fit_and_the_transform(survey, tmp_path, call_json):
    choices = ["--model=epca", "-k", 1, "--family=gaussian", "--family=visits=poisson", "--drop=Q4"]
    out = tmp_path / "out"
    found = call_json("fit", survey, *choices, "--family", "Q[23] = ordinal", "--out", out)
    assert found["column_names"] == ["Q1", "Q2", "Q3", "visits"]
    assert found["missing_codes"] == {"Q1": [99.0]}
    assert {each["column"]: each["family"] for each in found["column_families"]} == {
        "Q1": "gaussian",
        "Q2": "ordinal",
        "Q3": "ordinal",
        "visits": "poisson",
    }
    assert any("respondent_id" in note for note in found["notes"])
    # In nine new rows 99 and running numbers could not be told from amounts; the fit knows.
    new = pd.DataFrame(
        {"Q1": [99, 1, 2, 3, 4, 5, 6, 1, 2], "Q2": [1, 2, 3, 4, 5, 1, 2, 3, 4], "Q3": 3, "visits": 2}
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    told = call_json("transform", out, tmp_path / "new.csv", "--out", tmp_path / "scores.csv")
    assert told["columns"] == 4
    assert told["missing_fraction"] == pytest.approx(1 / 36)


def test_columns_of_text_orders_and_new_labels(tmp_path, call, call_json):
    z, rng = np.linspace(-2, 2, 40), generator("labels")
    table = pd.DataFrame(
        {
            "height": np.round(10.0 * z + rng.normal(size=40), 2),
            "fit": np.take(
                ["tight", "loose", "good"], np.digitize(z + 0.3 * rng.normal(size=40), [-0.5, 0.5])
            ),
            "hue": np.take(["red", "blue", "green"], np.arange(40) % 3),
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--model", "epca", "-k", "1", "--out", tmp_path / "out"]
    found = call_json(*words, "--family", "fit=tight<loose<good")
    assert {each["column"]: each["family"] for each in found["column_families"]} == {
        "height": "gaussian",
        "fit": "ordinal",
        "hue": "nominal",
    }
    model = anypca.load(tmp_path / "out" / "model.anypca")
    assert model.layout_.categories("fit") == ("tight", "loose", "good")
    (tmp_path / "new.csv").write_text("height,fit,hue\n3.5,good,red\n-4,tight,pink\n", encoding="utf-8")
    told = call_json("transform", tmp_path / "out", tmp_path / "new.csv", "--out", tmp_path / "scores.csv")
    assert any("'hue'" in warning and "'pink'" in warning for warning in told["warnings"])
    new = pd.DataFrame({"height": [3.5, -4.0], "fit": ["good", "tight"], "hue": ["red", None]})
    scores = pd.read_csv(tmp_path / "scores.csv")["component_1"]
    np.testing.assert_allclose(scores, np.ravel(model.transform(new)), rtol=1e-8)
    for family, words_told in (("hue=ordinal", "--family 'hue="), ("hue=red<blue", "'green'")):
        code, _, err = call(*words, "--family", family)
        assert code == 2
        assert words_told in err
