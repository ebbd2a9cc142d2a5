"""Extrapolated sweeps, and losses of single columns that are taken for the sake of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric
from anypca.models.sepca._leaps import Memory
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._problem import VariationalProblem


def loadings(mean, k):
    """A posterior of columns with unit precisions."""
    p, m = mean.shape
    return Loadings(
        mean, np.tile(pack_symmetric(np.eye(m)), (p, 1)), np.ones(k), np.ones(p), np.zeros((p, m - k))
    )


def walk(n_steps, mapping, seed=0, rates=(0.5, 0.95)):
    """A memory of a linear iteration with a known end, each step of which ends in new coordinates; that end."""
    rng = np.random.default_rng(seed)
    end, here = rng.normal(size=(2, 5, 3))
    rates = np.array(rates).repeat(8)[:15].reshape(5, 3)
    memory, turned = Memory(), np.eye(3)
    for _ in range(n_steps):
        turned = mapping @ turned
        to = end + rates * (here - end)
        # The memory sees both sides in the coordinates that each was found in.
        before = loadings(here @ np.linalg.solve(mapping, turned).T, 2)
        after = loadings(to @ turned.T, 2)
        memory = memory.with_update(before, after, mapping).ready()
        here = to
    return memory, after, end @ turned.T


@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_linear_steps_lead_to_their_end(angle):
    """With two rates three steps tell where they vanish, also where each of them turns the components."""
    mapping = np.eye(3)
    mapping[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    memory, last, end = walk(3, mapping)
    assert np.abs(last.mean - end).max() > 0.1
    # The ridge of the least squares leaves some ten thousandths.
    assert_allclose(memory.extrapolated(last), end, atol=1e-3)


@pytest.mark.parametrize(("rates", "leads_on"), [((0.5, 0.95), True), ((1.2, 1.3), False)])
def test_steps_that_grow_come_from_a_saddle(rates, leads_on):
    """Where the way would vanish lies behind steps that grow, and nothing is to be gained there."""
    memory, last, end = walk(3, np.eye(3), rates=rates)
    found = memory.extrapolated(last)
    assert_allclose(found, end, atol=1e-3)
    assert memory.leads_on(found, last) is leads_on


def test_memory_pauses_and_forgets():
    memory, last, _ = walk(3, np.eye(3))
    assert memory.extrapolated(last) is not None
    less = memory.without_oldest()
    assert len(less.steps) == 1
    assert less.extrapolated(last) is None
    assert Memory(memory.steps).extrapolated(last) is None
    # Steps that do not bend tell of no end.
    assert Memory((memory.steps[-1], memory.steps[-1]), is_paused=False).extrapolated(last) is None


def swept(table, shared):
    """Statistics of one sweep over rows at their prior."""
    problem = VariationalProblem(resolve_family("poisson", table.shape[1]))
    (block,) = check_data(table).blocks
    return problem, problem.step(block, shared, None)[1]


def test_losses_are_tolerated_up_to_the_gain():
    """One column overshoots; it goes on at half the pace, and only if the others gain more than it loses."""
    table = np.random.default_rng(0).poisson(3.0, (40, 6)).astype(float)
    mean = np.hstack([0.1 * np.ones((6, 1)), np.full((6, 1), np.log(3.0))])
    here = replace(loadings(mean, 1), precision=np.tile(pack_symmetric(40.0 * np.eye(2)), (6, 1)))
    problem, before = swept(table, here)
    wrong = mean.copy()
    wrong[2, 1] += 1.0
    proposal = here.with_posterior(wrong, here.precision)
    _, after = swept(table, proposal)
    loss = float((before.exit_columns - after.entry_columns)[2])
    assert loss > 1.0
    taken = problem.tolerated(here, proposal, before, after, 1.1 * loss)
    assert_allclose(taken.pace, [1.0, 1.0, 0.5, 1.0, 1.0, 1.0])
    assert_allclose(taken.mean, wrong)
    assert problem.tolerated(here, proposal, before, after, 0.5 * loss) is None
    assert problem.tolerated(here, proposal, before, after, np.nan) is None
    # Without a loss there is nothing to slow down.
    assert problem.tolerated(here, here, before, before, 1.0) is here
