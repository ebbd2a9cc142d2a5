"""What a component is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import shorten
from anypca.linalg import largest
from anypca.models._description import describe
from anypca.plotting._check import check_components, check_names, name_component
from anypca.plotting._style import BLACK, BLUE, VERMILLION, new_axes, tidy


def plot_loadings(
    model: Any,
    component: int = 1,
    *,
    top: int = 15,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Bars of the largest loadings of a component, with posterior standard deviations where known.

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
        The largest loading on top; positive bars are blue, negative ones vermillion. The title tells how many columns
        there are and which share of the sum of squares those drawn hold.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    AttributeError
        If the model has no loadings.
    ValueError
        If there is no such component, ``top`` is less than 1, or ``feature_names`` do not fit the model.

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
    loadings = components[component - 1]
    names = check_names(model, feature_names, len(loadings))
    chosen = largest(loadings, top)
    ax = new_axes(5.6, 1.1 + 0.24 * max(len(chosen), 3)) if ax is None else ax
    _draw_bars(ax, loadings[chosen], [shorten(names[j]) for j in chosen])
    std = describe(model).loading_deviations
    if std is not None:
        _draw_deviations(ax, loadings[chosen], std[component - 1, chosen])
    ax.set_xlabel(f"loading on {name_component(model, component - 1)}")
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
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(loadings), 3) - 0.4, -0.6)


def _draw_deviations(ax: Any, loadings: Floats, std: Floats) -> None:
    style = {"fmt": "none", "ecolor": BLACK, "elinewidth": 1.0, "capsize": 2.0}
    ax.errorbar(loadings, np.arange(len(loadings)), xerr=std, **style)


def _title(loadings: Floats, chosen: Ints) -> str:
    """How much of the component is drawn."""
    total = float(loadings @ loadings)
    share = 100.0 * float(loadings[chosen] @ loadings[chosen]) / total if total > 0 else 100.0
    n_nonzero = int(np.count_nonzero(loadings))
    of = f"{len(loadings)} columns" if n_nonzero == len(loadings) else f"{n_nonzero} non-zero"
    return f"{len(chosen)} of {of}, {share:.0f} % of the squared loadings"
