"""Pictures of the truth table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments._truth_designs import Cell

#: Methods in the picture, by the names that a reader knows.
_SHOWN = {
    "sepca": "SePCA",
    "parallel": "parallel analysis",
    "minka": "Minka",
    "gavish_donoho": "Gavish-Donoho",
    "screenot": "ScreeNOT",
}


def draw_table(found: Mapping[Cell, list[Any]], path: Path) -> None:
    """Each cell a row, each method a column: dark where the dimension was found, with how far off it was otherwise."""
    import matplotlib.pyplot as plt  # optional

    names = [cell.name for cell in found]
    exact, bias = (np.full((len(names), len(_SHOWN)), np.nan) for _ in range(2))
    for i, (cell, answers) in enumerate(found.items()):
        for j, method in enumerate(_SHOWN):
            gaps = np.array(
                [a.ranks[method] - cell.truth for a in answers if a.ranks.get(method) is not None]
            )
            if gaps.size:
                exact[i, j], bias[i, j] = np.mean(gaps == 0), gaps.mean()
    figure, ax = plt.subplots(figsize=(9.0, 0.18 * len(names) + 1.5), layout="constrained")
    image = ax.imshow(exact, cmap="YlGnBu", vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(bias):
        if np.isfinite(value) and exact[i, j] < 0.95:
            color = "white" if exact[i, j] > 0.6 else "black"
            ax.text(j, i, f"{value:+.1f}", ha="center", va="center", fontsize=6, color=color)
    ax.set_xticks(range(len(_SHOWN)), list(_SHOWN.values()), fontsize=8)
    ax.set_yticks(range(len(names)), names, fontsize=6)
    ax.xaxis.tick_top()
    figure.colorbar(image, label="share of tables with the right dimension", shrink=0.3)
    ax.set_title(
        "Dark: the dimension was found. Numbers: mean error where it was not. White: not asked", fontsize=9
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_reliability(found: Mapping[Cell, list[Any]], path: Path) -> None:
    """How often a dimension that was given a probability is the right one."""
    import matplotlib.pyplot as plt  # optional

    pairs = [
        (probability, int(rank) == cell.truth)
        for cell, answers in found.items()
        for each in answers
        for rank, probability in each.probabilities.items()
    ]
    stated, hits = np.array(pairs, dtype=float).T
    bins = np.digitize(stated, np.linspace(0.1, 0.9, 9))
    middles = [stated[bins == b].mean() for b in np.unique(bins)]
    rates = [hits[bins == b].mean() for b in np.unique(bins)]
    figure, ax = plt.subplots(figsize=(4.0, 4.0), layout="constrained")
    ax.plot([0, 1], [0, 1], color="0.7", lw=1)
    ax.plot(middles, rates, "o-")
    ax.set_xlabel("stated probability of a dimension")
    ax.set_ylabel("how often it is the right one")
    figure.savefig(path, dpi=110)
    plt.close(figure)
