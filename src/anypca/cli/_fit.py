"""``anypca fit`` and ``anypca demo``: from a table to a folder of results."""

from __future__ import annotations

from pathlib import Path

from anypca.cli._fitting import Runtime, fit_model, project
from anypca.cli._input_table import InputTable, TableRequest, drop_constant, load_table
from anypca.cli._json import emit
from anypca.cli._models import ModelRequest
from anypca.cli._outcome import FILES, Outcome
from anypca.cli._printing import make_console, print_files, print_outcome
from anypca.io import check_target, write_atomically


def run_fit(
    table_request: TableRequest,
    model_request: ModelRequest,
    folder: Path,
    runtime: Runtime,
    *,
    command: str = "fit",
) -> None:
    """Read a table, fit, write, print.

    Parameters
    ----------
    table_request : TableRequest
    model_request : ModelRequest
    folder : Path
        For the results.
    runtime : Runtime
    command : str
        What the user called.
    """
    # What cannot be written, or no model can be made of, is better known before a long fit.
    check_target(folder, FILES)
    table = drop_constant(load_table(table_request))
    outcome = _fit_outcome(table, model_request, runtime, table_request)
    files = outcome.writers()
    write_atomically(folder, files)
    # Only now: an account of files that do not exist would be false.
    if runtime.as_json:
        emit(command, {**outcome.summary(), "folder": str(folder)})
        return
    console = make_console()
    print_outcome(outcome, console)
    print_files(folder, list(files), console)


def run_demo(model_request: ModelRequest, folder: Path, runtime: Runtime) -> None:
    """Fit scikit-learn's digits and do what `run_fit` does.

    Parameters
    ----------
    model_request : ModelRequest
    folder : Path
    runtime : Runtime
    """
    run_fit(TableRequest("digits_counts"), model_request, folder, runtime, command="demo")


def _fit_outcome(
    table: InputTable, request: ModelRequest, runtime: Runtime, table_request: TableRequest
) -> Outcome:
    """Fit a model and project the rows."""
    fit = fit_model(request, table, runtime)
    scores, deviations, said = project(fit.model, table)
    # The same warning from fit and transform is one warning to a reader.
    warnings = tuple(dict.fromkeys([*fit.warnings, *said]))
    return Outcome(fit.model, table, scores, deviations, warnings, request, table_request)
