"""For models that need every entry: reading rows, and refusing missing ones by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor
from anypca.engine._convert import describe_entry


def complete_rows(block: Block, model: str, names: Sequence[str] | None = None) -> Floats:
    """The entries of a block, (rows, n_features) in its dtype; the caller may overwrite them.

    Parameters
    ----------
    block : Block
    model : str
        Name of the model, for the message.
    names : sequence of str or None
        Names of the columns, for the message.

    Raises
    ------
    ValueError
        If an entry is missing; the message names the first one and says what to do.
    """
    table = block.read()
    if table.observed is not None:
        row, column = np.unravel_index(int(np.argmin(table.observed)), table.observed.shape)
        entry = describe_entry("X", block.start + int(row), int(column), names)
        raise ValueError(
            f"{entry} is NaN; {model} needs every entry. Drop the rows or columns with missing entries, or fill "
            "them first: PPCA().fit(X).impute(X) does."
        )
    return table.x


def refuse_missing(data: Data, executor: Executor, model: str) -> None:
    """Raise a ValueError that names the first missing entry, if there is one."""

    def look(block: Block, _: None) -> tuple[None, float]:
        complete_rows(block, model, data.feature_names)
        return None, 0.0

    if data.may_miss:
        executor.sweep(look, data)
