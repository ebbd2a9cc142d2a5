"""Tables as people have them, and a quick way to call the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from anypca.cli import main
from anypca.datasets import make_low_rank


def messy_text():
    """Semicolons, decimal commas, names, dates, answers, text, empty and spoilt cells, a constant, short rows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    lines = ["patient;visit;age;smoker;dose;city;[red] $x$;weight;site;comment"]
    for i in range(60):
        cells = [
            f"{50 + 10 * z[i] + rng.normal():.1f}",
            "yes" if z[i] + rng.normal() > 0 else "no",
            f"{np.exp(z[i] + 0.5 * rng.normal()):.3f}",
            ("Köln", "Bonn")[i % 2],
            str(rng.poisson(np.exp(1 + z[i]))),
            f"{70 + 8 * z[i] + 3 * rng.normal():.1f}",
            "7",
            "",
        ]
        cells = [cell.replace(".", ",") for cell in cells]
        if i % 9 == 4:
            cells[(0, 1, 2, 4)[i // 9 % 4]] = ""
        cells[5] = {7: "n/a?", 30: "<50"}.get(i, cells[5])
        line = [f"p{i}", f"{i % 28 + 1:02d}.03.2024", *cells]
        lines.append(";".join(line[: 5 + i % 3] if i in {12, 25, 51} else line))
    return "\n".join(lines) + "\n"


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text(messy_text(), encoding="utf-8")
    return path


@pytest.fixture
def counts(tmp_path):
    """40 rows, 6 columns of counts of rank 2."""
    X = make_low_rank(40, 6, 2, family="poisson", random_state=0).X
    path = tmp_path / "counts.csv"
    pd.DataFrame(X, columns=list("abcdef")).to_csv(path, index=False)
    return path


@pytest.fixture
def surveyed(tmp_path):
    """The same kind of counts with an effort, a covariate of numbers, one of text, and row names."""
    X = make_low_rank(40, 6, 2, family="poisson", random_state=0).X
    table = pd.DataFrame(X, columns=list("abcdef"))
    table.insert(0, "plot", [f"plot{i}" for i in range(40)])
    rng = np.random.default_rng(1)
    table["effort"] = rng.uniform(1, 3, size=40).round(2)
    table["height"] = rng.normal(size=40).round(3)
    table["side"] = np.array(["north", "south"])[rng.integers(0, 2, size=40)]
    path = tmp_path / "surveyed.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def call(capsys):
    """Run the command line; return its exit code and what it printed."""

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def call_json(call):
    """Run a command that must succeed with ``--json``; return the document."""

    def run(*words):
        code, out, err = call(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)

    return run
