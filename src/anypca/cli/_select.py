"""``anypca select``: how many components."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from anypca._words import counted
from anypca.cli._fitting import Runtime, caught, make_model, shown_bar
from anypca.cli._input_table import InputTable, TableRequest, drop_constant, load_table
from anypca.cli._json import document, dump, emit
from anypca.cli._models import ModelRequest, find_model
from anypca.cli._printing import make_console, make_table, print_files, print_input, print_warnings
from anypca.io import check_target, write_atomically
from anypca.plotting import save_figure
from anypca.selection import EntryKFold, select_rank

#: Shorter heads of the printed table.
_HEADS = {"n_components": "left", "standard_error": "± se", "marginal_bic": "marginal"}
_FILES = ("selection.csv", "selection.json", "selection.png")


def run_select(
    table_request: TableRequest,
    request: ModelRequest,
    ranks: Sequence[int] | None,
    runtime: Runtime,
    *,
    criterion: str = "auto",
    n_folds: int = 10,
    folder: Path | None = None,
) -> None:
    """Choose the number of components of a model and print the criteria.

    Parameters
    ----------
    table_request : TableRequest
    request : ModelRequest
    ranks : sequence of int or None
        Numbers to compare; None: 1 to 10, or less if the table is small.
    runtime : Runtime
    criterion : str
        As in `anypca.selection.select_rank`; ``"auto"``: the evidence of models that have one, else BIC.
    n_folds : int
        For held-out cells.
    folder : Path or None
        Where to write the table and a picture; None: nowhere.
    """
    if folder is not None:
        check_target(folder, _FILES)
    table = drop_constant(load_table(table_request))
    model = make_model(request, table, runtime)
    if criterion == "auto":
        criterion = "evidence" if find_model(request.name).chooses_rank else "bic"
    with caught() as said, shown_bar(runtime, "selecting"):
        result = select_rank(
            model,
            table.as_input(),
            ranks=ranks,
            criterion=criterion,
            cv=EntryKFold(n_folds, random_state=request.seed),
            **table.companions(model),
        )
    content = _content(table, request, result, said)
    if folder is not None:
        write_atomically(folder, {name: _writer(name, result, content) for name in _FILES})
    if runtime.as_json:
        emit("select", content)
    else:
        _print_result(table, result, content, folder)


def _content(table: InputTable, request: ModelRequest, result: Any, said: Sequence[str]) -> dict[str, Any]:
    return {
        **table.content(),
        "model": find_model(request.name).class_name,
        "seed": request.seed,
        "warnings": list(said),
        "criterion": result.criterion,
        "best_rank": result.best_rank,
        "n_components": int(result.best_estimator_.n_components_),
        "ranks": list(result.rows),
    }


def _writer(name: str, result: Any, content: dict[str, Any]) -> Any:
    return {
        "selection.csv": lambda path: result.to_frame().to_csv(path, float_format="%.10g"),
        "selection.json": lambda path: path.write_text(dump(document("select", content)), encoding="utf-8"),
        "selection.png": lambda path: save_figure(result.plot(), path),
    }[name]


def _print_result(table: InputTable, result: Any, content: dict[str, Any], folder: Path | None) -> None:
    console = make_console()
    print_input(table, console, content["model"])
    # The criterion that decides stands beside the rank.
    first = ["rank", "n_components", result.criterion]
    unprinted = {*first, "log_likelihood", "n_parameters", "converged", "l_miss"}
    heads = [*first, *(name for name in result.rows[0] if name not in unprinted), "converged"]
    heads = [head for head in heads if head in result.rows[0]]
    rows = [[_cell(row[head]) for head in heads] for row in result.rows]
    console.print(
        make_table(
            ["", *(_HEADS.get(head, head) for head in heads)],
            [_marked(row, result) for row in rows],
            right=heads,
        )
    )
    left = content["n_components"]
    found = counted(left, "component") + (
        "" if left == result.best_rank else f" of at most {result.best_rank}"
    )
    best = f"{found} by {result.label} (lower is better)"
    console.print(Text(best, style="green"), soft_wrap=True)
    print_warnings(content["warnings"], console)
    if folder is not None:
        print_files(folder, _FILES, console)


def _marked(row: list[str], result: Any) -> list[str]:
    return [">" if row[0] == str(result.best_rank) else "", *row]


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"
