"""Archives of skops whose bytes follow from what they hold: no addresses in memory, no time of writing."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile, ZipInfo

_SCHEMA = "schema.json"


def settle(archive: bytes) -> bytes:
    """The archive with places counted where skops writes addresses.

    Parameters
    ----------
    archive : bytes
        What ``skops.io.dumps`` returns.

    Returns
    -------
    bytes
        Equal for equal values, and loaded by skops as before.
    """
    with ZipFile(BytesIO(archive)) as source:
        schema = json.loads(source.read(_SCHEMA))
        names: dict[str, str] = {}
        _number(schema, {}, names)
        parts = [(new, source.read(old)) for old, new in names.items()]
    written = BytesIO()
    with ZipFile(written, "w") as target:
        for name, content in [*parts, (_SCHEMA, json.dumps(schema).encode())]:
            target.writestr(ZipInfo(name), content)
    return written.getvalue()


def _number(node: Any, places: dict[Any, int], names: dict[str, str]) -> None:
    """Replace addresses by places, in the order in which nodes stand in the schema, and note what files are called."""
    if isinstance(node, dict):
        if "__id__" in node:
            node["__id__"] = places.setdefault(_identity(node), len(places))
        if "file" in node and "__loader__" in node:
            number = len(names)
            node["file"] = names.setdefault(node["file"], f"{number}{PurePosixPath(node['file']).suffix}")
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _number(child, places, names)


def _identity(node: dict[str, Any]) -> Any:
    """What makes two nodes the same object; of plain values, which Python shares as it likes, that they are equal."""
    return (node["__class__"], node["content"]) if node["__loader__"] == "JsonNode" else node["__id__"]
