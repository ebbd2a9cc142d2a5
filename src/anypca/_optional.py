"""Imports of optional dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def optional(purpose: str, package: str, extra: str) -> Iterator[None]:
    """Add installation instructions to import errors of the ``with`` block.

    Parameters
    ----------
    purpose : str
        Purpose of the package, for the message.
    package : str
        Its name.
    extra : str
        The extra of this package that brings it.
    """
    try:
        yield
    except ImportError as error:
        install = f"install it with pip install 'anypca[{extra}]'"
        raise ImportError(f"{purpose} needs {package}; {install}.") from error
