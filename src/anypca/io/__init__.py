"""Reading tables, writing files that are whole or absent, and models in files."""

from __future__ import annotations

from anypca.io.atomic import check_target, write_atomically
from anypca.io.frame import Frame
from anypca.io.model_files import load, save
from anypca.io.tables import read_table

__all__ = ["Frame", "check_target", "load", "read_table", "save", "write_atomically"]
