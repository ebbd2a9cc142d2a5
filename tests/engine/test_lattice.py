"""The step with which columns are recorded, from facts of blocks that merge."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.engine import check_data, executor_for, summarise
from anypca.engine._lattice import UNROUNDED, find_lattice

RNG = np.random.default_rng(0)
N = 300
COLUMNS = {
    "counts": (RNG.poisson(4.0, N), 1.0),
    "multiples of five": (5 * RNG.integers(0, 40, N), 5.0),
    "shifted multiples": (3 + 100 * RNG.integers(-5, 5, N), 100.0),
    "one decimal": (np.round(RNG.normal(50, 10, N), 1), 0.1),
    "quarters": (0.25 * RNG.integers(0, 60, N), 0.25),
    "inches": (2.54 * RNG.integers(50, 80, N), 2.54),
    "four decimals": (np.round(RNG.normal(size=N), 4), 1e-4),
    "one late decimal": (np.r_[RNG.integers(0, 50, N - 1), 7.5], 0.5),
    "constant": (np.full(N, 2.5), 0.1),
    "zeros": (np.zeros(N), 1.0),
    "large": (1e9 + 1000.0 * RNG.integers(0, 9, N), 1000.0),
}
X = np.column_stack([values for values, _ in COLUMNS.values()]).astype(float)
STEPS = np.array([step for _, step in COLUMNS.values()])
EPS = float(np.finfo(float).eps)


def find(x, observed=None):
    largest = np.abs(x).max(axis=0, initial=0.0)
    return find_lattice(x, observed, (x == np.floor(x)).all(axis=0), largest, EPS)


def merged(x, observed, size):
    parts = [
        find(x[i : i + size], None if observed is None else observed[i : i + size])
        for i in range(0, len(x), size)
    ]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_steps_do_not_depend_on_the_blocks(size):
    np.testing.assert_allclose(merged(X, None, size).steps(X.std(axis=0)), STEPS, rtol=1e-12)


@pytest.mark.parametrize("size", [5, 300])
def test_missing_entries_tell_nothing(size):
    observed = np.random.default_rng(1).random(X.shape) < 0.7
    observed[:, -3] = False
    seen = np.where(observed, X, 1.0)
    steps = merged(seen, observed, size).steps(X.std(axis=0))
    expected = [find(X[o, j][:, None]) for j, o in enumerate(observed.T) if o.any()]
    np.testing.assert_allclose(
        np.delete(steps, -3), [float(found.steps(np.ones(1))[0]) for found in expected], rtol=1e-12
    )


def test_floats_are_recorded_to_a_share_of_their_deviation():
    data = check_data(np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 1e6])
    summary = summarise(data, executor_for(data, 1))
    assert not summary.is_lattice.any()
    np.testing.assert_allclose(summary.resolution, UNROUNDED * np.sqrt(summary.variance))


def test_single_precision_shows_its_decimals():
    x = np.round(np.random.default_rng(0).normal(20, 5, (200, 1)), 2).astype(np.float32)
    data = check_data(x)
    assert summarise(data, executor_for(data, 1)).resolution[0] == pytest.approx(0.01)


def test_numbers_too_large_to_tell_are_on_no_lattice():
    x = np.random.default_rng(0).normal(size=(50, 1)) * 1e20
    assert not find(x).is_found[0]
    both = find(np.full((3, 1), 4e15)) + find(np.full((3, 1), 0.1234))
    assert not both.is_found[0]
