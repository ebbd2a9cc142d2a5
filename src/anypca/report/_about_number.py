"""How many components, and why?"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from anypca._words import percent
from anypca.report import _figures
from anypca.report._html import Markup, figure, join, number, plural, table, tag
from anypca.report._section import Section
from anypca.report._subject import Subject

_CRITERIA = {
    "bic_": "BIC",
    "icl_": "ICL",
    "aic_": "AIC",
    "log_likelihood_": "log-likelihood",
    "n_parameters_": "free parameters",
    "evidence_": "log evidence (variational)",
}


def about_number(subject: Subject) -> Section:
    """The number of components, what each explains, and what decided.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Section
    """
    drawn = _curves(subject)
    if subject.n_components:
        drawn.insert(0, ("scree", _figures.scree(subject.explained), _scree_caption(subject)))
    cards = [tag("div", figure(key, caption, label=caption), class_="card") for key, _, caption in drawn]
    parts = [
        tag("p", _reason(subject)),
        tag("div", *cards, class_="cards"),
        _selection(subject),
        _criteria(subject),
        _removals(subject),
        _pieces(subject),
    ]
    figures = {key: drawing for key, drawing, _ in drawn}
    return Section("number", "How many components, and why?", "Number of components", join(parts), figures)


def _reason(subject: Subject) -> str:
    """A sentence on who decided."""
    count = plural(subject.n_components, "component")
    if hasattr(subject.model, "evidence_by_rank_"):
        tried = ", ".join(str(rank) for rank in sorted(subject.model.evidence_by_rank_))
        return (
            f"{subject.name} chose {count} by the variational log evidence, which weighs what a component gains "
            f"against the freedom it takes. Components without signal had left before; compared were: {tried}."
        )
    asked = subject.parameters.get("n_components")
    if isinstance(asked, Integral) and int(asked) == subject.n_components:
        return (
            f"{count[0].upper()}{count[1:]}, as asked for (n_components={asked}); the model did not choose."
        )
    return f"{subject.name} came to {count} from n_components={asked!r}."


def _scree_caption(subject: Subject) -> str:
    total = percent(float(subject.explained.sum()))
    if subject.is_piecewise:
        return (
            f"Together {total} of the deviance; shared out over the principal axes of the scores, since components "
            "that bend have no shares of their own."
        )
    return (
        f"Share of the deviance (for real values: of the variance) that each component explains; together {total}. "
        "What remains is noise, or structure that the model cannot express."
    )


def _curves(subject: Subject) -> list[tuple[str, _figures.Figure, str]]:
    """Pictures of what was compared: key, picture and caption."""
    model, found = subject.model, []
    by_rank = getattr(model, "evidence_by_rank_", None)
    if by_rank is not None and len(by_rank) > 1:
        values = {int(rank): float(value) for rank, value in by_rank.items()}
        drawing = _figures.rank_curve(values, subject.n_components, "log evidence")
        found.append(
            (
                "evidence",
                drawing,
                "Variational log evidence by number of components; higher is better.",
            )
        )
    if len(getattr(model, "n_components_grid_", ())) > 1:
        values = {
            int(k): float(v) for k, v in zip(model.n_components_grid_, model.evidence_grid_, strict=True)
        }
        drawing = _figures.rank_curve(values, int(model.latent_dimension_), "variational evidence")
        found.append(("grid", drawing, "Evidence by latent dimension; higher is better."))
    if hasattr(model, "evidence_path_"):
        drawing = _figures.path_curve(
            np.asarray(model.evidence_path_),
            int(model.n_features_selected_),
            "most relevant variables",
            "evidence",
        )
        found.append(("path", drawing, "Evidence of the sets of the 1, 2, ... most relevant variables."))
    return found


def _criteria(subject: Subject) -> Markup:
    rows = [
        (title, number(round(float(getattr(subject.model, name)))))
        for name, title in _CRITERIA.items()
        if hasattr(subject.model, name)
    ]
    if not rows:
        return Markup("")
    advice = (
        "They compare fits to the same table: BIC, ICL and AIC should be low, likelihood and evidence high."
    )
    return join(
        [tag("h3", "Criteria of this fit"), table(("", "value"), rows, numeric=(1,)), tag("p", advice)]
    )


def _selection(subject: Subject) -> Markup:
    """Sparse models: how many columns take part."""
    model = subject.model
    if hasattr(model, "support_"):
        chosen, total = int(np.sum(model.support_)), len(model.support_)
        return tag(
            "p", f"{chosen} of {plural(total, 'column')} were selected; all others have loadings of 0."
        )
    if hasattr(model, "n_nonzero_"):
        counts = ", ".join(str(int(n)) for n in model.n_nonzero_)
        return tag("p", f"Non-zero loadings of the components, in order: {counts}.")
    return Markup("")


def _removals(subject: Subject) -> Markup:
    """Components that left during the fit."""
    path = getattr(subject.model, "pruning_path_", ())
    if not path:
        return Markup("")
    rows = [
        (item.iteration, f"{item.n_components} → {item.n_components - 1}", number(item.alpha), item.reason)
        for item in path
    ]
    why = (
        "Relevance: its loadings were not larger than their uncertainty (alpha is their precision). "
        "Evidence: the bound was higher without it."
    )
    heads = ("iteration", "components", "alpha", "reason")
    title = tag("summary", f"{plural(len(rows), 'component')} left during the fit")
    return tag("details", title, tag("p", why), table(heads, rows, numeric=(0, 2)))


def _pieces(subject: Subject) -> Markup:
    """The pieces of a piecewise model."""
    if not subject.is_piecewise:
        return Markup("")
    edges = [-np.inf, *map(float, subject.model.breakpoints_), np.inf]
    rows = [
        (k + 1, _edge(edges[k]), _edge(edges[k + 1]), percent(float(share)))
        for k, share in enumerate(subject.model.piece_shares_)
    ]
    said = f"The last component is cut into {plural(len(rows), 'piece')}, each with loadings of its own."
    return join(
        [
            tag("h3", "Pieces"),
            tag("p", said),
            table(("piece", "from", "to", "rows"), rows, numeric=(0, 1, 2, 3)),
        ]
    )


def _edge(value: float) -> str:
    return number(value) if np.isfinite(value) else ("−∞" if value < 0 else "∞")
