"""The experiment on AnnData, in its reduced form."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from experiments._common import Options

pytest.importorskip("anndata")

from experiments import scverse_pbmc


@pytest.mark.skipif(
    not Path(os.environ.get("ANYPCA_DATA", "") or "/nonexistent").is_dir(),
    reason="ANYPCA_DATA names no folder of data files",
)
def test_quick_form_meets_its_targets():
    outcome = scverse_pbmc.run(Options(quick=True))
    assert [target.as_text() for target in outcome.targets if not target.is_met] == []
    assert len(outcome.tables[0].rows) == 3


def test_the_usual_preparation():
    from scipy import sparse

    counts = np.array([[1.0, 3.0, 0.0], [2.0, 0.0, 6.0], [4.0, 4.0, 0.0]])
    prepared = scverse_pbmc.log_normalise(sparse.csr_matrix(counts)).toarray()
    np.testing.assert_allclose(np.expm1(prepared).sum(axis=1), 8.0)
    mask = scverse_pbmc.find_variable(sparse.csr_matrix(prepared), 2)
    np.testing.assert_array_equal(mask, np.isin(np.arange(3), np.argsort(-prepared.var(axis=0))[:2]))
