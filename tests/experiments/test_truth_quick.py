"""The truth table and the real tables in their quick forms, and what they share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments._journal import Journal
from experiments._truth_designs import KINDS, Cell, _loadings, draw
from experiments._truth_picture import draw_reliability, draw_table

from experiments import truth_cost, truth_hidden, truth_laws, truth_real, truth_table


@pytest.mark.parametrize(
    "experiment",
    [truth_table, truth_real, truth_laws, truth_hidden, truth_cost],
    ids=lambda module: module.__name__,
)
def test_quick_form(experiment, tmp_path, capsys):
    status = experiment.main(["--quick", "--out", str(tmp_path / "out.json")])
    assert status == 0, capsys.readouterr().out
    record = json.loads((tmp_path / "out.json").read_text())
    assert all(np.isfinite(target["ours"]) for target in record["targets"])


@pytest.mark.parametrize("kind", KINDS)
def test_components_have_the_strength_that_is_stated(kind):
    """Over many rows the information of the columns, times squared loadings, is m sqrt(p / n) for the weakest."""
    made = KINDS[kind].draw(np.random.default_rng(0), 30)
    loadings = _loadings(Cell(kind, 120, 30, 3), made, np.random.default_rng(1))
    information = made.information if made.in_units else np.full(30, made.information.mean())
    strength = (loadings**2 * information[:, None]).sum(axis=0).min() / np.sqrt(30 / 120)
    assert strength == pytest.approx(5.0)
    X = draw(Cell(kind, 40, 30, 3), np.random.default_rng(2)).X
    assert X.shape == (40, 30)
    assert np.isfinite(X).all()


def test_cells_are_few_and_have_names_of_their_own():
    cells = truth_table.cells()
    assert len({cell.name for cell in cells}) == len(cells) <= 150


def test_a_journal_goes_on_where_it_was(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    tasks = [(f"run {i}", (i,)) for i in range(3)]
    assert Journal(path).run(abs, tasks[:2], 1) == [0, 1]
    path.write_text(path.read_text() + '["run 2", ')
    assert Journal(path).run(abs, tasks, 1) == [0, 1, 2]
    assert len(path.read_text().splitlines()) == 3


def test_targets_tables_and_pictures(tmp_path: Path):
    answer = truth_table.Answer({"sepca": 3, "parallel": 4}, {"2": 0.1, "3": 0.85, "4": 0.05}, 0.1)
    found = {cell: [answer] for cell in truth_table.cells()[::6]}
    targets = {target.name: target for target in truth_table._targets(found)}
    assert targets["m = 5, ranks 0-6, exact, all families"].ours == pytest.approx(0.67, abs=0.15)
    assert truth_table.credible(answer.probabilities) == {2, 3}
    assert [row[0] for row in truth_table._tables(found)[0].rows][:2] == ["sepca", "parallel"]
    for make in (draw_table, draw_reliability):
        make(found, tmp_path / f"{make.__name__}.png")
    assert len(list(tmp_path.iterdir())) == 2
