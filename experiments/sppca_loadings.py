"""Simple Poisson PCA, tables 1 and 2: loadings of six methods on one and two hidden factors.

Smallman, Underwood and Artemiou (2020), section 5.1: 100 rows of 10 counts. The paper prints one draw; here unit-length
loadings are averaged over 20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anypca import SPPCA
from experiments._cells import tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, repeat, run_module
from experiments._designs import make_sppca_loadings
from experiments._sppca import SGPCA_ALPHA, SPARSITY, published_methods

#: As printed, variable by variable: SPPCA, SSPPCA, PCA, SPCA, GPCA, SGPCA.
PAPER_X1D = """
-0.26 -0.26 0.17 0.00 0.34  0.06
-0.27 -0.27 0.17 0.00 0.33  0.42
-0.33 -0.33 0.35 0.47 0.32 -0.00
-0.33 -0.33 0.33 0.27 0.29 -0.50
-0.33 -0.33 0.34 0.35 0.30 -0.43
-0.33 -0.33 0.36 0.31 0.33 -0.06
-0.33 -0.33 0.34 0.37 0.31 -0.44
-0.33 -0.33 0.33 0.32 0.31  0.19
-0.33 -0.33 0.36 0.39 0.33 -0.01
-0.33 -0.33 0.35 0.32 0.31 -0.40
"""
PAPER_X2D_FIRST = """
-0.33 -0.23 0.01 0.00 -0.18 0.37
-0.31 -0.23 0.03 0.00 -0.31 0.04
-0.23 -0.26 0.12 0.00 -0.35 0.10
-0.23 -0.26 0.12 0.00 -0.35 0.06
-0.34 -0.36 0.41 0.40 -0.33 0.40
-0.34 -0.36 0.40 0.36 -0.32 0.40
-0.34 -0.36 0.40 0.42 -0.32 0.38
-0.34 -0.36 0.41 0.40 -0.33 0.37
-0.34 -0.36 0.40 0.45 -0.33 0.31
-0.34 -0.36 0.39 0.42 -0.31 0.38
"""
PAPER_X2D_SECOND = """
0.12 -0.76  0.73 -0.82  0.71  0.67
0.14 -0.64  0.64 -0.57  0.61  0.68
0.29  0.09 -0.18  0.00 -0.20 -0.10
0.28  0.08 -0.16  0.00 -0.19 -0.05
0.37  0.00  0.01  0.00 -0.09 -0.11
0.36  0.00  0.07  0.00 -0.08 -0.09
0.37 -0.00 -0.00  0.00 -0.09 -0.12
0.37  0.00 -0.02  0.00 -0.10 -0.12
0.37  0.00 -0.00  0.00 -0.09 -0.08
0.37  0.00 -0.02  0.00 -0.09 -0.15
"""
PRINTED = ("SPPCA", "SSPPCA", "PCA", "SPCA", "GPCA", "SGPCA")
DEFAULT = "SPPCA, default"
#: Loadings that SPCA keeps: as many as the printed ones.
N_NONZERO: Mapping[int, tuple[int, ...]] = {1: (8,), 2: (6, 2)}


def draw(n_factors: int, seed: int) -> np.ndarray:
    """The table of a number of factors and a seed."""
    return make_sppca_loadings(n_factors, random_state=np.random.default_rng([seed, n_factors])).X


def loadings(n_factors: int, seed: int) -> dict[str, Any]:
    """Unit-length loadings of all methods on one table, as lists, components in their own order."""
    X = draw(n_factors, seed)
    methods = published_methods(n_factors, N_NONZERO[n_factors]) | {DEFAULT: SPPCA(n_jobs=1)}
    found = {}
    for name, model in methods.items():
        components = fit_quietly(model, X).components_
        found[name] = components / np.maximum(np.linalg.norm(components, axis=1, keepdims=True), 1e-300)
    return found


def run(options: Options) -> Outcome:
    """Mean loadings of all methods beside the printed ones."""
    n_runs = 3 if options.quick else 10 if options.seed else 20
    found = {
        d: repeat(loadings, [(d, options.seed + i) for i in range(n_runs)], options)
        for d in ((1,) if options.quick else (1, 2))
    }
    printed = {(1, 0): PAPER_X1D, (2, 0): PAPER_X2D_FIRST, (2, 1): PAPER_X2D_SECOND}
    panels = {
        (d, component): {
            name: _mean_loading(draws, name, component, _paper(printed[d, component], name))
            for name in draws[0]
        }
        for d, draws in found.items()
        for component in range(d)
    }
    tables = [_counts(found), *(_table(*key, panels[key], printed[key]) for key in panels)]
    pictures = _draw(panels, printed, options)
    return Outcome(tables, _targets(found[1], panels[1, 0]["SPPCA"]), _notes(n_runs), pictures)


def _paper(text: str, name: str) -> Any:
    """The printed loadings of a method, shape (10,); ``None`` where it is ours."""
    if name not in PRINTED:
        return None
    return np.array([row.split() for row in text.split("\n") if row], dtype=float)[:, PRINTED.index(name)]


def _mean_loading(draws: Sequence[Mapping[str, Any]], name: str, component: int, paper: Any) -> Any:
    """Mean over the draws that have the component, each with the sign that is nearest to the printed one."""
    vectors = [draw[name][component] for draw in draws if len(draw[name]) > component]
    if not vectors:
        return np.full(10, np.nan)
    reference = vectors[0] if paper is None else paper
    return np.mean([v * (1.0 if v @ reference >= 0 else -1.0) for v in vectors], axis=0)


def _targets(draws: Sequence[Mapping[str, Any]], ours: Any) -> list[Target]:
    paper = _paper(PAPER_X1D, "SPPCA")
    # The printed loadings have two digits and a length of 1.006.
    distance = float(np.abs(ours - paper / np.linalg.norm(paper)).max())
    single = float(np.mean([len(draw["SPPCA"]) == 1 for draw in draws]))
    return [
        # The paper has one draw, with one component; where all of ours had it was an accident of the first seeds.
        Target("X1D, SPPCA as published: share of draws with one component", single, ">", 0.5),
        Target("X1D, SPPCA as published: largest difference from the printed loadings", distance, "<=", 0.02),
    ]


def _counts(found: Mapping[int, Sequence[Mapping[str, Any]]]) -> Table:
    """How many components the methods that choose them found."""
    rows = []
    for d, draws in found.items():
        for name in ("SPPCA", "SSPPCA", DEFAULT):
            answers = tally([len(draw[name]) for draw in draws])
            rows.append((f"X{d}D", name, d, answers, None if name == DEFAULT else d))
    return Table("Number of components", ("table", "method", "truth", "answers", "paper"), rows)


def _table(d: int, component: int, ours: Mapping[str, Any], printed: str) -> Table:
    head = ["variable"]
    columns: list[Any] = [range(1, 11)]
    for name, loading in ours.items():
        head.append(name)
        columns.append([round(float(value), 3) for value in loading])
        paper = _paper(printed, name)
        if paper is not None:
            head.append("paper")
            columns.append([float(value) for value in paper])
    which = ("first", "second")[component]
    title = f"Table {d}: loadings for X{d}D, {which} component"
    return Table(title, head, list(zip(*columns, strict=True)))


def _notes(n_runs: int) -> list[str]:
    return [
        f"Loadings of unit length, means of {n_runs} draws, each with the sign nearer to the printed one. SPPCA and "
        f"SSPPCA as published (price of a loading {SPARSITY}), without intercept: the first component holds the means, "
        "so that its loadings are log means. SPCA keeps as many loadings as are printed; SGPCA has the SCAD penalty "
        f"with weight {SGPCA_ALPHA}. The paper states neither its prices nor its weights.",
        "On X2D our second component of SPPCA holds the first factor alone, as the printed one of SSPPCA does and that "
        "of SPPCA does not: run to convergence, the two algorithms agree.",
        "X1D is the design of sppca_order with D = 10, n = 100, d = 1, where the published algorithm finds one "
        "component in 82 % of 50 draws. The target on that share was '== 1', which the first 20 draws met and others "
        "did not; it now says that most draws are like the printed one.",
    ]


def _draw(panels: Mapping[Any, Mapping[str, Any]], printed: Mapping[Any, str], options: Options) -> list[str]:
    """Our mean loadings and the printed ones."""
    path = options.picture("sppca_loadings.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    figure = Figure(figsize=(13.0, 0.6 + 2.3 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(PRINTED), sharex=True, sharey=True, squeeze=False)
    number = np.arange(1, 11)
    for row, ((d, component), ours) in zip(grid, panels.items(), strict=True):
        for ax, name in zip(row, PRINTED, strict=True):
            ax.axhline(0.0, color="0.8", linewidth=0.8)
            paper = _paper(printed[d, component], name)
            ax.plot(number, paper, "o", mfc="none", color="#D55E00", label="paper, one draw")
            ax.plot(number, ours[name], ".", color="#0072B2", label="ours, mean of draws")
            ax.set_title(f"{name}, X{d}D, component {component + 1}", fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("loading")
    for ax in grid[-1]:
        ax.set_xlabel("variable")
        ax.set_xticks([1, 4, 7, 10])
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=2)
    save_figure(grid[0, 0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
