"""From what a user writes for ``family`` and ``resolution`` to a `Family` and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import quoted, suggest
from anypca.columns.forms import Form, column_forms
from anypca.families._base import Family, families
from anypca.families.gaussian import Gaussian
from anypca.families.mixed import Mixed, combine

#: The key of a dict that covers the columns not named.
DEFAULT = "default"
#: Stands for a column without an entry; None would hide a None written by the user.
MISSING = object()

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
        which the key ``"default"`` covers the columns not named. ``"auto"`` is not resolved here, since it
        needs the data.
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
        Of all columns; what it says of columns with forms is a stand-in.
    forms : dict of int to Form
        Of the columns that do not enter as they are, by number.

    See Also
    --------
    resolve_family : families alone.
    """
    if isinstance(family, str) and family == "auto":
        raise RuntimeError("family='auto' must be resolved from the data before resolve_family is called")
    if isinstance(family, Mixed) and len(family.assignment) != n_features:
        raise ValueError(
            f"family describes {len(family.assignment)} columns but X has {n_features}; give it one "
            "entry of assignment per column."
        )
    if isinstance(family, str | Family | Form):
        single = _single(family)
        return _divide([single] * n_features) if isinstance(single, Form) else (single, {})
    if isinstance(family, Mapping):
        return _from_mapping(family, n_features, feature_names)
    if isinstance(family, list | tuple | np.ndarray):
        return _from_sequence(family, n_features, feature_names)
    raise _type_error(family)


def _divide(entries: Sequence[Family | Form]) -> tuple[Family, dict[int, Form]]:
    """Families of all columns, and the forms of some."""
    found = {column: entry for column, entry in enumerate(entries) if isinstance(entry, Form)}
    # A form has the family of its first part in its place, or any if it has none.
    plain = [entry if isinstance(entry, Family) else (*entry.parts, Gaussian())[0] for entry in entries]
    return combine(plain), found


def _type_error(family: Any) -> TypeError:
    if isinstance(family, type) and issubclass(family, Family):
        return TypeError(
            f"family is the class {family.__name__}; write {family.__name__}() or {family.name!r}."
        )
    return TypeError(f"{_EXPECTED}; got {family!r} of type {type(family).__name__}.")


def _single(family: Any) -> Family | Form:
    """The family or form of one name or object."""
    if isinstance(family, Family | Form):
        return family
    if not isinstance(family, str):
        raise _type_error(family)
    if family == "auto":
        raise ValueError(
            "family 'auto' needs the values of the columns, which are not known here; "
            "write family='auto' in an estimator, or name a family for every column."
        )
    found: Family | Form = (families if family in families else column_forms).create(family)
    return found


def _from_sequence(
    entries: Sequence[Any] | np.ndarray[Any, Any], n_features: int, names: Sequence[str] | None
) -> tuple[Family, dict[int, Form]]:
    if len(entries) != n_features:
        raise ValueError(
            f"family has {len(entries)} entries but X has {n_features} columns; give one entry per column, "
            f"or a dict with the key {DEFAULT!r}."
        )
    return _divide(_each(entries, names))


def _each(entries: Sequence[Any] | np.ndarray[Any, Any], names: Sequence[str] | None) -> list[Family | Form]:
    """The families of many names, every name resolved once."""
    known: dict[Any, Family | Form] = {}
    result = []
    for column, entry in enumerate(entries):
        key = entry if isinstance(entry, str | Family | Form) else id(entry)
        if key not in known:
            known[key] = _single_of(entry, column if names is None else names[column])
        result.append(known[key])
    return result


def _single_of(entry: Any, column: int | str) -> Family | Form:
    """The family of one column; complaints name the column."""
    try:
        return _single(entry)
    except (ValueError, TypeError) as error:
        raise type(error)(f"family of column {column!r}: {error}") from error


def _from_mapping(
    mapping: Mapping[Any, Any], n_features: int, feature_names: Sequence[str] | None
) -> tuple[Family, dict[int, Form]]:
    names = None if feature_names is None else list(feature_names)
    entries = column_entries(mapping, n_features, names)
    uncovered = [column for column, entry in enumerate(entries) if entry is MISSING]
    if uncovered:
        first = names[uncovered[0]] if names else uncovered[0]
        raise ValueError(
            f"family covers {n_features - len(uncovered)} of {n_features} columns; the first without one is "
            f"{first!r}. Add it, or the key {DEFAULT!r} for all others."
        )
    return _divide(_each(entries, names))


def column_entries(mapping: Mapping[Any, Any], n_features: int, names: list[str] | None) -> list[Any]:
    """What a mapping says of each column, `MISSING` where it says nothing."""
    default: Any = MISSING
    chosen: list[Any] = [MISSING] * n_features
    for key, entry in mapping.items():
        if key == DEFAULT and DEFAULT not in (names or ()):
            default = entry
            continue
        column = _column(key, n_features, names)
        if chosen[column] is not MISSING:
            raise ValueError(
                f"family names column {column} twice, the second time by the key {key!r}. Keep one of them."
            )
        chosen[column] = entry
    return [default if entry is MISSING else entry for entry in chosen]


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
        If a step is not a positive number, a column does not exist, or the number of steps is not that of columns.

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
    """A step that was given for a column."""
    is_number = isinstance(step, int | float | np.integer | np.floating) and not isinstance(step, bool)
    if not (is_number and 0 < step < np.inf):
        raise ValueError(
            f"resolution of column {column!r} must be a number > 0, the step with which it is recorded; got {step!r}."
        )
    return float(step)


def _column(key: Any, n_features: int, names: list[str] | None, argument: str = "family") -> int:
    """The position of a column given by name or index."""
    if isinstance(key, str):
        return _column_of_name(key, names, argument)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < n_features:
            raise ValueError(f"{argument} names column {key}, but X has the columns 0 to {n_features - 1}.")
        return int(key)
    raise TypeError(
        f"the keys of {argument} are column names or indices; got {key!r} of type {type(key).__name__}."
    )


def _column_of_name(name: str, names: list[str] | None, argument: str) -> int:
    if names is None:
        raise ValueError(
            f"{argument} names the column {name!r}, but X has no column names; use column indices."
        )
    if name not in names:
        hint = suggest(name, names, f"Its columns are {quoted(names, 10)}.")
        raise ValueError(f"{argument} names the column {name!r}, which X does not have. {hint}")
    return names.index(name)
