"""Columns whose values hardly tell their family: the evidence of whole fits decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families.auto import KINDS, RULES, FamilyRecord, FamilyReport, open_entries
from anypca.models._opened import OpenedBlock
from anypca.models._row_model import RowModel, plug_in
from anypca.models._session import is_auto
from anypca.solvers import Result

if TYPE_CHECKING:
    from anypca.models.sepca._estimator import SePCA

# Entries of a table above which further fits are not made: a user would wait for them, not for a family.
MOST_ENTRIES = 1_000_000


def take_better_families(
    model: SePCA, result: Result[Any], X: Any, companions: Mapping[str, Any]
) -> Result[Any]:
    """Let a fitted estimator have the families of largest evidence: those chosen by values, or runners-up where unsure.

    The values of a column are spread by the components too, which the choice by values cannot know. One fit has all
    runners-up, and tells which of them suit their columns better; if these are some, another fit has them alone.

    Parameters
    ----------
    model : SePCA
        Fitted.
    result : Result
        How its fit ended.
    X : table of shape (n_samples, n_features)
    companions : mapping
        ``sample_weight``, ``offset``, ``covariates`` and ``entry_weight`` of its fit.
    """
    report = model.family_report_
    rivals = _rivals(report) if report is not None else {}
    tried: list[tuple[SePCA, Result[Any], Mapping[int, str]]] = [(model, result, {})]
    if rivals:
        tried += _refit(model, rivals, X, companions)
    if len(tried) > 1:
        gains = _column_fit(tried[1][0], X, companions) - _column_fit(model, X, companions)
        better = {column: name for column, name in rivals.items() if gains[column] > 0}
        tried += _refit(model, better, X, companions) if 0 < len(better) < len(rivals) else []
        best, result, families = max(tried, key=lambda fit: fit[0].evidence_)
        assert report is not None
        best.family_report_ = _told(report, rivals, families, best.evidence_ - model.evidence_)
        parameters = model.get_params(deep=False)
        model.__dict__.update({name: value for name, value in vars(best).items() if name not in parameters})
    return result


def _rivals(report: FamilyReport) -> dict[int, str]:
    """Runners-up of the columns that are unsure."""
    return {
        column: record.runner_up
        for column, record in enumerate(report)
        if record.is_unsure
        and record.runner_up in RULES
        and "excluded" not in (record.family, record.runner_up)
    }


def _refit(
    model: SePCA, families: Mapping[int, str], X: Any, companions: Mapping[str, Any]
) -> list[tuple[SePCA, Result[Any], Mapping[int, str]]]:
    """The estimator with families that are given; nothing where one of them cannot be fitted."""
    n = model.n_features_in_
    names = getattr(model, "feature_names_in_", None)
    entries = None if is_auto(model.family) else open_entries(model.family, n, names)
    family = ["auto" if entry is None else entry for entry in entries or [None] * n]
    for column, name in families.items():
        family[column] = name
    other: SePCA = clone(model).set_params(family=family)
    try:
        result, _ = other._fit_once(X, None, companions)
    except ValueError:  # a runner-up by values may lack a parameter that only the values tell
        return []
    return [(other, result, families)]


def _column_fit(model: SePCA, X: Any, companions: Mapping[str, Any]) -> Floats:
    """Log-probability of the entries of each column of the table at the scores of their rows."""
    steps, sources = model._steps, model.layout_.sources

    def visit(rows_model: RowModel[Any], block: Block, rows: OpenedBlock) -> Floats:
        return plug_in(rows_model, block, rows, steps, axis=0)

    rows = [companions[name] for name in ("offset", "covariates", "entry_weight")]
    sums = np.sum(model._visit_rows(visit, X, *rows), axis=0)
    return np.bincount(sources, sums, minlength=model.n_features_in_).astype(float)


def _told(
    report: FamilyReport, asked: Mapping[int, str], taken: Mapping[int, str], gain: float
) -> FamilyReport:
    """The account with what the evidence said of the columns that were unsure."""

    def record_of(column: int, record: FamilyRecord) -> FamilyRecord:
        if column not in asked:
            return record
        if column not in taken:
            return record._replace(reason=f"{record.reason}; the evidence of the fit agrees")
        name, span = taken[column], record.reason.partition(": unsure")[0]
        reason = f"{span}: {gain:.1f} nats ahead of {record.family} by the evidence of the fit"
        return FamilyRecord(record.column, name, reason, RULES[name], KINDS[name], gain, record.family)

    return FamilyReport(record_of(column, record) for column, record in enumerate(report))
