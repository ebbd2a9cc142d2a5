"""The sparse regressions of SPCA against scikit-learn on real rows, and the conditions of optimality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as ReferenceElasticNet
from sklearn.linear_model import LassoLars

from anypca.models.spca._path import find_piece, walk_path
from anypca.models.spca._regression import (
    Counted,
    Fit,
    Penalised,
    _descend,
    follow_path,
    kkt_distance,
    soft_threshold,
    solve_counted,
    solve_elastic_net,
    solve_on_support,
)

RIDGES = [1e-6, 0.5, 20.0]


def make_problem(n=50, p=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    y = X @ rng.standard_normal(p)
    return X, y


def reference(X, y, penalty, ridge):
    """scikit-learn divides the squares by 2 n."""
    n = len(X)
    alpha = 0.5 * penalty / n + ridge / n
    model = ReferenceElasticNet(
        alpha=alpha, l1_ratio=0.5 * penalty / n / alpha, fit_intercept=False, tol=1e-12, max_iter=100_000
    )
    return model.fit(X, y).coef_


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("penalty", [0.5, 50.0, 500.0])
@pytest.mark.parametrize("start", [None, "zeros", "ones"])
def test_elastic_net_equals_scikit_learn_on_rows(penalty, ridge, start):
    X, y = make_problem()
    H = X.T @ X + ridge * np.eye(8)
    first = {None: None, "zeros": np.zeros(8), "ones": np.ones(8)}[start]
    b = solve_elastic_net(H, X.T @ y, penalty, float(y @ y), first)
    np.testing.assert_allclose(b, reference(X, y, penalty, ridge), atol=1e-6)
    assert kkt_distance(H @ b, X.T @ y, penalty, b).max() < 1e-9 * np.abs(X.T @ y).max()


@pytest.mark.parametrize("penalty", [0.5, 50.0, 500.0])
def test_coordinate_descent_needs_no_rows(penalty):
    X, y = make_problem()
    H = X.T @ X + 0.5 * np.eye(8)
    b = _descend(H, X.T @ y, penalty, float(y @ y), None)
    np.testing.assert_allclose(b, reference(X, y, penalty, 0.5), atol=1e-4)


def test_a_penalty_above_all_targets_leaves_nothing():
    X, y = make_problem()
    target = X.T @ y
    largest = 2.0 * np.abs(target).max()
    assert not solve_elastic_net(X.T @ X, target, largest, float(y @ y), None).any()
    assert np.count_nonzero(solve_elastic_net(X.T @ X, target, 0.999 * largest, float(y @ y), None)) == 1


def test_wrong_supports_are_noticed():
    X, y = make_problem()
    H, c = X.T @ X + 0.5 * np.eye(8), X.T @ y
    b = solve_elastic_net(H, c, 50.0, float(y @ y), None)
    np.testing.assert_allclose(solve_on_support(H, c, 50.0, b), b, atol=1e-10)
    assert solve_on_support(H, c, 50.0, -b) is None
    assert solve_on_support(H, c, 50.0, np.zeros(8)) is None
    one = np.zeros(8)
    one[0] = 1.0
    assert solve_on_support(H, c, 50.0, one) is None


def test_collinear_columns_have_a_solution():
    X, y = make_problem()
    X = np.hstack([X, X[:, :3]])
    H, c = X.T @ X, X.T @ y
    b = solve_elastic_net(H, c, 20.0, float(y @ y), None)
    assert kkt_distance(H @ b, c, 20.0, b).max() < 1e-3 * np.abs(c).max()


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["lars", "cold", "warm"])
def test_path_stops_at_the_count(count, seed, way):
    X, y = make_problem(seed=seed)
    H, c = X.T @ X + 1e-6 * np.eye(8), X.T @ y
    fit = follow_path(H, c, count)
    if way != "lars":
        # From nothing it is the same point; from a point of the path, the end of that point's piece.
        end, level = walk_path(H, c, count, 3.0 * fit.coefficients if way == "warm" else None)
        np.testing.assert_allclose(end, fit.coefficients, atol=1e-9 * np.abs(end).max())
        fit = Fit(end, 2.0 * level)
    assert np.count_nonzero(fit.coefficients) == count
    # It solves the problem of the penalty that it reports, where the next entry is about to enter.
    distance = kkt_distance(H @ fit.coefficients, c, fit.penalty, fit.coefficients)
    assert distance.max() < 1e-9 * np.abs(c).max()
    if count < 8:
        slopes = np.abs(c - H @ fit.coefficients)[fit.coefficients == 0]
        np.testing.assert_allclose(slopes.max(), 0.5 * fit.penalty, rtol=1e-8)


def test_path_equals_scikit_learn_on_rows():
    X, y = make_problem()
    ours = follow_path(X.T @ X, X.T @ y, 4)
    model = LassoLars(alpha=0.5 * ours.penalty / len(X), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coefficients, model.coef_, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 18, 39])
def test_path_on_which_entries_leave(seed):
    """Numbers of entries are met at a minimum; LARS stops there with an entry that has just left."""
    X, y = make_problem(n=12, p=10, seed=seed)
    H, c = X.T @ X + 1e-6 * np.eye(10), X.T @ y
    ends = [walk_path(H, c, count, None) for count in range(1, 11)]
    for count, (end, level) in enumerate(ends, 1):
        assert np.count_nonzero(end) == count
        assert kkt_distance(H @ end, c, 2.0 * level, end).max() < 1e-10 * np.abs(c).max()
    signs = [np.sign(end) for end, _ in ends]
    assert any(np.any((now != 0) & (after != now)) for now, after in itertools.pairwise(signs))


@pytest.mark.parametrize(("seed", "signs"), [(155, [1.0, -1.0, 1.0]), (296, [1.0, 1.0, 1.0])])
def test_a_piece_ends_where_an_entry_leaves(seed, signs):
    """No column joins before: below that level the entry would have the other sign."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 4))
    piece = find_piece(A.T @ A, A.T @ rng.standard_normal(6), np.arange(3), np.array(signs))
    assert (piece.leaves, piece.joins) == (1, None)
    end = piece.end(4)
    assert abs(end[1]) < 1e-12
    assert 0.0 < piece.low < piece.high
    assert np.count_nonzero(np.abs(end) > 1e-3) == 2


def test_one_of_two_copies_is_enough():
    """Rounding decides whether the copy seems to join: the path is then left to LARS, or goes on without the copy."""
    X, y = make_problem()
    X[:, 1] = X[:, 0]
    H, c = X.T @ X, X.T @ y
    assert find_piece(H, c, np.array([0, 1]), np.ones(2)) is None
    # Either way it ends at the least squares of the other columns.
    for fit in (solve_counted(H, c, 8, None), follow_path(H, c, 8)):
        assert fit.penalty < 1e-10 * np.abs(c).max()
        assert np.count_nonzero(fit.coefficients) == 7
        assert np.abs(H @ fit.coefficients - c).max() < 1e-10 * np.abs(c).max()


def test_path_of_nothing():
    fit = solve_counted(np.zeros((3, 3)), np.zeros(3), 2, None)
    assert not fit.coefficients.any()
    assert fit.penalty == 0.0


def test_soft_threshold():
    np.testing.assert_array_equal(
        soft_threshold(np.array([-3.0, -1.0, 0.0, 0.5, 2.0]), 1.0), [-2, 0, 0, 0, 1]
    )


def test_counted_soft_threshold_keeps_the_largest():
    target = np.array([0.1, -4.0, 3.0, 0.0, 1.0])
    fit = Counted(None, [2]).fit(0, target, 1.0, None)
    np.testing.assert_array_equal(fit.coefficients, [0, -3, 2, 0, 0])
    again = Penalised(None, [fit.penalty]).fit(0, target, 1.0, None)
    np.testing.assert_array_equal(again.coefficients, fit.coefficients)
    everything = Counted(None, [5]).fit(0, target, 1.0, None)
    np.testing.assert_array_equal(everything.coefficients, target)
