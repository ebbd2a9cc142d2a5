"""For models that need every entry: missing ones are refused by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anypca.engine import Block
from anypca.engine._convert import describe_entry
from anypca.models._opened import OpenedBlock, open_block
from anypca.models._session import Session


def check_complete(
    rows: OpenedBlock, model: str, names: Sequence[str] | None = None, remedy: str = "PPCA().fit(X).impute(X)"
) -> None:
    """Raise a ValueError that names the first missing entry and says what to do, if there is one.

    Parameters
    ----------
    rows : OpenedBlock
    model : str
        What needs every entry, for the message.
    names : sequence of str or None
        Names of the columns, for the message.
    remedy : str
        What fills missing entries, for the message.
    """
    if rows.observed is not None:
        row, column = np.unravel_index(int(np.argmin(rows.observed)), rows.observed.shape)
        entry = describe_entry("X", int(rows.numbers[row]), int(column), names)
        raise ValueError(
            f"{entry} is NaN; {model} needs every entry. Drop the rows or columns with missing entries, or fill "
            f"them first: {remedy} does."
        )


def open_complete(block: Block, model: str, names: Sequence[str] | None = None) -> OpenedBlock:
    """The rows of a block, all of whose entries must be there."""
    rows = open_block(block)
    check_complete(rows, model, names)
    return rows


def refuse_missing(session: Session, model: str) -> None:
    """Raise a ValueError that names the first missing entry of the table of a fit, if there is one."""
    names = session.data.feature_names

    def look(block: Block) -> None:
        open_complete(block, model, names)

    if session.data.may_miss:
        session.gather(look)
