"""What sweeps of SePCA's posterior cost."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.models.sepca._problem import VariationalProblem
from anypca.solvers import Loop


@pytest.fixture
def rare_counts():
    """Ten columns of usual counts with three components, and ten in which a few rows have a count."""
    rng = np.random.default_rng(3)
    usual = rng.poisson(np.exp(0.7 * rng.normal(size=(120, 3)) @ rng.normal(size=(3, 10)) + 1.0))
    rare = rng.random((120, 10)) < 0.015
    return np.hstack([usual, rare]).astype(float)


def test_columns_that_overshoot_go_slower_from_then_on(rare_counts, monkeypatch):
    visits, repairs = [], []
    visit, repair = Loop._visit, VariationalProblem.repair

    def counted(self, *args):
        visits.append(1)
        return visit(self, *args)

    def noted(self, *args):
        found = repair(self, *args)
        repairs.append(found is not None)
        return found

    monkeypatch.setattr(Loop, "_visit", counted)
    monkeypatch.setattr(VariationalProblem, "repair", noted)
    model = SePCA(6, family="poisson", dispersion="shared", n_jobs=1).fit(rare_counts)
    assert model.converged_
    assert np.diff(model.objective_trace_).min(initial=0.0) > -1e-9 * abs(model.evidence_)
    assert 0 < sum(repairs) <= 0.08 * len(visits)
