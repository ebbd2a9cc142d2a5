"""How good is the fit, did it converge, how is it reproduced?"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any

import numpy as np

from anypca._words import percent
from anypca.models._rotation import Rotation
from anypca.report import _figures
from anypca.report._html import Markup, Section, figure, join, name_text, number, table, tag, with_values
from anypca.report._quality import Quality
from anypca.report._subject import Subject

_PACKAGES = ("anypca", "numpy", "scipy", "scikit-learn", "plotly")
#: Columns and rows named as those that fit best or worst: a line or two of text.
_N_WORST = 8
#: Standard deviations beyond which no cell is what the model expects: a count of 1 where 0.005 are expected is 14 away.
_FAR = 15.0


def about_quality(subject: Subject, quality: Quality | None) -> Section:
    """Explained deviance, residuals, calibration.

    Parameters
    ----------
    subject : Subject
    quality : Quality or None

    Returns
    -------
    Section
    """
    parts: list[Markup] = [tag("p", _in_sum(subject, quality))]
    figures: dict[str, Any] = {}
    for title, is_warning in (
        ("What may have made false components", True),
        ("Notes on the residuals", False),
    ):
        texts = [found.text for found in subject.findings if found.is_warning == is_warning]
        if texts:
            parts += [tag("h3", title), tag("ul", *(tag("li", text) for text in texts))]
    if quality is not None:
        drawn, figures = _calibration(quality)
        parts += [_columns(subject, quality, figures), drawn, _worst_cells(subject, quality)]
        parts.append(_worst_rows(subject, quality))
    return Section("quality", "How good is the fit?", "Quality of the fit", join(parts), figures)


def _in_sum(subject: Subject, quality: Quality | None) -> str:
    text = f"The components explain {percent(float(subject.description.explained.sum()))} of the deviance."
    if quality is None:
        return (
            text + f" {subject.name} was not asked to turn scores back into rows, so there are no residuals."
        )
    if quality.spread is not None:
        text += f" Squared residuals are {quality.spread:.2f} times as large as the model expects: "
        farthest = max((abs(cell.residual) for cell in quality.worst), default=0.0)
        text += f"{_verdict(quality.spread, farthest)}."
    if quality.n_rows < subject.facts.n_rows:
        text += f" What follows rests on {number(quality.n_rows)} rows."
    return text + " All numbers are of the rows that were fitted or given here, not of held-out ones."


def _verdict(spread: float, farthest: float) -> str:
    if 0.6 < spread <= 1.5 and farthest > _FAR:
        return (
            f"about right on the whole, but single cells are up to {farthest:.0f} standard deviations from their "
            "means; see the list below, and correct them, or choose a family with heavier tails"
        )
    if spread > 1.5:
        return "the entries scatter more than the family allows; another family or more components may fit better"
    # Scores are fitted to the rows, which takes some of the noise away.
    return (
        "about right"
        if spread > 0.6
        else "less than expected, as when there are many components for few columns"
    )


def _columns(subject: Subject, quality: Quality, figures: dict[str, Any]) -> Markup:
    """Which columns the components explain."""
    known = np.flatnonzero(np.isfinite(quality.column_share))
    if not len(known):
        return Markup("")
    names = [subject.model_names[j] for j in known]
    figures["shares"] = _figures.shares(names, quality.column_share[known])
    caption = "Share of each column's deviance that the components explain."
    parts = [tag("h3", "Columns"), figure("shares", caption, label=caption)]
    if len(known) > 2 * _N_WORST:
        order = np.argsort(-quality.column_share[known], kind="stable")
        told = np.array([percent(share) for share in quality.column_share[known]])
        ends = {"best": order[:_N_WORST], "worst": order[: -_N_WORST - 1 : -1]}
        rows = [(end, with_values([names[j] for j in index], told[index])) for end, index in ends.items()]
        parts.append(table(("", "columns"), rows))
    return join(parts)


def _calibration(quality: Quality) -> tuple[Markup, dict[str, Any]]:
    figures, cards = {}, []
    for number_, curve in enumerate(quality.curves):
        if len(curve.fitted) < 2:
            continue
        key = f"calibration{number_}"
        figures[key] = _figures.calibration(curve)
        units = ", in standard deviations of their column" if curve.has_units else ""
        caption = (
            f"{curve.family.replace('_', ' ').capitalize()} columns{units}: mean observed against mean fitted values, "
            "with two standard errors. On the dashed line the means are right."
        )
        cards.append(tag("div", figure(key, caption, label="Observed against fitted means"), class_="card"))
    if quality.ranks is not None:
        figures["ranks"] = _figures.rank_histogram(quality.ranks)
        caption = (
            "Ranks of the entries among 19 draws from the fitted model. Flat: the spread is right. High at both ends: "
            "the entries scatter more than the model says. A hump in the middle: less, which is to be expected to "
            "some degree, since the scores were fitted to these rows."
        )
        cards.append(tag("div", figure("ranks", caption, label="Rank histogram"), class_="card"))
    if not cards:
        return Markup(""), figures
    return join([tag("h3", "Calibration"), tag("div", *cards, class_="cards")]), figures


def _worst_cells(subject: Subject, quality: Quality) -> Markup:
    if not quality.worst:
        return Markup("")
    rows = [
        (
            name_text(subject.sample.row_names[cell.row]),
            name_text(subject.model_names[cell.column]),
            number(cell.observed),
            number(cell.fitted),
            f"{cell.residual:+.1f}".replace("-", "\N{MINUS SIGN}"),
        )
        for cell in quality.worst
    ]
    heads = ("row", "column", "observed", "fitted", "residual in sd")
    return join([tag("h3", "Cells far from their fitted mean"), table(heads, rows, numeric=(2, 3, 4))])


def _worst_rows(subject: Subject, quality: Quality) -> Markup:
    order = np.argsort(-quality.row_deviance, kind="stable")[:_N_WORST]
    middle = float(np.median(quality.row_deviance))
    values = [number(value) for value in quality.row_deviance[order]]
    told = with_values([subject.sample.row_names[i] for i in order], values)
    return tag(
        "p", f"Rows that fit worst, by the mean deviance of their cells (median {number(middle)}): {told}."
    )


def about_convergence(subject: Subject) -> Section:
    """Did the fit end where it should?

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Section
    """
    parts: list[Markup] = [tag("p", *_ending(subject))]
    figures, values = {}, subject.description.trace
    if len(values) > 1:
        figures["trace"] = _figures.trace(values)
        caption = "The objective after each iteration; it never falls, and should end flat."
        parts.append(figure("trace", caption, label="Trace of the objective"))
    return Section("convergence", "Did the fit converge?", "Convergence", join(parts), figures)


def _ending(subject: Subject) -> tuple[object, ...]:
    model = subject.model
    iterations = int(model.n_iter_)
    status = subject.description.status
    told = f" In the solver's words: {status}." if status else ""
    if not model.converged_:
        advice = "Results may still change. Raise max_iter and fit again."
        return tag("strong", "No."), f" The fit stopped after iteration {iterations}. {advice}{told}"
    if iterations <= 1:
        return tag("strong", "Yes."), f" The solution was computed directly, without iterations.{told}"
    return tag("strong", "Yes."), f" The fit settled after {iterations} iterations.{told}"


def about_reproduction(subject: Subject) -> Section:
    """Code, parameters, seed, versions.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Section
    """
    parameters = subject.parameters
    seed = parameters.get("random_state")
    parts = [
        tag("pre", tag("code", subject.code or _code(subject)), tabindex="0"),
        tag("p", _seed_sentence(seed)),
        tag("h3", "Versions"),
        table(("", "version"), _versions()),
        tag(
            "details",
            tag("summary", f"All parameters of {subject.name}"),
            table(("parameter", "value"), [(name, repr(value)) for name, value in parameters.items()]),
        ),
    ]
    return Section("reproduction", "How is it reproduced?", "Reproduction", join(parts))


def _seed_sentence(seed: object) -> str:
    if isinstance(seed, int | np.integer):
        return f"The seed is {seed}: the same call on the same table gives the same result."
    return f"random_state is {seed!r}: what a fit draws at random differs between runs. Pass a number to repeat one."


def _code(subject: Subject) -> str:
    """The calls that make this report; X and its companions are the reader's."""
    model = subject.model.model if isinstance(subject.model, Rotation) else subject.model
    # Only what differs from the defaults, so that a reader sees what was chosen.
    defaults = signature(type(model).__init__).parameters
    changed = [
        f"{name}={value!r}"
        for name, value in subject.parameters.items()
        if repr(value) != repr(defaults[name].default)
    ]
    companions = "".join(f", {name}={name}" for name in subject.sample.companions)
    call = f"{subject.name}({', '.join(changed)})"
    rotation = subject.description.rotation
    turned = f'model = model.rotate("{rotation}")\n' if rotation else ""
    return (
        f"from anypca import {subject.name}\n\n"
        f"model = {call}\n"
        f"model.fit(X{companions})\n{turned}"
        f'model.report("report.html", X{companions})'
    )


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # run from a source folder that is not installed
            found.append((name, "not installed"))
    return found
