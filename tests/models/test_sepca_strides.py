"""Sweeps over large tables that go farther in means and less far in precisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import SePCA
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.models._session import open_session
from anypca.models.sepca import _candidate, _sweeps
from anypca.models.sepca._candidate import first_candidate
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._start import first_state
from anypca.models.sepca._state import State
from anypca.models.sepca._strides import Stride, damping, is_answering, lengths
from anypca.models.sepca._sweeps import look

K, P = 2, 5


def columns(units=1.0, seed=0):
    """A posterior of columns, and the information that it comes from with its prior."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(P, K + 1, K + 1))
    information = root @ root.transpose(0, 2, 1) + 3.0 * np.eye(K + 1)
    alpha, fixed = np.array([0.5, 2.0]), np.zeros((P, 1))
    prior = np.zeros((P, K + 1, K + 1))
    prior[:, np.arange(K), np.arange(K)] = alpha / np.reshape(units, (-1, 1))
    mean = rng.normal(size=(P, K + 1))
    loadings = Loadings(mean, pack_symmetric(information + prior), alpha, np.ones(P), fixed, units=units)
    return loadings, information


def test_damping_is_what_the_variances_answer():
    loadings, information = columns()
    found = damping(loadings, pack_symmetric(information))
    for j in range(P):
        product = np.linalg.inv(unpack_symmetric(loadings.precision, K + 1)[j]) @ information[j]
        answer = np.trace(product @ product) / (2.0 * information[j, K, K])
        assert found[j, 0] == pytest.approx(1.0 / (1.0 + answer))


def test_damping_knows_no_units():
    """A column times c has information, prior and covariance in other units, and the same entries."""
    loadings, information = columns()
    scaled = replace(loadings, precision=loadings.precision / 100.0, units=np.full(P, 100.0))
    assert_allclose(
        damping(scaled, pack_symmetric(information) / 100.0), damping(loadings, pack_symmetric(information))
    )


def test_damping_ends_where_there_is_no_information():
    loadings, information = columns()
    empty = damping(loadings, 1e-9 * pack_symmetric(information))
    assert_allclose(empty, 0.5)


def test_strides_are_for_columns_that_answer():
    loadings, information = columns()
    assert is_answering(loadings, pack_symmetric(information))
    many = 100.0 * information
    prior = unpack_symmetric(loadings.precision, K + 1) - information
    told = replace(loadings, precision=pack_symmetric(many + prior))
    assert not is_answering(told, pack_symmetric(many))


def test_weak_components_go_farthest():
    loadings, _ = columns()
    loadings.__dict__["signal_ratio"] = np.array([8.0, 1.1])
    assert_allclose(lengths(loadings, 1.8), [1.2, 1.8])
    assert_allclose(lengths(loadings, 1.0), 1.0)


def test_strides_go_on_while_they_gain_and_rest_afterwards():
    stride = Stride()
    assert stride.length == 1.0
    stride = stride.rested(1e-2).rested(9e-3)
    assert stride.length > 1.0
    for gain in (10.0, 40.0, 20.0):
        stride = stride.gained(gain)
        assert stride.length > 1.0
    stride = stride.gained(5.0)
    assert stride.length == 1.0
    # Plain sweeps go on for as long as what is left of the strides falls.
    for criterion in (3e-4, 2e-4, 1.5e-4):
        stride = stride.rested(criterion)
        assert stride.length == 1.0
    assert stride.rested(1.45e-4).length > 1.0


def test_a_stride_that_fails_is_followed_by_a_rest():
    stride = Stride(rest=0, best=3.0)
    assert stride.rested(1e-2).length == 1.0
    assert stride.rested(1e-2).rested(1e-2).length > 1.0


@pytest.fixture
def rare():
    """Rare answers with three components."""
    rng = np.random.default_rng(2)
    eta = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 60)) - 3.5
    return (rng.random((400, 60)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def run_looks(table, n_looks, *, with_strides, fit_intercept=True):
    """States after each look at a fit with six components."""
    with open_session(check_data(table), 1, rng=np.random.default_rng(0), max_iter=1000, tol=1e-9) as session:
        candidate = first_candidate(
            session, resolve_family("bernoulli", table.shape[1]), Settings(6, fit_intercept=fit_intercept)
        )
        states: list[State] = [first_state(candidate, 0)]
        for _ in range(n_looks):
            state = look(states[-1], rough=True)
            stride = (state.stride or Stride()) if with_strides else None
            states.append(replace(state, stride=stride))
    return states[1:]


@pytest.mark.parametrize(("n", "p", "size", "seed"), [(300, 200, 0.5, 0), (400, 300, 0.4, 1)])
def test_strides_gain_in_every_sweep_and_lead_farther(n, p, size, seed, monkeypatch):
    """Rare answers that hold fewer components than are asked for: plain sweeps stand still for long."""
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    monkeypatch.setattr(_sweeps.Memory, "leap", lambda memory, to: None)
    rng = np.random.default_rng(seed)
    eta = size * rng.normal(size=(n, 6)) @ rng.normal(size=(6, p)) - 2.5
    table = (rng.random((n, p)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    plain = run_looks(table, 9, with_strides=False)
    strided = run_looks(table, 9, with_strides=True)
    assert all((np.diff(state.result.trace) >= 0).all() for state in strided)
    assert any(state.problem.stride is not None and state.problem.stride > 1.0 for state in strided)
    assert strided[-1].bound > plain[-1].bound + 20.0


def test_strides_without_intercepts(rare, monkeypatch):
    """Nothing tells the sum of a column's curvatures then, and precisions are not damped."""
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    states = run_looks(rare, 5, with_strides=True, fit_intercept=False)
    assert all((np.diff(state.result.trace) >= 0).all() for state in states)
    assert any(state.problem.stride is not None for state in states)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_strides_change_nothing_that_is_reported(rare, family, monkeypatch):
    options = {"family": family, "n_jobs": 1, "tol": 1e-6, "max_iter": 2000}
    double = SePCA(3, **options).fit(rare)
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    monkeypatch.setattr(_candidate, "_SINGLE_TOLERANCE", 1e-5)
    monkeypatch.setattr(_sweeps.Memory, "leap", lambda memory, to: np.full_like(to.mean, 1e3))
    strided = SePCA(3, **options).fit(rare)
    assert strided.converged_
    assert strided.n_components_ == double.n_components_
    assert strided.evidence_ == pytest.approx(double.evidence_, abs=0.05)
    assert not strided._rows.problem.single
    assert strided._rows.problem.stride is None
