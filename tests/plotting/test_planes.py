"""The correlation circle and the map of individuals: what is drawn, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anypca import PLNPCA
from anypca.exceptions import NotFittedError
from anypca.plotting import plot_correlation_circle, plot_scores, save_figure

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(50, 3)) * [3.0, 2.0, 1.0]
SCORES -= SCORES.mean(axis=0)
SCORES = np.linalg.qr(SCORES)[0] * np.sqrt(50) * [3.0, 2.0, 1.0]
COMPONENTS = np.linalg.qr(RNG.normal(size=(8, 3)))[0].T
MODEL = SimpleNamespace(
    components_=COMPONENTS,
    explained_variance_=np.array([9.0, 4.0, 1.0]),
    explained_deviance_ratio_=np.array([0.5, 0.2, 0.05]),
)


def arrows(ax: Any) -> np.ndarray:
    """Tips of all arrows, in no particular order."""
    from matplotlib.quiver import Quiver

    parts = [child for child in ax.get_children() if isinstance(child, Quiver)]
    return np.concatenate([np.column_stack([part.U, part.V]) for part in parts])


def in_order(points: np.ndarray) -> np.ndarray:
    return points[np.lexsort(points.T)]


@pytest.mark.parametrize("axes", [(1, 2), (3, 1)], ids=str)
def test_arrows_are_correlations(axes: tuple[int, int]) -> None:
    table = np.column_stack([SCORES, SCORES @ COMPONENTS])
    wanted = np.corrcoef(table.T)[3:, [axes[0] - 1, axes[1] - 1]]
    ax = plot_correlation_circle(MODEL, axes=axes, top=3)
    np.testing.assert_allclose(in_order(arrows(ax)), in_order(wanted), atol=1e-6)
    assert f"component {axes[0]}" in ax.get_xlabel()
    assert len([text for text in ax.texts if text.get_text()]) == 3


def test_points_are_scores_and_groups_are_named() -> None:
    groups = ["a", "b"] * 25
    ax = plot_scores(MODEL, SCORES, color=groups, std=np.full_like(SCORES, 0.3), axes=(1, 3))
    drawn = np.concatenate([part.get_offsets() for part in ax.collections if len(part.get_offsets()) == 25])
    np.testing.assert_allclose(in_order(np.asarray(drawn)), in_order(SCORES[:, [0, 2]]))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert "5.0 % of deviance" in ax.get_ylabel()


def test_a_fitted_model_is_drawn(tmp_path: Any) -> None:
    counts = RNG.poisson(np.exp(RNG.normal(size=(30, 2)) @ RNG.normal(size=(2, 6)) + 1.0))
    model = PLNPCA(2, n_jobs=1).fit(counts)
    names = [f"row {i}" for i in range(30)]
    for ax in (
        plot_correlation_circle(model),
        plot_scores(model, model.transform(counts), row_names=names),
    ):
        save_figure(ax, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 5000


BAD = {
    "one component": (
        lambda: plot_correlation_circle(PLNPCA(1, n_jobs=1).fit(np.eye(9)[:, :3] + 1)),
        "two components",
    ),
    "equal axes": (
        lambda: plot_scores(MODEL, SCORES, axes=(1, 1)),
        "two different components from 1 to 3",
    ),
    "axes from 0": (lambda: plot_correlation_circle(MODEL, axes=(0, 1)), "from 1 to 3"),
    "scores": (lambda: plot_scores(MODEL, SCORES[:, :2]), r"scores must have shape \(n_samples, 3\)"),
    "std": (lambda: plot_scores(MODEL, SCORES, std=SCORES[0]), "std must have shape"),
    "color": (lambda: plot_scores(MODEL, SCORES, color=["a"]), "color must hold 50 values"),
    "names": (lambda: plot_correlation_circle(MODEL, feature_names=["a"]), "feature_names must hold 8 names"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_models_must_be_fitted() -> None:
    with pytest.raises(NotFittedError):
        plot_correlation_circle(PLNPCA())
