"""Where do the rows lie?"""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._words import percent
from anypca.report._encode import encode_column, encode_scores, short_name, to_json
from anypca.report._html import Markup, join, number, plural, table, tag, with_values
from anypca.report._quality import Quality
from anypca.report._section import Section
from anypca.report._subject import Subject

#: Components that can be put on an axis: a menu of more is not read, and each adds to the page.
_MOST_COMPONENTS = 50
#: Bytes of the columns that colours are taken from; with plotly's 5 MB the page stays below 8 MB.
_BUDGET = 2_000_000
#: However short the columns: a menu of more is not read.
_MOST_COLUMNS = 500
#: Rows named at each end of a component: enough to see what they have in common.
_N_ENDS = 3

_CONTROLS = """<div class="controls">
<label>horizontal <select id="axis-x"></select></label>
<label>vertical <select id="axis-y"></select></label>
<label>colour <select id="colour"></select></label>
<label>find <input id="find" type="search" placeholder="part of a row's name" autocomplete="off"></label>
{std}</div>
<div id="scores-plot" class="plot" role="img" aria-label="Rows as points in the plane of two components"></div>
<div id="selected" aria-live="polite"></div>"""
_STD = '<label><input id="show-std" type="checkbox"> uncertainty</label>\n'


def about_rows(subject: Subject) -> Section | None:
    """The interactive plane of scores, and the rows at the ends of each component.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Section or None
        ``None`` when the model has no component.
    """
    if not subject.n_components:
        return None
    controls = Markup(_CONTROLS.format(std=_STD if subject.std is not None else ""))
    body = join([tag("p", _introduction(subject)), controls, tag("h3", "Rows at the ends"), _ends(subject)])
    return Section("rows", "Where do the rows lie?", "The rows", body)


def _introduction(subject: Subject) -> str:
    text = (
        "Each point is a row; near points are alike. Hover over a point for its name. Draw around points (lasso) "
        "to list them below; double-click to release them."
    )
    if subject.std is not None:
        text += " “Uncertainty” adds bars of one posterior standard deviation to either side."
    shown, total = subject.sample.n_rows, subject.facts.n_rows
    if shown < total:
        text += f" Shown are {number(shown)} of {plural(total, 'row')}, drawn at random."
    kept = len(choose_columns(subject))
    if kept < subject.facts.n_columns:
        text += f" Colours can be taken from the {number(kept)} columns with the largest loadings."
    return text


def _ends(subject: Subject) -> Markup:
    """Rows with the lowest and highest scores of each component."""
    rows = []
    for k, name in enumerate(subject.component_names[:_MOST_COMPONENTS]):
        order = np.argsort(subject.scores[:, k], kind="stable")
        size = min(_N_ENDS, max(1, len(order) // 2))
        rows.append((name, _named(subject, k, order[:size]), _named(subject, k, order[::-1][:size])))
    return table(("", "lowest", "highest"), rows)


def _named(subject: Subject, component: int, index: np.ndarray[Any, Any]) -> str:
    values = [number(score) for score in subject.scores[index, component]]
    return with_values([subject.sample.row_names[i] for i in index], values)


def score_data(subject: Subject, quality: Quality | None) -> dict[str, Any]:
    """What the page's script needs to draw the rows.

    Parameters
    ----------
    subject : Subject
    quality : Quality or None

    Returns
    -------
    dict
    """
    k = min(subject.n_components, _MOST_COMPONENTS)
    return {
        "names": [short_name(name) for name in subject.sample.row_names],
        "numbers": (subject.sample.index + 1).tolist(),
        "axes": [_axis_title(subject, j) for j in range(k)],
        "scores": encode_scores(subject.scores[:, :k]),
        "std": None if subject.std is None else encode_scores(subject.std[:, :k]),
        "columns": _colour_columns(subject, quality),
    }


def _axis_title(subject: Subject, component: int) -> str:
    name = subject.component_names[component]
    share = float(subject.description.explained[component])
    return name if subject.description.has_pieces else f"{name} ({percent(share)})"


def _colour_columns(subject: Subject, quality: Quality | None) -> list[dict[str, Any]]:
    sample = subject.sample
    columns = [encode_column(name, "metadata", values) for name, values in sample.metadata.items()]
    if quality is not None and quality.n_rows == sample.n_rows:
        columns.append(encode_column("mean deviance of the row's cells", "fit", quality.row_deviance))
    missing = np.isnan(sample.values).sum(axis=1)
    if missing.any():
        columns.append(encode_column("missing cells of the row", "fit", missing))
    return columns + [
        encode_column(subject.facts.column_names[j], "columns", sample.values[:, j])
        for j in choose_columns(subject)
    ]


def choose_columns(subject: Subject) -> list[int]:
    """The columns that colours can be taken from: all, or those with the largest loadings, in their order."""
    # Four characters for three bytes, and up to 255 levels.
    names = len(to_json(subject.sample.row_names)) if subject.sample.n_rows > 1000 else 0
    each = subject.sample.n_rows * 4 / 3 + 255 * 8
    most = min(_MOST_COLUMNS, max(10, int((_BUDGET - names) / each)))
    if most >= subject.facts.n_columns:
        return list(range(subject.facts.n_columns))
    size = np.abs(subject.weights).max(axis=0)
    return sorted(np.argsort(-size, kind="stable")[:most].tolist())
