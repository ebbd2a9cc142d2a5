"""JSON output: one document on stdout, its keys a promise.

Every document has ``schema`` (the number below), ``anypca`` (the version) and ``command``. Keys may be added within a
schema; a key that is removed, renamed or given another meaning raises the number. The keys of each command are listed
in ``docs/command_line.md``, and ``tests/cli/test_json.py`` holds them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import anypca

#: Raised when a key is removed, renamed or given another meaning.
SCHEMA = 1


def document(command: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A document with its head.

    Parameters
    ----------
    command : str
    content : mapping

    Returns
    -------
    document : dict
    """
    return {"schema": SCHEMA, "anypca": anypca.__version__, "command": command, **content}


def dump(content: Mapping[str, Any]) -> str:
    """JSON text, always valid: non-finite numbers, which JSON does not know, become null.

    Parameters
    ----------
    content : mapping

    Returns
    -------
    text : str
    """
    return json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def emit(command: str, content: Mapping[str, Any]) -> None:
    """Print a document.

    Parameters
    ----------
    command : str
    content : mapping
    """
    sys.stdout.write(dump(document(command, content)))


def plain(value: Any) -> Any:
    """A value that JSON knows.

    Parameters
    ----------
    value : object

    Returns
    -------
    value : dict, list, str, int, float, bool or None
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else repr(value)
