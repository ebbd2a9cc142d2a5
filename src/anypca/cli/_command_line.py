"""The command that makes a fit again."""

from __future__ import annotations

import shlex

from anypca.cli._input_table import TableRequest
from anypca.cli._models import ModelRequest

#: Options of reading by the names of their arguments.
_READING = {
    "id_column": "--id",
    "delimiter": "--delimiter",
    "decimal": "--decimal",
    "part": "--part",
    "skip": "--skip",
    "comment": "--comment",
}
#: Options of reading with several words.
_LISTS = {"missing": "--na", "columns": "--columns", "drop": "--drop", "keep": "--keep"}


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
    words += [word for pair in wanted.by_column for word in ("--family", "=".join(pair))]
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
    for name, option in _LISTS.items():
        if name in table.reading:
            words += [option, ",".join(table.reading[name])]
    header = table.reading.get("header")
    if isinstance(header, bool):
        words.append("--header" if header else "--no-header")
    elif header is not None:
        words += ["--header-rows", str(header)]
    if "transpose" in table.reading:
        words.append("--transpose" if table.reading["transpose"] else "--no-transpose")
    return words
