"""Plots as plain numbers for the script of the page: axes, marks, and a text for each mark.

Colours are names in the style sheet, since light and dark pages differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import percent, shorten
from anypca.report._encode import rounded, short_name
from anypca.report._quality import N_DRAWS, Curve

Figure = dict[str, Any]

#: Longer names would leave no room for the bars.
_LONGEST_LABEL = 28
#: More columns are a histogram: their names could not be read.
_MOST_NAMED = 30


def scree(explained: Floats) -> Figure:
    """Bars of the share that each component explains, and a line of the running sum."""
    number = list(range(1, len(explained) + 1))
    shares, sums = 100.0 * explained, 100.0 * explained.cumsum()
    bars = _mark("bars", number, shares, lambda x, y: f"component {x}: {y:.2f} %", name="each component")
    line = _mark(
        "line", number, sums, lambda x, y: f"components 1 to {x}: {y:.2f} %", color="second", name="together"
    )
    x = {"title": "component", "ticks": number, "range": [0.3, max(len(number), 4) + 0.7]}
    marks = [bars, line | {"dots": True}] if len(number) > 1 else [bars]
    return {"x": x, "y": {"title": "explained deviance (%)"}, "marks": marks}


def number_curve(values: Mapping[int, float], chosen: int | None, of: str, title: str) -> Figure:
    """A criterion by a number, for example of components, with the chosen number marked."""
    ranks = sorted(values)
    marks = [
        _mark("line", ranks, [values[rank] for rank in ranks], lambda x, y: f"{x} {of}: {y:.6g}", dots=True)
    ]
    if chosen is not None and chosen in values:
        text = f"chosen: {chosen}"
        point = _mark("dots", [chosen], [values[chosen]], lambda x, y: text, color="second")
        marks.append(point | {"symbol": "diamond", "size": 6, "label": text})
    return {"x": {"title": of, "ticks": ranks}, "y": {"title": title}, "marks": marks}


def loadings(
    names: Sequence[str], values: Floats, std: Floats | None, x_title: str, parts: Floats | None = None
) -> Figure:
    """Horizontal bars, the largest value on top, with error bars of two standard deviations if known.

    ``parts`` are contributions, which the texts of the bars include.
    """
    order = np.argsort(values, kind="stable")
    deviations = [None] * len(order) if std is None else std[order].tolist()
    texts = [
        "\n".join(
            [
                short_name(names[j]),
                f"{values[j]:.4g}" + ("" if deviation is None else f" ± {deviation:.2g}"),
                *([] if parts is None else [f"contributes {percent(float(parts[j]))}"]),
            ]
        )
        for j, deviation in zip(order, deviations, strict=True)
    ]
    bars = {
        "kind": "bars",
        "across": True,
        "x": rounded(values[order]),
        "y": list(range(len(order))),
        "color": ["accent" if values[j] > 0 else "second" for j in order],
        "texts": texts,
    }
    if std is not None:
        bars["error"] = rounded(2.0 * std[order])
    labels = [shorten(names[j], _LONGEST_LABEL) for j in order]
    y = {"ticks": bars["y"], "labels": labels, "range": [-0.7, len(order) - 0.3]}
    return {
        "x": {"title": x_title, "zero": True},
        "y": y,
        "marks": [bars],
        "height": 70 + 22 * max(len(order), 3),
    }


def shares(names: Sequence[str], values: Floats) -> Figure:
    """Explained share of each column: named bars of few columns, a histogram of many."""
    if len(values) <= _MOST_NAMED:
        return loadings(names, 100.0 * values, None, "explained deviance (%)")
    counts, edges = np.histogram(100.0 * values, bins=20)
    middle = (edges[1:] + edges[:-1]) / 2.0
    bars = _mark("bars", middle, counts, lambda x, y: f"about {x:.3g} %: {y:.0f} columns")
    bars["width"] = float(0.95 * np.diff(edges)[0])
    return {
        "x": {"title": "explained deviance of a column (%)"},
        "y": {"title": "columns"},
        "marks": [bars],
    }


def calibration(curve: Curve) -> Figure:
    """Observed against fitted means in bins, and the line on which they agree."""
    positive = bool((curve.fitted > 0).all() and (curve.observed > 0).all())
    # Counts and amounts span orders of magnitude; probabilities and centred values do not.
    is_log = positive and bool(curve.fitted.max() > max(10.0 * curve.fitted.min(), 1.0))
    both = np.concatenate([curve.fitted, curve.observed])
    ends = rounded([both.min(), both.max()])
    diagonal = {"kind": "line", "x": ends, "y": ends, "color": "muted", "dash": True}
    points = _mark(
        "dots", curve.fitted, curve.observed, lambda x, y: f"fitted {x:.4g}\nobserved {y:.4g}", color="accent"
    )
    points["error"] = rounded(curve.error)
    if is_log:
        points["least"] = float(both.min() / 1.1)
    x, y = ({"title": f"mean {what} value", "log": is_log} for what in ("fitted", "observed"))
    return {"x": x, "y": y, "marks": [diagonal, points]}


def rank_histogram(ranks: Ints) -> Figure:
    """Share of entries by rank among draws from the model, and the share of a calibrated model."""
    share = 100.0 * ranks / max(1, ranks.sum())
    bars = _mark("bars", range(len(ranks)), share, lambda x, y: f"rank {x}: {y:.2f} %") | {"width": 0.95}
    flat = [100.0 / len(ranks)] * 2
    level = {"kind": "line", "x": [-0.5, len(ranks) - 0.5], "y": flat, "color": "second", "dash": True}
    x = {
        "title": f"rank of the entry among {N_DRAWS} draws from the model",
        "range": [-0.7, len(ranks) - 0.3],
    }
    return {"x": x, "y": {"title": "entries (%)"}, "marks": [bars, level]}


def trace(values: Floats) -> Figure:
    """The objective after each iteration."""
    line = _mark("line", range(1, len(values) + 1), values, lambda x, y: f"iteration {x}: {y:.8g}", digits=12)
    return {"x": {"title": "iteration", "whole": True}, "y": {"title": "objective"}, "marks": [line]}


def _mark(
    kind: str,
    x: Sequence[Any] | Floats,
    y: Any,
    text: Callable[[Any, float], str],
    *,
    color: str = "accent",
    digits: int = 7,
    **more: Any,
) -> Figure:
    """A mark with a text for each of its points."""
    places = x if isinstance(x, range | list) else rounded(x)
    heights = rounded(y, digits)
    texts = [text(place, float(height)) for place, height in zip(places, np.ravel(y), strict=True)]
    return {"kind": kind, "x": list(places), "y": heights, "color": color, "texts": texts, **more}
