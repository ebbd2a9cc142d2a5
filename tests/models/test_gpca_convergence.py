"""Penalised GPCA converges."""

from __future__ import annotations

import numpy as np
import pytest
from tests.draws import seed

from anypca import GPCA
from anypca.datasets import make_sparse_counts


@pytest.mark.parametrize("table", [0, 1])
def test_absolute_values_converge_on_sparse_counts(table):
    X = make_sparse_counts(150, 30, 3, n_nonzero=8, random_state=seed(500 + table)).X
    model = GPCA(3, family="poisson", penalty="l1", alpha=0.1, bound=4.0, tol=1e-4, max_iter=5000).fit(X)
    assert model.converged_
    assert np.diff(model.objective_trace_).min() >= -1e-9 * abs(model.objective_trace_[-1])
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)
    assert np.mean(model.components_ == 0) > 0.3
