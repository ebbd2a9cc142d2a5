"""From the user's ``family`` to a checked family object for a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca.engine import first_outside
from anypca.exceptions import DataConversionWarning
from anypca.families import Family, families, resolve_family
from anypca.families.auto import FamilyReport, infer_families
from anypca.models._opened import OpenedBlock
from anypca.models._session import Session


def choose_family(family: Any, session: Session) -> tuple[Family, FamilyReport | None]:
    """Resolve ``family`` for a table and check that its values are possible.

    Parameters
    ----------
    family : str, Family, list or dict
        ``"auto"`` infers a family for each column.
    session : Session
        Open on the table.

    Returns
    -------
    family : Family
    report : FamilyReport or None
        What was chosen and why, for ``"auto"``.

    Raises
    ------
    ValueError
        If the family is unknown or an entry is outside its support.
    """
    if isinstance(family, str) and family.strip().lower() == "auto":
        return infer_families(session.summary, session.data.feature_names)
    resolved = resolve_family(family, session.data.n_features, session.data.feature_names)
    check_support(resolved, session)
    warn_non_integers(resolved, session)
    return resolved, None


def is_nonnegative(family: Any) -> bool:
    """Whether a family given by name or object takes no negative values; False while it is not known."""
    if isinstance(family, Family):
        return family.is_nonnegative
    try:
        return isinstance(family, str) and families.create(family).is_nonnegative
    except ValueError:  # "auto", or a name that fit will complain about
        return False


def check_support(family: Family, session: Session) -> None:
    """Raise on the first entry that its column's family cannot have produced."""
    found = first_outside(session.data, session.executor, family.in_support)
    if found is not None:
        _raise_outside(family, *found, session.data.feature_names)


def check_rows(family: Family, rows: OpenedBlock, names: Sequence[str] | None = None) -> None:
    """Raise on the first entry of an opened block that its column's family cannot have produced, or is infinite."""
    bad = ~(np.isfinite(rows.x) & family.in_support(rows.x))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        _raise_outside(family, int(rows.numbers[row]), int(column), float(rows.x[row, column]), names)


def _raise_outside(family: Family, row: int, column: int, value: float, names: Sequence[str] | None) -> None:
    member = family.columns(slice(column, column + 1))
    name = "" if names is None else f" (column {names[column]!r})"
    # scikit-learn's words for what its tag positive_only says.
    reason = "Negative values in data: " if value < 0 and member.is_nonnegative else ""
    raise ValueError(
        f"{reason}family {member.name!r} needs {member.support}; X[{row}, {column}]{name} is {value:.10g}. "
        f"{member.remedy}"
    )


def warn_non_integers(family: Family, session: Session) -> None:
    """Warn when a count family gets fractions: the likelihood is then a quasi-likelihood."""
    data, summary = session.data, session.summary
    for member, columns in family.member_columns(data.n_features):
        bad = columns[summary.n_noninteger[columns] > 0]
        if member.is_discrete and bad.size:
            column = int(bad[0])
            name = column if data.feature_names is None else repr(data.feature_names[column])
            warnings.warn(
                f"family {member.name!r} is for integers; column {name} holds {int(summary.n_noninteger[column])} "
                f"fractions ({np.size(bad)} such columns). The likelihood is used as a quasi-likelihood; "
                "family='gamma' or 'gaussian' are meant for fractions.",
                DataConversionWarning,
                stacklevel=4,
            )
