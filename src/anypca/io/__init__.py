"""Tables in, whole files out."""

from __future__ import annotations

from anypca.io._frame import Frame
from anypca.io.atomic import check_target, write_atomically
from anypca.io.tables import read_table

__all__ = ["Frame", "check_target", "read_table", "write_atomically"]
