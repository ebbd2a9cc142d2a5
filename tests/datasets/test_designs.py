"""The synthetic designs of the papers: shapes, truth, moments, seeds, refusals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from anypca import datasets
from anypca.datasets import (
    make_bent_counts,
    make_globally_sparse,
    make_hinge,
    make_low_rank,
    make_low_rank_counts,
    make_prototype_bits,
    make_sparse_counts,
    make_sppca_classes,
    make_sppca_loadings,
    make_sppca_order,
    make_swiss_roll,
    make_wide_hinge,
)

#: A small call of every generator.
CALLS = {
    "make_bent_counts": {"n_samples": 20},
    "make_globally_sparse": {"n_samples": 20},
    "make_hinge": {"n_samples": 20},
    "make_low_rank": {"n_samples": 20, "n_features": 5, "n_components": 2},
    "make_low_rank_counts": {"n_samples": 20, "n_features": 5, "n_components": 2},
    "make_prototype_bits": {"samples_per_prototype": 5},
    "make_sparse_counts": {"n_samples": 20},
    "make_sppca_classes": {"n_samples": 20},
    "make_sppca_loadings": {},
    "make_sppca_order": {"n_components": 3, "n_samples": 20},
    "make_swiss_roll": {"n_samples": 20},
    "make_wide_hinge": {"n_samples": 20},
}


def test_every_generator_is_listed():
    assert set(CALLS) == {name for name in datasets.__all__ if name.startswith("make_")}


@pytest.mark.parametrize("name", CALLS)
def test_tables_are_values_that_follow_the_seed(name):
    make = getattr(datasets, name)
    first, again, other = (make(**CALLS[name], random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert first.X.dtype == np.float64
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.X = other.X
    # One generator serves several tables, each its own.
    rng = np.random.default_rng(0)
    assert not np.array_equal(
        make(**CALLS[name], random_state=rng).X, make(**CALLS[name], random_state=rng).X
    )


@pytest.mark.parametrize("n_prototypes", [3, 4, 5])
def test_bits_are_flipped_prototypes(n_prototypes):
    drawn = make_prototype_bits(n_prototypes, samples_per_prototype=2000, missing=0.1, random_state=0)
    assert drawn.X.shape == (2000 * n_prototypes, 16)
    np.testing.assert_array_equal(np.bincount(drawn.labels), np.full(n_prototypes, 2000))
    flipped = drawn.complete != drawn.prototypes[drawn.labels]
    assert flipped.mean() == pytest.approx(0.1, abs=0.005)
    seen = ~np.isnan(drawn.X)
    assert seen.mean() == pytest.approx(0.9, abs=0.005)
    np.testing.assert_array_equal(drawn.X[seen], drawn.complete[seen])
    assert set(np.unique(drawn.mean)) == {0.1, 0.9}
    logits = np.log(drawn.mean / (1 - drawn.mean))
    assert np.linalg.matrix_rank(logits) == n_prototypes
    assert np.linalg.matrix_rank(logits - logits.mean(axis=0)) == n_prototypes - 1


def test_further_bits_of_the_same_prototypes():
    first = make_prototype_bits(random_state=0)
    second = make_prototype_bits(prototypes=first.prototypes, random_state=1)
    np.testing.assert_array_equal(first.prototypes, second.prototypes)
    assert not np.array_equal(first.X, second.X)


@pytest.mark.parametrize(
    ("n_components", "weights"),
    [
        (1, [[1, 1, 2, 2, 2, 2, 2, 2]]),
        (2, [[1, 1, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 3, 3, 3, 3]]),
        (3, [[1, 1, 0, 0, 0, 0, 3, 3], [0, 0, 1, 1, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1, 2, 2]]),
    ],
)
def test_hidden_factors(n_components, weights):
    drawn = make_sppca_order(n_components, 20_000, 8, random_state=0)
    np.testing.assert_array_equal(drawn.coefficients, weights)
    np.testing.assert_allclose(drawn.factors.mean(axis=0), [20, 30, 50][:n_components], rtol=0.01)
    error = drawn.X - drawn.factors @ drawn.coefficients
    # A Poisson size of rate 2 with a random sign: mean 0, variance 2 + 2^2.
    np.testing.assert_allclose(error.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(error.var(axis=0), 6, rtol=0.05)
    np.testing.assert_array_equal(drawn.X, np.round(drawn.X))
    assert drawn.X.min() >= 0


def test_named_tables_of_the_loadings_study():
    for n_components in (1, 2):
        drawn = make_sppca_loadings(n_components, random_state=5)
        assert drawn.X.shape == (100, 10)
        np.testing.assert_array_equal(drawn.X, make_sppca_order(n_components, 100, 10, random_state=5).X)


@pytest.mark.parametrize(("n_classes", "sizes"), [(2, [50, 50]), (3, [25, 25, 50])])
def test_classes(n_classes, sizes):
    drawn = make_sppca_classes(n_classes, random_state=0)
    np.testing.assert_array_equal(np.bincount(drawn.labels), sizes)
    large = make_sppca_classes(n_classes, 40_000, random_state=0)
    means = np.array([large.X[large.labels == k].mean(axis=0) for k in range(n_classes)])
    expected = np.array([[30, 90], [100, 50], [20, 20]])[:n_classes]
    np.testing.assert_allclose(means[:, [0, 1]], expected[:, [0, 0]], rtol=0.02)
    np.testing.assert_allclose(means[:, 2:], np.repeat(expected[:, 1:], 8, axis=1), rtol=0.02)
    assert np.var(large.X - large.mean) == pytest.approx(6.0, rel=0.02)


@pytest.mark.parametrize(("size", "typical_mean"), [(None, 12.0), (None, 0.2), (3.0, 1.6)])
def test_low_rank_counts(size, typical_mean):
    drawn = make_low_rank_counts(
        5000, 200, 3, typical_mean=typical_mean, size=size, strength=0.5, random_state=0
    )
    np.testing.assert_allclose(drawn.eta, drawn.intercept + drawn.scores @ drawn.components, atol=1e-12)
    np.testing.assert_allclose(drawn.components @ drawn.components.T, np.eye(3), atol=1e-12)
    assert np.median(np.exp(drawn.intercept)) == pytest.approx(typical_mean, rel=0.15)
    assert np.sqrt(np.mean((drawn.eta - drawn.intercept) ** 2)) == pytest.approx(0.5 * np.sqrt(3), rel=0.1)
    mean = np.exp(drawn.eta)
    variance = mean if size is None else mean + mean**2 / size
    assert np.mean((drawn.X - mean) ** 2 / variance) == pytest.approx(1.0, rel=0.02)
    spreads = drawn.scores.std(axis=0)
    assert np.all(np.diff(spreads) < 0)


def test_counts_without_components_are_noise():
    drawn = make_low_rank_counts(50, 10, 0, missing=0.1, random_state=0)
    np.testing.assert_array_equal(drawn.eta, np.tile(drawn.intercept, (50, 1)))
    assert 0.02 < np.isnan(drawn.X).mean() < 0.2


def test_noise_of_its_own_in_every_column():
    drawn = make_low_rank(20_000, 3, 1, family="gaussian", dispersion=[0.1, 1.0, 10.0], random_state=0)
    np.testing.assert_allclose(np.var(drawn.X - drawn.eta, axis=0), [0.1, 1.0, 10.0], rtol=0.05)


def test_sparse_counts():
    drawn = make_sparse_counts(2000, typical_mean=2.0, random_state=0)
    np.testing.assert_array_equal(drawn.support.sum(axis=1), [15, 15, 15])
    assert drawn.support.sum(axis=0).max() == 1
    sizes = np.abs(drawn.components[drawn.support])
    assert sizes.min() >= 0.6
    assert sizes.max() <= 1.0
    assert not drawn.components[~drawn.support].any()
    idle = ~drawn.support.any(axis=0)
    assert drawn.X[:, idle].mean() == pytest.approx(2.0, rel=0.01)


def test_hinge():
    drawn = make_hinge(20_000, corner=0.4, jump=1.0, noise=[0.0, 0.0, 0.3], random_state=0)
    np.testing.assert_array_equal(drawn.X[:, :2], drawn.latent)
    x = drawn.latent[:, 0]
    np.testing.assert_allclose(drawn.surface[:, 2], np.abs(x - 0.4) + (x > 0.4))
    np.testing.assert_array_equal(drawn.pieces, x > 0.4)
    assert np.std(drawn.X[:, 2] - drawn.surface[:, 2]) == pytest.approx(0.3, rel=0.02)


def test_wide_hinge_fills_one_dimension_more_than_it_has():
    drawn = make_wide_hinge(noise=0.0, random_state=0)
    assert np.linalg.matrix_rank(drawn.X - drawn.X.mean(axis=0)) == 4
    for piece in (0, 1):
        assert np.linalg.matrix_rank(drawn.X[drawn.pieces == piece], tol=1e-8) == 3


def test_bent_counts():
    drawn = make_bent_counts(20_000, random_state=0)
    other = make_bent_counts(10, random_state=1)
    np.testing.assert_array_equal(drawn.maps, other.maps)
    assert np.exp(drawn.offset).min() >= 1
    assert np.exp(drawn.offset).max() <= 3
    extended = np.column_stack([drawn.latent, np.ones(20_000)])
    mean = np.exp(np.einsum("npj,nj->np", drawn.maps[drawn.pieces], extended) + drawn.offset[:, None])
    assert np.mean((drawn.X - mean) ** 2 / mean) == pytest.approx(1.0, rel=0.02)
    # The two pieces agree where the second latent coordinate is 0.
    np.testing.assert_array_equal(drawn.maps[0][:, [0, 2]], drawn.maps[1][:, [0, 2]])


def test_distances_along_the_roll():
    """Small steps in space are as long as on the rectangle."""
    roll = make_swiss_roll(4000, random_state=0)
    order = np.lexsort((roll.flat[:, 1], np.round(roll.flat[:, 0] / 0.05)))
    in_space = np.linalg.norm(np.diff(roll.X[order], axis=0), axis=1)
    on_surface = np.linalg.norm(np.diff(roll.flat[order], axis=0), axis=1)
    near = on_surface < 0.5
    assert near.sum() > 100
    np.testing.assert_allclose(in_space[near], on_surface[near], rtol=0.01)


def test_globally_sparse():
    drawn = make_globally_sparse(5000, 100, 10, n_active=20, noise=0.6, random_state=0)
    assert drawn.support.sum() == 20
    np.testing.assert_array_equal(drawn.components.any(axis=0), drawn.support)
    np.testing.assert_allclose(drawn.X[:, ~drawn.support].std(axis=0), 0.6, rtol=0.05)
    assert np.std(drawn.X - drawn.scores @ drawn.components) == pytest.approx(0.6, rel=0.01)


@pytest.mark.parametrize(
    ("make", "arguments", "complaint"),
    [
        (make_prototype_bits, {"flip": 0.5}, r"\[0, 0.5\); got 0.5"),
        (make_prototype_bits, {"missing": 1.0}, r"share in \[0, 1\); got 1.0"),
        (make_prototype_bits, {"n_prototypes": 17}, "n_features = 16; got 17"),
        (make_prototype_bits, {"prototypes": [[0, 2]]}, "zeros and ones"),
        (make_sppca_order, {"n_components": 4}, "1, 2 or 3; got 4"),
        (make_sppca_order, {"n_components": 3, "n_features": 6}, "at least 7; got 6"),
        (make_sppca_loadings, {"n_components": 3}, r"X2D\); got 3"),
        (make_sppca_classes, {"n_classes": 4}, "2 or 3; got 4"),
        (make_sppca_classes, {"n_samples": 10}, "multiple of 4"),
        (make_sparse_counts, {"n_nonzero": 100}, r"got 3 \* 100"),
        (make_sparse_counts, {"typical_mean": 0.0}, "typical_mean must be above 0; got 0.0"),
        (make_wide_hinge, {"n_components": 8}, "between 1 and n_features - 1 = 7; got 8"),
        (make_globally_sparse, {"n_active": 31}, "n_features = 30; got 31"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_refusals(make, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        make(**arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n_components": 6}, r"= 5; got 6"),
        ({"size": -1.0}, "size must be above 0; got -1.0"),
        ({"typical_mean": 0.0}, "typical_mean must be above 0"),
        ({"missing": -0.1}, "got -0.1"),
    ],
)
def test_low_rank_counts_refuse(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_low_rank_counts(**({"n_samples": 20, "n_features": 5, "n_components": 2} | arguments))
