"""The pictures of a fitted folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anypca._typing import Floats
from anypca.io import Frame
from anypca.models._description import describe
from anypca.plotting import plot_biplot, plot_scores, plot_scree, save_figure


def draw_scree(model: Any, path: Path) -> None:
    """Draw how much each component explains.

    Parameters
    ----------
    model : fitted estimator
    path : Path
        Of the PNG file.
    """
    save_figure(plot_scree(model) if model.n_components_ else _nothing(), path)


def draw_biplot(model: Any, scores: Floats, frame: Frame, groups: Sequence[str] | None, path: Path) -> None:
    """Draw rows and columns, or rows alone where the model has no loadings.

    Parameters
    ----------
    model : fitted estimator
    scores : ndarray of shape (n_rows, n_components)
    frame : Frame
        Gives the names.
    groups : sequence of str of length n_rows or None
        Told by colours.
    path : Path
        Of the PNG file.
    """
    rows = frame.row_names
    if scores.shape[1] == 0:
        ax = _nothing()
    elif describe(model).loadings is not None:
        ax = plot_biplot(model, scores, feature_names=frame.column_names, row_names=rows, color=groups)
    else:
        ax = plot_scores(model, scores, color=groups, row_names=rows)
    save_figure(ax, path)


def _nothing() -> Any:
    """A picture that says that there is none."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(5.0, 2.0)).subplots()
    ax.text(0.5, 0.5, "no component was found", ha="center", va="center")
    ax.set_axis_off()
    return ax
