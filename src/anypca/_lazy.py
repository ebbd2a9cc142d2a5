"""Public names of packages, with lazy imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from sys import modules
from types import ModuleType
from typing import Any


def public(namespace: Mapping[str, Any]) -> list[str]:
    """Return the public names in a namespace, for ``__all__`` of an ``__init__``.

    Parameters
    ----------
    namespace : mapping
        Globals of the package.

    Returns
    -------
    names : list of str
        Sorted, without modules and names with a leading underscore.
    """
    names = (name for name, value in namespace.items() if not isinstance(value, ModuleType))
    return sorted(name for name in names if not name.startswith("_"))


def attach(
    package: str, names: Mapping[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package with lazy imports.

    Parameters
    ----------
    package : str
        Its name.
    names : mapping of str to str
        For each public name the module that defines it.
    submodules : iterable of str
        Names of modules of the package.

    Returns
    -------
    get, list : callable
    """
    parts = frozenset(submodules)

    def get(name: str) -> Any:
        if name in parts:
            return import_module(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(names[name]), name)
        # Cache: later look-ups bypass this function.
        setattr(modules[package], name, value)
        return value

    def list_all() -> list[str]:
        return sorted({*vars(modules[package]), *names, *parts})

    return get, list_all
