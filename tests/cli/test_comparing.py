"""``compare`` and ``select``: what they print, on what, and that held-out scores mean what they say."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anypca
from anypca.cli._compare import _few, score_cells, suitable
from anypca.cli._input_table import InputTable, drop_constant
from anypca.cli._models import MODELS
from anypca.cli._options import ranks
from anypca.engine import hide_entries
from anypca.io import Frame
from anypca.selection import EntryShuffleSplit, entry_cross_validate

needs_data = pytest.mark.skipif("ANYPCA_DATA" not in os.environ, reason="ANYPCA_DATA is not set")


def as_table(X, **companions):
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    return InputTable("table", "table", Frame(X, names, tuple(map(str, range(len(X))))), **companions)


def test_compare_prints_the_best_first(counts, call):
    code, said, err = call("compare", counts, "--models", "ppca,epca,gsppca", "-k", 2)
    assert (code, err) == (0, "")
    lines = [line.split() for line in said.splitlines()]
    heads = ["model", "held", "out", "±", "se", "dimension", "explained", "sparsity", "seconds"]
    assert heads in lines
    rows = [line for line in lines if line and line[0] in {"ppca", "epca", "gsppca"} and len(line) > 6]
    assert [row[0] for row in rows] == ["epca", "ppca", "gsppca"]
    assert float(rows[0][1]) > float(rows[1][1])
    assert "gsppca: no cells held out: it needs a complete table" in said


def test_compare_leaves_out_what_models_cannot_use(surveyed, call_json):
    found = call_json("compare", surveyed, "--models", "ppca,epca", "-k", 1, "--offset", "log(effort)")
    by_name = {row["name"]: row for row in found["models"]}
    assert by_name["ppca"]["remarks"] == ["takes no offset: fitted without"]
    assert by_name["epca"]["remarks"] == []


def test_a_model_that_refuses_the_table_does_not_stop_the_others(tmp_path, call_json):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(30, 4)))
    found = call_json("compare", tmp_path / "t.npy", "--models", "plnpca,ppca", "-k", 1)
    last = found["models"][-1]
    assert last["name"] == "plnpca"
    assert last["n_components"] is None
    assert last["remarks"][0].startswith("not fitted: ")


def test_models_get_the_dimension_that_sepca_chose(counts, call_json):
    found = call_json("compare", counts, "--models", "epca,sepca")
    dimensions = {row["n_components"] for row in found["models"]}
    assert len(dimensions) == 1


def test_unknown_model_is_refused_before_any_fit(counts, call):
    code, out, err = call("compare", counts, "--models", "epca,pcaa")
    assert (code, out) == (2, "")
    assert "'pcaa' is not one of" in err


@pytest.mark.parametrize("kind", ["counts", "reals", "missing"])
def test_models_suit_the_table(kind):
    X = np.random.default_rng(0).poisson(3.0, size=(20, 4)).astype(float)
    X = X + 0.5 if kind == "reals" else X
    X[0, 0] = np.nan if kind == "missing" else X[0, 0]
    names = suitable(as_table(X))
    assert ("plnpca" in names) == (kind != "reals")
    assert ("gsppca" in names) == (kind != "missing")
    assert {"ppca", "epca", "sepca"} <= set(names) <= set(MODELS)


def test_held_out_scores_are_those_of_cross_validation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(40, 6))
    splitter = EntryShuffleSplit(1, 0.1, 0)
    expected = entry_cross_validate(anypca.PPCA(2), X, cv=splitter).l_miss
    rows, columns = next(splitter.split(X))
    hidden = as_table(hide_entries(X, rows, columns))
    model = anypca.PPCA(2).fit(hidden.as_input())
    found = score_cells(model, hidden, rows, columns, X[rows, columns])
    assert found.mean() == pytest.approx(expected, abs=1e-9)


def test_normal_models_of_whole_numbers_give_probabilities():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.normal(size=(60, 1)) * 0.3 + 1.5), size=(60, 5)).astype(float)
    rows, columns = np.arange(0, 60, 3), np.arange(0, 60, 3) % 5
    hidden = as_table(hide_entries(X, rows, columns))
    model = anypca.PPCA(1).fit(hidden.as_input())
    found = score_cells(model, hidden, rows, columns, X[rows, columns])
    means = model.inverse_transform(model.transform(hidden.as_input()))[rows, columns]
    normal = stats.norm(means, np.sqrt(model.noise_variance_))
    expected = np.log(normal.cdf(X[rows, columns] + 0.5) - normal.cdf(X[rows, columns] - 0.5))
    # Beside noise wider than half a step the density stands for the interval, which costs most in the tails.
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert found.mean() == pytest.approx(expected.mean(), abs=0.005)
    assert (found < 0).all()


def test_constant_columns_take_their_offsets_along():
    X = np.array([[1.0, 5.0, 2.0], [2.0, 5.0, 0.0], [0.0, 5.0, 1.0]])
    table = drop_constant(as_table(X, offset=np.arange(9.0).reshape(3, 3)))
    assert table.frame.column_names == ("x0", "x2")
    np.testing.assert_array_equal(table.offset, [[0, 2], [3, 5], [6, 8]])
    assert table.frame.notes == ("1 column left out: 'x1' (it has one value only)",)


@pytest.mark.parametrize("criterion", ["auto", "aic", "held_out"])
def test_select(counts, tmp_path, call, criterion):
    out = tmp_path / "out"
    words = ["--family", "poisson", "--ranks", "1-3", "--folds", 3, "--criterion", criterion, "-o", out]
    code, said, err = call("select", counts, *words)
    assert (code, err) == (0, "")
    files = {"anypca-manifest.json", "selection.csv", "selection.json", "selection.png"}
    assert {path.name for path in out.iterdir()} == files
    table = pd.read_csv(out / "selection.csv")
    name = {"auto": "bic"}.get(criterion, criterion)
    best = int(table["rank"][table[name].argmin()])
    marked = [line.split() for line in said.splitlines() if line.strip().startswith(">")]
    assert [int(line[1]) for line in marked] == [best]
    assert f"{best} component" in said


def test_select_by_several_methods(counts, call):
    words = ["--compare", "--methods", "parallel,biwhitening", "--family", "poisson", "--ranks", "1-4"]
    code, said, err = call("select", counts, *words)
    assert (code, err) == (0, "")
    assert "parallel analysis, permuted columns" in said
    assert "biwhitening: the mean has rank" in said


def test_select_by_evidence_tells_what_is_left(counts, call):
    code, said, _ = call("select", counts, "--model", "sepca", "--ranks", "3", "--family", "poisson")
    assert code == 0
    assert "by -2 log evidence" in said


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--ranks", "3-1"], "--ranks needs numbers and ranges"),
        (["--criterion", "bicc"], "bicc"),
        (["--model", "kernel"], "KernelPCA"),
        (["--ranks", "40"], "40"),
        (["--methods", "parallel"], "--methods needs --compare"),
        (["--compare", "--methods", "paralel"], "Did you mean 'parallel'"),
    ],
    ids=["ranks", "criterion", "model", "large", "methods", "unknown method"],
)
def test_select_refuses(counts, call, options, complaint):
    code, out, err = call("select", counts, *options)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("1-3", [1, 2, 3]), ("4, 1", [1, 4]), (None, None), ("0-1,5", [0, 1, 5])]
)
def test_ranks_in_words(text, expected):
    assert ranks(text) == expected


@needs_data
def test_compare_on_a_data_set_with_offset(call_json):
    found = call_json("compare", "oaks", "--models", "epca,plnpca", "-k", 2)
    assert "the offset of the data set is used by models that take one" in found["notes"]
    assert all(row["held_out_log_likelihood"] is not None for row in found["models"])


def test_datasets_are_listed(call, monkeypatch, tmp_path):
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    code, said, _ = call("datasets")
    assert code == 0
    assert "digits_counts" in said
    assert "oaks" in said


def test_words_that_are_neither_file_nor_data_set(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call("fit", "okas")
    assert code == 2
    assert "It is no data set either: anypca datasets lists them." in err


def test_repeated_warnings_are_counted():
    assert _few(()) == []
    assert _few(("slow",)) == ["slow"]
    assert _few(("slow 1", "slow 2", "slow 3")) == ["slow 1", "2 more warnings"]
