"""Extrapolated sweeps, and losses of single columns that are taken for the sake of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import SePCA
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric
from anypca.models.sepca._leaps import Memory
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._scores import Affine


def loadings(mean, k):
    """A posterior of columns with unit precisions."""
    p, m = mean.shape
    return Loadings(
        mean, np.tile(pack_symmetric(np.eye(m)), (p, 1)), np.ones(k), np.ones(p), np.zeros((p, m - k))
    )


def walk(n_steps, mapping, *, is_leaping, rates=(0.5, 0.98)):
    """Distances to the end of a linear iteration, each step of which ends in new coordinates."""
    rng = np.random.default_rng(0)
    end, here = rng.normal(size=(2, 5, 3))
    rates = np.linspace(*rates, 15).reshape(5, 3)
    memory, turned, distances = Memory(), np.eye(3), []
    for _ in range(n_steps):
        before, turned = turned, mapping @ turned
        way = (1.0 - rates) * (end - here)
        # The memory sees both sides in the coordinates that each was found in; gradients are ways of unit precision.
        memory = memory.with_update(here @ before.T, way @ np.linalg.inv(before), mapping)
        to = in_coordinates(loadings(here + way, 2), turned)
        leap = memory.leap(to) if is_leaping else None
        here = here + way if leap is None else leap @ np.linalg.inv(turned).T
        memory = memory if leap is None else memory.taken()
        distances.append(np.abs(here - end).max())
    return np.array(distances)


def in_coordinates(shared, mapping):
    """A posterior in other coordinates."""
    return shared.in_coordinates(mapping, Affine(np.zeros(2), np.eye(2)))


@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_leaps_go_where_steps_lead_to(angle):
    """Rates from 0.5 to 0.98: plain steps crawl, also where each of them turns the components."""
    mapping = np.eye(3)
    mapping[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), 1.5 * np.cos(angle)]]
    assert walk(40, mapping, is_leaping=False)[-1] > 0.3
    assert walk(40, mapping, is_leaping=True)[-1] < 1e-3


def test_coordinates_do_not_matter_to_leaps():
    mapping = np.array([[0.9, -0.5, 0.0], [0.3, 1.1, 0.0], [0.2, -0.1, 1.0]])
    assert_allclose(
        walk(12, mapping, is_leaping=True), walk(12, np.eye(3), is_leaping=True), rtol=1e-6, atol=1e-9
    )


def test_saddles_are_forgotten():
    """Steps that grow tell of no maximum, whatever was known before."""
    memory = Memory(pairs=((np.ones((5, 3)), np.ones((5, 3))),), last=(np.zeros((5, 3)), np.ones((5, 3))))
    here = loadings(np.ones((5, 3)), 2)
    assert memory.leap(here) is not None
    grown = memory.with_update(np.ones((5, 3)), 2.0 * np.ones((5, 3)), np.eye(3))
    assert not grown.pairs
    assert grown.leap(here) is None
    assert len(memory.with_update(np.ones((5, 3)), 0.5 * np.ones((5, 3)), np.eye(3)).pairs) == 2


def test_reach_follows_success():
    """A leap is cut to the reach, which grows where leaps gain and shrinks where they do not."""
    start, gradient = np.zeros((5, 3)), np.ones((5, 3))
    # The gradient falls by a hundredth: the leap would be a hundred times as long as the update.
    memory = Memory(pairs=((gradient, 0.01 * gradient),), last=(start, gradient), reach=20.0)
    to = loadings(start + gradient, 2)
    assert_allclose(memory.leap(to), memory.reach)
    assert_allclose(memory.taken().leap(to), 2.0 * memory.reach)
    assert_allclose(memory.gain(to), 0.5 * gradient.size)
    missed = memory.missed(memory.leap(to), -0.1 * gradient)
    assert missed.reach == memory.reach / 4.0
    assert missed.missed(start, None).reach == 2.0
    # What was met there counts: the gradient changes its sign shortly before.
    assert_allclose(replace(missed, reach=100.0).leap(to), memory.reach / 1.1)
    assert not memory.missed(memory.leap(to), None).pairs


def test_leaps_out_of_range_are_not_taken(monkeypatch):
    """A fit goes on by plain sweeps where every leap overflows."""
    X = np.random.default_rng(0).poisson(3.0, (60, 8)).astype(float)
    X[:30, :4] += 4.0
    plain = SePCA(family="poisson").fit(X)
    monkeypatch.setattr(Memory, "leap", lambda memory, to: np.full_like(to.mean, 1e4))
    again = SePCA(family="poisson").fit(X)
    assert again.n_components_ == plain.n_components_
    assert_allclose(again.evidence_, plain.evidence_, atol=0.05)


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
