"""Families are chosen in at most two passes over a table, wherever it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from anypca.engine import Block, check_data
from anypca.models._session import open_session, read_family

N, P, ROWS = 60, 6, 20


def containers(X: np.ndarray, folder: Path) -> dict[str, Any]:
    np.save(folder / "table.npy", X)
    return {
        "memory": X,
        "sparse": sp.csr_array(X),
        "memmap": np.load(folder / "table.npy", mmap_mode="r"),
        "dask": da.from_array(X, chunks=(ROWS, P)),
    }


@pytest.mark.parametrize("kind", ["memory", "sparse", "memmap", "dask"])
def test_two_passes(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.poisson(2.0, (N, 3)), rng.normal(size=(N, 2)), rng.integers(1, 6, N)]).astype(
        float
    )
    reads: Counter[int] = Counter()
    for name in ("values", "matrix"):
        read = getattr(Block, name)

        def counted(block: Block, read: Any = read) -> Any:
            reads[block.start] += 1
            return read(block)

        monkeypatch.setattr(Block, name, counted)
    data = check_data(containers(X, tmp_path)[kind], block_rows=ROWS)
    with open_session(data, 1) as session:
        choice = read_family("auto", session)
    assert choice.report is not None
    assert set(reads) == {0, ROWS, 2 * ROWS}
    assert max(reads.values()) <= 2
