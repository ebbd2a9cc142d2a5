"""What sweeps of SePCA's posterior cost."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.models._session import open_session
from anypca.models.sepca import _sweeps
from anypca.models.sepca._candidate import first_candidate
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._start import first_state
from anypca.models.sepca._sweeps import Memory, is_time_to_judge, judge, look
from anypca.solvers import Loop


@pytest.fixture
def rare_counts():
    """Ten columns of usual counts with three components, and ten in which a few rows have a count."""
    rng = np.random.default_rng(3)
    usual = rng.poisson(np.exp(0.7 * rng.normal(size=(120, 3)) @ rng.normal(size=(3, 10)) + 1.0))
    rare = rng.random((120, 10)) < 0.015
    return np.hstack([usual, rare]).astype(float)


def test_columns_that_overshoot_go_slower_from_then_on(rare_counts, monkeypatch):
    """Few plain sweeps have columns that go too far, and none is repeated for them."""
    visits, taken = [], []
    visit, tolerated = Loop._visit, VariationalProblem.tolerated

    def counted(self, *args):
        visits.append(1)
        return visit(self, *args)

    def noted(self, shared, proposal, *args):
        taken.append((proposal, tolerated(self, shared, proposal, *args)))
        return taken[-1][1]

    monkeypatch.setattr(Loop, "_visit", counted)
    monkeypatch.setattr(VariationalProblem, "tolerated", noted)
    monkeypatch.setattr(Memory, "leap", lambda memory, to: None)
    model = SePCA(6, family="poisson", dispersion="shared", n_jobs=1).fit(rare_counts)
    assert model.converged_
    assert np.diff(model.objective_trace_).min(initial=0.0) > -1e-9 * abs(model.evidence_)
    assert all(found is not None for _, found in taken)
    assert 0 < sum(found is not proposal for proposal, found in taken) <= 0.08 * len(visits)


def test_states_are_judged_ever_more_rarely():
    assert [looks for looks in range(1, 40) if is_time_to_judge(looks)] == [4, 8, 16, 32]


def test_a_component_at_the_edge_of_noise_leaves_by_evidence():
    # Three real columns in a tall table: the noise of one of them looks like a component for long.
    rng = np.random.default_rng(5)
    eta = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 9))
    table = np.hstack([eta[:, :6] + rng.normal(size=(3000, 6)), rng.poisson(np.exp(0.5 * eta[:, 6:]))])
    model = SePCA(family=["gaussian"] * 6 + ["poisson"] * 3, n_jobs=1).fit(table)
    assert model.n_components_ == 2
    assert any(removal.reason == "evidence" for removal in model.pruning_path_)


def test_a_state_is_judged_once(rare_counts, monkeypatch):
    """What the coupling adds takes as long as a sweep; sweeps make a judged state a new one."""
    calls = []
    gathered = _sweeps.coupling_sums
    monkeypatch.setattr(_sweeps, "coupling_sums", lambda state: calls.append(1) or gathered(state))
    with open_session(check_data(rare_counts), 1, max_iter=50, tol=1e-4) as session:
        candidate = first_candidate(session, resolve_family("poisson", 20), Settings(2))
        state = judge(look(first_state(candidate, 0)))
        assert judge(state) is state
        assert len(calls) == 1
        assert look(state).coupling == 0.0
        assert state.moved(state.loadings, state.local).coupling == 0.0
