"""Choices made from the data."""

from __future__ import annotations

from anypca.selection.auto_family import (
    ColumnFacts,
    FamilyChoice,
    FamilyRecord,
    FamilyReport,
    infer_families,
)

__all__ = ["ColumnFacts", "FamilyChoice", "FamilyRecord", "FamilyReport", "infer_families"]
