"""Tables with labels as numbers: what selection does to entries it does to these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.columns import encode, find_labels
from anypca.engine import Data, check_data


def as_numbers(X: Any) -> Any:
    """A table with numbers in place of labels; the same if there are none."""
    return encode(X, find_labels(X))


def check_numbers(X: Any, **companions: Any) -> Data:
    """A table as row blocks, with numbers in place of labels, which it knows."""
    labels = find_labels(X)
    return replace(check_data(encode(X, labels), **companions), labels=labels)


def entries_of(data: Data) -> Floats:
    """All entries of a table, NaN where they are missing, shape (n_samples, n_columns)."""
    return np.concatenate([block.values() for block in data.blocks]).astype(float)
