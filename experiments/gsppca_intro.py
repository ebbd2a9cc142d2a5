"""Globally sparse PCA, figure 1: relevances and evidence on a table with 10 of 30 active variables.

Mattei et al. (2016), section 3.1: n = 50, p = 30, d = 5, q = 10. The noise level is not given; 0.3 and 0.6 are tried,
50 tables each.
"""

from __future__ import annotations

import numpy as np

from anypca import GSPPCA
from anypca.plotting import plot_evidence_path, save_figure
from experiments._common import Options, Outcome, Table, Target, repeat, run_module
from experiments._gsppca import Design, fit_once, simulate

NOISE = (0.3, 0.6)


def run(options: Options) -> Outcome:
    """F-scores at two noise levels, and the picture of one table."""
    n_runs = 5 if options.quick else 50
    scores = {}
    for noise in NOISE:
        tasks = [(Design(50, 30, 5, 10, noise), options.seed + i) for i in range(n_runs)]
        scores[noise] = np.array(repeat(fit_once, tasks, options))
    rows = [
        (
            noise,
            n_runs,
            int(np.sum(f == 1)),
            f.mean(),
            f.std(),
            "the true model (1 table)" if noise == 0.3 else "",
        )
        for noise, f in scores.items()
    ]
    head = ("noise sd", "tables", "true model found", "mean F-score", "sd", "paper")
    exact, mean = float(np.sum(scores[0.3] == 1)), float(scores[0.6].mean())
    targets = [
        Target("noise 0.3: tables with the true model", exact, ">=", n_runs if options.quick else 48.0),
        Target("noise 0.6: mean F-score", mean, ">=", 0.95 if options.quick else 0.985),
    ]
    table = Table("Selection with 10 of 30 variables active, n = 50, d = 5", head, rows)
    return Outcome([table], targets, pictures=_draw(options))


def _draw(options: Options) -> list[str]:
    """Sorted relevances with the truth, and the evidence path, as in the figure."""
    path = options.picture("gsppca_intro.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    drawn = simulate(Design(50, 30, 5, 10, 0.3), options.seed)
    model = GSPPCA(5, n_jobs=1).fit(drawn.X)
    left, right = Figure(figsize=(9.5, 3.8), layout="constrained").subplots(1, 2)
    number = np.arange(1, len(model.ranking_) + 1)
    left.plot(number, drawn.support[model.ranking_], "o", color="#56B4E9", label="truth")
    left.plot(number, model.relevance_[model.ranking_], "o", ms=4, color="#0072B2", label="relevance")
    left.set_xlabel("variables, most relevant first")
    left.set_ylabel("relevance")
    left.legend(frameon=False)
    left.spines[["top", "right"]].set_visible(False)
    plot_evidence_path(model, ax=right)
    save_figure(right, path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
