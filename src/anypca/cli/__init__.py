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
        The words after ``anypca``; by default, of the process.

    Returns
    -------
    code : int
        0 on success, 2 on an error (one line on stderr), 130 after Ctrl-C, 143 after the signal TERM.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:
        return _say_version()
    # Whatever is slow to import comes after the first signal can be heard.
    from anypca.cli._stopping import SIGTERM, Terminated, say_stopped, terminable

    with terminable():
        try:
            return _run(words)
        except KeyboardInterrupt:
            return say_stopped()
        except Terminated:
            return say_stopped(SIGTERM)


def _say_version() -> int:
    """Answer without the libraries that the commands need."""
    from anypca import __version__

    sys.stdout.write(f"anypca {__version__}\n")
    return 0


def _run(words: Sequence[str]) -> int:
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
    return run(words)
