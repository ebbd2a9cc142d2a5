"""Simple Poisson PCA of four newsgroups at full size: dimension, memory and neighbours.

All 3730 posts in 10254 words, a sparse table, fitted in a process of its own whose memory is measured. Beyond the
paper, whose tables have 55 columns at most. Seeds other than 0 draw 800 posts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from anypca import SPPCA
from anypca.datasets import load_newsgroups4
from anypca.offsets import total_counts
from experiments._cells import Cells
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments.kpca_scaling import peak_megabytes

ROOT = Path(__file__).parent.parent
MAX_COMPONENTS = 10
#: Posts that seeds other than 0 draw: two tables share a fifth of their rows.
N_POSTS = 800
#: Of the fit: the step is measured per entry, of which there are 38 million.
TOLERANCE = 1e-3
MOST_MEGABYTES = 600.0
N_NEIGHBOURS, N_FOLDS = 10, 5


def fit_all_posts(n_posts: int | None, n_words: int | None, max_components: int, seed: int) -> None:
    """Fit the four groups, print figures as JSON and compare neighbours; runs in a process of its own."""
    posts = load_newsgroups4()
    X, labels = posts.X.astype(np.float32), np.asarray(posts.target)
    if n_posts is not None:
        rows = np.sort(np.random.default_rng(seed).choice(len(labels), n_posts, replace=False))
        X, labels = X[rows], labels[rows]
    if n_words is not None:
        X = X[:, np.sort(np.argsort(-np.asarray((X > 0).sum(axis=0)).ravel(), kind="stable")[:n_words])]
    offset = total_counts(X)
    before = peak_megabytes()
    start = time.perf_counter()
    model = fit_quietly(
        SPPCA(max_components, dispersion="poisson", tol=TOLERANCE, n_jobs=1), X, offset=offset
    )
    seconds, peak = time.perf_counter() - start, peak_megabytes()
    k = model.n_components_
    scores = {
        "SPPCA": model.transform(X, offset=offset),
        "TruncatedSVD": TruncatedSVD(k, random_state=0).fit_transform(X),
        # Of the sparse table, whose means are subtracted within the products.
        "PCA": PCA(k, svd_solver="arpack", random_state=0).fit_transform(X.astype(float)),
    }
    found = {
        "shape": X.shape,
        "components": k,
        "most": max_components,
        "converged": bool(model.converged_),
        "seconds": seconds,
        "megabytes": peak,
        "megabytes before": before,
        "evidence": {str(rank): value for rank, value in model.evidence_by_rank_.items()},
        "accuracy": {name: _accuracy(values, labels, seed) for name, values in scores.items()},
    }
    print(json.dumps(found))


def _accuracy(scores: np.ndarray, labels: np.ndarray, seed: int) -> float:
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    return float(cross_val_score(KNeighborsClassifier(N_NEIGHBOURS), scores, labels, cv=folds).mean())


def measure_apart(n_posts: int | None, n_words: int | None, max_components: int, seed: int) -> dict[str, Any]:
    """What `fit_all_posts` prints in a process of its own."""
    arguments = n_posts, n_words, max_components, seed
    code = f"from experiments.sppca_newsgroups import fit_all_posts; fit_all_posts{arguments!r}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(options: Options) -> Outcome:
    """The fit, and how well neighbours tell the groups by its scores and by those of other methods."""
    n_posts = N_POSTS if options.seed else None
    size = (200, 200, 3) if options.quick else (n_posts, None, MAX_COMPONENTS)
    found = Cells("sppca_newsgroups", options).get(measure_apart, size, 1)[0]
    accuracy = found["accuracy"]
    targets = [Target("peak memory in MB", found["megabytes"], "<", MOST_MEGABYTES)]
    targets += [
        Target(f"accuracy above that of {name}", accuracy["SPPCA"], ">", accuracy[name])
        for name in ("PCA", "TruncatedSVD")
    ]
    return Outcome([_table(found)], targets, [_note(found)])


def _table(found: Mapping[str, Any]) -> Table:
    rows = [(name, found["components"], value) for name, value in found["accuracy"].items()]
    n, p = found["shape"]
    title = f"Four newsgroups ({n} x {p}): {N_NEIGHBOURS} nearest neighbours on the scores, {N_FOLDS} folds"
    return Table(title, ("method", "d", "accuracy"), rows)


def _note(found: Mapping[str, Any]) -> str:
    evidence = ", ".join(f"{rank}: {value:.1f}" for rank, value in found["evidence"].items())
    return (
        f"{found['components']} components (at most {found['most']}) in {found['seconds']:.0f} s, "
        f"{found['megabytes']:.0f} MB at most, {found['megabytes before']:.0f} MB of them before the fit; bound on the "
        f"evidence by number of components: {evidence}."
    )


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
