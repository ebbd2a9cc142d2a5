"""Commands, options and errors of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.linalg import LinAlgError

import anypca
from anypca.cli._run import Job, run_demo, run_fit

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: What typer raises for options it does not understand; its place moved between versions of typer.
_UsageError: Any = typer.BadParameter.__base__
#: What our own code raises on bad input. Anything else is a fault and keeps its traceback.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)


class Model(StrEnum):
    """The models by their names on the command line."""

    epca = "epca"
    ppca = "ppca"


Components = Annotated[int, typer.Option("--components", "-k", min=1, help="Number of components.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the start; the same seed gives the same files.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show a progress bar.")]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and tell errors in one line.

    Parameters
    ----------
    arguments : sequence of str, optional

    Returns
    -------
    code : int
    """
    try:
        code = app(args=arguments, prog_name="anypca", standalone_mode=False)
    except _UsageError as error:
        return _complain(f"{error.format_message().rstrip('.')}. See anypca --help.")
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except MemoryError as error:
        return _complain(f"not enough memory ({error}). Use fewer components or a sparse file.")
    except LinAlgError:
        # A ValueError by descent, but a fault of a solver and not of the input.
        raise
    except _EXPECTED as error:
        return _complain(str(error) or type(error).__name__)
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return 2


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anypca {anypca.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """PCA for any data: counts, yes/no answers, positive amounts, missing cells and mixtures of them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def fit(
    file: Annotated[
        Path, typer.Argument(help="Table: csv, tsv, txt, parquet, npz, npy or mtx. Rows are samples.")
    ],
    family: Annotated[
        str,
        typer.Option(help="Family of all columns, as poisson or binomial(16); auto looks at each column."),
    ] = "auto",
    components: Components = 2,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the results.", show_default="anypca-<FILE>")
    ] = None,
    model: Annotated[Model, typer.Option(help="epca: any family; ppca: real values only.")] = Model.epca,
    seed: Seed = 0,
    verbose: Verbose = False,
    delimiter: Annotated[
        str | None, typer.Option(help="Cell separator of a text file.", show_default="found")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal sign of a text file.", show_default="found")
    ] = None,
    header: Annotated[
        bool | None, typer.Option(help="Whether a text file's first line holds names.", show_default="found")
    ] = None,
) -> None:
    """Fit a model to the table in FILE; write scores, loadings, a summary and pictures."""
    folder = Path(f"anypca-{file.name.split('.')[0]}") if out is None else out
    job = Job(model.value, family, components, folder, seed, verbose)
    run_fit(file, job, delimiter=delimiter, decimal=decimal, header=header)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("anypca-demo"),
    components: Components = 2,
    seed: Seed = 0,
    verbose: Verbose = False,
) -> None:
    """Fit 1797 handwritten digits (counts from 0 to 16); write what fit writes and a report.html."""
    run_demo(Job("epca", "auto", components, out, seed, verbose))
