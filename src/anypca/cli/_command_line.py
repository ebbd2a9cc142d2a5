"""The shell command that repeats a fit."""

from __future__ import annotations

import shlex

from anypca.cli._input_table import TableRequest
from anypca.cli._models import ModelRequest

#: Options of reading by the names of their arguments.
_READING = {"id_column": "--id", "delimiter": "--delimiter", "decimal": "--decimal", "part": "--part"}


def command_line(wanted: ModelRequest, table: TableRequest) -> str:
    """The command that makes the same folder again, as a line for a shell.

    Parameters
    ----------
    wanted : ModelRequest
    table : TableRequest

    Returns
    -------
    text : str
    """
    words = ["anypca", "fit", table.source, "--model", wanted.name]
    words += [] if wanted.family == "auto" else ["--family", wanted.family]
    words += [] if wanted.n_components is None else ["-k", str(wanted.n_components)]
    words += ["--seed", str(wanted.seed)]
    words += [] if table.offset is None else ["--offset", table.offset]
    words += ["--covariates", ",".join(table.covariates)] if table.covariates else []
    for name, value in wanted.settings.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, *_reading(table)])


def _reading(table: TableRequest) -> list[str]:
    words = []
    for name, option in _READING.items():
        if name in table.reading:
            words += [option, str(table.reading[name])]
    if "missing" in table.reading:
        words += ["--na", ",".join(table.reading["missing"])]
    if "header" in table.reading:
        words.append("--header" if table.reading["header"] else "--no-header")
    return words
