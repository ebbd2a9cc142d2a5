"""Shared by all plots: colours, new Axes, and checks of models, scores and names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._typing import Floats
from anypca._words import listed, percent, shorten
from anypca.columns import Layout
from anypca.columns.reading import check_length, check_scores
from anypca.exceptions import NotFittedError
from anypca.models._description import describe, find_attribute, is_fitted

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#4D4D4D"
#: Six colours of Okabe and Ito, without yellow, which is faint on white, and black, which is left to arrows among
#: coloured groups; and four more, so that any two of the ten differ by 26 in CIELAB, and by 16 to eyes that lack
#: the red or the green cones.
PALETTE = (
    *(BLUE, VERMILLION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#7A0177", "#DDCC77", "#A50026", GREY),
)
BLACK = "#1A1A1A"
#: With more groups than colours the marker changes, so that no two groups look alike.
MARKERS = ("o", "^", "s", "D", "v", "P")


def new_axes(width: float, height: float) -> Any:
    """Axes on a figure of their own, without pyplot: no window, no backend, nothing to close.

    Parameters
    ----------
    width, height : float
        Size in inches.

    Returns
    -------
    ax : matplotlib.axes.Axes
    """
    with optional("plotting", "matplotlib", "plot"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def write_plainly(texts: Iterable[Any]) -> None:
    """Have a dollar sign in a name be a dollar sign and not the start of a formula."""
    for text in texts:
        text.set_parse_math(False)


def tidy(ax: Any) -> None:
    """Remove the frame's upper and right line."""
    ax.spines[["top", "right"]].set_visible(False)


def save_figure(ax: Any, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Save the figure of some Axes as PNG.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        What was drawn.
    path : path-like
        Image file; its extension determines the format.
    dpi : int
        Dots per inch.

    See Also
    --------
    plot_biplot : one of the pictures to save.
    """
    with warnings.catch_warnings():
        # Names in scripts that the font lacks are drawn as boxes; the tables still hold them.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        # No date or version in the file: the same model gives the same bytes.
        ax.figure.savefig(path, dpi=dpi, format="png", metadata={"Software": None})


def fitted(model: Any, *names: str, remedy: str = "Draw a model that has it.") -> Any:
    """The first of some fitted attributes that a model has.

    Parameters
    ----------
    model : estimator
    *names : str
        Attributes in order of preference.
    remedy : str
        What to do when a fitted model has none of them, for the message.

    Returns
    -------
    value : object

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    AttributeError
        If it is fitted and has none of them.
    """
    found = find_attribute(model, *names)
    if found is not None:
        return found
    kind = type(model).__name__
    if not is_fitted(model):
        raise NotFittedError(f"{kind} has no {names[0]}; call fit before plotting it.")
    raise AttributeError(f"this picture needs {' or '.join(names)}; {kind} has none. {remedy}")


def explained(model: Any) -> tuple[Floats, str]:
    """Share of deviance (or variance, for models that know only this) of each component.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    ratio : ndarray of shape (n_components,)
    what : {"deviance", "variance"}
    """
    fitted(model, "explained_deviance_ratio_", "explained_variance_ratio_")
    found = describe(model)
    return found.explained, found.explained_quantity


def check_components(model: Any) -> Floats:
    """Loadings of a fitted model.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    components : ndarray of shape (n_components, n_features)

    Raises
    ------
    NotFittedError, AttributeError
        If the model has none.
    ValueError
        If the model chose dimension 0.
    """
    remedy = "Draw a linear model, or its scores with plot_scores."
    components = np.atleast_2d(np.asarray(fitted(model, "components_", remedy=remedy), dtype=float))
    if not components.size:
        raise ValueError(
            f"{type(model).__name__} has 0 components, so there is nothing to draw. Fit a fixed n_components."
        )
    return components


def count_components(model: Any) -> int:
    """Number of components of a fitted model, with loadings or without.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    n_components : int

    Raises
    ------
    NotFittedError, AttributeError, ValueError
        As `check_components`.
    """
    return (
        int(fitted(model, "n_components_"))
        if describe(model).loadings is None
        else len(check_components(model))
    )


def check_plane(axes: tuple[int, int], n_components: int, *, needs_two: bool = False) -> list[int]:
    """Positions of the components to draw: two, or one when the model has no more.

    Parameters
    ----------
    axes : tuple of two ints
        Components, counted from 1.
    n_components : int
    needs_two : bool
        Whether one component is an error.

    Returns
    -------
    positions : list of int

    Raises
    ------
    ValueError
        If they are not two different components.
    """
    if n_components < 2:
        if needs_two:
            raise ValueError("a plane needs two components; the model has 1. Fit n_components=2 or more.")
        return [0]
    first, second = axes
    if first == second or not {first, second} <= set(range(1, n_components + 1)):
        raise ValueError(f"axes must be two different components from 1 to {n_components}; got {axes!r}.")
    return [first - 1, second - 1]


def check_points(
    scores: Any, axes: tuple[int, int], n_components: int, *, color: Any, row_names: Any
) -> tuple[list[int], Floats]:
    """The plane to draw in, as positions of components, and the scores in it (n_samples, 2 or 1).

    Raises
    ------
    ValueError
        If there are no such components, or not as many colours or names as rows.
    """
    plane = check_plane(axes, n_components)
    points = check_scores("scores", scores, n_components)[:, plane]
    check_length("row_names", row_names, len(points))
    check_length("color", color, len(points))
    return plane, points


def check_names(model: Any, names: Sequence[str] | None, n_features: int) -> list[str]:
    """Names of the columns: as given, as seen in ``fit``, or x0, x1, ... as scikit-learn counts.

    Parameters
    ----------
    model : fitted estimator
    names : sequence of str or None
    n_features : int

    Returns
    -------
    names : list of str

    Raises
    ------
    ValueError
        If there is not one for each column.
    """
    found = describe(model)
    names = found.feature_names if names is None else names
    layout = found.layout or Layout(n_features)
    if names is None:
        names = tuple(f"x{j}" for j in range(layout.n_features))
    # Names of the input columns; one input column can correspond to several model columns.
    if len(names) == layout.n_features != n_features:
        names = layout.reported_names(tuple(names))
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must hold {n_features} names, one for each column; got {len(names)}."
        )
    return [str(name) for name in names]


def find_column(model: Any, feature: Any) -> int:
    """Position of a column that is given by position or by name.

    Parameters
    ----------
    model : fitted estimator
        With ``n_features_in_``.
    feature : int or str

    Returns
    -------
    position : int

    Raises
    ------
    ValueError
        If there is no such column.
    """
    if isinstance(feature, str):
        names = describe(model).feature_names or ()
        if feature not in names:
            known = f"it has {listed(names, most=20)}" if names else "it was fitted without names"
            raise ValueError(
                f"the model has no column {feature!r}; {known}. Give a position or one of its names."
            )
        return names.index(feature)
    n = int(fitted(model, "n_features_in_"))
    if not -n <= feature < n:
        raise ValueError(f"the model has {n} columns, numbered from 0; got {feature}.")
    return int(feature) % n


def name_column(model: Any, column: int) -> str:
    """Name of a column for an axis, cut to length.

    Parameters
    ----------
    model : fitted estimator
    column : int

    Returns
    -------
    name : str
    """
    names = describe(model).feature_names
    return f"x{column}" if names is None else shorten(names[column])


def name_component(model: Any, position: int) -> str:
    """Name of a component for an axis, with its share where the model knows it.

    Parameters
    ----------
    model : fitted estimator
    position : int
        Counted from 0.

    Returns
    -------
    name : str
    """
    found = describe(model)
    if found.has_pieces:
        # Latent coordinates of pieces: the shares that such a model reports belong to other, rotated axes.
        return "t" if position + 1 == found.n_components else f"w{position + 1}"
    name = f"component {position + 1}"
    if not len(found.explained):
        return name
    return f"{name} ({percent(found.explained[position])} of {found.explained_quantity})"


def name_plane(ax: Any, model: Any, plane: Sequence[int]) -> None:
    """Name the axes after components and draw the origin's cross.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    model : fitted estimator
    plane : sequence of int
        One or two components, counted from 0. With one the height means nothing and has no ticks.
    """
    ax.set_xlabel(name_component(model, plane[0]))
    ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
    tidy(ax)
    if len(plane) == 1:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        return
    ax.set_ylabel(name_component(model, plane[1]))
    ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
