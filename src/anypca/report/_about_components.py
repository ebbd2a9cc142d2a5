"""What does each component mean?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anypca._typing import Floats
from anypca._words import percent
from anypca.families import Bernoulli, Binomial, Family, Gaussian
from anypca.report import _figures
from anypca.report._html import Markup, figure, join, name_text, table, tag
from anypca.report._section import Section
from anypca.report._subject import Subject

#: Components with a picture, and bars in it: more are not looked at. The table names the strongest columns of all.
_MOST_DRAWN = 8
_MOST_BARS = 15
#: Columns named for each end of a component: a line of the table.
_N_NAMED = 5
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
    body = join([tag("p", _introduction(subject)), _overview(subject), tag("div", *cards, class_="cards")])
    return Section("components", "What does each component mean?", "Meaning of components", body, figures)


def _introduction(subject: Subject) -> str:
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
        rows.append((name, share, _ends(subject, k, sign=1), _ends(subject, k, sign=-1)))
    parts = [table(("", "explained", "more of", "less of"), rows, numeric=(1,))]
    if effects is not None:
        parts.append(
            tag(
                "p",
                "“More of” and “less of” are meant for rows with high scores; rows with low scores reverse them.",
            )
        )
    return join(parts)


def _ends(subject: Subject, component: int, *, sign: int) -> str:
    strongest = [j for j in subject.strongest(component, 12) if sign * subject.weights[component, j] > 0]
    return ", ".join(name_text(subject.facts.column_names[j]) for j in strongest[:_N_NAMED]) or "–"


def _card(subject: Subject, component: int, key: str) -> Markup:
    title = subject.component_names[component].capitalize()
    if not subject.description.has_pieces:
        title += f" · {percent(float(subject.description.explained[component]))}"
    strongest = subject.strongest(component, _MOST_BARS)
    caption = f"The {len(strongest)} strongest of {subject.facts.n_columns} columns."
    if not len(strongest):
        caption = "All loadings are 0."
    effects = _effects(subject)
    said = Markup("") if effects is None else tag("p", _effect_sentence(subject, component, effects))
    return tag(
        "div", tag("h3", title), said, figure(key, caption, label=f"{title}: {caption}"), class_="card"
    )


def _bars(subject: Subject, component: int) -> _figures.Figure:
    chosen = subject.strongest(component, _MOST_BARS)
    std = subject.description.loading_deviations
    return _figures.loadings(
        [subject.facts.column_names[j] for j in chosen],
        subject.weights[component, chosen],
        None if std is None else std[component, chosen],
        "loading" if subject.description.loadings is not None else "correlation with the scores",
    )


def _effects(subject: Subject) -> Floats | None:
    """Change of each column's predictor by one standard deviation of each score; ``None`` where it varies."""
    if subject.description.loadings is None or subject.description.has_pieces:
        return None
    return np.asarray(subject.description.loadings * subject.scores.std(axis=0)[:, None])


def _effect_sentence(subject: Subject, component: int, effects: Floats) -> str:
    chosen = subject.strongest(component, 4)
    if not len(chosen):
        return ""
    formats = _effect_formats(subject)
    told = ", ".join(
        f"{name_text(subject.facts.column_names[j])} {formats[j](float(effects[component, j]))}"
        for j in chosen
    )
    return f"One standard deviation up: {told}."


def _effect_formats(subject: Subject) -> list[Callable[[float], str]]:
    """For each column the function that puts a change of its predictor into words."""
    n = subject.facts.n_columns
    family = subject.description.family
    formats: list[Callable[[float], str]] = [_shift] * n
    for member, index in [] if family is None else family.member_columns(n):
        for j in index:
            formats[int(j)] = _effect_format(member)
    return formats


def _effect_format(family: Family) -> Callable[[float], str]:
    if isinstance(family, Gaussian):
        return _shift
    # All other families have a log or logit link: the predictor adds, the mean or the odds multiply.
    return _odds if isinstance(family, Bernoulli | Binomial) else _factor


def _shift(effect: float) -> str:
    return f"{effect:+.3g}".replace("-", "\N{MINUS SIGN}")


def _factor(effect: float) -> str:
    return f"× {np.exp(effect):.3g}" if abs(effect) < _HUGE else f"× e^{effect:.0f}"


def _odds(effect: float) -> str:
    return f"odds {_factor(effect)}"
