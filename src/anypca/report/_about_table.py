"""What was in the table, how many components were found in it, and why?"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from anypca._words import percent
from anypca.columns import FamilyRecord, FamilyReport
from anypca.linalg import largest
from anypca.report import _figures
from anypca.report._html import (
    Markup,
    Section,
    figure,
    join,
    listing,
    name_text,
    number,
    plural,
    some,
    table,
    tag,
    with_values,
)
from anypca.report._subject import Subject

#: Columns of unsure families that are named in a sentence.
_MOST_DOUBTS = 6
#: More columns than this are told by groups only: nobody reads on.
_MOST_TOLD = 200


def about_table(subject: Subject) -> Section:
    """Families and why, missing cells, zeros, constant columns.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Section
    """
    families = subject.description.column_families(subject.facts.column_names)
    body = join(
        [
            tag("p", _size(subject)),
            listing([*_peculiarities(subject), *subject.notes]),
            tag("h3", "What the columns were taken for"),
            _groups(subject, families),
            _columns(subject, families),
        ]
    )
    return Section("table", "What was in the table?", "The table", body)


def _size(subject: Subject) -> str:
    facts, sample = subject.facts, subject.sample
    text = f"The table has {plural(facts.n_rows, 'row')} and {plural(facts.n_columns, 'column')}."
    if sample.n_rows < facts.n_rows:
        text += (
            f" The numbers of this section describe all of them; the scores and residuals below are shown for "
            f"{plural(sample.n_rows, 'row')} drawn at random."
        )
    return text


def _peculiarities(subject: Subject) -> list[str]:
    """What a reader should know of the cells, one sentence each."""
    facts = subject.facts
    return [_missing(subject), _zeros(subject), *_constant(subject), *_companions(subject)] + (
        [f"{plural(int(facts.summary.n_empty_rows), 'row')} without any observed cell."]
        if facts.summary.n_empty_rows
        else []
    )


def _missing(subject: Subject) -> str:
    facts = subject.facts
    if not facts.n_missing.any():
        return "No cell is missing."
    worst = largest(facts.n_missing, 3)
    values = [percent(facts.n_missing[j] / facts.n_rows) for j in worst]
    named = with_values([facts.column_names[j] for j in worst], values)
    count = int(facts.n_missing.sum())
    return f"{plural(count, 'cell')} missing ({percent(facts.missing_share)}), most in {named}."


def _zeros(subject: Subject) -> str:
    facts, summary = subject.facts, subject.facts.summary
    plain = np.setdiff1d(np.arange(facts.n_columns), list(dict(subject.layout.labels)))
    share = float(summary.n_zero[plain].sum() / max(1, summary.n_observed[plain].sum()))
    if share == 0:
        return "No cell is zero."
    text = f"{percent(share)} of the observed cells are zero; "
    count = len(facts.zero_rows)
    if not count:
        return text + "no row is all zeros."
    verb = "is" if count == 1 else "are"
    return (
        text
        + f"{plural(count, 'row')} {verb} all zeros (number {some([row + 1 for row in facts.zero_rows])})."
    )


def _constant(subject: Subject) -> list[str]:
    facts = subject.facts
    names = [facts.column_names[j] for j in np.flatnonzero(facts.constant)]
    if not names:
        return []
    told = "is constant and tells" if len(names) == 1 else "are constant and tell"
    return [f"{plural(len(names), 'column')} {told} nothing of the rows: {some(names)}."]


def _companions(subject: Subject) -> list[str]:
    given = subject.sample.companions
    texts = []
    if "offset" in given:
        texts.append("An offset (the logarithm of a sampling effort, for counts) was part of the model.")
    if "covariates" in given:
        count = given["covariates"].reshape(subject.sample.n_rows, -1).shape[1]
        texts.append(f"{plural(count, 'covariate')} adjusted for.")
    return texts


def _groups(subject: Subject, families: FamilyReport) -> Markup:
    """One line for each family and rule."""
    if not families:
        return tag(
            "p", f"{subject.name} compares rows by a kernel and assumes no distribution of the columns."
        )
    kinds = {record.column: record.kind or "–" for record in families}
    rows = [
        (kinds[names[0]], family.replace("_", " "), number(len(names)), some(names, 6), rule)
        for names, family, rule in families.groups()
    ]
    found = table(("kind", "family", "number", "columns", "why"), rows, numeric=(2,))
    return join([found, *_doubts(families)])


def _doubts(families: FamilyReport) -> list[Markup]:
    """A sentence on the columns whose family is unsure, if there are any."""
    doubts = [record for record in families if record.is_unsure]
    if not doubts:
        return []
    named = with_values(
        [record.column for record in doubts[:_MOST_DOUBTS]],
        [
            f"{record.family.replace('_', ' ')}, {record.doubt.replace('_', ' ')}"
            for record in doubts[:_MOST_DOUBTS]
        ],
    )
    more = f" and {len(doubts) - _MOST_DOUBTS} more" if len(doubts) > _MOST_DOUBTS else ""
    return [tag("p", f"The values hardly tell the family of {plural(len(doubts), 'column')}: {named}{more}.")]


def _numbers(subject: Subject, j: int) -> tuple[str, str, str, str]:
    """Share of zeros, least, mean and largest entry of a column."""
    summary = subject.facts.summary
    zeros = percent(summary.n_zero[j] / max(1, int(summary.n_observed[j])))
    low, mean, high = (float(values[j]) for values in (summary.minimum, summary.mean, summary.maximum))
    return zeros, number(low), number(mean), number(high)


def _columns(subject: Subject, families: FamilyReport) -> Markup:
    """The columns one by one, folded away."""
    facts, labels = subject.facts, dict(subject.layout.labels)
    shown = min(facts.n_columns, _MOST_TOLD)
    heads = ("column", "kind", "family", "lead", "missing", "zeros", "least", "mean", "largest", "why")
    rows = [
        (
            name_text(facts.column_names[j]),
            (families[j].kind or "–") if families else "–",
            families[j].family.replace("_", " ") if families else "–",
            _lead(families[j]) if families else "–",
            number(int(facts.n_missing[j])),
            *(_numbers(subject, j) if j not in labels else ("–",) * 4),
            families[j].reason if families else "–",
        )
        for j in range(shown)
    ]
    what = f"All {shown}" if shown == facts.n_columns else f"The first {shown} of {number(facts.n_columns)}"
    title = tag("summary", f"{what} columns one by one")
    note = "The lead of a family over the next best one is in nats; below 3 it is unsure."
    return tag("details", title, table(heads, rows, numeric=range(3, 9)), tag("p", note))


def _lead(record: FamilyRecord) -> str:
    """By how much a family is ahead, where likelihoods decided."""
    if not np.isfinite(record.lead):
        return "–"
    return f"{record.lead:.1f} (unsure)" if record.is_unsure else f"{record.lead:.1f}"


#: The criteria in words.
_CRITERIA = {
    "bic": "BIC",
    "icl": "ICL",
    "aic": "AIC",
    "log_likelihood": "log-likelihood",
    "n_parameters": "free parameters",
    "evidence": "log evidence (variational)",
}
#: With fewer rows for each column, correlations that matter are smaller than those by chance.
_FEW_ROWS_EACH = 5
_BOUND = "lower bound of the log-likelihood"


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
        drawn.insert(0, ("scree", _figures.scree(subject.description.explained), _scree_caption(subject)))
    cards = [tag("div", figure(key, caption, label=caption), class_="card") for key, _, caption in drawn]
    parts = [
        tag("p", _reason(subject)),
        Markup("") if subject.n_components else tag("p", _advice(subject)),
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
    asked, compared = subject.parameters.get("n_components"), subject.description.evidence_by_rank
    # A model that was told the number compared nothing, even where it tells the evidence of that number.
    if compared and (asked is None or len(compared) > 1):
        left = " Components without signal had left before." if subject.description.removals else ""
        ranks = subject.description.compared_ranks
        is_told = bool(subject.description.rank_probabilities)
        told = (
            f"How likely each number is: {subject.n_components} ({ranks})"
            if is_told
            else f"Compared were: {ranks}"
        )
        return (
            f"{subject.name} chose {count} by the variational log evidence, which weighs what a component gains "
            f"against the freedom it takes.{left} {told}."
        )
    if isinstance(asked, Integral) and int(asked) == subject.n_components:
        return (
            f"{count[0].upper()}{count[1:]}, as asked for (n_components={asked}); the model did not choose."
        )
    return f"{subject.name} came to {count} from n_components={asked!r}."


def _scree_caption(subject: Subject) -> str:
    total = percent(float(subject.description.explained.sum()))
    if subject.description.has_pieces:
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
    model, drawn = subject.description, []
    if len(model.evidence_by_rank) > 1:
        drawing = _figures.number_curve(
            model.evidence_by_rank, model.chosen_rank, "components", "log evidence"
        )
        caption = "Variational log evidence by number of components; higher is better."
        drawn.append(("evidence", drawing, caption))
    if model.evidence_path is not None and model.support is not None:
        chosen = int(model.support.sum())
        path = dict(enumerate(model.evidence_path.tolist(), start=1))
        drawing = _figures.number_curve(path, chosen, "most relevant variables", "evidence")
        drawn.append(("path", drawing, "Evidence of the sets of the 1, 2, ... most relevant variables."))
    return drawn


def _criteria(subject: Subject) -> Markup:
    known = subject.description.criteria
    titles = _CRITERIA | ({"log_likelihood": _BOUND} if subject.description.likelihood == "bound" else {})
    rows = [
        (titles[name], number(round(known[name]))) for name in titles if np.isfinite(known.get(name, np.nan))
    ]
    if not rows:
        return Markup("")
    advice = (
        "They compare fits to the same table: BIC, ICL and AIC should be low, likelihood and evidence high."
    )
    return join(
        [tag("h3", "Criteria of this fit"), table(("", "value"), rows, numeric=(1,)), tag("p", advice)]
    )


def _advice(subject: Subject) -> str:
    """What to do when there are no components."""
    rows, columns = subject.facts.n_rows, subject.facts.n_columns
    text = (
        "No component: columns vary independently of each other, as far as this table tells. Scores, loadings and "
        "pictures of them are therefore empty. "
    )
    if rows < _FEW_ROWS_EACH * columns:
        text += f"With {plural(rows, 'row')} for {plural(columns, 'column')} weak structure cannot be seen: more rows, "
        text += "or fewer columns, would show it. "
    return text + (
        "If you expect structure, check above that columns were read as what they are and have fitting families, that "
        "none is an identifier, and that offsets (such as totals) are given; EPCA(2) or -k 2 shows the two strongest "
        "directions, noise or not."
    )


def _selection(subject: Subject) -> Markup:
    """Sparse models: how many columns take part."""
    model = subject.description
    if model.support is not None:
        chosen, total = int(model.support.sum()), len(model.support)
        return tag(
            "p", f"{chosen} of {plural(total, 'column')} were selected; all others have loadings of 0."
        )
    if model.has_sparse_loadings and model.loadings is not None:
        counts = ", ".join(str(n) for n in np.count_nonzero(model.loadings, axis=1))
        return tag("p", f"Non-zero loadings of the components, in order: {counts}.")
    return Markup("")


def _removals(subject: Subject) -> Markup:
    """Components that left during the fit."""
    path = subject.description.removals
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
    breakpoints, shares = subject.description.breakpoints, subject.description.piece_shares
    if breakpoints is None or shares is None:
        return Markup("")
    edges = [-np.inf, *breakpoints, np.inf]
    rows = [
        (k + 1, _edge(edges[k]), _edge(edges[k + 1]), percent(float(share))) for k, share in enumerate(shares)
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
