"""Globally sparse PCA, table 2: 200 pixels chosen on handwritten sevens, on three backgrounds.

Mattei et al. (2016), section 3.4: 500 sevens from each of three sets, GSPPCA and structured sparse PCA (SSPCA) with
d = 100 and sparse PCA with one component choose 200 pixels. The paper judges the pictures by eye; the share of chosen
pixels that lie on the mean seven is added here as a number, and so are SSPCA with orthogonal scores and the pixels of
largest variance.
"""

from __future__ import annotations

import numpy as np

from anypca import GSPPCA, SPCA, SSPCA
from anypca.datasets import load_mnist_sevens
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module

VARIANTS = ("basic", "back_rand", "back_image")
N_PIXELS = 200
METHODS = ("SPCA d=1", "SSPCA", "SSPCA, orthogonal", "GSPPCA", "variance")
#: Of the picture: those of the paper.
SHOWN = ("SPCA d=1", "SSPCA", "GSPPCA")


def run(options: Options) -> Outcome:
    """Chosen pixels of the methods on the three sets, and how many lie on the mean seven."""
    dimension, n_images, tol = (20, 250, 1e-2) if options.quick else (100, 500, 1e-4)
    tables = {variant: np.asarray(load_mnist_sevens(variant).X, float)[:n_images] for variant in VARIANTS}
    # The same digits in all sets: those on black tell where ink is.
    ink = _largest(tables["basic"].mean(axis=0), N_PIXELS)
    masks, rows = {}, []
    for variant, X in tables.items():
        model = GSPPCA(dimension, n_features_to_select=N_PIXELS, tol=tol, n_jobs=1).fit(X)
        found = {"GSPPCA": model.support_, **_rivals(X, dimension, tol)}
        masks |= {(variant, name): found[name] for name in METHODS}
        shares = [np.mean(ink[found[name]]) for name in METHODS]
        chance = N_PIXELS / np.count_nonzero(X.std(axis=0) > 0)
        rows.append((variant, *shares, chance, model.n_iter_, model.converged_))
    names = [name if name in ("SPCA d=1", "variance") else f"{name} d={dimension}" for name in METHODS]
    head = ("background", *names, "by chance", "iterations of GSPPCA", "converged")
    title = f"Share of the {N_PIXELS} chosen pixels among the {N_PIXELS} brightest of the mean seven"
    targets = _targets({row[0]: dict(zip(METHODS, row[1:], strict=False)) for row in rows})
    notes = [
        "The published files are not distributed: the backgrounds were made anew by the published recipe "
        "(random grey values; patches of 11 photographs instead of 20), the lighter of digit and background "
        "being shown. Pictures have 784 pixels; the paper says 758.",
        "SSPCA (the published bound on the scores) chooses the background of back_image, where the paper, too, "
        "could not read its selection; with orthogonal scores it does not, but then it does worse on back_rand, as "
        "does the ranking by variance. On back_rand SSPCA has more pixels on the seven than GSPPCA.",
    ]
    return Outcome([Table(title, head, rows)], targets, notes, _draw(options, tables, masks, dimension))


def _largest(values: np.ndarray, q: int) -> np.ndarray:
    """Mask of the q largest values."""
    mask = np.zeros(len(values), dtype=bool)
    mask[np.argsort(-values, kind="stable")[:q]] = True
    return mask


def _targets(shares: dict[str, dict[str, float]]) -> list[Target]:
    """Where the paper says that one selection can be read and another cannot."""
    pairs = [("back_rand", "SPCA d=1"), ("back_image", "SPCA d=1"), ("back_image", "SSPCA")]
    return [
        Target(
            f"{variant}: GSPPCA's share less that of {name}",
            shares[variant]["GSPPCA"] - shares[variant][name],
            ">",
            0.0,
        )
        for variant, name in pairs
    ]


def _rivals(X: np.ndarray, dimension: int, tol: float) -> dict[str, np.ndarray]:
    """Masks of the pixels that other methods choose."""
    structured = {
        constraint: fit_quietly(
            SSPCA(dimension, n_features_to_select=N_PIXELS, constraint=constraint, tol=tol, n_jobs=1), X
        ).support_
        for constraint in ("ball", "orthogonal")
    }
    return {
        "SPCA d=1": _sparse_support(X),
        "SSPCA": structured["ball"],
        "SSPCA, orthogonal": structured["orthogonal"],
        "variance": _largest(X.var(axis=0), N_PIXELS),
    }


def _sparse_support(X: np.ndarray) -> np.ndarray:
    """Mask of the pixels of the leading sparse component."""
    return SPCA(1, n_nonzero=N_PIXELS, ridge=np.inf, n_jobs=1).fit(X).components_[0] != 0


def _draw(options: Options, tables: dict, masks: dict, dimension: int) -> list[str]:
    """A grid as in the table: a sample, then the pixels of each method, by background."""
    path = options.picture("gsppca_digits.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    axes = Figure(figsize=(6.0, 8.2), layout="constrained").subplots(1 + len(SHOWN), 3)
    for column, variant in enumerate(VARIANTS):
        images = [tables[variant][0], *(masks[variant, name] for name in SHOWN)]
        axes[0, column].set_title(variant, fontsize=10)
        for ax, image in zip(axes[:, column], images, strict=True):
            ax.imshow(np.reshape(image, (28, 28)), cmap="gray", interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
    labels = ("sample", "SPCA d=1", *(f"{name} d={dimension}" for name in SHOWN[1:]))
    for ax, label in zip(axes[:, 0], labels, strict=True):
        ax.set_ylabel(label)
    save_figure(axes[0, 0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
