"""Data of the interactive scatter plot."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._words import percent
from anypca.report._encode import encode_column, encode_scores, rounded, short_name, to_json
from anypca.report._quality import Quality
from anypca.report._subject import Subject

#: Largest number of components in the menus of the axes; each adds to the size of the page.
MOST_COMPONENTS = 50
#: Bytes of the columns for colours, and their largest number.
_BUDGET, _MOST_COLUMNS = 2_000_000, 500
#: Columns of each component with an arrow; the script draws the ten strongest of a plane.
_N_ARROWS = 10


def score_data(subject: Subject, quality: Quality | None) -> dict[str, Any]:
    """Names, scores, arrows and colours of the rows, as the script reads them."""
    k, model = min(subject.n_components, MOST_COMPONENTS), subject.description
    titles = [
        name if model.has_pieces else f"{name} ({percent(float(share))})"
        for name, share in zip(subject.component_names[:k], model.explained, strict=False)
    ]
    return {
        "names": [short_name(name) for name in subject.sample.row_names],
        "numbers": (subject.sample.index + 1).tolist(),
        "axes": titles,
        "scores": encode_scores(subject.scores[:, :k]),
        "std": None if subject.std is None else encode_scores(subject.std[:, :k]),
        "arrows": _arrows(subject, k) if subject.has_arrows else None,
        "columns": _colour_columns(subject, quality),
    }


def _arrows(subject: Subject, n_components: int) -> dict[str, Any]:
    """Loadings, in units of noise, of the columns that are strongest in some component."""
    strengths = subject.description.strengths
    assert strengths is not None
    chosen = sorted({int(j) for k in range(n_components) for j in subject.strongest(k, _N_ARROWS)})
    return {
        "names": [short_name(subject.weight_names[j]) for j in chosen],
        "values": [rounded(strengths[k, chosen]) for k in range(n_components)],
    }


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
    """Columns for colours: all, or the ones with the largest loadings if they need too many bytes."""
    names = len(to_json(subject.sample.row_names)) if subject.sample.n_rows > 1000 else 0
    # Four characters for three bytes, and up to 255 levels.
    each = subject.sample.n_rows * 4 / 3 + 255 * 8
    most = min(_MOST_COLUMNS, max(10, int((_BUDGET - names) / each)))
    if most >= subject.facts.n_columns:
        return list(range(subject.facts.n_columns))
    size = np.abs(subject.weights).max(axis=0)
    if len(size) != subject.facts.n_columns:
        parts = map(subject.layout.part, range(subject.facts.n_columns))
        size = np.array([size[part].max(initial=0.0) for part in parts])
    return sorted(np.argsort(-size, kind="stable")[:most].tolist())
