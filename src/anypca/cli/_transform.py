"""``anypca transform``: new rows under a fitted model."""

from __future__ import annotations

from pathlib import Path

from anypca.cli._fitting import Runtime, project
from anypca.cli._folder import align, as_in_fit, open_fitted
from anypca.cli._input_table import TableRequest, load_table
from anypca.cli._json import emit
from anypca.cli._outcome import write_components
from anypca.cli._printing import make_console, print_files, print_input, print_warnings
from anypca.io import check_target, write_atomically


def run_transform(model_path: Path, request: TableRequest, out: Path, runtime: Runtime) -> None:
    """Project the rows of a table with a fitted model; write their scores.

    Parameters
    ----------
    model_path : Path
        A fitted folder, or a model file.
    request : TableRequest
        Offset and covariates are those of the fit unless given.
    out : Path
        The CSV file of the scores.
    runtime : Runtime
    """
    check_target(out.parent, [out.name])
    fitted = open_fitted(model_path)
    table = align(load_table(as_in_fit(request, fitted)), fitted)
    scores, deviations, said = project(fitted.model, table)
    names = {"row": table.frame.row_names}
    write_atomically(out.parent, {out.name: lambda path: write_components(path, scores, deviations, names)})
    name = type(fitted.model).__name__
    if runtime.as_json:
        found = {"model_file": str(fitted.place), "n_components": scores.shape[1]}
        emit("transform", {**table.content(), "model": name, **found, "warnings": said, "file": str(out)})
        return
    console = make_console()
    print_input(table, console, name)
    print_warnings(said, console)
    print_files(out, (), console)
