"""From the ``family`` and ``resolution`` arguments of users to families and steps of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import quoted, suggest
from anypca.columns.forms import Form, column_forms
from anypca.families import Family, Gaussian, Mixed, combine, families

#: The key of a dict that covers the columns not named.
DEFAULT = "default"

_EXPECTED = (
    "family must be a name such as 'poisson', a Family such as Poisson(), "
    "one of them per column (a list), or a dict from column to them"
)


def resolve_family(family: Any, n_features: int, feature_names: Sequence[str] | None = None) -> Family:
    """Turn a user's ``family`` argument into a `Family`.

    Parameters
    ----------
    family : str, Family, sequence or mapping
        One for all columns; a sequence of one per column; or a mapping from column name or index to one, in
        which the key ``"default"`` covers the columns not named. ``"auto"`` needs the data and is refused.
    n_features : int
        Number of columns.
    feature_names : sequence of str, optional
        Names of the columns.

    Returns
    -------
    Family
        A `Mixed` when the columns differ.

    Raises
    ------
    ValueError
        If a name is unknown, the number of columns does not match, or a column is uncovered.
    TypeError
        If something is neither a name nor a Family.

    See Also
    --------
    resolve_columns : with forms of columns that do not enter as they are.

    Examples
    --------
    >>> resolve_family({"default": "poisson", 2: "bernoulli"}, 3)
    Mixed(members=(Poisson(), Bernoulli()), assignment=(0, 0, 1))
    """
    resolved, found = resolve_columns(family, n_features, feature_names)
    if found:
        raise ValueError(
            f"family {next(iter(found.values())).name!r} is no distribution of single entries, which is needed here. "
            "Name the family of its parts."
        )
    return resolved


def resolve_columns(
    family: Any, n_features: int, feature_names: Sequence[str] | None = None
) -> tuple[Family, dict[int, Form]]:
    """Turn a user's ``family`` argument into families, and forms of columns that do not enter as they are.

    Parameters
    ----------
    family, n_features, feature_names
        As for `resolve_family`; entries may also be forms or their names.

    Returns
    -------
    family : Family
        Of all columns; a stand-in for columns with forms.
    forms : dict of int to Form
        Of the columns that do not enter as they are, by number.

    See Also
    --------
    resolve_family : families alone.
    """
    entries = given_entries(family, n_features, feature_names)
    if isinstance(entries, Family):
        return entries, {}
    if None in entries:
        first = entries.index(None)
        name = first if feature_names is None else feature_names[first]
        raise ValueError(
            f"family covers {n_features - entries.count(None)} of {n_features} columns; the first without one is "
            f"{name!r}, and 'auto' needs the values of the columns, which are not known here. Name its family, or add "
            f"the key {DEFAULT!r} for all others."
        )
    return divide([entry for entry in entries if entry is not None])


def divide(entries: Sequence[Family | Form]) -> tuple[Family, dict[int, Form]]:
    """Return the families of all columns, and the forms of some."""
    found = {column: entry for column, entry in enumerate(entries) if isinstance(entry, Form)}
    # A form has the family of its first part in its place, or any if it has none.
    plain = [entry if isinstance(entry, Family) else (*entry.parts, Gaussian())[0] for entry in entries]
    return combine(plain), found


def given_entries(
    family: Any, n_features: int, feature_names: Sequence[str] | None = None
) -> Family | list[Family | Form | None]:
    """Return the family of all columns, or a family or form for each, ``None`` for those that are to be inferred.

    Columns are inferred if a mapping does not name them, or if their family is ``"auto"``.
    """
    if isinstance(family, Mixed) and len(family.assignment) != n_features:
        raise ValueError(
            f"family describes {len(family.assignment)} columns but X has {n_features}; give it one "
            "entry of assignment per column."
        )
    if isinstance(family, Mapping):
        raw = _entries_of_mapping(family, n_features, feature_names)
    elif isinstance(family, list | tuple | np.ndarray):
        raw = list(family)
    else:
        single = _single(family)
        return single if isinstance(single, Family) else [single] * n_features
    if len(raw) != n_features:
        raise ValueError(
            f"family has {len(raw)} entries but X has {n_features} columns; give one entry per column, "
            f"or a dict with the key {DEFAULT!r}."
        )
    known: dict[Any, Family | Form | None] = {}
    for column, entry in enumerate(raw):
        key = entry if isinstance(entry, str | Family | Form) else id(entry)
        if key not in known:
            try:
                known[key] = _single(entry)
            except (ValueError, TypeError) as error:
                name = column if feature_names is None else feature_names[column]
                raise type(error)(f"family of column {name!r}: {error}") from error
        raw[column] = known[key]
    return raw


def is_auto(family: Any) -> bool:
    """Return whether a family is to be inferred from the data."""
    return isinstance(family, str) and family.strip().lower() == "auto"


def is_nonnegative(family: Any) -> bool:
    """Return whether a family given by name or object has no negative values; False while it is not known."""
    try:
        single = _single(family)
    except (TypeError, ValueError):  # fit will complain about it
        return False
    if single is None or isinstance(single, Form):
        return single is not None and single.is_nonnegative
    members = single.members if isinstance(single, Mixed) else (single,)
    return not any(member.in_support(np.array([-1.0])).any() for member in members)


def _single(family: Any) -> Family | Form | None:
    """Return the family or form of one name or object, ``None`` for ``"auto"``."""
    if isinstance(family, Family | Form):
        return family
    if isinstance(family, type) and issubclass(family, Family):
        raise TypeError(
            f"family is the class {family.__name__}; write {family.__name__}() or {family.name!r}."
        )
    if not isinstance(family, str):
        raise TypeError(f"{_EXPECTED}; got {family!r} of type {type(family).__name__}.")
    if is_auto(family):
        return None
    found: Family | Form = (families if family in families else column_forms).create(family)
    return found


def _entries_of_mapping(
    mapping: Mapping[Any, Any], n_features: int, feature_names: Sequence[str] | None
) -> list[Any]:
    """Return the entry of each column, ``"auto"`` for columns without one."""
    names = None if feature_names is None else list(feature_names)
    has_default = DEFAULT in mapping and DEFAULT not in (names or ())
    chosen: dict[int, Any] = {}
    for key, entry in mapping.items():
        if key == DEFAULT and has_default:
            continue
        column = _column(key, n_features, names)
        if column in chosen:
            raise ValueError(
                f"family names column {column} twice, the second time by the key {key!r}. Keep one of them."
            )
        chosen[column] = entry
    default = mapping[DEFAULT] if has_default else "auto"
    return [chosen.get(column, default) for column in range(n_features)]


def resolve_resolution(resolution: Any, found: Floats, feature_names: Sequence[str] | None = None) -> Floats:
    """Turn a user's ``resolution`` argument into the step of each column.

    Parameters
    ----------
    resolution : None, float, sequence or mapping
        ``None``: what was found. One step for all columns; one per column; or a mapping from column name or index to a
        step, columns not named keeping what was found.
    found : ndarray of shape (n_features,)
        The steps that the values show.
    feature_names : sequence of str, optional
        Names of the columns, for a mapping by name and for messages.

    Returns
    -------
    ndarray of shape (n_features,)
        The steps with which columns are recorded.

    Raises
    ------
    ValueError, TypeError
        If a step is not a positive number, a column does not exist, or the number of steps differs from the number of
        columns.

    See Also
    --------
    resolve_family : families by their names.
    """
    if resolution is None:
        return found
    steps = found.copy()
    if isinstance(resolution, Mapping):
        names = None if feature_names is None else list(feature_names)
        for key, step in resolution.items():
            steps[_column(key, len(found), names, "resolution")] = _step(step, key)
        return steps
    given = np.asarray(resolution, dtype=object)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != len(found)):
        raise ValueError(
            f"resolution has shape {given.shape} but X has {len(found)} columns; give one step for all columns, one "
            "per column, or a dict from column to step."
        )
    for column, step in enumerate(np.broadcast_to(given, len(found)).tolist()):
        steps[column] = _step(step, column)
    return steps


def _step(step: Any, column: Any) -> float:
    """Check a step that was given for a column."""
    is_number = isinstance(step, int | float | np.integer | np.floating) and not isinstance(step, bool)
    if not (is_number and 0 < step < np.inf):
        raise ValueError(
            f"resolution of column {column!r} must be a number > 0, the step with which it is recorded; got {step!r}."
        )
    return float(step)


def _column(key: Any, n_features: int, names: list[str] | None, argument: str = "family") -> int:
    """Return the position of a column given by name or index."""
    if isinstance(key, str):
        if names is None:
            raise ValueError(
                f"{argument} names the column {key!r}, but X has no column names; use column indices."
            )
        if key not in names:
            hint = suggest(key, names, f"Its columns are {quoted(names, 10)}.")
            raise ValueError(f"{argument} names the column {key!r}, which X does not have. {hint}")
        return names.index(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < n_features:
            raise ValueError(f"{argument} names column {key}, but X has the columns 0 to {n_features - 1}.")
        return int(key)
    raise TypeError(
        f"the keys of {argument} are column names or indices; got {key!r} of type {type(key).__name__}."
    )
