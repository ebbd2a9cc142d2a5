"""Tables as people have them, a quick way to call the command line, and fits that several tests look at."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator, seed

from anypca.cli import main
from anypca.datasets import make_low_rank


@pytest.fixture(scope="session", autouse=True)
def _patient():
    """On a busy machine a fit that takes long is not told of on stderr."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYPCA_PROGRESS_SECONDS", "86400")
        yield


@pytest.fixture(scope="session")
def call():
    """Run the command line; return its exit code and what it printed."""

    def run(*words):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main([str(word) for word in words])
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture(scope="session")
def call_json(call):
    """Run a command that must succeed with ``--json``; return the document."""

    def run(*words):
        code, out, err = call(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)

    return run


def draw_counts():
    """40 rows, 6 columns of counts of rank 2."""
    X = make_low_rank(40, 6, 2, family="poisson", random_state=seed()).X
    return pd.DataFrame(X, columns=list("abcdef"))


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.csv"
    draw_counts().to_csv(path, index=False)
    return path


@pytest.fixture
def surveyed(tmp_path):
    """The same kind of counts with an effort, a covariate of numbers, one of text, and row names."""
    table, rng = draw_counts(), generator("survey")
    table.insert(0, "plot", [f"plot{i}" for i in range(40)])
    table["effort"] = rng.uniform(1, 3, size=40).round(2)
    table["height"] = np.append(rng.normal(size=39), -1.0).round(3)
    table["side"] = np.array(["north", "south"])[np.arange(40) % 2]
    path = tmp_path / "surveyed.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def messy(tmp_path_factory):
    """Semicolons, decimal commas, names, dates, answers, text, empty and spoilt cells, a constant, short rows."""
    rng = generator("messy")
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
    path = tmp_path_factory.mktemp("messy") / "messy.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def fitted_counts(tmp_path_factory, call_json):
    """Folder, table and document of EPCA of counts."""
    folder = tmp_path_factory.mktemp("counts")
    table = folder / "counts.csv"
    draw_counts().to_csv(table, index=False)
    words = ["--model", "epca", "--family", "poisson", "--seed", 3]
    return folder / "out", table, call_json("fit", table, *words, "-o", folder / "out")
