"""What does each component mean, and where do the rows lie?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import percent
from anypca.interpretation import contributions
from anypca.report import _figures
from anypca.report._encode import encode_column, encode_scores, rounded, short_name, to_json
from anypca.report._html import (
    Markup,
    Section,
    figure,
    join,
    name_text,
    number,
    plural,
    table,
    tag,
    with_values,
)
from anypca.report._quality import Quality
from anypca.report._subject import Subject

#: Components with a picture, and bars in it: more are not looked at. The table names the strongest columns of all.
_MOST_DRAWN = 8
_MOST_BARS = 15
#: Columns named for each end of a component: a line of the table.
_N_NAMED = 5
#: A component is one column's if all others together contribute less than a tenth.
_MOST_OF_ONE = 0.9
#: With fewer columns one of them carries most of a component by chance.
_FEWEST_COLUMNS = 4
#: Factors beyond exp(20) = 5e8 are told by their exponent: nobody takes them literally.
_HUGE = 20.0


def about_components(subject: Subject) -> Section | None:
    """Loadings with error bars, and their effect on the columns in plain units.

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
    figures = {f"loadings{k + 1}": _bars(subject, k) for k in range(min(subject.n_components, _MOST_DRAWN))}
    cards = [_card(subject, k, name) for k, name in enumerate(figures)]
    body = join([tag("p", _about_loadings(subject)), _overview(subject), tag("div", *cards, class_="cards")])
    return Section("components", "What does each component mean?", "Meaning of components", body, figures)


def _about_loadings(subject: Subject) -> str:
    if subject.description.loadings is None:
        return (
            "The components lie in the feature space of the kernel and have no loadings. In place of them: the "
            "correlations of the columns with the scores, which show what rows at either end have in common."
        )
    text = "Columns with loadings of the same sign rise and fall together along a component."
    if subject.description.has_pieces:
        text += " The loadings are averages over the pieces, weighted by their prior probabilities."
    if subject.description.loading_deviations is not None:
        text += " Error bars are two posterior standard deviations to either side: bars that cross 0 may be noise."
    return text


def _overview(subject: Subject) -> Markup:
    """All components with their strongest columns."""
    effects = _effects(subject)
    rows = []
    for k, name in enumerate(subject.component_names):
        share = "–" if subject.description.has_pieces else percent(float(subject.description.explained[k]))
        rows.append(
            (name, share, _strongest_columns(subject, k, sign=1), _strongest_columns(subject, k, sign=-1))
        )
    parts = [table(("", "explained", "more of", "less of"), rows, numeric=(1,))]
    if effects is not None:
        parts.append(
            tag(
                "p",
                "“More of” and “less of” are meant for rows with high scores; rows with low scores reverse them.",
            )
        )
    parts += [tag("p", tag("strong", "Careful: "), text) for text in _carried(subject)]
    return join(parts)


def _carried(subject: Subject) -> list[str]:
    """Sentences on components that are hardly more than one column."""
    parts = contributions(subject.model, subject.scores).columns
    if parts is None or np.count_nonzero(parts.any(axis=1)) < _FEWEST_COLUMNS:
        return []
    return [
        f"{name} is carried by one column: {name_text(subject.weight_names[j])} contributes {percent(parts[j, k])}. "
        "If the column is an identifier, a total, or on another scale, leave it out or give it another family."
        for k, name in enumerate(subject.component_names)
        if parts[j := int(np.argmax(parts[:, k])), k] > _MOST_OF_ONE
    ]


def _strongest_columns(subject: Subject, component: int, *, sign: int) -> str:
    strongest = [j for j in subject.strongest(component, 12) if sign * subject.weights[component, j] > 0]
    return ", ".join(name_text(subject.weight_names[j]) for j in strongest[:_N_NAMED]) or "–"


def _card(subject: Subject, component: int, key: str) -> Markup:
    title = subject.component_names[component].capitalize()
    if not subject.description.has_pieces:
        title += f" · {percent(float(subject.description.explained[component]))}"
    strongest = subject.strongest(component, _MOST_BARS)
    caption = f"The {len(strongest)} strongest of {len(subject.weight_names)} columns."
    if not len(strongest):
        caption = "All loadings are 0."
    effects = _effects(subject)
    said = Markup("") if effects is None else tag("p", _effect_sentence(subject, component, effects))
    return tag(
        "div", tag("h3", title), said, figure(key, caption, label=f"{title}: {caption}"), class_="card"
    )


def _bars(subject: Subject, component: int) -> _figures.Figure:
    chosen = subject.strongest(component, _MOST_BARS)
    std, units = subject.description.loading_deviations, subject.description.drawn_units
    unit = 1.0 if units is None else units[chosen]
    parts = contributions(subject.model, subject.scores).columns
    label = "loading" if units is None else "loading, over the column's noise"
    return _figures.loadings(
        [subject.weight_names[j] for j in chosen],
        subject.weights[component, chosen] / unit,
        None if std is None else std[component, chosen] / unit,
        label if subject.description.loadings is not None else "correlation with the scores",
        parts=None if parts is None else parts[chosen, component],
    )


def _effects(subject: Subject) -> Floats | None:
    """Change of each column's predictor by one standard deviation of each score; ``None`` where it varies."""
    if subject.description.loadings is None or subject.description.has_pieces:
        return None
    # What one standard deviation of a score does to the predictor of each column.
    return np.asarray(subject.description.loadings * subject.scores.std(axis=0)[:, None])


def _effect_sentence(subject: Subject, component: int, effects: Floats) -> str:
    chosen = subject.strongest(component, 4)
    if not len(chosen):
        return ""
    formats = _effect_formats(subject)
    told = ", ".join(
        f"{name_text(subject.weight_names[j])} {formats[j](float(effects[component, j]))}" for j in chosen
    )
    return f"One standard deviation up: {told}."


def _effect_formats(subject: Subject) -> list[Callable[[float], str]]:
    """For each column the function that puts a change of its predictor into words."""
    n = subject.layout.n_columns
    family = subject.description.family
    formats: list[Callable[[float], str]] = [_shift] * (n + 1)
    for member, index in [] if family is None else family.member_columns(n):
        for j in index:
            formats[int(j)] = {"identity": _shift, "log": _factor, "logit": _odds}[member.link_kind]
    # Columns that are left out have the last one, and no effect.
    return [formats[j] for j in subject.description.model_columns(subject.facts.n_columns)]


def _shift(effect: float) -> str:
    return f"{effect:+.3g}".replace("-", "\N{MINUS SIGN}")


def _factor(effect: float) -> str:
    return f"× {np.exp(effect):.3g}" if abs(effect) < _HUGE else f"× e^{effect:.0f}"


def _odds(effect: float) -> str:
    return f"odds {_factor(effect)}"


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
{more}</div>
<div id="scores-plot" class="plot" role="img" aria-label="Rows as points in the plane of two components"></div>
<div id="selected" aria-live="polite"></div>"""
_ARROWS = '<label><input id="show-arrows" type="checkbox" checked> columns as arrows</label>\n'
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
    more = (_ARROWS if _has_arrows(subject) else "") + (_STD if subject.std is not None else "")
    controls = Markup(_CONTROLS.format(more=more))
    body = join(
        [tag("p", _about_points(subject)), controls, tag("h3", "Rows at the ends"), _rows_at_ends(subject)]
    )
    return Section("rows", "Where do the rows lie?", "The rows", body)


def _about_points(subject: Subject) -> str:
    text = (
        "Each point is a row; near points are alike. Hover over a point for its name. Draw around points (lasso) "
        "to list them below; double-click to release them."
    )
    if _has_arrows(subject):
        text += (
            " Arrows are the strongest columns of the plane, in units of their noise: rows towards an arrow have more "
            "of its column."
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


def _rows_at_ends(subject: Subject) -> Markup:
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
        "arrows": _arrows(subject, k) if _has_arrows(subject) else None,
        "columns": _colour_columns(subject, quality),
    }


#: Columns of each component whose arrows the page knows, of which it draws the ten strongest of a plane.
_N_ARROWS = 10


def _has_arrows(subject: Subject) -> bool:
    return subject.description.loadings is not None and not subject.description.has_pieces


def _arrows(subject: Subject, n_components: int) -> dict[str, Any]:
    """Loadings, in units of noise, of the columns that are strongest in some component."""
    strengths = subject.description.strengths
    assert strengths is not None
    chosen = sorted({int(j) for k in range(n_components) for j in subject.strongest(k, _N_ARROWS)})
    return {
        "names": [short_name(subject.weight_names[j]) for j in chosen],
        "values": [rounded(strengths[k, chosen]) for k in range(n_components)],
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
        columns.append(encode_column("explained share of the row (cos2)", "fit", quality.row_share))
    missing = np.isnan(sample.values).sum(axis=1)
    if missing.any():
        columns.append(encode_column("missing cells of the row", "fit", missing))
    return columns + [
        encode_column(subject.facts.column_names[j], "columns", sample.values[:, j])
        for j in choose_columns(subject)
        if j not in dict(subject.layout.labels)  # among the metadata, by their names
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
    if len(size) != subject.facts.n_columns:
        parts = map(subject.layout.part, range(subject.facts.n_columns))
        size = np.array([size[part].max(initial=0.0) for part in parts])
    return sorted(np.argsort(-size, kind="stable")[:most].tolist())
