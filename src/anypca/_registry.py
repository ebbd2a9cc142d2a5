"""Names to objects: the only place where strings are resolved."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from anypca._words import suggest

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of factories by name.

    Parameters
    ----------
    kind : str
        What is registered ("family", "prior"), used in error messages.
    synonyms : dict or None
        Common synonyms of names. They are not accepted, but the error message suggests the name.
    beside : Registry or None
        A second registry; error messages list its names as well.
    """

    def __init__(
        self, kind: str, synonyms: dict[str, str] | None = None, beside: Registry[Any] | None = None
    ) -> None:
        self.kind = kind
        self._beside = beside
        self._synonyms = synonyms or {}
        self._factories: dict[str, Callable[..., T]] = {}

    def register(self, factory: Callable[..., T]) -> Callable[..., T]:
        """Register a class under its ``name`` attribute; usable as a decorator."""
        name = factory.name  # type: ignore[attr-defined]
        self._factories[name] = factory
        return factory

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._factories))

    def __contains__(self, text: object) -> bool:
        """Whether ``create(text)`` would find the name."""
        return isinstance(text, str) and text.lower().partition("(")[0].strip() in self._factories

    def __getitem__(self, name: str) -> Callable[..., T]:
        return self._factories[name]

    def create(self, text: str) -> T:
        """Build the object called ``text``: a name, or a name with one number as in ``"binomial(16)"``.

        Raises
        ------
        ValueError
            If the name is unknown (the message lists the names and suggests the nearest), if a number is given
            to a name that takes none, or if what is given is no number.
        """
        match = re.fullmatch(r"\s*([a-z0-9_]+)\s*(?:\(\s*([^()]*?)\s*\))?\s*", text.lower())
        name = match.group(1) if match else text
        if match is None or name not in self._factories:
            known = sorted([*self._factories, *(self._beside or ())])
            meant = self._synonyms.get(name.lower())
            hint = suggest(name.lower(), known) if meant is None else f"Did you mean {meant!r}?"
            said = f"unknown {self.kind} {text!r}. {hint}".rstrip()
            raise ValueError(f"{said} Choose one of {', '.join(known)}.")
        if match.group(2) is None:
            return self._factories[name]()
        return self._create_with_number(name, match.group(2))

    def _create_with_number(self, name: str, number: str) -> T:
        factory = self._factories[name]
        if not inspect.signature(factory).parameters:
            raise ValueError(f"{self.kind} {name!r} takes no number; got {name}({number}). Write {name!r}.")
        try:
            value = float(number)
        except ValueError:
            raise ValueError(
                f"{number!r} in {name}({number}) is not a number; write one such as {name}(2)."
            ) from None
        return factory(value)
