"""Pieces in data space and in latent space, and rows that a model generates beside those observed."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.plotting._style import BLACK, BLUE, GREY, PALETTE, fitted, new_axes, shorten, tidy

#: Latent points are drawn out to this many standard deviations: 99.9 % of them lie within.
_REACH = 3.3


def plot_hinge(model: Any, X: Any, features: tuple[Any, Any] = (0, 1), ax: Any = None) -> Any:
    """Rows in the plane of two columns, coloured by piece, with the path of the model along t.

    Parameters
    ----------
    model : fitted PiecewisePCA
    X : array-like or data frame of shape (n_samples, n_features)
        The rows to show.
    features : pair of int or str, default=(0, 1)
        Columns for the two axes, by position or by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The line runs along t with the other latent coordinates at 0; hinges are marked.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If a column is unknown.
    """
    edges = np.concatenate([[-_REACH], fitted(model, "breakpoints_"), [_REACH]])
    i, j = (_column(model, feature) for feature in features)
    table = np.asarray(X, dtype=float)
    piece = model.predict_piece(X)
    ax = new_axes(5.0, 4.2) if ax is None else ax
    for k in range(len(edges) - 1):
        color = PALETTE[k % len(PALETTE)]
        rows = piece == k
        ax.plot(
            table[rows, i], table[rows, j], "o", ms=3, color=color, alpha=0.45, mew=0, label=f"piece {k + 1}"
        )
    for k in range(len(edges) - 1):
        path = _path(model, k, edges[k], edges[k + 1])
        ax.plot(path[:, i], path[:, j], color=BLACK, linewidth=2.0)
        if k:
            ax.plot(path[:1, i], path[:1, j], "s", color=BLACK, ms=6)
    ax.set_xlabel(_name(model, i))
    ax.set_ylabel(_name(model, j))
    ax.legend(frameon=False)
    tidy(ax)
    return ax


def plot_latent_pieces(
    model: Any, X: Any, coordinates: tuple[int, int] = (-1, 0), ax: Any = None, **transform_params: Any
) -> Any:
    """Posterior means in the plane of two latent coordinates, coloured by piece, with the breakpoints.

    Parameters
    ----------
    model : fitted PiecewisePCA
    X : table of shape (n_samples, n_features)
    coordinates : pair of int, default=(-1, 0)
        For the horizontal and the vertical axis; -1 is t.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    **transform_params : dict
        Such as ``offset``.

    Returns
    -------
    ax : matplotlib.axes.Axes
    """
    breakpoints = fitted(model, "breakpoints_")
    q = int(fitted(model, "n_components_"))
    scores = np.asarray(model.transform(X, **transform_params))
    piece = model.predict_piece(X, **transform_params)
    a, b = (c % q for c in coordinates)
    ax = new_axes(5.0, 4.2) if ax is None else ax
    for k in range(len(breakpoints) + 1):
        rows = piece == k
        color = PALETTE[k % len(PALETTE)]
        ax.plot(
            scores[rows, a], scores[rows, b], "o", ms=3, color=color, alpha=0.5, mew=0, label=f"piece {k + 1}"
        )
    for axis, line in ((a, ax.axvline), (b, ax.axhline)):
        if axis == q - 1:
            for c in breakpoints:
                line(c, color=GREY, linewidth=1.0, linestyle="--")
    names = [*(f"w{c + 1}" for c in range(q - 1)), "t"]
    ax.set_xlabel(f"{names[a]} (posterior mean)")
    ax.set_ylabel(f"{names[b]} (posterior mean)")
    ax.legend(frameon=False)
    tidy(ax)
    return ax


def plot_predicted(
    model: Any,
    X: Any,
    features: tuple[Any, Any] = (0, 1),
    ax: Any = None,
    *,
    n_samples: int | None = None,
    random_state: Any = 0,
    label: str | None = None,
) -> Any:
    """Observed rows and rows drawn from a model in the plane of two columns.

    Parameters
    ----------
    model : fitted estimator
        With ``sample``.
    X : array-like or data frame of shape (n_samples, n_features)
        Observed rows.
    features : pair of int or str, default=(0, 1)
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    n_samples : int, optional
        Number of rows to draw; as many as were observed if not given.
    random_state : int, RandomState instance, Generator or None, default=0
    label : str, optional
        Name of the model; that of its class if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
    """
    fitted(model, "n_components_")
    i, j = (_column(model, feature) for feature in features)
    table = np.asarray(X, dtype=float)
    drawn = model.sample(n_samples or len(table), random_state=random_state)
    ax = new_axes(5.0, 4.2) if ax is None else ax
    ax.plot(table[:, i], table[:, j], "o", ms=3, color=GREY, alpha=0.35, mew=0, label="observed")
    name = label or type(model).__name__
    ax.plot(drawn[:, i], drawn[:, j], "o", ms=3, color=BLUE, alpha=0.35, mew=0, label=f"generated by {name}")
    ax.set_xlabel(_name(model, i))
    ax.set_ylabel(_name(model, j))
    ax.legend(frameon=False)
    tidy(ax)
    return ax


def _path(model: Any, k: int, start: float, stop: float) -> Floats:
    """The map of one piece along t, other coordinates at 0, (n, n_features); for counts on their scale."""
    t = np.linspace(start, stop, 60)
    predictor = model.piece_means_[k] + t[:, None] * model.piece_loadings_[k, :, -1]
    return np.asarray(np.exp(predictor) if model.family == "poisson" else predictor)


def _column(model: Any, feature: Any) -> int:
    names = getattr(model, "feature_names_in_", None)
    if isinstance(feature, str):
        if names is None or feature not in list(names):
            known = "it was fitted without names" if names is None else f"it has {', '.join(map(str, names))}"
            raise ValueError(
                f"the model has no column {feature!r}; {known}. Give a position or one of its names."
            )
        return list(names).index(feature)
    n = int(model.n_features_in_)
    if not -n <= feature < n:
        raise ValueError(f"the model has {n} columns, numbered from 0; got {feature}.")
    return int(feature) % n


def _name(model: Any, column: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    return f"x{column}" if names is None else shorten(names[column])
