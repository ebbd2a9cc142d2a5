"""Kernel PCA of 100 000 rows by random Fourier features: time, memory and accuracy.

Each fit runs in a process of its own, so that its peak memory is its own. Random features are compared with
scikit-learn's exact kernel PCA (randomized eigensolver) on a tenth of the rows, whose kernel matrix alone takes 0.8 GB,
and in accuracy with the exact components of a smaller table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import KernelPCA as ScikitKernelPCA

from anypca import KernelPCA
from experiments._common import Options, Outcome, Table, Target, run_module

N_FEATURES, N_COMPONENTS, N_GROUPS = 20, 5, 5
#: Draws of random features that errors are averaged over.
N_DRAWS = 3
#: Inverse width of the kernel; the median rule gives 0.0006.
GAMMA = 0.001
ROOT = Path(__file__).resolve().parent.parent


class Sizes(NamedTuple):
    """How large a run is."""

    n_rows: int
    n_exact: int
    """Rows of the exact fit."""
    n_basis: int
    """Random features."""
    n_accuracy: int
    """Rows of the table on which subspaces are compared."""
    basis_sizes: tuple[int, ...]
    """Random features and landmarks there."""


FULL = Sizes(100_000, 10_000, 1000, 2000, (100, 300, 1000))
QUICK = Sizes(10_000, 2500, 200, 500, (30, 100, 400))


def make_rows(n_rows: int, seed: int) -> np.ndarray:
    """Five groups around points of a low-dimensional space (n_rows, N_FEATURES)."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((N_GROUPS, 4)) * 3.0
    scores = centres[rng.integers(N_GROUPS, size=n_rows)] + rng.standard_normal((n_rows, 4))
    return scores @ rng.standard_normal((4, N_FEATURES)) + rng.standard_normal((n_rows, N_FEATURES))


def fit_and_report(kind: str, n_rows: int, n_basis: int, seed: int) -> None:
    """Fit once and print seconds and peak memory in MB as JSON; runs in a process of its own."""
    X = make_rows(n_rows, seed)
    models = {
        "rff": KernelPCA(N_COMPONENTS, method="rff", n_basis=n_basis, gamma=GAMMA, random_state=seed),
        "nystroem": KernelPCA(
            N_COMPONENTS, method="nystroem", n_basis=n_basis, gamma=GAMMA, random_state=seed
        ),
        "exact": ScikitKernelPCA(
            N_COMPONENTS, kernel="rbf", gamma=GAMMA, eigen_solver="randomized", random_state=seed
        ),
    }
    start = time.perf_counter()
    models[kind].fit(X)
    print(json.dumps({"seconds": time.perf_counter() - start, "megabytes": peak_megabytes()}))


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # the field of getrusage would count what the starting process held
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure_apart(kind: str, n_rows: int, n_basis: int, seed: int) -> dict[str, float]:
    """Seconds and peak memory of a fit in a new process."""
    code = f"from experiments.kpca_scaling import *; fit_and_report({kind!r}, {n_rows}, {n_basis}, {seed})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def accuracy(sizes: Sizes, seed: int) -> list[tuple[int, float, float]]:
    """Sine of the largest angle from the exact subspace, mean of some draws: random features, landmarks.

    Of the leading components that tell the groups apart; the next ones have nearly equal eigenvalues, so that
    their span is not determined well by any method.
    """
    X = make_rows(sizes.n_accuracy, seed)
    exact = KernelPCA(N_GROUPS - 1, gamma=GAMMA).fit_transform(X)

    def error(method: str, n_basis: int) -> float:
        models = (
            KernelPCA(N_GROUPS - 1, method=method, n_basis=n_basis, gamma=GAMMA, random_state=draw)
            for draw in range(seed, seed + N_DRAWS)
        )
        angles = [subspace_angles(model.fit_transform(X), exact).max() for model in models]
        return float(np.mean(np.sin(angles)))

    return [(size, error("rff", size), error("nystroem", size)) for size in sizes.basis_sizes]


def run(options: Options) -> Outcome:
    """Time and memory of three fits, and accuracy as the features grow."""
    sizes = QUICK if options.quick else FULL
    runs = {
        "random Fourier features": ("rff", sizes.n_rows),
        **({} if options.quick else {"landmarks (Nystroem)": ("nystroem", sizes.n_rows)}),
        "scikit-learn, exact, randomized": ("exact", sizes.n_exact),
    }
    figures = {
        name: measure_apart(kind, n_rows, sizes.n_basis, options.seed)
        for name, (kind, n_rows) in runs.items()
    }
    cost = [
        (name, n_rows, None if kind == "exact" else sizes.n_basis, *figures[name].values())
        for name, (kind, n_rows) in runs.items()
    ]
    errors = accuracy(sizes, options.seed)
    targets = _targets(figures, errors, sizes)
    return Outcome(_tables(cost, errors, sizes), targets, pictures=_draw(options, errors))


def _targets(
    figures: Mapping[str, Mapping[str, float]], errors: Sequence[tuple[int, float, float]], sizes: Sizes
) -> list[Target]:
    rff, exact = (figures[name] for name in ("random Fourier features", "scikit-learn, exact, randomized"))
    return [
        Target(f"peak memory with {sizes.n_rows} rows, MB", rff["megabytes"], "<", 1000.0),
        Target(
            f"seconds, random features on {sizes.n_rows} rows over exact on {sizes.n_exact}",
            rff["seconds"] / exact["seconds"],
            "<",
            1.0,
        ),
        Target(
            "error of the most random features over that of the fewest",
            errors[-1][1] / errors[0][1],
            "<",
            0.5,
        ),
        Target("error of the most landmarks over that of the fewest", errors[-1][2] / errors[0][2], "<", 0.5),
    ]


def _tables(cost: Sequence[Any], errors: Sequence[tuple[int, float, float]], sizes: Sizes) -> list[Table]:
    return [
        Table(
            f"Cost of {N_COMPONENTS} components, {N_FEATURES} columns",
            ("method", "rows", "features", "seconds", "peak MB"),
            cost,
        ),
        Table(
            f"Sine of the largest angle from the exact subspace of {N_GROUPS - 1} components, {sizes.n_accuracy} rows",
            ("features", "random Fourier", "landmarks"),
            errors,
        ),
    ]


def _draw(options: Options, errors: Sequence[tuple[int, float, float]]) -> list[str]:
    path = options.picture("kpca_scaling.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    ax = Figure(figsize=(5.2, 3.8), layout="constrained").add_subplot()
    sizes, *curves = zip(*errors, strict=True)
    styles = {"random Fourier features": ("#0072B2", "o"), "landmarks (Nystroem)": ("#D55E00", "s")}
    for (name, (color, marker)), values in zip(styles.items(), curves, strict=True):
        ax.loglog(sizes, values, color=color, marker=marker, label=name)
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    ax.set_xlabel("number of features")
    ax.set_ylabel("sine of the largest angle\nfrom the exact subspace")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    save_figure(ax, path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
