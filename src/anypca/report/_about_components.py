"""What does each component mean?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anypca._typing import Floats
from anypca.families import Bernoulli, Binomial, Family, Gaussian
from anypca.report import _figures
from anypca.report._account import Account, family_of
from anypca.report._html import Markup, figure, join, name_text, percent, table, tag
from anypca.report._section import Section

#: Components with a picture, and bars in it; the table names the strongest columns of the others.
_MOST_DRAWN = 8
_MOST_BARS = 15
_N_NAMED = 5
#: Factors beyond exp(20) are told by their exponent.
_HUGE = 20.0


def about_components(account: Account) -> Section | None:
    """Loadings with error bars, and their effect on the columns in plain units.

    Parameters
    ----------
    account : Account

    Returns
    -------
    Section or None
        ``None`` when the model has no component.
    """
    if not account.n_components:
        return None
    figures = {f"loadings{k + 1}": _bars(account, k) for k in range(min(account.n_components, _MOST_DRAWN))}
    cards = [_card(account, k, name) for k, name in enumerate(figures)]
    body = join([tag("p", _introduction(account)), _overview(account), tag("div", *cards, class_="cards")])
    return Section("components", "What does each component mean?", "Meaning of components", body, figures)


def _introduction(account: Account) -> str:
    if account.loadings is None:
        return (
            "The components lie in the feature space of the kernel and have no loadings. In place of them: the "
            "correlations of the columns with the scores, which show what rows at either end have in common."
        )
    text = "Columns with loadings of the same sign rise and fall together along a component."
    if account.is_piecewise:
        text += " The loadings are averages over the pieces, weighted by their prior probabilities."
    if hasattr(account.model, "components_std_"):
        text += " Error bars are two posterior standard deviations to either side: bars that cross 0 may be noise."
    return text


def _overview(account: Account) -> Markup:
    """All components with their strongest columns."""
    effects = _effects(account)
    rows = []
    for k, name in enumerate(account.component_names):
        share = "–" if account.is_piecewise else percent(float(account.explained[k]))
        rows.append((name, share, _ends(account, k, sign=1), _ends(account, k, sign=-1)))
    parts = [table(("", "explained", "more of", "less of"), rows, numeric=(1,))]
    if effects is not None:
        parts.append(
            tag(
                "p",
                "“More of” and “less of” are meant for rows with high scores; rows with low scores reverse them.",
            )
        )
    return join(parts)


def _ends(account: Account, component: int, *, sign: int) -> str:
    strongest = [j for j in account.strongest(component, 12) if sign * account.weights[component, j] > 0]
    return ", ".join(name_text(account.facts.column_names[j]) for j in strongest[:_N_NAMED]) or "–"


def _card(account: Account, component: int, key: str) -> Markup:
    title = account.component_names[component].capitalize()
    if not account.is_piecewise:
        title += f" · {percent(float(account.explained[component]))}"
    strongest = account.strongest(component, _MOST_BARS)
    caption = f"The {len(strongest)} strongest of {account.facts.n_columns} columns."
    if not len(strongest):
        caption = "All loadings are 0."
    effects = _effects(account)
    said = Markup("") if effects is None else tag("p", _effect_sentence(account, component, effects))
    return tag(
        "div", tag("h3", title), said, figure(key, caption, label=f"{title}: {caption}"), class_="card"
    )


def _bars(account: Account, component: int) -> _figures.Figure:
    chosen = account.strongest(component, _MOST_BARS)
    std = getattr(account.model, "components_std_", None)
    return _figures.loadings(
        [account.facts.column_names[j] for j in chosen],
        account.weights[component, chosen],
        None if std is None else np.asarray(std)[component, chosen],
        "loading" if account.loadings is not None else "correlation with the scores",
    )


def _effects(account: Account) -> Floats | None:
    """Change of each column's predictor by one standard deviation of each score; ``None`` where it varies."""
    if account.loadings is None or account.is_piecewise:
        return None
    return np.asarray(account.loadings * account.scores.std(axis=0)[:, None])


def _effect_sentence(account: Account, component: int, effects: Floats) -> str:
    chosen = account.strongest(component, 4)
    if not len(chosen):
        return ""
    tellers = _tellers(account)
    told = ", ".join(
        f"{name_text(account.facts.column_names[j])} {tellers[j](float(effects[component, j]))}"
        for j in chosen
    )
    return f"One standard deviation up: {told}."


def _tellers(account: Account) -> list[Callable[[float], str]]:
    """For each column how a change of its predictor is told."""
    n = account.facts.n_columns
    family = family_of(account.model)
    tellers: list[Callable[[float], str]] = [_shift] * n
    for member, index in [] if family is None else family.member_columns(n):
        for j in index:
            tellers[int(j)] = _teller(member)
    return tellers


def _teller(family: Family) -> Callable[[float], str]:
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
