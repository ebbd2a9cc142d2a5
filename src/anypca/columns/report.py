"""The families of a table's columns, and the reasons for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anypca._words import listed

#: Lead in nats below which a choice is unsure: odds of twenty to one.
CLEAR = 3.0
#: The reason of families that a user chose.
GIVEN = "given"
#: Reports of more columns than this, which is about a screen, are printed by groups.
_LINES = 20


class FamilyRecord(NamedTuple):
    """The family of one column, and the reason."""

    column: str
    """Name of the column, or its number."""
    family: str
    """Name of the family in the registry."""
    reason: str
    """The reason with the numbers it rests on, as a sentence."""
    rule: str
    """The rule that was applied, the same for all columns it was applied to."""
    kind: str = ""
    """What a user would call the values: counts, ratings, amounts, real numbers, shares, yes/no, categories, or
    ``excluded`` if the column is not in the model."""
    lead: float = np.inf
    """By how many nats the family is ahead of the runner-up; infinite if no likelihoods were compared."""
    runner_up: str = ""
    """The next best family."""

    @property
    def doubt(self) -> str:
        """The lead and the runner-up of an unsure choice in words; empty if it is sure."""
        return f"{self.lead:.1f} nats ahead of {self.runner_up}" if self.is_unsure else ""

    @property
    def is_unsure(self) -> bool:
        """Whether the values hardly distinguish the family from the runner-up."""
        return self.lead < CLEAR


class FamilyGroup(NamedTuple):
    """Columns that have the same family by the same rule."""

    columns: tuple[str, ...]
    family: str
    rule: str


class FamilyReport(tuple[FamilyRecord, ...]):
    """The families of all columns, in their order; ``str()`` gives a table.

    Many columns are printed by groups, one line for each family and rule.
    """

    __slots__ = ()

    def __str__(self) -> str:
        rows: Sequence[tuple[str, ...]] = [record[:3] for record in self]
        if len(self) > _LINES:
            rows = [
                (f"{listed(names, 3)} ({len(names)} columns)" if len(names) > 3 else listed(names), *rest)
                for names, *rest in self.groups()
            ]
        rows = [("column", "family", "reason"), *rows]
        first, second = (max(len(row[place]) for row in rows) for place in range(2))
        return "\n".join(f"{row[0]:<{first}}  {row[1]:<{second}}  {row[2]}" for row in rows)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Columns that are not in the model."""
        return tuple(record.column for record in self if record.family == "excluded")

    @property
    def unsure(self) -> tuple[str, ...]:
        """Columns whose values hardly distinguish the family from the next best one."""
        return tuple(record.column for record in self if record.is_unsure)

    def groups(self) -> list[FamilyGroup]:
        """Return columns that have the same family by the same rule, in order of appearance."""
        found: dict[tuple[str, str], list[str]] = {}
        for record in self:
            found.setdefault((record.family, record.rule), []).append(record.column)
        return [FamilyGroup(tuple(names), family, rule) for (family, rule), names in found.items()]
