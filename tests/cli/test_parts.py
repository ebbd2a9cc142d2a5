"""Progress bar and account."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from anypca.cli._fitting import ProgressHandler, progress
from anypca.cli._input_table import InputTable, TableRequest
from anypca.cli._models import ModelRequest
from anypca.cli._outcome import Outcome, print_outcome
from anypca.cli._printing import missing
from anypca.families.auto import FamilyRecord, FamilyReport
from anypca.io import Frame


def outcome(names=("a", "b", "c"), **changes):
    """An outcome of a fake fit."""
    model = SimpleNamespace(
        components_=np.eye(3)[:2],
        explained_deviance_ratio_=np.array([0.5, 0.25]),
        intercept_=np.zeros(3),
        objective_trace_=np.array([-2.0, -1.0]),
        converged_=False,
        n_iter_=2,
        get_params=lambda deep: {"tol": float("inf"), "family": np.float64},
    )
    vars(model).update(changes)
    values = np.array([[1.0, np.nan, 2.0], [0.0, 1.0, 1.0]])
    table = InputTable("<b>file</b>", "file", Frame(values, tuple(names), ("r1", "r2"), ("a <note>",)))
    wishes = (ModelRequest(), TableRequest("file"))
    return Outcome(model, table, np.ones((2, 2)), None, ("careful & slow",), *wishes, Path("results"))


def printed(result, width=100):
    console = Console(file=io.StringIO(), width=width)
    print_outcome(result, console)
    return console.file.getvalue()


def record(**extra):
    return logging.makeLogRecord({"levelno": logging.INFO, "msg": "step", **extra})


def test_handler_moves_the_bar():
    bar = Progress(console=Console(file=io.StringIO()))
    handler = ProgressHandler(bar)
    handler.emit(record(iteration=3, max_iter=50, objective=-12.5, criterion=1e-3))
    handler.emit(record())
    (task,) = bar.tasks
    assert (task.completed, task.total) == (3, 50)
    assert task.fields["objective"] == "objective -12.5"
    assert task.fields["criterion"] == "scaled gradient 1.0e-03"
    handler.finish()
    assert bar.finished
    assert task.completed == 3


@pytest.mark.parametrize("fails", [False, True])
def test_progress_leaves_the_logger_as_it_was(fails):
    logger = logging.getLogger("anypca")
    before = logger.level, logger.propagate, list(logger.handlers)
    out = io.StringIO()

    def work():
        with progress(Console(file=out, width=120, force_terminal=True), is_shown=True):
            logger.info("step", extra={"iteration": 1, "max_iter": 2, "objective": -1.0, "criterion": 0.5})
            if fails:
                raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            work()
    else:
        work()
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert "objective -1" in out.getvalue()


def test_no_progress_unless_asked():
    out = io.StringIO()
    with progress(Console(file=out), is_shown=False):
        assert not logging.getLogger("anypca").handlers
    assert out.getvalue() == ""


def test_account_names_everything():
    said = printed(outcome(names=("[bold]", "b", "c")))
    for words in ("16.7 % of cells missing", "note: a <note>", "[bold]", "50.0 %", "75.0 %", "NOT converged"):
        assert words in said
    assert "warning: careful & slow" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_account_fits_the_terminal(width):
    said = printed(outcome(names=("n" * 300, "b", "c")), width=width)
    assert max(map(len, said.splitlines())) <= width


def test_many_columns_are_grouped():
    report = FamilyReport(FamilyRecord(name, "poisson", f"{name} counts", "counts") for name in "abc")
    (group,) = outcome(family_report_=report).families.groups()
    assert group == (("a", "b", "c"), "poisson", "counts")


def test_summary_is_valid_json(tmp_path):
    outcome().write_summary(tmp_path / "summary.json")
    summary = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary["parameters"]["tol"] is None
    assert summary["converged"] is False
    assert summary["objective"] == -1.0


def test_scores_without_a_posterior_have_no_deviations(tmp_path):
    outcome().write_scores(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().splitlines()[0] == "row,component_1,component_2"


@pytest.mark.parametrize(
    ("n_missing", "words"), [(0, "no cell"), (1, "less than 0.1 %"), (500, "50.0 % of cells")]
)
def test_missing_in_words(n_missing, words):
    values = np.ones((100, 10))
    values.flat[:n_missing] = np.nan
    if n_missing == 1:
        values = np.vstack([values] + [np.ones((100, 10))] * 10)
    assert words in missing(Frame(values, (), ()))


def test_a_line_of_progress_now_and_then(counts, tmp_path, call, monkeypatch):
    words = ["fit", counts, "--model", "epca", "--family", "poisson", "-o", tmp_path / "out"]
    monkeypatch.setenv("ANYPCA_PROGRESS_SECONDS", "0")
    _, _, err = call(*words)
    assert re.match(r"fitting: iteration 1, objective -?[\d.]+, 0 s\n", err)
    assert call(*words, "--no-progress")[2] == ""
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["parameters"]["verbose"] == 0
    monkeypatch.setenv("ANYPCA_PROGRESS_SECONDS", "10")
    assert call(*words)[2] == ""
