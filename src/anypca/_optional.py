"""Packages that are not installed along with this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def optional(purpose: str, package: str, extra: str) -> Iterator[None]:
    """Say how to get a package that an import inside of the ``with`` block does not find.

    Parameters
    ----------
    purpose : str
        What needs it, for the message.
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
