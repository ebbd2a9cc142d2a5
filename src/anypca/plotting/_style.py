"""Colours, new Axes, fitted attributes: what all pictures share."""

from __future__ import annotations

import os
import warnings
from typing import Any

from anypca._optional import optional
from anypca._typing import Floats
from anypca.exceptions import NotFittedError
from anypca.models._description import describe, find_attribute, is_fitted

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#4D4D4D"
#: The palette of Okabe and Ito, told apart by all common kinds of colour vision; without yellow, which is
#: faint on white, and black, which is left to arrows among coloured groups.
PALETTE = (BLUE, VERMILLION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
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


def tidy(ax: Any) -> None:
    """Remove the frame's upper and right line.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    """
    ax.spines[["top", "right"]].set_visible(False)


def save_figure(ax: Any, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Save the figure of some Axes as PNG.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    path : path-like
    dpi : int
        Dots per inch.
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
