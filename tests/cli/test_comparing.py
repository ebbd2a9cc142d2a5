"""``compare`` and ``select``: what they print, on what, and that held-out scores mean what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator, seed

import anypca
from anypca.datasets import make_low_rank
from anypca.selection import EntryShuffleSplit, entry_cross_validate

HEAD = {"schema", "anypca", "command", "source", "rows", "columns", "missing_fraction", "notes"}
COMPARED = (
    "name model held_out_log_likelihood standard_error n_components explained_deviance zero_loadings_fraction seconds "
    "converged remarks"
)


def test_compare_prints_the_best_first(tmp_path, call, call_json):
    # A loading of 1 makes rates from 0.05 to 150, which no normal model follows.
    z = np.linspace(-2, 2, 80)
    rates = np.exp(np.outer(z, [1.5, -1.5, 1.2, -1.2, 1.4, -1.4]) + 1.0)
    pd.DataFrame(generator("rates").poisson(rates)).to_csv(tmp_path / "t.csv", index=False)
    words = ["compare", tmp_path / "t.csv", "--models", "ppca,epca,gsppca", "-k", 1, "--family", "auto"]
    found = call_json(*words)
    assert set(found) == HEAD | {"held_out_fraction", "n_splits", "models"}
    assert set(found["models"][0]) == set(COMPARED.split())
    assert [row["name"] for row in found["models"]] == ["epca", "ppca", "gsppca"]
    first, second, third = (row["held_out_log_likelihood"] for row in found["models"])
    assert first > second
    assert third is None
    assert any("complete table" in remark for remark in found["models"][2]["remarks"])
    code, said, err = call(*words)
    assert (code, err) == (0, "")
    rows = [
        line.split()[0]
        for line in said.splitlines()
        if line.strip().startswith(("epca ", "ppca ", "gsppca "))
    ]
    assert rows == ["epca", "ppca", "gsppca"]
    assert f"{first:.3f}" in said


def test_held_out_scores_are_those_of_cross_validation(tmp_path, call_json):
    X = make_low_rank(40, 6, 2, family="gaussian", random_state=seed()).X
    pd.DataFrame(X, columns=list("abcdef")).to_csv(tmp_path / "t.csv", index=False, float_format="%.17g")
    expected = entry_cross_validate(anypca.PPCA(2), X, cv=EntryShuffleSplit(1, 0.1, 0)).l_miss
    (row,) = call_json("compare", tmp_path / "t.csv", "--models", "ppca", "-k", 2)["models"]
    assert row["held_out_log_likelihood"] == pytest.approx(expected, abs=1e-6)


def test_compare_leaves_out_what_models_cannot_use(surveyed, call_json):
    table = pd.read_csv(surveyed).assign(same=7)
    table.to_csv(surveyed, index=False)
    found = call_json("compare", surveyed, "--models", "ppca,epca", "-k", 1, "--offset", "log(effort)")
    by_name = {row["name"]: row for row in found["models"]}
    assert any("no offset" in remark for remark in by_name["ppca"]["remarks"])
    assert not any("offset" in remark for remark in by_name["epca"]["remarks"])
    assert any("'same'" in note for note in found["notes"])


def test_a_model_that_refuses_the_table_does_not_stop_the_others(tmp_path, call_json):
    np.save(tmp_path / "t.npy", generator("reals").normal(size=(30, 4)))
    found = call_json("compare", tmp_path / "t.npy", "--models", "plnpca,ppca", "-k", 1)
    last = found["models"][-1]
    assert (last["name"], last["n_components"]) == ("plnpca", None)
    assert last["remarks"][0].startswith("not fitted: ")


@pytest.mark.parametrize(("criterion", "column"), [("auto", "bic"), ("aic", "aic"), ("held_out", "held_out")])
def test_select(counts, tmp_path, call, call_json, criterion, column):
    words = [
        "--family=poisson",
        "--ranks=1,2-3",
        "--folds=3",
        f"--criterion={criterion}",
        "-o",
        tmp_path / "out",
    ]
    code, said, err = call("select", counts, *words)
    assert (code, err) == (0, "")
    files = {"anypca-manifest.json", "selection.csv", "selection.json", "selection.png"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files
    table = pd.read_csv(tmp_path / "out" / "selection.csv")
    best = int(table["rank"][table[column].argmin()])
    assert [int(line.split()[1]) for line in said.splitlines() if line.strip().startswith(">")] == [best]
    found = call_json("select", counts, *words)
    keys = {"model", "seed", "warnings", "criterion", "best_rank", "n_components", "ranks"}
    assert set(found) == HEAD | keys
    assert (found["best_rank"], [row["rank"] for row in found["ranks"]]) == (best, [1, 2, 3])


def test_select_by_several_methods(counts, tmp_path, call, call_json):
    words = ["select", counts, "--compare", "--methods=parallel,minka", "--family=poisson", "--ranks=1-4"]
    found = call_json(*words, "-o", tmp_path / "out")
    assert set(found) == HEAD | {"family", "seed", "warnings", "methods"}
    assert [set(row) for row in found["methods"]] == [{"method", "rank", "seconds", "remark"}] * 2
    assert {"selection.csv", "selection.json", "selection.png"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    code, said, err = call(*words)
    assert (code, err) == (0, "")
    assert "parallel analysis" in said
