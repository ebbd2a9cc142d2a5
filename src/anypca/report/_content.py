"""Variables of the template: text and tables for each section of the report."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import percent
from anypca.interpretation import contributions
from anypca.linalg import largest
from anypca.models._rotation import Rotation
from anypca.report import _figures
from anypca.report._page import family_name, name_text, number, plural, some, with_values
from anypca.report._quality import Quality
from anypca.report._rows import MOST_COMPONENTS, choose_columns
from anypca.report._subject import Subject

Content = dict[str, Any]

#: Components with a picture, and bars in it. The table names the strongest columns of all components.
_MOST_DRAWN, _MOST_BARS = 8, 15
#: Columns named at each end of a component, rows named at each end, and columns or rows that fit best or worst.
_N_COLUMNS, _N_ROWS, _N_WORST = 5, 3, 8
#: A component belongs to one column if all others together contribute less than a tenth; with fewer columns than this
#: one of them has most of a component by chance.
_MOST_OF_ONE, _FEWEST_COLUMNS = 0.9, 4
#: With fewer rows per column, relevant correlations are smaller than chance correlations.
_FEW_ROWS_EACH = 5
#: Standard deviations beyond which no family of the package expects a cell.
_FAR = 15.0
#: Factors beyond exp(20) are shown by their exponent.
_HUGE = 20.0
_PACKAGES = ("anypca", "numpy", "scipy", "scikit-learn")


def page_content(subject: Subject, quality: Quality | None) -> Content:
    """Variables of all sections."""
    model = subject.description
    return {
        "subject": subject,
        "model": model,
        "facts": subject.facts,
        "quality": quality,
        "n_components": subject.n_components,
        "n_shown": subject.sample.n_rows,
        "converged": bool(subject.model.converged_),
        "n_iter": int(subject.model.n_iter_),
        "total": percent(float(model.explained.sum())),
        **_about_table(subject),
        **_about_number(subject),
        **(_about_components(subject) if subject.n_components else {}),
        **({} if quality is None else _about_quality(subject, quality)),
        **_about_reproduction(subject),
    }


def page_figures(subject: Subject, quality: Quality | None) -> dict[str, _figures.Figure]:
    """All pictures but the scatter plot, by name."""
    model, found = subject.description, {}
    if subject.n_components:
        found["scree"] = _figures.scree(model.explained)
    if len(model.evidence_by_rank) > 1:
        title = "log evidence"
        found["evidence"] = _figures.number_curve(
            model.evidence_by_rank, model.chosen_rank, "components", title
        )
    if model.evidence_path is not None and model.support is not None:
        path, chosen = dict(enumerate(model.evidence_path.tolist(), start=1)), int(model.support.sum())
        found["path"] = _figures.number_curve(path, chosen, "most relevant variables", "evidence")
    for k in range(min(subject.n_components, _MOST_DRAWN)):
        found[f"loadings{k + 1}"] = _loading_bars(subject, k)
    if quality is not None:
        known = np.flatnonzero(np.isfinite(quality.column_share))
        if len(known):
            names = [subject.model_names[j] for j in known]
            found["shares"] = _figures.shares(names, quality.column_share[known])
        for i, curve in enumerate(quality.curves):
            found[f"calibration{i}"] = _figures.calibration(curve)
        if quality.ranks is not None:
            found["ranks"] = _figures.rank_histogram(quality.ranks)
    if len(model.trace) > 1:
        found["trace"] = _figures.trace(model.trace)
    return found


# ------------------------------------------------------------------------------------------------- the table


def _about_table(subject: Subject) -> Content:
    families = subject.description.column_families(subject.facts.column_names)
    kinds = {record.column: record.kind or "–" for record in families}
    return {
        "table_notes": [*_table_notes(subject), *subject.notes],
        "families": families,
        "family_groups": [
            (kinds[names[0]], family_name(family), number(len(names)), some(names, 6), rule)
            for names, family, rule in families.groups()
        ],
        "label_columns": dict(subject.layout.labels),
    }


def _table_notes(subject: Subject) -> list[str]:
    """Facts on missing cells, zeros, constant columns and companions, one sentence each."""
    facts, notes = subject.facts, [_missing(subject), _zeros(subject)]
    constant = [facts.column_names[j] for j in np.flatnonzero(facts.constant)]
    if constant:
        verb = "is" if len(constant) == 1 else "are"
        notes.append(
            f"{plural(len(constant), 'column')} {verb} constant, without information on rows: {some(constant)}."
        )
    given = subject.sample.companions
    if "offset" in given:
        notes.append("An offset (the logarithm of a sampling effort, for counts) was part of the model.")
    if "covariates" in given:
        count = given["covariates"].reshape(subject.sample.n_rows, -1).shape[1]
        notes.append(f"{plural(count, 'covariate')} adjusted for.")
    if facts.summary.n_empty_rows:
        notes.append(f"{plural(int(facts.summary.n_empty_rows), 'row')} without any observed cell.")
    return notes


def _missing(subject: Subject) -> str:
    facts = subject.facts
    if not facts.n_missing.any():
        return "No cell is missing."
    worst = largest(facts.n_missing, 3)
    values = [percent(facts.n_missing[j] / facts.n_rows) for j in worst]
    named = with_values([facts.column_names[j] for j in worst], values)
    return f"{plural(int(facts.n_missing.sum()), 'cell')} missing ({percent(facts.missing_share)}), most in {named}."


def _zeros(subject: Subject) -> str:
    facts, summary = subject.facts, subject.facts.summary
    plain = np.setdiff1d(np.arange(facts.n_columns), list(dict(subject.layout.labels)))
    share = float(summary.n_zero[plain].sum() / max(1, summary.n_observed[plain].sum()))
    if share == 0:
        return "No cell is zero."
    count = len(facts.zero_rows)
    verb = "is" if count == 1 else "are"
    rows = f"{plural(count, 'row')} {verb} all zeros (number {some([row + 1 for row in facts.zero_rows])})"
    return f"{percent(share)} of the observed cells are zero; {rows if count else 'no row is all zeros'}."


# ------------------------------------------------------------------------------------- number of components


def _about_number(subject: Subject) -> Content:
    model, facts = subject.description, subject.facts
    sparse = model.loadings if model.has_sparse_loadings else None
    return {
        "reason": _reason(subject),
        "few_rows": facts.n_rows < _FEW_ROWS_EACH * facts.n_columns,
        "nonzero": [] if sparse is None else np.count_nonzero(sparse, axis=1).tolist(),
    }


def _reason(subject: Subject) -> str:
    """A sentence on how the number of components was chosen."""
    model, count = subject.description, plural(subject.n_components, "component")
    asked, compared = subject.parameters.get("n_components"), model.evidence_by_rank
    # A model with a given number made no comparison, even if it has an evidence.
    if compared and (asked is None or len(compared) > 1):
        pruned = " Components without signal were pruned before." if model.removals else ""
        return (
            f"{subject.name} chose the number by the variational log evidence, which weighs the gain of a component "
            f"against its degrees of freedom: {model.rank_account}.{pruned}"
        )
    if isinstance(asked, Integral) and int(asked) == subject.n_components:
        return (
            f"{count[0].upper()}{count[1:]}, as requested (n_components={asked}); the model did not choose."
        )
    return f"{subject.name} chose {count} for n_components={asked!r}."


# ---------------------------------------------------------------------------------------- components and rows


def _about_components(subject: Subject) -> Content:
    model, effects = subject.description, _effects(subject)
    overview = [
        (
            name,
            "–" if model.has_pieces else percent(float(model.explained[k])),
            _strongest_columns(subject, k, sign=1),
            _strongest_columns(subject, k, sign=-1),
        )
        for k, name in enumerate(subject.component_names)
    ]
    return {
        "overview": overview,
        "has_effects": effects is not None,
        "single_columns": _single_columns(subject),
        "cards": [_card(subject, k, effects) for k in range(min(subject.n_components, _MOST_DRAWN))],
        "n_coloured": len(choose_columns(subject)),
        "ends": [
            (name, *_rows_at_ends(subject, k))
            for k, name in enumerate(subject.component_names[:MOST_COMPONENTS])
        ],
    }


def _strongest_columns(subject: Subject, component: int, *, sign: int) -> str:
    strongest = [j for j in subject.strongest(component, 12) if sign * subject.weights[component, j] > 0]
    return ", ".join(name_text(subject.weight_names[j]) for j in strongest[:_N_COLUMNS]) or "–"


def _single_columns(subject: Subject) -> list[str]:
    """Sentences on components that are dominated by one column."""
    parts = contributions(subject.model, subject.scores).columns
    if parts is None or np.count_nonzero(parts.any(axis=1)) < _FEWEST_COLUMNS:
        return []
    return [
        f"{name} consists mostly of one column: {name_text(subject.weight_names[j])} contributes "
        f"{percent(parts[j, k])}. If the column is an identifier, a total, or on another scale, leave it out or "
        "give it another family."
        for k, name in enumerate(subject.component_names)
        if parts[j := int(np.argmax(parts[:, k])), k] > _MOST_OF_ONE
    ]


def _card(subject: Subject, component: int, effects: Floats | None) -> dict[str, str]:
    """Title, caption and effects of one component."""
    title, strongest = (
        subject.component_names[component].capitalize(),
        subject.strongest(component, _MOST_BARS),
    )
    if not subject.description.has_pieces:
        title += f" · {percent(float(subject.description.explained[component]))}"
    sizes = ""
    if effects is not None:
        formats = _effect_formats(subject)
        sizes = ", ".join(
            f"{name_text(subject.weight_names[j])} {formats[j](float(effects[component, j]))}"
            for j in strongest[:4]
        )
    caption = f"The {len(strongest)} strongest of {len(subject.weight_names)} columns."
    return {
        "figure": f"loadings{component + 1}",
        "title": title,
        "caption": caption if len(strongest) else "All loadings are 0.",
        "effects": sizes,
    }


def _loading_bars(subject: Subject, component: int) -> _figures.Figure:
    model, chosen = subject.description, subject.strongest(component, _MOST_BARS)
    std, units = model.loading_deviations, model.drawn_units
    unit = 1.0 if units is None else units[chosen]
    parts = contributions(subject.model, subject.scores).columns
    label = "loading" if units is None else "loading, over the column's noise"
    return _figures.loadings(
        [subject.weight_names[j] for j in chosen],
        subject.weights[component, chosen] / unit,
        None if std is None else std[component, chosen] / unit,
        "correlation with the scores" if model.loadings is None else label,
        parts=None if parts is None else parts[chosen, component],
    )


def _effects(subject: Subject) -> Floats | None:
    """Change of each column's predictor by one standard deviation of each score; None if it varies."""
    model = subject.description
    if model.loadings is None or model.has_pieces:
        return None
    return np.asarray(model.loadings * subject.scores.std(axis=0)[:, None])


def _effect_formats(subject: Subject) -> list[Callable[[float], str]]:
    """For each column a function that describes a change of its predictor."""
    n, family = subject.layout.n_columns, subject.description.family
    by_link = {"identity": _shift, "log": _factor, "logit": lambda effect: f"odds {_factor(effect)}"}
    # Columns that are left out have the last one, and no effect.
    formats: list[Callable[[float], str]] = [_shift] * (n + 1)
    for member, index in [] if family is None else family.member_columns(n):
        for j in index:
            formats[int(j)] = by_link[member.link_kind]
    return [formats[j] for j in subject.description.model_columns(subject.facts.n_columns)]


def _shift(effect: float) -> str:
    return f"{effect:+.3g}".replace("-", "\N{MINUS SIGN}")


def _factor(effect: float) -> str:
    return f"× {np.exp(effect):.3g}" if abs(effect) < _HUGE else f"× e^{effect:.0f}"


def _rows_at_ends(subject: Subject, component: int) -> tuple[str, str]:
    """Rows with the lowest and the highest scores of a component."""
    scores = subject.scores[:, component]
    order = np.argsort(scores, kind="stable")
    size = min(_N_ROWS, max(1, len(order) // 2))
    low, high = (
        with_values([subject.sample.row_names[i] for i in index], map(number, scores[index]))
        for index in (order[:size], order[::-1][:size])
    )
    return low, high


# --------------------------------------------------------------------------------- quality and reproduction


def _about_quality(subject: Subject, quality: Quality) -> Content:
    order = np.argsort(-quality.row_deviance, kind="stable")[:_N_WORST]
    names = [subject.sample.row_names[i] for i in order]
    return {
        "verdict": _verdict(quality),
        "column_ends": _column_ends(subject, quality),
        "median_deviance": float(np.median(quality.row_deviance)),
        "worst_rows": with_values(names, map(number, quality.row_deviance[order])),
    }


def _verdict(quality: Quality) -> str:
    """The size of the squared residuals in words."""
    spread, farthest = quality.spread or 0.0, max((abs(cell.residual) for cell in quality.worst), default=0.0)
    if spread > 1.5:
        return "the residuals are larger than the family allows; another family or more components may fit better"
    if spread <= 0.6:
        # Scores are fitted to the rows, which reduces the residuals.
        return "less than expected, as with many components for few columns"
    if farthest > _FAR:
        return (
            f"about right on the whole, but single cells are up to {farthest:.0f} standard deviations from their "
            "means; see the list below, and correct them, or choose a family with heavier tails"
        )
    return "about right"


def _column_ends(subject: Subject, quality: Quality) -> list[tuple[str, str]]:
    """The columns that components explain best and worst, if there are many."""
    known = np.flatnonzero(np.isfinite(quality.column_share))
    if len(known) <= 2 * _N_WORST:
        return []
    order = known[np.argsort(-quality.column_share[known], kind="stable")]
    ends = {"best": order[:_N_WORST], "worst": order[: -_N_WORST - 1 : -1]}
    return [
        (
            end,
            with_values([subject.model_names[j] for j in index], map(percent, quality.column_share[index])),
        )
        for end, index in ends.items()
    ]


def _about_reproduction(subject: Subject) -> Content:
    seed = subject.parameters.get("random_state")
    return {
        "code": subject.code or _code(subject),
        "seed": int(seed) if isinstance(seed, int | np.integer) else seed,
        "versions": [("Python", platform.python_version()), *((name, _version(name)) for name in _PACKAGES)],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a source folder that is not installed
        return "not installed"


def _code(subject: Subject) -> str:
    """Python calls that reproduce this report from X, offset and covariates."""
    model = subject.model.model if isinstance(subject.model, Rotation) else subject.model
    # Only parameters that differ from the defaults, so that a reader sees the choices.
    defaults = signature(type(model).__init__).parameters
    changed = [
        f"{name}={value!r}"
        for name, value in subject.parameters.items()
        if repr(value) != repr(defaults[name].default)
    ]
    companions = "".join(f", {name}={name}" for name in subject.sample.companions)
    rotation = subject.description.rotation
    rotated = f'model = model.rotate("{rotation}")\n' if rotation else ""
    return (
        f"from anypca import {subject.name}\n\n"
        f"model = {subject.name}({', '.join(changed)})\n"
        f"model.fit(X{companions})\n{rotated}"
        f'model.report("report.html", X{companions})'
    )
