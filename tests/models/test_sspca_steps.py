"""The steps of structured sparse PCA against general solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from anypca.models.sspca._cross_validation import press_error, row_error
from anypca.models.sspca._descent import (
    Design,
    Limits,
    State,
    _reweighted,
    _step_loadings,
    _step_scores,
    bounded_inverse,
    descend,
    largest_penalty,
    objective,
    shrink_rows,
)
from anypca.models.sspca._fit import Settings, _open_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(14, 3)) @ RNG.normal(size=(3, 9)) + 0.3 * RNG.normal(size=(14, 9))
X -= X.mean(axis=0)


def settings(n_components=4, n_patterns=1, constraint="ball", exponent=1.0):
    return Settings(n_components, n_patterns, "auto", None, constraint, exponent, "press", 5, 10)


def open_rows(**options):
    return _open_rows(X, float(len(X)), settings(**options))


def numerical_gradient(function, at, step=1e-6):
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[index] = step
        found[index] = (function(at + move) - function(at - move)) / (2 * step)
    return found


def direct(U, V, penalty, groups, exponent=1.0):
    """The objective from its definition."""
    sizes = [(np.linalg.norm(V[:, g], axis=1) ** exponent).sum() ** (1 / exponent) for g in groups]
    return ((X - U @ V.T) ** 2).sum() / (2 * X.size) + penalty * sum(sizes)


@pytest.mark.parametrize("exponent", [1.0, 0.6])
@pytest.mark.parametrize("n_patterns", [1, 2])
def test_the_objective_is_what_is_written(n_patterns, exponent):
    design, start, largest = open_rows(n_patterns=n_patterns, exponent=exponent)
    state = descend(design, start, 0.02 * largest, Limits(5, 0.0)).state
    expected = direct(X @ state.weights, state.loadings, 0.02 * largest, design.groups, exponent)
    np.testing.assert_allclose(objective(design, state, 0.02 * largest), expected, rtol=1e-12)


@pytest.mark.parametrize("price", [0.3, 1.5])
def test_rows_are_shrunk_to_their_minimum(price):
    root = RNG.normal(size=(5, 3))
    gram, target = root.T @ root, RNG.normal(size=(6, 3))
    found = shrink_rows(target, gram, price)
    for b, v in zip(target, found, strict=True):

        def value(w, b=b):
            return 0.5 * w @ gram @ w - b @ w + price * np.sqrt(w @ w)

        best = min(minimize(value, start, method="BFGS").fun for start in (b, 0.1 * b, v + 0.01))
        assert value(v) <= best + 1e-9
        if np.any(v):  # stationary: gram v - b + price v / |v| = 0
            np.testing.assert_allclose(gram @ v + price * v / np.linalg.norm(v), b, atol=1e-12)
        else:
            assert np.linalg.norm(b) <= price


def test_rows_without_price_are_regressions():
    root = RNG.normal(size=(5, 3))
    target = RNG.normal(size=(6, 3))
    np.testing.assert_allclose(
        shrink_rows(target, root.T @ root, 0.0), np.linalg.solve(root.T @ root, target.T).T, rtol=1e-9
    )


@pytest.mark.parametrize("bound", [0.01, 0.3, 100.0])
def test_scores_are_bounded_and_stationary(bound):
    V, R = RNG.normal(size=(7, 3)), RNG.normal(size=(10, 7))
    B = R @ V
    U = B @ bounded_inverse(V.T @ V, B.T @ B, bound)
    size = (U**2).sum()
    assert size <= bound * (1 + 1e-12)
    slope = B - U @ (V.T @ V)  # = mu U with mu >= 0, and mu = 0 unless the bound is reached
    mu = np.vdot(slope, U) / size
    np.testing.assert_allclose(slope, mu * U, atol=1e-10)
    assert mu >= -1e-12
    if bound == 100.0:
        np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    else:
        np.testing.assert_allclose(size, bound, rtol=1e-12)


@pytest.mark.parametrize("constraint", ["ball", "orthogonal"])
@pytest.mark.parametrize("n_patterns", [1, 2, 4])
def test_each_half_step_lowers_the_objective_and_keeps_the_constraint(n_patterns, constraint):
    design, state, largest = open_rows(n_patterns=n_patterns, constraint=constraint)
    penalty, last = 0.05 * largest, np.inf
    for _ in range(30):
        for number, group in enumerate(design.groups):
            for step in (
                lambda s, k=number: _step_loadings(design, s, k, penalty, None),
                lambda s, k=number: _step_scores(design, s, k),
            ):
                state = step(state)
                value = objective(design, state, penalty)
                assert value <= last + 1e-14 * abs(value)
                last = value
            gram = state.gram[np.ix_(group, group)]
            if constraint == "ball":
                assert np.trace(gram) <= len(group) * (1 + 1e-10)
            else:
                np.testing.assert_allclose(gram, np.eye(len(group)), atol=1e-10)


@pytest.mark.parametrize("exponent", [0.5, 0.8])
def test_the_quasi_norm_ends_where_its_gradient_vanishes(exponent):
    design, start, largest = open_rows(exponent=exponent)
    penalty = 0.005 * largest
    found = descend(design, start, penalty, Limits(5000, 1e-12))
    assert np.diff(found.trace).max() <= 1e-14  # rounding of sums of squares of size 1
    U, V = X @ found.state.weights, found.state.loadings
    kept = V.any(axis=1)

    def value(rows):
        full = np.zeros_like(V)
        full[kept] = rows
        return direct(U, full, penalty, design.groups, exponent)

    np.testing.assert_allclose(numerical_gradient(value, V[kept]), 0.0, atol=1e-7)


def test_a_small_row_that_lowers_the_objective_is_kept():
    current, target = np.array([[1.0], [1e-6], [1e-6]]), np.array([[1.0], [5.0], [0.01]])
    found = _reweighted(target, np.eye(1), current, 0.1, 0.9, 1e-4)[:, 0]
    assert found[1] > 1e-6
    assert found[2] == 0.0


def test_the_largest_penalty_is_where_the_first_loading_appears():
    design, _, largest = open_rows()
    norms = np.linalg.norm(X, axis=0)
    j = int(np.argmax(norms))
    assert largest == largest_penalty(design, norms)
    # All scores on the longest column: the best point near V = 0.
    weights = np.zeros((9, 4))
    weights[j] = 1.0 / norms[j]
    start = State(weights, X.T @ X @ weights, np.zeros((9, 4)))
    for factor, is_empty in ((0.99, False), (1.01, True)):
        found = descend(design, start, factor * largest, Limits(500, 1e-10))
        assert (not found.state.loadings.any()) == is_empty
        assert found.trace[-1] <= 0.5 * (X**2).sum() / X.size * (1 + 1e-12)


def test_press_predicts_a_cell_from_the_others():
    train, test = X[:10], X[10:]
    support = np.arange(9) < 6
    # Probabilistic PCA by definition, and conditional means cell by cell.
    values, vectors = np.linalg.eigh(train[:, support].T @ train[:, support])
    noise = values[:4].mean()
    C = noise * np.eye(6) + (vectors[:, 4:] * (values[4:] - noise)) @ vectors[:, 4:].T
    total = (test[:, 6:] ** 2).sum()
    for x in test[:, :6]:
        for j in range(6):
            others = np.arange(6) != j
            total += (x[j] - C[j, others] @ np.linalg.solve(C[np.ix_(others, others)], x[others])) ** 2
    np.testing.assert_allclose(press_error(train, test, support, 2), total, rtol=1e-9)


def test_the_row_error_is_a_distance():
    V = RNG.normal(size=(9, 2))
    fitted = V @ np.linalg.lstsq(V, X.T, rcond=None)[0]
    np.testing.assert_allclose(row_error(X, V), ((X.T - fitted) ** 2).sum(), rtol=1e-10)
    np.testing.assert_allclose(row_error(X, np.hstack([V, V, 0 * V])), row_error(X, V), rtol=1e-10)
    np.testing.assert_allclose(row_error(X, np.zeros((9, 2))), (X**2).sum(), rtol=1e-12)


def test_a_design_knows_who_is_outside_of_a_group():
    design = Design(lambda V: V, 1.0, 1.0, np.array_split(np.arange(5), 2))
    assert [others.tolist() for others in design.others] == [[3, 4], [0, 1, 2]]
