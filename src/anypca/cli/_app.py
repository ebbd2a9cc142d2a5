"""Commands, options and errors of the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import anypca
from anypca.cli import _options as options
from anypca.cli._requests import ModelRequest, Runtime, TableRequest
from anypca.cli._stopping import INTERRUPTED, say_stopped

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: Error of typer for invalid options; its module differs between versions of typer.
_UsageError: Any = typer.BadParameter.__base__
#: Exceptions of the package on invalid input. Other exceptions are bugs and keep their traceback.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)
_EPILOG = (
    "Exit codes: 0 done (a fit that did not converge is reported, and is no error); 2 an error, in one line on "
    "stderr, nothing written; 130 stopped by Ctrl-C, 143 by the signal TERM, nothing written but a checkpoint; 1 a "
    "fault of anypca, with its traceback."
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and print errors in one line.

    Parameters
    ----------
    arguments : sequence of str, optional

    Returns
    -------
    code : int
    """
    try:
        code = app(args=arguments, prog_name="anypca", standalone_mode=False, obj=list(arguments or []))
    except _UsageError as error:
        return _complain(f"{error.format_message().rstrip('.')}. See anypca --help.")
    except typer.Abort:
        code = INTERRUPTED
    except MemoryError as error:
        return _complain(f"not enough memory ({error}). Use fewer components or a sparse file.")
    except _EXPECTED as error:
        if type(error).__name__ == "LinAlgError":
            raise  # a subclass of ValueError, but a failure of a solver, not an invalid input
        return _complain(str(error) or type(error).__name__)
    # Versions of typer raise different exceptions on Ctrl-C.
    if code == INTERRUPTED:
        return say_stopped()
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return 2


def _run(name: str, *arguments: Any, **options: Any) -> None:
    """Call a function of the commands, which import the libraries that the help does not need."""
    from anypca.cli import _commands, _compare

    home = _commands if hasattr(_commands, name) else _compare
    getattr(home, name)(*arguments, **options)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anypca {anypca.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=_EPILOG)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """PCA for any data: counts, yes/no answers, positive amounts, missing cells and mixtures of them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _command(context: typer.Context) -> str:
    """The command as a line for a shell."""
    return shlex.join(["anypca", *context.obj])


def _stem(request: TableRequest) -> str:
    """Name of a file without its endings."""
    return Path(request.source).name.split(".")[0]


@app.command()
@options.reads_table
def fit(
    request: TableRequest,
    context: typer.Context,
    model: options.Model = "auto",
    family: options.Family = None,
    components: options.Components = None,
    out: options.Folder = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    dask: options.Dask = None,
    checkpoint: options.Checkpoint = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
    bar: options.Bar = None,
    force: options.Force = False,
    raw: options.Raw = False,
) -> None:
    """Fit a model to a table; write scores, loadings, a summary, pictures, the model and a report."""
    options.check_dask(dask, threads)
    wanted = options.request_model(model, family, components, seed, threads, settings)
    folder = Path(f"anypca-{_stem(request)}") if out is None else out
    _run(
        "run_fit",
        request,
        wanted,
        folder,
        Runtime(as_json, bar, dask, force, raw, checkpoint, _command(context)),
    )


@app.command()
@options.reads_table
def transform(
    request: TableRequest,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a fit, or its model.anypca.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV file for the scores.", show_default="scores-<TABLE>.csv"),
    ] = None,
    as_json: options.Json = False,
    force: options.Force = False,
    raw: options.Raw = False,
) -> None:
    """Project new rows with a fitted model; columns are found by name, offset and covariates as in the fit."""
    target = Path(f"scores-{_stem(request)}.csv") if out is None else out
    _run("run_transform", model, request, target, Runtime(as_json, force=force, raw=raw))


@app.command()
@options.reads_table
def select(
    request: TableRequest,
    model: options.Model = "epca",
    family: options.Family = None,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="RANKS", help="Numbers to compare, as 1-8 or 1,2,5.", show_default="1-10"),
    ] = None,
    criterion: Annotated[
        str,
        typer.Option(
            help="bic, aic, mdl, icl, marginal_bic, evidence or held_out; auto: evidence, else bic."
        ),
    ] = "auto",
    folds: Annotated[int, typer.Option(min=2, help="Folds of cells, for held_out.")] = 10,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Ask several methods, each with its own criterion, side by side."),
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="With --compare: methods, separated by commas.", show_default="all"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the table and a picture.", show_default="none"),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
    bar: options.Bar = None,
    force: options.Force = False,
) -> None:
    """Choose the number of components of a model by a criterion or by held-out cells."""
    wanted = options.request_model(model, family, None, seed, threads, settings)
    names, largest = options.names(methods), options.ranks(ranks)
    runtime = Runtime(as_json, bar, force=force)
    if compare:
        _run("run_compare_ranks", request, wanted, names, largest, runtime, folder=out)
        return
    if names:
        raise ValueError("--methods needs --compare; for a single model use --model and --criterion.")
    _run(
        "run_select",
        request,
        wanted,
        largest,
        runtime,
        criterion=criterion,
        n_folds=folds,
        folder=out,
    )


@app.command()
@options.reads_table
def compare(
    request: TableRequest,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "--models",
            metavar="NAMES",
            help="Models, separated by commas.",
            show_default="those that suit",
        ),
    ] = None,
    family: options.Family = None,
    components: Annotated[
        int | None,
        typer.Option(
            "--components", "-k", min=1, help="Number of components.", show_default="what sepca chooses"
        ),
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="How often a tenth of the cells is held out.")] = 1,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    as_json: options.Json = False,
    bar: options.Bar = None,
) -> None:
    """Fit several models; print held-out log-likelihood per cell, dimension, sparsity and time."""
    wanted = options.request_model("auto", family, components, seed, threads)
    _run("run_compare", request, wanted, options.names(models), Runtime(as_json, bar), n_splits=splits)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a fit.")],
    table: Annotated[
        str | None, typer.Option("--table", help="The table of the fit, if it has moved.", metavar="TABLE")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write report.html into the folder of a fit."""
    _run("run_report", folder, table, Runtime(as_json))


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1.", show_default="free")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Largest file in megabytes.")] = 500,
) -> None:
    """Open a page on this machine where a file is dropped, looked at and fitted."""
    from anypca.cli._serve import serve as answer  # starlette and uvicorn are optional

    answer(port, limit * 1_000_000)


@app.command()
def datasets(as_json: options.Json = False) -> None:
    """List the data sets, and whether their files are found."""
    _run("run_datasets", as_json=as_json)


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("anypca-demo"),
    components: Annotated[int, typer.Option("--components", "-k", min=1, help="Number of components.")] = 2,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    bar: options.Bar = None,
    force: options.Force = False,
) -> None:
    """Do what fit does with 1797 handwritten digits (counts from 0 to 16), under a firm ridge."""
    wanted = ModelRequest("epca", "binomial(16)", components, seed, settings={"ridge": 30.0})
    runtime = Runtime(as_json, bar, force=force, command=_command(context))
    _run("run_fit", TableRequest("digits_counts"), wanted, out, runtime, command="demo")
