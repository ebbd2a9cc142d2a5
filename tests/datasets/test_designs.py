"""Generated tables: they follow the seed, and their moments are those of the design."""

from __future__ import annotations

import dataclasses

import experiments._designs as designs
import numpy as np
import pytest
from experiments._designs import (
    make_bent_counts,
    make_sppca_classes,
    make_sppca_order,
    make_wide_hinge,
)
from tests.draws import seed

from anypca import datasets
from anypca.datasets import (
    make_globally_sparse,
    make_hinge,
    make_low_rank,
    make_low_rank_counts,
    make_prototype_bits,
    make_sparse_counts,
)

LOW_RANK = {"n_samples": 20, "n_features": 5, "n_components": 2}
#: A small call of every generator.
CALLS = {
    "make_bent_counts": {"n_samples": 20},
    "make_globally_sparse": {"n_samples": 20},
    "make_hinge": {"n_samples": 20},
    "make_low_rank": LOW_RANK,
    "make_low_rank_counts": LOW_RANK,
    "make_prototype_bits": {"samples_per_prototype": 5},
    "make_sparse_counts": {"n_samples": 20},
    "make_sppca_classes": {"n_samples": 20},
    "make_sppca_loadings": {},
    "make_sppca_order": {"n_components": 3, "n_samples": 20},
    "make_swiss_roll": {"n_samples": 20},
    "make_wide_hinge": {"n_samples": 20},
}


@pytest.mark.parametrize("name", CALLS)
def test_tables_are_values_that_follow_the_seed(name):
    make = getattr(datasets if name in datasets.__all__ else designs, name)
    first, again, other = (make(**CALLS[name], random_state=seed(k)) for k in (3, 3, 4))
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert first.X.dtype == np.float64
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.X = other.X
    # One generator serves several tables, each its own.
    rng = np.random.default_rng(seed())
    assert not np.array_equal(*(make(**CALLS[name], random_state=rng).X for _ in range(2)))


def test_bits_are_flipped_prototypes():
    n_prototypes = 4
    drawn = make_prototype_bits(n_prototypes, samples_per_prototype=2000, missing=0.1, random_state=seed())
    assert drawn.X.shape == (2000 * n_prototypes, 16)
    np.testing.assert_array_equal(np.bincount(drawn.labels), np.full(n_prototypes, 2000))
    flipped, seen = drawn.complete != drawn.prototypes[drawn.labels], ~np.isnan(drawn.X)
    assert flipped.mean() == pytest.approx(0.1, abs=0.006)
    assert seen.mean() == pytest.approx(0.9, abs=0.006)
    np.testing.assert_array_equal(drawn.X[seen], drawn.complete[seen])
    logits = np.log(drawn.mean / (1 - drawn.mean))
    np.testing.assert_allclose(np.abs(logits), np.log(9.0))
    assert np.linalg.matrix_rank(logits - logits.mean(axis=0)) == n_prototypes - 1
    again = make_prototype_bits(prototypes=drawn.prototypes, random_state=seed(1))
    np.testing.assert_array_equal(again.prototypes, drawn.prototypes)


@pytest.mark.parametrize(
    ("n_components", "weights"),
    [
        (2, [[1, 1, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 3, 3, 3, 3]]),
        (3, [[1, 1, 0, 0, 0, 0, 3, 3], [0, 0, 1, 1, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1, 2, 2]]),
    ],
)
def test_hidden_factors(n_components, weights):
    drawn = make_sppca_order(n_components, 20_000, 8, random_state=seed())
    np.testing.assert_array_equal(drawn.coefficients, weights)
    np.testing.assert_allclose(drawn.factors.mean(axis=0), [20, 30, 50][:n_components], rtol=0.02)
    error = drawn.X - drawn.factors @ drawn.coefficients
    # A Poisson size of rate 2 with a random sign: mean 0, variance 2 + 2^2.
    np.testing.assert_allclose(error.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(error.var(axis=0), 6, rtol=0.08)
    assert drawn.X.min() >= 0


@pytest.mark.parametrize(("size", "typical_mean"), [(None, 0.2), (3.0, 1.6)])
def test_low_rank_counts(size, typical_mean):
    given = {"typical_mean": typical_mean, "size": size, "strength": 0.5}
    drawn = make_low_rank_counts(5000, 100, 3, **given, random_state=seed())
    np.testing.assert_allclose(drawn.eta, drawn.intercept + drawn.scores @ drawn.components, atol=1e-12)
    np.testing.assert_allclose(drawn.components @ drawn.components.T, np.eye(3), atol=1e-12)
    assert np.sqrt(np.mean((drawn.eta - drawn.intercept) ** 2)) == pytest.approx(0.5 * np.sqrt(3), rel=0.1)
    mean = np.exp(drawn.eta)
    variance = mean if size is None else mean + mean**2 / size
    squares = (drawn.X - mean) ** 2 / variance
    assert abs(squares.mean() - 1.0) < 5 * squares.std() / np.sqrt(squares.size)


def test_supports():
    drawn = make_sparse_counts(2000, typical_mean=2.0, random_state=seed())
    np.testing.assert_array_equal(drawn.support.sum(axis=1), [15, 15, 15])
    assert drawn.support.sum(axis=0).max() == 1
    sizes = np.abs(drawn.components[drawn.support])
    assert 0.6 <= sizes.min() <= sizes.max() <= 1.0
    assert not drawn.components[~drawn.support].any()
    assert drawn.X[:, ~drawn.support.any(axis=0)].mean() == pytest.approx(2.0, rel=0.02)
    one = make_globally_sparse(5000, 100, 10, n_active=20, noise=0.6, random_state=seed())
    assert one.support.sum() == 20
    np.testing.assert_array_equal(one.components.any(axis=0), one.support)
    np.testing.assert_allclose(one.X[:, ~one.support].std(axis=0), 0.6, rtol=0.05)
    assert np.std(one.X - one.scores @ one.components) == pytest.approx(0.6, rel=0.01)


def test_bent_surfaces():
    drawn = make_hinge(20_000, corner=0.4, jump=1.0, noise=[0.0, 0.0, 0.3], random_state=seed())
    np.testing.assert_array_equal(drawn.X[:, :2], drawn.latent)
    x = drawn.latent[:, 0]
    np.testing.assert_allclose(drawn.surface[:, 2], np.abs(x - 0.4) + (x > 0.4))
    np.testing.assert_array_equal(drawn.pieces, x > 0.4)
    assert np.std(drawn.X[:, 2] - drawn.surface[:, 2]) == pytest.approx(0.3, rel=0.03)
    wide = make_wide_hinge(noise=0.0, random_state=seed())
    assert np.linalg.matrix_rank(wide.X - wide.X.mean(axis=0)) == 4
    assert [np.linalg.matrix_rank(wide.X[wide.pieces == k], tol=1e-8) for k in (0, 1)] == [3, 3]


def test_bent_counts():
    drawn = make_bent_counts(20_000, random_state=seed())
    np.testing.assert_array_equal(drawn.maps, make_bent_counts(10, random_state=seed(1)).maps)
    assert 1 <= np.exp(drawn.offset).min() <= np.exp(drawn.offset).max() <= 3
    extended = np.column_stack([drawn.latent, np.ones(20_000)])
    mean = np.exp(np.einsum("npj,nj->np", drawn.maps[drawn.pieces], extended) + drawn.offset[:, None])
    squares = (drawn.X - mean) ** 2 / mean
    assert abs(squares.mean() - 1.0) < 5 * squares.std() / np.sqrt(squares.size)
    # The two pieces agree where the second latent coordinate is 0.
    np.testing.assert_array_equal(drawn.maps[0][:, [0, 2]], drawn.maps[1][:, [0, 2]])


@pytest.mark.parametrize(
    ("make", "arguments", "complaint"),
    [
        (make_prototype_bits, {"flip": 0.5}, "got 0.5"),
        (make_sppca_order, {"n_components": 4}, "3; got 4"),
        (make_sppca_classes, {"n_samples": 10}, "multiple of 4"),
        (make_low_rank, LOW_RANK | {"n_components": 6}, "5; got 6"),
        (make_low_rank_counts, LOW_RANK | {"size": -1.0}, "size.*got -1.0"),
        (make_low_rank, LOW_RANK | {"missing": 1.0}, r"share in \[0, 1\); got 1.0"),
        (make_low_rank, LOW_RANK | {"intercept": [1.0, 2.0]}, "broadcast"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_refusals(make, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        make(**arguments)
