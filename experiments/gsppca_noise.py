"""Globally sparse PCA, figure 2: F-score of the selected variables against the noise.

Mattei et al. (2016), section 3.2: n = 50, p = 150 and n = p = 100, d = 10, noise sd from 0.05 to 1, 100 tables each.
The number of active variables is not given there; it is 20 here, as in our table 1. Three higher noise levels are
added, to show where the selection breaks down.
"""

from __future__ import annotations

import numpy as np

from experiments._common import Options, Outcome, Table, Target, repeat, run_module
from experiments._gsppca import Design, fit_once

DESIGNS = {"n = 50, p = 150": (50, 150), "n = p = 100": (100, 100)}
#: Noise levels above those of the paper.
BEYOND = (1.5, 2.0, 3.0)
COLORS = ("#0072B2", "#D55E00")


def run(options: Options) -> Outcome:
    """Quartiles of the F-score for both designs and every noise level."""
    levels = (
        np.array([0.05, 1.0])
        if options.quick
        else np.append(np.round(np.arange(0.05, 1.001, 0.05), 2), BEYOND)
    )
    n_runs = 3 if options.quick else 100
    tasks = [
        (Design(n, p, 10, 20, float(noise)), options.seed + i)
        for n, p in DESIGNS.values()
        for noise in levels
        for i in range(n_runs)
    ]
    scores = np.reshape(repeat(fit_once, tasks, options), (len(DESIGNS), len(levels), n_runs))
    quartiles = np.quantile(scores, [0.25, 0.5, 0.75], axis=2)
    head = ("noise sd", *(f"{name}: {what}" for name in DESIGNS for what in ("median", "quartiles", "mean")))
    rows = [(noise, *_cells(quartiles[:, :, j], scores[:, j])) for j, noise in enumerate(levels)]
    notes = [
        "The paper shows these curves as a figure only: near 1 at low noise, falling as the noise rises. "
        "Its levels end at 1 (the dotted line). It does not give the number of active variables; 20 is "
        "ours.",
        "The targets at the highest published level were not fixed in advance: they asked for 0.9 and were "
        "raised to 0.95, at the same level, in the commit that first stored a result; the three levels "
        "beyond were added in it too.",
    ]
    table = Table(f"F-score, {n_runs} tables each", head, rows)
    return Outcome([table], _targets(levels, quartiles[1]), notes, _draw(options, levels, quartiles))


def _cells(quartiles: np.ndarray, scores: np.ndarray) -> list[object]:
    cells: list[object] = []
    for (low, median, high), runs in zip(quartiles.T, scores, strict=True):
        cells += [median, f"{low:.3g} to {high:.3g}", runs.mean()]
    return cells


def _targets(levels: np.ndarray, median: np.ndarray) -> list[Target]:
    """The figure's message: right at low noise, and robust up to its highest level."""
    last = int(np.flatnonzero(levels == 1.0)[0])
    return [
        Target(f"{name}: median F-score at noise {levels[at]:g}", float(curve[at]), ">=", bound)
        for name, curve in zip(DESIGNS, median, strict=True)
        for at, bound in ((0, 1.0), (last, 0.95))
    ]


def _draw(options: Options, levels: np.ndarray, quartiles: np.ndarray) -> list[str]:
    path = options.picture("gsppca_noise.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    axes = Figure(figsize=(9.5, 3.6), layout="constrained").subplots(1, 2, sharey=True)
    for ax, name, (low, median, high), color in zip(
        axes, DESIGNS, quartiles.transpose(1, 0, 2), COLORS, strict=True
    ):
        ax.fill_between(levels, low, high, color=color, alpha=0.25, linewidth=0, label="quartiles")
        ax.plot(levels, median, color=color, marker="o", markersize=3.5, label="median")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("noise standard deviation")
        ax.set_ylim(0.0, 1.03)
        ax.axvline(1.0, color="0.6", linewidth=0.8, linestyle=":")
        ax.legend(frameon=False, loc="lower left")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("F-score")
    save_figure(axes[0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
