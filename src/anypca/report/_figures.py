"""Pictures as plain plotly dictionaries; the page's script gives them colours, sizes and fonts.

Colours are names such as ``@accent``, which the script looks up in the style sheet: light and dark pages differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import percent, shorten
from anypca.report._encode import plot_text, rounded
from anypca.report._quality import Curve

Figure = dict[str, Any]

#: Longer names would leave no room for the bars.
_LONGEST_LABEL = 28
#: Points of a line that can still be told apart.
_MOST_MARKERS = 40
#: The look of bars that touch each other.
_ADJACENT = {"marker": {"color": "@accent", "line": {"color": "@paper", "width": 1}}}


def scree(explained: Floats) -> Figure:
    """Bars of the share that each component explains, and their running sum."""
    number = list(range(1, len(explained) + 1))
    shares = 100.0 * explained
    bars = _bars(number, shares, "component %{x}: %{y:.2f} %") | {"name": "each component"}
    line = _line(number, shares.cumsum(), "together", "components 1 to %{x}: %{y:.2f} %", color="@second")
    layout = _layout("component", "explained deviance (%)", legend=True)
    layout["xaxis"] |= _whole(number) | {"range": [0.3, max(len(number), 4) + 0.7]}
    layout["yaxis"] |= {"rangemode": "tozero"}
    return {"data": [bars, line] if len(number) > 1 else [bars], "layout": layout}


def number_curve(values: Mapping[int, float], chosen: int | None, of: str, title: str) -> Figure:
    """A criterion by the number of something, as components, the chosen one marked."""
    ranks = sorted(values)
    numbers = np.array([values[rank] for rank in ranks], dtype=float)
    data = [_line(ranks, numbers, title, f"%{{x}} {of}: %{{y:.6~g}}")]
    layout = _layout(of, title)
    layout["xaxis"] |= _whole(ranks)
    if chosen is not None and chosen in values:
        data.append(_mark(chosen, values[chosen], f"chosen: {chosen}"))
    return {"data": data, "layout": layout}


def loadings(
    names: Sequence[str], values: Floats, std: Floats | None, x_title: str, parts: Floats | None = None
) -> Figure:
    """Horizontal bars, the largest value on top, with bars of two standard deviations where known.

    ``parts`` are contributions, told beside the names.
    """
    order = np.argsort(values, kind="stable")
    place = list(range(len(order)))
    bars: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": place,
        "x": rounded(values[order]),
        "marker": {"color": ["@accent" if values[j] > 0 else "@second" for j in order]},
        "hoverinfo": "text",
        "textposition": "none",
        "text": [
            _loading_text(
                names[j], values[j], *(None if each is None else float(each[j]) for each in (std, parts))
            )
            for j in order
        ],
    }
    if std is not None:
        look = {"color": "@ink", "thickness": 1.2, "width": 3}
        bars["error_x"] = {"type": "data", "array": rounded(2.0 * std[order]), **look}
    layout = _layout(x_title, "")
    layout["yaxis"] |= {
        "tickvals": place,
        "ticktext": [plot_text(shorten(names[j], _LONGEST_LABEL)) for j in order],
        "showgrid": False,
        "range": [-0.7, len(order) - 0.3],
    }
    layout["xaxis"] |= {"zeroline": True}
    layout["height"] = 90 + 22 * max(len(order), 3)
    return {"data": [bars], "layout": layout}


def _loading_text(name: str, value: float, std: float | None, part: float | None) -> str:
    error = "" if std is None else f" ± {std:.2g}"
    share = "" if part is None else f"<br>contributes {percent(part)}"
    return f"{plot_text(shorten(name, 80))}<br>{value:.4g}{error}{share}"


def shares(names: Sequence[str], values: Floats) -> Figure:
    """Explained share of each column: named bars for few columns, a histogram for many."""
    # Bars with names as long as these can be read, a histogram beyond.
    if len(values) <= 30:
        figure = loadings(names, 100.0 * values, None, "explained deviance (%)")
        figure["data"][0]["marker"] = {"color": "@accent"}
        return figure
    counts, edges = np.histogram(100.0 * values, bins=20)
    middle = rounded((edges[1:] + edges[:-1]) / 2.0)
    bars = _bars(middle, counts, "about %{x:.3~g} %: %{y} columns") | _ADJACENT
    bars["width"] = rounded(np.diff(edges))
    return {"data": [bars], "layout": _layout("explained deviance of a column (%)", "columns")}


def calibration(curve: Curve) -> Figure:
    """Observed against fitted means in bins, and the line on which they would agree."""
    positive = bool((curve.fitted > 0).all() and (curve.observed > 0).all())
    # Counts and amounts span orders of magnitude; probabilities and centred values do not.
    is_log = positive and curve.fitted.max() > 10.0 * curve.fitted.min() and curve.fitted.max() > 1.0
    both = np.concatenate([curve.fitted, curve.observed])
    ends = [both.min(), both.max()]
    dashes = {"color": "@muted", "dash": "dash", "width": 1}
    diagonal = _scatter("lines", rounded(ends), rounded(ends), line=dashes, hoverinfo="skip")
    error = {"type": "data", "array": rounded(curve.error), "color": "@accent", "thickness": 1.2}
    points = _scatter(
        "markers",
        rounded(curve.fitted),
        rounded(curve.observed),
        error_y=error,
        marker={"color": "@accent", "size": 7},
        hovertemplate="fitted %{x:.4~g}<br>observed %{y:.4~g}<extra></extra>",
    )
    layout = _layout("mean fitted value", "mean observed value")
    if is_log:
        layout["xaxis"]["type"] = layout["yaxis"]["type"] = "log"
        layout["xaxis"]["dtick"] = layout["yaxis"]["dtick"] = "D2"
    return {"data": [diagonal, points], "layout": layout}


def rank_histogram(ranks: Ints) -> Figure:
    """Share of entries by rank among draws from the model, and the share that each should have."""
    share = 100.0 * ranks / max(1, ranks.sum())
    bars = _bars(range(len(ranks)), share, "rank %{x}: %{y:.2f} %") | _ADJACENT
    layout = _layout("rank of the entry among 19 draws from the model", "entries (%)")
    layout["bargap"] = 0
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": 100.0 / len(ranks), "y1": 100.0 / len(ranks)}
    dashes = {"color": "@second", "dash": "dash", "width": 1.5}
    layout["shapes"] = [{"type": "line", **ends, "line": dashes}]
    return {"data": [bars], "layout": layout}


def trace(values: Floats) -> Figure:
    """The objective after each iteration."""
    iterations = range(1, len(values) + 1)
    line = _line(iterations, values, "objective", "iteration %{x}: %{y:.8~g}", digits=12)
    layout = _layout("iteration", "objective")
    spread = float(np.ptp(values))
    # Ticks of a nearly flat trace differ in late digits only.
    decimals = max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 2
    layout["yaxis"] |= {"tickformat": f",.{min(decimals, 12)}f"}
    return {"data": [line], "layout": layout}


def _whole(numbers: Sequence[int]) -> Figure:
    """Ticks at these whole numbers, or at every fifth of many."""
    return {"tickvals": [n for n in numbers if len(numbers) <= 20 or n % 5 == 0]}


def _bars(x: Sequence[Any], y: Any, hover: str) -> Figure:
    """Upright bars that tell their numbers in the words of ``hover``."""
    return {
        "type": "bar",
        "x": list(x),
        "y": rounded(y),
        "marker": {"color": "@accent"},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _line(
    x: Sequence[Any], y: Floats, name: str, hover: str, *, color: str = "@accent", digits: int = 7
) -> Figure:
    """A line with marks, while these can be told apart."""
    mode = "lines+markers" if len(x) <= _MOST_MARKERS else "lines"
    look = {"line": {"color": color, "width": 2}, "marker": {"color": color, "size": 6}}
    return _scatter(mode, x, rounded(y, digits), name=name, hovertemplate=f"{hover}<extra></extra>", **look)


def _mark(x: float, y: float, text: str) -> Figure:
    look = {"textposition": "bottom center", "cliponaxis": False, "hoverinfo": "skip"}
    marker = {"color": "@second", "size": 12, "symbol": "diamond"}
    return _scatter("markers+text", [x], rounded([y], 7), text=[text], marker=marker, **look)


def _scatter(mode: str, x: Sequence[Any], y: Sequence[Any], **look: Any) -> Figure:
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **look}


def _layout(x_title: str, y_title: str, *, legend: bool = False) -> Figure:
    return {
        "xaxis": {"title": {"text": x_title}, "automargin": True},
        "yaxis": {"title": {"text": y_title}, "automargin": True},
        "showlegend": legend,
        "height": 320,
    }
