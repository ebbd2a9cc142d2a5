"""Globally sparse PCA, table 1: F-score of the selected variables for n = p/2, p and 2 p.

Mattei et al. (2016), section 3.3: p = 100, d = 10, noise sd 0.6, 20 active variables, 50 tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments._common import Options, Outcome, Table, Target, repeat, run_module
from experiments._gsppca import Design, fit_once

PAPER = {50: "0.970 ± 0.071", 100: "0.985 ± 0.34", 200: "1 ± 0"}
PAPER_STRUCTURED = {50: "0.944 ± 0.061", 100: "0.985 ± 0.022", 200: "1 ± 0"}


def run(options: Options) -> Outcome:
    """Mean F-score at three sample sizes."""
    n_runs = 5 if options.quick else 50
    rows, targets = [], []
    for n in PAPER:
        tasks = [(Design(n, 100, 10, 20, 0.6), options.seed + i) for i in range(n_runs)]
        f = np.array(repeat(fit_once, tasks, options))
        rows.append((n, f"{f.mean():.4f} ± {f.std():.4f}", f.min(), PAPER[n], PAPER_STRUCTURED[n]))
        targets.append(Target(f"mean F-score, n = {n}", float(f.mean()), ">=", 0.995))
    head = ("n", "ours: mean ± sd", "worst", "paper: GSPPCA", "paper: SSPCA-CV")
    return Outcome([Table(f"F-score, {n_runs} tables each", head, rows)], targets)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    return run_module(__name__, argv)


if __name__ == "__main__":
    raise SystemExit(main())
