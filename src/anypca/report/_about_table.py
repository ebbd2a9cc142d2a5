"""What was in the table?"""

from __future__ import annotations

import numpy as np

from anypca._words import percent
from anypca.families.auto import FamilyReport
from anypca.linalg import largest
from anypca.report._html import (
    Markup,
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
from anypca.report._section import Section
from anypca.report._subject import Subject

#: More columns than this are told by groups only: nobody reads on.
_MOST_COLUMNS = 200


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
    facts = subject.facts
    if facts.zero_share == 0:
        return "No cell is zero."
    text = f"{percent(facts.zero_share)} of the observed cells are zero; "
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
    rows = [
        (family.replace("_", " "), number(len(names)), some(names, 6), rule)
        for names, family, rule in families.groups()
    ]
    return table(("family", "number", "columns", "why"), rows, numeric=(1,))


def _columns(subject: Subject, families: FamilyReport) -> Markup:
    """The columns one by one, folded away."""
    facts, summary = subject.facts, subject.facts.summary
    shown = min(facts.n_columns, _MOST_COLUMNS)
    heads = ("column", "family", "missing", "zeros", "least", "mean", "largest", "why")
    rows = [
        (
            name_text(facts.column_names[j]),
            families[j].family.replace("_", " ") if families else "–",
            number(int(facts.n_missing[j])),
            percent(summary.n_zero[j] / max(1, int(summary.n_observed[j]))),
            number(float(summary.minimum[j])),
            number(float(summary.mean[j])),
            number(float(summary.maximum[j])),
            families[j].reason if families else "–",
        )
        for j in range(shown)
    ]
    what = f"All {shown}" if shown == facts.n_columns else f"The first {shown} of {number(facts.n_columns)}"
    title = tag("summary", f"{what} columns one by one")
    return tag("details", title, table(heads, rows, numeric=range(2, 7)))
