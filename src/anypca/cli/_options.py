"""Options that several commands share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from anypca.cli._models import MODELS, find_model, parse_settings
from anypca.cli._requests import ModelRequest, TableRequest

_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_BY_COLUMN = re.compile(r"([^()]+)=(.+)")
_CHOICES = "|".join(MODELS)


def _check_model(name: str) -> str:
    try:
        find_model(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return name


_MODEL_HELP = "; ".join(f"{name}: {entry.summary}" for name, entry in MODELS.items())

Source = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="csv, tsv, txt, xlsx, parquet, npz, npy, mtx or h5ad, also gzipped, or the name of a data set. Rows are "
        "samples.",
    ),
]
Model = Annotated[str, typer.Option(metavar=_CHOICES, callback=_check_model, help=f"{_MODEL_HELP}.")]
Family = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FAMILY|COLS=FAMILY",
        help="Family of all columns, as poisson or binomial(16), or of some, as 'Q*=ordinal'; repeatable. auto looks "
        "at each column.",
        show_default="auto",
    ),
]
Components = Annotated[
    int | None,
    typer.Option(
        "--components",
        "-k",
        min=1,
        help="Number of components; the most for models that choose.",
        show_default="chosen, or 2",
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for the results.", show_default="anypca-<TABLE>")
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column with a known part of the predictor; 'log(COL)' takes its logarithm first."
    ),
]
Covariates = Annotated[
    list[str] | None, typer.Option(metavar="COLS", help="Columns of known influences, separated by commas.")
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="COL", help="Column of row names.", show_default="found")
]
Missing = Annotated[
    str | None, typer.Option("--na", metavar="VALUES", help="Further cells that mean missing, as -9,unknown.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the start; the same seed gives the same files.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads.", show_default="all cores")]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Fit on a Dask cluster, as tcp://127.0.0.1:8786.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File for the progress of the fit; after a kill or Ctrl-C the same command continues.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Further parameter of the estimator, as n_pieces=3; repeatable."
    ),
]
Delimiter = Annotated[str | None, typer.Option(help="Cell separator of a text file.", show_default="found")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of a text file.", show_default="found")]
Header = Annotated[
    bool | None, typer.Option(help="Whether a text file's first line holds names.", show_default="found")
]
HeaderRows = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Rows of column names.", show_default="found")
]
Skip = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Lines to leave out at the top.", show_default="found"),
]
Comment = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What comment lines begin with; '' for none.", show_default="#"),
]
Part = Annotated[
    str | None, typer.Option(metavar="NAME", help="Sheet of an xlsx, layer of an h5ad, array of an npz file.")
]
Transpose = Annotated[
    bool | None,
    typer.Option(help="Whether the columns of the file are the samples.", show_default="found"),
]
Columns = Annotated[
    list[str] | None, typer.Option(metavar="COLS", help="Columns to read, as names or patterns: age,'Q*'.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLS", help="Columns to leave out, as names or patterns.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS", help="Columns that are amounts although they look like labels, years or hold 99."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document in place of the account.")]
Bar = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="A progress bar.", show_default="on a terminal"),
]

Force = Annotated[
    bool, typer.Option("--force", help="Replace files that anypca did not write, or that have changed since.")
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Write names as they are, also those that a spreadsheet takes for formulas."),
]


def request_table(
    table: Source,
    offset: Offset = None,
    covariates: Covariates = None,
    id_column: Id = None,
    na: Missing = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    header: Header = None,
    header_rows: HeaderRows = None,
    skip: Skip = None,
    comment: Comment = None,
    part: Part = None,
    transpose: Transpose = None,
    columns: Columns = None,
    drop: Drop = None,
    keep: Keep = None,
) -> TableRequest:
    """The table that a user wants; of the arguments of `anypca.io.read_table` those that were given."""
    given = {
        "delimiter": delimiter,
        "decimal": decimal,
        "header": header if header_rows is None else header_rows,
        "skip": skip,
        "comment": comment,
        "id_column": id_column,
        "missing": None if na is None else tuple(word.strip() for word in na.split(",")),
        "part": part,
        "transpose": transpose,
        "columns": names(columns) or None,
        "drop": names(drop) or None,
        "keep": names(keep) or None,
    }
    reading = {name: value for name, value in given.items() if value is not None}
    return TableRequest(table, reading, offset, names(covariates))


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument and the options of `request_table` in place of its parameter ``request``.

    Parameters
    ----------
    command : callable
        Its first parameter is a `TableRequest` called ``request``.

    Returns
    -------
    callable
        For typer, which reads the options from the signature.
    """
    own = dict(inspect.signature(command, eval_str=True).parameters)
    shared = inspect.signature(request_table, eval_str=True).parameters
    del own["request"]

    @wraps(command)
    def run(**given: Any) -> None:
        command(request_table(**{name: given.pop(name) for name in shared}), **given)

    parameters = [part.replace(kind=part.KEYWORD_ONLY) for part in (*own.values(), *shared.values())]
    run.__annotations__ = {part.name: part.annotation for part in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def request_model(
    name: str,
    family: list[str] | None,
    n_components: int | None,
    seed: int,
    threads: int | None,
    settings: list[str] | None = None,
) -> ModelRequest:
    """The model that a user wants."""
    one, by_column = families(family)
    parsed = parse_settings(settings or [])
    return ModelRequest(name, one, n_components, seed, threads, parsed, by_column)


def families(given: list[str] | None) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The family of all columns, and the families of columns by name or pattern.

    Parameters
    ----------
    given : list of str or None
        Such as ``["poisson", "Q*=ordinal"]``.

    Returns
    -------
    family : str
    by_column : tuple of (str, str)
        Patterns and families.
    """
    words = given or []
    # Arguments of a family have an equals sign too, within parentheses.
    pairs = [match.groups() for match in map(_BY_COLUMN.fullmatch, words) if match]
    single = [word for word in words if not _BY_COLUMN.fullmatch(word)]
    if len(single) > 1:
        raise ValueError(f"--family names one family for all columns; got {' and '.join(single)}.")
    return single[0] if single else "auto", tuple((columns.strip(), name.strip()) for columns, name in pairs)


def names(given: list[str] | None) -> tuple[str, ...]:
    """Names separated by commas, also from a repeated option.

    Parameters
    ----------
    given : list of str or None

    Returns
    -------
    names : tuple of str
    """
    return tuple(name.strip() for words in given or [] for name in words.split(",") if name.strip())


def ranks(text: str | None) -> list[int] | None:
    """Numbers of components from words such as ``1-8`` or ``1,2,5``.

    Parameters
    ----------
    text : str or None

    Returns
    -------
    ranks : list of int or None
    """
    if text is None:
        return None
    found: set[int] = set()
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise ValueError(f"--ranks needs numbers and ranges, as 1-8 or 1,2,5; got {text!r}.")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(found)


def check_dask(dask: str | None, threads: int | None) -> None:
    """Refuse threads on a cluster, whose workers have their own.

    Parameters
    ----------
    dask : str or None
    threads : int or None
    """
    if dask is not None and threads is not None:
        raise ValueError(
            "--threads has no effect with --dask: the workers have their own threads. Leave it out."
        )
