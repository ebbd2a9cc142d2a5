"""The command line ``anypca``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``anypca``; those of the process if not given.

    Returns
    -------
    code : int
        0 on success, 2 on an error (told in one line on stderr), 130 after Ctrl-C.
    """
    try:
        from anypca.cli._app import run
    except ModuleNotFoundError as error:
        # Only the libraries of the extra: a missing module of our own is a fault to be seen in full.
        library = (error.name or "").partition(".")[0]
        if library not in {"typer", "rich", "pandas", "matplotlib"}:
            raise
        sys.stderr.write(
            f"error: the command line needs {library}; install it with pip install 'anypca[cli]'\n"
        )
        return 2
    except KeyboardInterrupt:
        return 130
    return run(arguments)
