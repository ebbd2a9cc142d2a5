"""Plots of loadings, and of the variables that a globally sparse model selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca._words import shorten
from anypca.linalg import largest
from anypca.models._description import describe
from anypca.plotting._common import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    check_components,
    check_names,
    fitted,
    name_component,
    new_axes,
    tidy,
    write_plainly,
)


def plot_loadings(
    model: Any,
    component: int = 1,
    *,
    top: int = 15,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Plot the largest loadings of a component as bars, with posterior standard deviations if available.

    Parameters
    ----------
    model : fitted estimator
        With ``components_`` of shape (n_components, n_features), and ``components_std_`` of the same shape if it has
        a posterior of them, such as `SePCA`.
    component : int, default=1
        Counted from 1.
    top : int, default=15
        How many columns are drawn: those with the largest loadings by magnitude, none that is 0.
    feature_names : sequence of str, optional
        Names of the columns; ``model.feature_names_in_`` if not given, else x0, x1, ...
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The largest loading is on top; positive bars are blue, negative bars vermillion. If columns have units of their
        own, loadings are divided by the standard deviations of the noise, which makes bars comparable.
        The title gives the number of columns and the share of the sum of squares that the drawn columns account for.

    Raises
    ------
    AttributeError
        If the model has no loadings.
    ValueError
        If there is no such component, ``top`` is less than 1, or ``feature_names`` do not fit the model.

    See Also
    --------
    plot_biplot : loadings of two components as arrows.

    Examples
    --------
    >>> from anypca import PPCA
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.plotting import plot_loadings
    >>> ax = plot_loadings(PPCA(2).fit(make_low_rank(50, 6, 2, random_state=0).X), component=2)
    """
    components = check_components(model)
    if not 1 <= component <= len(components):
        raise ValueError(f"component must be from 1 to {len(components)}; got {component}.")
    if top < 1:
        raise ValueError(f"top must be at least 1, the number of columns to draw; got {top}.")
    found = describe(model)
    units = found.drawn_units
    loadings = components[component - 1] if units is None else components[component - 1] / units
    names = check_names(model, feature_names, len(loadings))
    chosen = largest(loadings, top)
    ax = new_axes(5.6, 1.1 + 0.24 * max(len(chosen), 3)) if ax is None else ax
    _draw_bars(ax, loadings[chosen], [shorten(names[j]) for j in chosen])
    std = found.loading_deviations
    if std is not None:
        style = {"fmt": "none", "ecolor": BLACK, "elinewidth": 1.0, "capsize": 2.0}
        error = (std[component - 1] if units is None else std[component - 1] / units)[chosen]
        ax.errorbar(loadings[chosen], np.arange(len(chosen)), xerr=error, **style)
    what = "loading" if units is None else "loading, over its column's noise,"
    ax.set_xlabel(f"{what} on {name_component(model, component - 1)}")
    whiskers = "" if std is None else "\nwhiskers: ± 1 posterior sd"
    ax.set_title(_title(loadings, chosen) + whiskers, fontsize=9)
    tidy(ax)
    ax.spines["left"].set_visible(False)
    return ax


def _draw_bars(ax: Any, loadings: Floats, names: Sequence[str]) -> None:
    place = np.arange(len(loadings))
    colors = [BLUE if loading > 0 else VERMILLION for loading in loadings]
    ax.barh(place, loadings, height=0.7, color=colors)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_yticks(place, names, fontsize=8)
    write_plainly(ax.get_yticklabels())
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(loadings), 3) - 0.4, -0.6)


def _title(loadings: Floats, chosen: Ints) -> str:
    """How much of the component is drawn."""
    total = float(loadings @ loadings)
    share = 100.0 * float(loadings[chosen] @ loadings[chosen]) / total if total > 0 else 100.0
    n_nonzero = int(np.count_nonzero(loadings))
    of = f"{len(loadings)} columns" if n_nonzero == len(loadings) else f"{n_nonzero} non-zero"
    return f"{len(chosen)} of {of}, {share:.0f} % of the squared loadings"


#: Up to this many variables bars carry names; above, the bars would hide each other's.
_MOST_NAMED = 40
_REMEDY = "Draw a model that selects variables, such as GSPPCA."


def plot_evidence_path(model: Any, ax: Any = None) -> Any:
    """Composite evidence against the number of selected variables, the chosen number marked.

    Parameters
    ----------
    model : fitted GSPPCA
        With ``evidence_path_`` of shape (n_varying,), ``inclusion_probability_`` and ``n_features_selected_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Raises
    ------
    AttributeError
        If the model selects no variables.

    See Also
    --------
    plot_support : the variables that were selected.
    """
    evidence = np.asarray(fitted(model, "evidence_path_", remedy=_REMEDY), dtype=float)
    chosen = int(fitted(model, "n_features_selected_"))
    probability = float(fitted(model, "inclusion_probability_"))
    ax = new_axes(5.0, 3.6) if ax is None else ax
    number = np.arange(1, len(evidence) + 1)
    # What is maximised: under the uniform prior this adds nothing.
    shown = evidence + number * (np.log(probability) - np.log1p(-probability))
    marker = "o" if len(evidence) <= 60 else None
    ax.plot(number, shown, color=BLUE, marker=marker, markersize=3.5)
    ax.axvline(chosen, color=VERMILLION, linewidth=1.0, linestyle="--")
    ax.plot([chosen], [shown[chosen - 1]], "o", color=VERMILLION, markersize=6)
    ax.set_title(f"{chosen} of {len(fitted(model, 'support_'))} variables selected", fontsize=10)
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    ax.set_xlabel("number of selected variables")
    ax.set_ylabel("composite evidence" if probability == 0.5 else "composite evidence + log prior")
    tidy(ax)
    return ax


def plot_support(
    model: Any, ax: Any = None, *, shape: tuple[int, int] | None = None, feature_names: Any = None
) -> Any:
    """The selected variables: as an image when the variables are pixels, else their relevances as bars.

    Parameters
    ----------
    model : fitted GSPPCA or SSPCA
        With ``support_`` and ``relevance_`` of shape (n_features,) and ``ranking_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    shape : (int, int), optional
        Rows and columns of the picture that the variables are the pixels of, row by row. Selected pixels are
        white.
    feature_names : sequence of str of length n_features, optional
        Names of the variables, for bars; by default those seen in ``fit``, or x0, x1, ...

    Raises
    ------
    AttributeError
        If the model selects no variables.
    ValueError
        If the shape or the names do not fit the number of variables.

    See Also
    --------
    plot_evidence_path : how their number was chosen.
    """
    support = np.asarray(fitted(model, "support_", remedy=_REMEDY), dtype=bool)
    if shape is not None:
        return _draw_image(support, shape, ax)
    labels = [shorten(name) for name in check_names(model, feature_names, len(support))]
    ranking = np.asarray(fitted(model, "ranking_"))
    return _draw_relevances(support, np.asarray(fitted(model, "relevance_")), ranking, labels, ax)


def _draw_image(support: Bools, shape: tuple[int, int], ax: Any) -> Any:
    height, width = shape
    if height * width != len(support):
        raise ValueError(
            f"shape={shape} has {height * width} pixels; the model has {len(support)} variables. "
            "Give the rows and columns of the picture."
        )
    ax = new_axes(3.2, 3.2 * height / width) if ax is None else ax
    ax.imshow(support.reshape(shape), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    return ax


def _draw_relevances(support: Bools, relevance: Floats, ranking: Any, labels: list[str], ax: Any) -> Any:
    """Bars of the relevances, most relevant first, the selected ones in colour."""
    is_named = len(ranking) <= _MOST_NAMED
    ax = new_axes(max(5.0, 0.22 * len(ranking)) if is_named else 6.0, 3.6) if ax is None else ax
    position = np.arange(1, len(ranking) + 1)
    for chosen, color, label in ((True, BLUE, "selected"), (False, GREY, "left out")):
        mask = support[ranking] == chosen
        if not mask.any():
            continue
        heights = np.where(mask, relevance[ranking], 0.0)
        if is_named:
            ax.bar(position[mask], heights[mask], width=0.7, color=color, label=label)
        else:
            # One outline: thousands of bars take seconds, and their gaps produce an artificial pattern.
            ax.stairs(heights, np.arange(len(ranking) + 1) + 0.5, fill=True, color=color, label=label)
    if is_named:
        ax.set_xticks(position, [labels[j] for j in ranking], rotation=90, fontsize=8)
        write_plainly(ax.get_xticklabels())
    ax.set(xlabel="variables, most relevant first", ylabel="relevance")
    ax.legend(frameon=False)
    tidy(ax)
    return ax
