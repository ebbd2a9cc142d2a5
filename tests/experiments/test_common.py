"""The frame of the experiments: tables, targets, exit status, results file."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from experiments._common import Options, Outcome, Record, Table, Target, measure, repeat, run_module

from experiments import __main__ as everything


@pytest.fixture
def experiment(monkeypatch):
    """A module with an experiment whose only target can be moved."""
    module = ModuleType("made_up", "A made-up experiment.\n\nMore words.")
    module.bound = 1.0

    def run(options):
        table = Table("Numbers", ("name", "ours", "paper"), [("pi", np.float64(np.pi), None)])
        return Outcome([table], [Target("one", 1.0, ">=", module.bound)], ["A remark."])

    module.run = run
    monkeypatch.setitem(sys.modules, "made_up", module)
    return module


@pytest.mark.parametrize(
    ("ours", "comparison", "bound", "is_met"),
    [
        (1, ">=", 1, True),
        (0.9, ">=", 1, False),
        (1, ">", 1, False),
        (2, "<=", 1, False),
        (np.nan, "<=", 1, False),
    ],
)
def test_targets(ours, comparison, bound, is_met):
    target = Target("t", ours, comparison, bound)
    assert target.is_met == is_met
    assert ("MISSED" in target.as_text()) != is_met


def test_exit_status_follows_the_targets(experiment, capsys):
    assert run_module("made_up", []) == 0
    assert "(met)" in capsys.readouterr().out
    experiment.bound = 2.0
    assert run_module("made_up", ["--quick"]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_results_as_json(experiment, tmp_path, capsys):
    run_module("made_up", ["--quick", "--out", str(tmp_path / "out.json")])
    stored = json.loads((tmp_path / "out.json").read_text())
    assert stored["met"]
    assert stored["quick"]
    assert stored["title"] == "A made-up experiment."
    assert stored["tables"][0]["rows"] == [["pi", np.pi, None]]
    assert stored["targets"][0] == {"name": "one", "ours": 1.0, "comparison": ">=", "bound": 1.0, "met": True}
    assert "numpy" in stored["versions"]
    assert {"commit", "code"} <= set(stored)


def test_table_as_text_and_markdown():
    table = Table("T", ("a", "long head"), [(1.23456789, "x")])
    assert table.as_text().split("\n") == ["T", "    a  long head", "-----  ---------", "1.235          x"]
    assert table.as_markdown().split("\n")[-1] == "| 1.235 | x |"


def test_sections_of_the_results_are_replaced_by_name():
    def record(name, value):
        outcome = Outcome([Table("T", ("v",), [(value,)])])
        return Record(name, "Title.", outcome, Options(), 1.0, "2020-01-01")

    text = everything.merge_sections("", [record("b", 1), record("c", 2)])
    text = everything.merge_sections(text, [record("a", 3), record("b", 4)])
    assert text.startswith("# Results")
    heads = [line for line in text.split("\n") if line.startswith("## ")]
    assert heads == ["## a", "## b", "## c"]
    assert "| 4 |" in text
    assert "| 1 |" not in text
    assert "| 2 |" in text


def test_remarks_stay_when_a_section_is_written_again(tmp_path, experiment, monkeypatch, capsys):
    results = tmp_path / "RESULTS.md"
    monkeypatch.setattr(everything, "load_experiment", lambda name: ("Title.", experiment.run))
    everything.run_one("a", Options(), results)
    assert "remarks" not in capsys.readouterr().out
    results.write_text(results.read_text() + "\n<!-- remarks -->\n\nMissed, because.\n")
    everything.run_one("b", Options(), results)
    everything.run_one("a", Options(), results)
    assert "a: remarks were kept" in capsys.readouterr().out
    sections = everything.read_sections(results.read_text())
    assert sections["a"].count("Missed, because.") == sections["a"].count("| pi | 3.142 |  |") == 1
    assert "remarks" not in sections["b"]


def test_every_experiment_with_a_missed_target_says_why():
    sections = everything.read_sections((everything.HERE / "RESULTS.md").read_text(encoding="utf-8"))
    told: dict[str, str] = {}
    for head, part in sections.items():
        words = "\n".join(line for line in part.split("\n") if not line.startswith("- "))
        told[head.split(",")[0]] = told.get(head.split(",")[0], "") + words.lower()
    missed = {head.split(",")[0] for head, part in sections.items() if "(MISSED)" in part}
    assert not [name for name in missed if not re.search(r"\bmiss(ed)?\b", told[name])]


def test_kept_answers_are_said(monkeypatch):
    def section():
        return measure("made_up", "Title.", lambda options: Outcome([]), Options()).as_markdown()

    monkeypatch.delenv("ANYPCA_CELLS", raising=False)
    assert "kept" not in section()
    monkeypatch.setenv("ANYPCA_CELLS", "cells.json")
    assert "with answers kept from earlier runs" in section()


def test_another_seed_stands_beside_the_first_with_its_targets():
    outcome = Outcome([Table("T", ("v",), [(1,)])], [Target("t", 1.0, ">=", 0.0)], pictures=["a.png"])
    records = [Record("a", "Title.", outcome, Options(seed=seed), 1.0, "2020-01-01") for seed in (0, 7)]
    sections = everything.read_sections(everything.merge_sections("", records))
    assert list(sections) == ["a", "a, seed 7"]
    assert all("- t: 1 >= 0 (met)" in part for part in sections.values())
    assert "a.png" in sections["a"]
    assert "| 1 |" not in sections["a, seed 7"]
    assert "a.png" not in sections["a, seed 7"]
    whole = replace(records[1], outcome=replace(outcome, is_whole=True))
    assert "| 1 |" in whole.as_markdown()
    assert "a.png" in whole.as_markdown()


def test_repeat_keeps_the_order():
    assert repeat(pow, [(2, 3), (3, 2)], Options()) == [8, 9]


def test_every_experiment_can_be_named():
    names = everything.experiment_names()
    assert "gsppca_intro" in names
    assert not [name for name in names if name.startswith("_")]
