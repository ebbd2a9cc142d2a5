"""``anypca select --compare``: what several methods say of the number of components."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from anypca.cli._fitting import Runtime, caught, shown_bar
from anypca.cli._input_table import InputTable, TableRequest, drop_constant, load_table
from anypca.cli._models import ModelRequest
from anypca.cli._printing import (
    dump,
    emit,
    make_console,
    make_table,
    print_files,
    print_input,
    print_warnings,
)
from anypca.io import write_atomically
from anypca.io.atomic import check_own
from anypca.plotting import save_figure
from anypca.selection import RankComparison, compare_ranks

#: What ``anypca select`` writes into a folder.
SELECTION_FILES = ("selection.csv", "selection.json", "selection.png")


def run_compare_ranks(
    table_request: TableRequest,
    request: ModelRequest,
    methods: Sequence[str],
    ranks: Sequence[int] | None,
    runtime: Runtime,
    *,
    folder: Path | None = None,
) -> None:
    """Ask several methods for the number of components and print their answers.

    Parameters
    ----------
    table_request : TableRequest
    request : ModelRequest
        Its family and seed are used.
    methods : sequence of str
        Names; empty: all.
    ranks : sequence of int or None
        The largest is the largest answer; None: 10, or less if the table is small.
    runtime : Runtime
    folder : Path or None
        Where to write the table and a picture; None: nowhere.
    """
    if folder is not None:
        check_own(folder, SELECTION_FILES, force=runtime.force)
    table = drop_constant(load_table(table_request))
    with caught() as said, shown_bar(runtime, "comparing"):
        result = compare_ranks(
            table.as_input(),
            list(methods) or None,
            family=request.family,
            max_rank=None if ranks is None else max(ranks),
            offset=table.offset,
            covariates=table.covariates,
            random_state=request.seed,
        )
    answers = [answer._asdict() for answer in result.answers]
    content = {
        **table.content(),
        "family": result.family,
        "seed": request.seed,
        "warnings": list(said),
        "methods": answers,
    }
    if folder is not None:
        write_selection(folder, result, content)
    if runtime.as_json:
        emit("select", content)
    else:
        _print(table, result, said, folder)


def write_selection(folder: Path, result: Any, content: dict[str, Any]) -> None:
    """Write the table, the content and the picture of a comparison of ranks.

    Parameters
    ----------
    folder : Path
    result : RankComparison or SelectionResult
        With ``to_frame`` and ``plot``.
    content : dict
        Of the JSON file.
    """
    writers: tuple[Any, ...] = (
        lambda path: result.to_frame().to_csv(path, float_format="%.10g"),
        lambda path: path.write_text(dump("select", content), encoding="utf-8"),
        lambda path: save_figure(result.plot(), path),
    )
    write_atomically(folder, dict(zip(SELECTION_FILES, writers, strict=True)))


def _print(table: InputTable, result: RankComparison, said: Sequence[str], folder: Path | None) -> None:
    console = make_console()
    print_input(table, console)
    heads = ("method", "what", "components", "seconds")
    rows = [
        (
            answer.method,
            label,
            "-" if answer.rank is None else str(answer.rank),
            "-" if answer.rank is None else f"{answer.seconds:.2f}",
        )
        for answer, label in zip(result.answers, result.labels, strict=True)
    ]
    console.print(make_table(heads, rows, right=heads[2:]))
    for answer in result.answers:
        if answer.remark:
            console.print(Text(f"{answer.method}: {answer.remark}", style="dim"), soft_wrap=True)
    print_warnings(said, console)
    if folder is not None:
        print_files(folder, SELECTION_FILES, console)
