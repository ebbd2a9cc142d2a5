"""Report on a fitted model as one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from anypca.engine import check_data
from anypca.io import check_target, write_atomically
from anypca.models._covariates import covariates_for
from anypca.models._description import Description, describe, numbers_for, project_rows
from anypca.report._content import page_content, page_figures
from anypca.report._page import build_page
from anypca.report._quality import assess
from anypca.report._rows import score_data
from anypca.report._subject import (
    Subject,
    check_companions,
    column_names,
    draw_sample,
    read_facts,
    with_labels,
)
from anypca.selection import Diagnostic, diagnose

__all__ = ["write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any,
    *,
    offset: Any = None,
    covariates: Any = None,
    row_names: Sequence[Any] | None = None,
    feature_names: Sequence[Any] | None = None,
    metadata: Any = None,
    title: str | None = None,
    notes: Sequence[str] = (),
    code: str | None = None,
    findings: Sequence[Diagnostic] | None = None,
) -> Path:
    """Write one self-contained HTML file on a fitted model and its table.

    The report describes the table, the number of components and its reason, their meaning, the rows, the quality of
    the fit, its convergence, and how to reproduce it. It works from ``file://`` without a network. Names and cells are
    escaped. Plots show a sample of at most 5000 rows.

    Parameters
    ----------
    model : fitted estimator of the package
        The fitted model.
    path : path-like
        Output file; it is written atomically.
    X : table of shape (n_samples, n_features)
        The rows to report on, usually the rows of ``fit``.
    offset, covariates : as in ``fit``
        As in the fit, if it had them.
    row_names : sequence of length n_samples, optional
        The index of a pandas frame, or row1, row2, ... when not given.
    feature_names : sequence of length n_features, optional
        By default names of a data frame, of ``fit``, or x1, x2, ...
    metadata : data frame or dict of str to sequences of length n_samples, optional
        Further columns to colour the rows by; the first one is shown at the start.
    title : str, optional
        Headline of the page.
    notes : sequence of str
        Sentences on how the table was read, for the section on it.
    code : str, optional
        Commands that reproduce the report, in place of the Python calls.
    findings : sequence of Diagnostic, optional
        Result of `anypca.selection.diagnose`, if it has run already.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError, ValueError
        If the table, offset or covariates do not match the model.
    ImportError
        Without jinja2.

    See Also
    --------
    anypca.plotting : single pictures.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> from anypca.report import write_report
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> write_report(PPCA(2).fit(X), "ppca.html", X)  # doctest: +SKIP
    """
    check_is_fitted(model)
    target = Path(os.path.abspath(path))
    check_target(target.parent, [target.name])
    companions = check_companions(model, {"offset": offset, "covariates": covariates_for(model, covariates)})
    given, X = X, numbers_for(model, X)
    data = check_data(X, **companions)
    facts = read_facts(data, column_names(model, feature_names, data.feature_names))
    sample = draw_sample(
        X,
        (data.n_samples, data.n_features),
        companions=companions,
        row_names=row_names,
        metadata=with_labels(model, metadata, given),
    )
    scores, std = project_rows(model, sample.table, **sample.companions)
    scores, std = scores.astype(float), None if std is None else std.astype(float)
    heading = title or f"{_name(describe(model))} of {data.n_samples} rows and {data.n_features} columns"
    if findings is None:
        findings = diagnose(model, X, **companions, row_names=row_names, feature_names=facts.column_names)
    found = tuple(each for each in findings if each.is_found)
    page = _page(Subject(model, heading, tuple(notes), code, facts, sample, scores, std, found))
    write_atomically(target.parent, {target.name: partial(_write, page=page)})
    return target


def _name(found: Description) -> str:
    return f"{found.name} rotated by {found.rotation}" if found.rotation else found.name


def _page(subject: Subject) -> str:
    quality = assess(subject)
    rows = score_data(subject, quality) if subject.n_components else None
    return build_page(page_content(subject, quality), page_figures(subject, quality), rows)


def _write(path: Path, *, page: str) -> None:
    # File names that cannot be decoded contain lone surrogates, which have no UTF-8 form. Bytes keep the line ends,
    # since the page's security policy contains hashes of its scripts.
    path.write_bytes(page.encode("utf-8", errors="replace"))
