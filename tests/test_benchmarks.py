"""The benchmarks run in small, print their tables, and judge as they say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import epca_components, gaussian, million_rows, sepca_fits
from benchmarks.peers import __main__ as league
from benchmarks.peers import glmpca
from sklearn.metrics import mean_poisson_deviance

ROOT = Path(__file__).parents[1]
needs_glmpca = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("glmpca", "statsmodels")),
    reason="glmpca or statsmodels, which it imports without asking for it, is not installed",
)


def run(module, *options):
    """Lines that ``python -m module`` prints; it must exit with 0."""
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_floor_prints_a_row_per_size():
    head, *rows = run("benchmarks.floor", "--sizes", "1000", "--features", "200", "--repetitions", "2")
    assert "ratio" in head
    sizes, sweeps, floors, ratios, *_ = zip(*(map(float, row.split()) for row in rows), strict=True)
    assert sizes == (1000.0,)
    assert min(sweeps) > 0
    np.testing.assert_allclose(ratios[0], sweeps[0] / floors[0], rtol=0.5)


def test_gaussian_prints_a_ratio_per_model(capsys):
    assert gaussian.main(["--quick"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["PPCA", "SPCA"]
    assert gaussian.judged("PPCA", 1.51, 1.0)
    assert not gaussian.judged("SPCA", 2.99, 1.0)


def test_sepca_fits_compares_whole_fits(capsys):
    """With this version as its own rival: the same dimension, about the same time."""
    tables = ["--tables", "bernoulli", "--shrink", "10"]
    sepca_fits.main(["--rival", str(ROOT / "src"), *tables])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("bernoulli: ")
    assert "geometric mean" in lines[-1]
    assert sepca_fits.judge([0.4, 0.7]) is True
    assert sepca_fits.judge([0.3, 0.7]) is False


def test_epca_components_writes_its_figures(tmp_path):
    file = tmp_path / "figures.json"
    lines = run("benchmarks.epca_components", "--quick", "--components", "10", "--json", str(file))
    assert lines[0].startswith("k =  10 ours")
    found = json.loads(file.read_text())
    assert 0 < found["start"]["ours"] < 1
    assert 0 < found["memory"] < epca_components.MEMORY


def test_epca_components_judges_ratios(capsys):
    def figures(sweep, *gaps):
        return {"sweep": sweep, "gaps": gaps}

    fits = {
        k: {"ours": figures(sweep, 1.0, 2.0), "earlier": figures(9.0, 12.0, 9.0)}
        for k, sweep in ((10, 1.0), (50, 3.9))
    }
    assert not epca_components.judge(fits)
    fits[50]["ours"] = figures(4.1, 1.0, 2.0)
    assert epca_components.judge(fits)
    assert capsys.readouterr().out.count("MISSED") == 1


@needs_glmpca
def test_glmpca_prints_a_row_per_program():
    versions, table, head, *rows = run("benchmarks.peers.glmpca", "--quick")
    assert "glmpca 0" in versions
    assert "k = 2" in table
    assert head.split() == ["penalty", "threads", "program", "seconds", "deviance", "gap", "ratio"]
    names = ["anypca, sweep", "anypca, fit stopped", "anypca, default", "glmpca, iteration", "NMF (KL)"]
    assert all(name in row for name, row in zip(names, rows, strict=False))
    default, peer = (float(rows[i].split()[-3]) for i in (2, 3))
    # The same model: the deviances agree but for the penalty's part of the gap.
    assert abs(default / peer - 1) < 1e-3
    assert rows[-1].startswith("penalty 1: glmpca takes")


def test_glmpca_without_its_libraries_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "glmpca.glmpca", None)
    assert glmpca.main(["--quick"]) == 2
    assert "pip install glmpca statsmodels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ratios", "is_target", "code"),
    [
        ({1.0: 10.1, 0.0: 3.0}, True, 0),
        ({1.0: 9.9, 0.0: 30.0}, True, 1),
        ({1.0: 9.9}, False, 0),
    ],
    ids=["met", "missed", "no-target"],
)
def test_target_is_that_of_the_default_penalty(capsys, ratios, is_target, code):
    assert glmpca.judge(ratios, is_target=is_target) == code
    assert ("MISSED" in capsys.readouterr().out) == bool(code)


def test_time_of_glmpca_counts_its_fastest_iteration():
    trace = [glmpca.Point(1.0, 9.0, 9.0), glmpca.Point(4.0, 8.0, 8.0), glmpca.Point(6.0, 7.0, 7.0)]
    reached = glmpca.glmpca_row(trace, goal=8.5)
    assert (reached.point.seconds, reached.point.deviance, reached.is_bound) == (3.0, 8.0, False)
    unreached = glmpca.glmpca_row(trace, goal=6.5)
    assert (unreached.point.seconds, unreached.is_bound) == (5.0, True)


def test_poisson_deviance_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    counts, means = rng.poisson(1.0, (30, 7)), rng.uniform(0.5, 2.0, (30, 7))
    expected = mean_poisson_deviance(counts.ravel(), means.ravel()) * counts.size
    np.testing.assert_allclose(glmpca.poisson_deviance(counts, means), expected, rtol=1e-12)


def test_rows_on_disk_are_those_that_are_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(million_rows, "COLUMNS", 50)
    truth = million_rows.Truth(0)
    million_rows.write(tmp_path, truth, 2300, 1)
    table = million_rows.open_table(tmp_path)
    streamed = [block.toarray() for block in million_rows.blocks(table)]
    assert [len(block) for block in streamed] == [2000, 300]
    np.testing.assert_array_equal(np.vstack(streamed), table.toarray())
    # The share of the mean over scores; columns of a small table differ from it.
    assert 0.05 < len(table.data) / table.toarray().size < 0.07


def test_the_league_judges_by_deviance_and_by_what_was_left_out(tmp_path):
    table = next(league.tables(quick=True))
    mean = np.full_like(table.x, table.x.mean())
    np.testing.assert_allclose(
        table.loss(mean), table.x.size * mean_poisson_deviance(table.x.ravel(), mean.ravel())
    )
    size = table.x.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(table.held_out(size * table.x.sum(axis=0) / size.sum()), 0.0, atol=1e-12)
    calls = {
        "anypca EPCA": league.Calls([4, 16], [1.0, 2.0], [101.0, 100.0], 0.5, 10.0),
        "glmpca": league.Calls([4], [3.0], [102.0], 0.4, 11.0, "stopped"),
    }
    page = league.lines(table, calls)
    assert "| anypca EPCA | 2.0 | 1.00 | 2.00 | 2.00 | 0.500 | 10 |  |" in page
    assert "| glmpca | 3.0 | > 3.0 | > 3.0 | > 3.0 | 0.400 | 11 | stopped |" in page
    assert "Times to a gap of 0.0001 in units of that of anypca EPCA: glmpca more than 1.5." in page


def test_the_league_finds_the_fewest_iterations_to_a_gap(monkeypatch, tmp_path):
    def call(program, path, budget, options):
        return {"seconds": 0.1 * budget, "mean": budget}

    class Table:
        @staticmethod
        def loss(budget):
            return 100.0 if budget >= 23 else 101.5 if budget >= 7 else 120.0

    calls = league.Calls()
    for budget in (4, 16, 64):
        calls.note(budget, 0.1 * budget, Table.loss(budget))
    monkeypatch.setattr(league, "call", call)
    league.refine({"glmpca": calls}, Table, tmp_path, None)
    for goal, fewest in ((101.0, 23), (100.01, 23)):
        low, high = calls.bracket(goal)
        assert low < fewest <= high <= 1.3 * low + 1
        assert calls.reach(goal) == pytest.approx(0.1 * high)
    assert calls.bracket(99.0) is None
