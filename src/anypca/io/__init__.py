"""Reading tables, writing files that are whole or absent, and models in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anypca._lazy import attach

if TYPE_CHECKING:
    from anypca.io.atomic import check_target, write_atomically
    from anypca.io.frame import Frame
    from anypca.io.model_files import load, save
    from anypca.io.tables import read_table

__all__ = ["Frame", "check_target", "load", "read_table", "save", "write_atomically"]

_FILES = {
    "Frame": "frame",
    "check_target": "atomic",
    "load": "model_files",
    "read_table": "tables",
    "save": "model_files",
    "write_atomically": "atomic",
}
__getattr__, __dir__ = attach(__name__, {name: f"{__name__}.{file}" for name, file in _FILES.items()})
