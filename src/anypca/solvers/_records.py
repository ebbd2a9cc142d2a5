"""Values of the package as bytes and back: arrays, numbers, words and frozen dataclasses of them; no code is stored."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

# Records may name classes of this package only, so that an untrusted file cannot run other code.
_PACKAGE = __name__.partition(".")[0]


def pack(value: Any) -> bytes:
    """The value as bytes, an npz file of its arrays and of a tree that says where they belong.

    Raises
    ------
    TypeError
        If a part is of another kind than numbers, words, arrays, sequences, dicts and dataclasses of these.
    """
    arrays: list[Any] = []
    tree = json.dumps(_tree(value, arrays))
    buffer = io.BytesIO()
    np.savez(buffer, *arrays, tree=np.array(tree))
    return buffer.getvalue()


def unpack(content: bytes) -> Any:
    """The value that `pack` made bytes of.

    Raises
    ------
    ValueError
        If the content names anything but values of this package, or does not fit their present form.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        tree = json.loads(str(stored["tree"]))
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files) - 1)]
    try:
        return _value(tree, arrays)
    except (TypeError, AttributeError, KeyError, ImportError) as error:
        raise ValueError(f"the record does not fit this version of anypca: {error}") from error


def _tree(value: Any, arrays: list[Any]) -> Any:
    """The value with its arrays put aside, in terms of JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _tree(value.item(), arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Enum):
        return {"enum": _name(type(value)), "member": value.name}
    if is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        return {"type": _name(type(value)), "fields": _branches(parts, arrays)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {"type": _name(type(value)), "fields": _branches(value._asdict(), arrays)}
    if isinstance(value, Mapping):
        return {"dict": _branches(value, arrays)}
    if isinstance(value, Sequence):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_tree(part, arrays) for part in value]}
    raise TypeError(
        f"a checkpoint holds arrays, numbers and dataclasses of them; got {type(value).__name__}."
    )


def _branches(parts: Mapping[str, Any], arrays: list[Any]) -> dict[str, Any]:
    return {name: _tree(part, arrays) for name, part in parts.items()}


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _find(name: str) -> Any:
    """The class of this package that a record names."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] != _PACKAGE:
        raise ValueError(f"{name!r} is no class of {_PACKAGE}; do not use this file.")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum | tuple))):
        raise ValueError(f"{name!r} is no value; do not use this file.")
    return found


def _value(tree: Any, arrays: Sequence[Any]) -> Any:
    """What `_tree` was made of."""
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "enum" in tree:
        return _find(tree["enum"])[tree["member"]]
    if "type" in tree:
        return _find(tree["type"])(**_values(tree["fields"], arrays))
    if "dict" in tree:
        return _values(tree["dict"], arrays)
    (kind, parts), *_ = tree.items()
    values = [_value(part, arrays) for part in parts]
    return tuple(values) if kind == "tuple" else values


def _values(trees: Mapping[str, Any], arrays: Sequence[Any]) -> dict[str, Any]:
    return {name: _value(tree, arrays) for name, tree in trees.items()}
