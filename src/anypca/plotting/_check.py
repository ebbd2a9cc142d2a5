"""What all pictures ask of models, scores and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import listed, percent, shorten
from anypca.models._description import describe
from anypca.plotting._style import fitted, tidy


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


def check_scores(what: str, values: Any, n_components: int) -> Floats:
    """Scores, or their standard deviations, as an array.

    Parameters
    ----------
    what : str
        Name of the argument, for the message.
    values : array-like
    n_components : int

    Returns
    -------
    scores : ndarray of shape (n_samples, n_components)

    Raises
    ------
    ValueError
        If the shape is another.
    """
    found: Floats = np.asarray(values, dtype=float)
    if found.ndim != 2 or found.shape[1] != n_components:
        raise ValueError(
            f"{what} must have shape (n_samples, {n_components}), a column for each component; got shape "
            f"{found.shape}. Pass what model.transform(X) returned."
        )
    return found


def check_length(what: str, values: Any, length: int) -> None:
    """Refuse a list that has not one value for each row.

    Parameters
    ----------
    what : str
        Name of the argument, for the message.
    values : sequence or None
    length : int

    Raises
    ------
    ValueError
        If the length is another.
    """
    if values is not None and len(values) != length:
        raise ValueError(f"{what} must hold {length} values, one for each row of scores; got {len(values)}.")


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
    names = describe(model).feature_names if names is None else names
    if names is None:
        return [f"x{j}" for j in range(n_features)]
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
