"""Dispersions from the bound, their priors, directions above the edge of noise, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import nbinom
from sklearn.datasets import load_breast_cancer

from anypca import SePCA
from anypca.datasets import make_low_rank
from anypca.models._bilinear.dispersion import DISPERSION_GRID
from anypca.models.sepca._fit import nested_evidence
from anypca.models.sepca._noise import noise_prior, own_dispersions, pooled
from anypca.models.sepca._spectrum import _leading, noise_edge, standing_out
from anypca.models.sepca._start import most_determined_of


def test_the_prior_of_noise_is_that_of_its_pseudo_observations():
    """Six more observations at the typical share: the best noise under both is the weighted mean of the two."""
    null, count, found = np.array([1.0, 4.0, 9.0]), 20.0, np.array([0.5, 2.0, 1.0])
    best = pooled(found, np.full(3, count), null)
    typical = 0.5 * 9.0
    assert_allclose(best, [0.5, 2.0, (20.0 * 1.0 + 6.0 * typical) / 26.0], rtol=1e-12)

    def objective(noise):
        own = np.array([0.5, 2.0, noise])
        return -0.5 * count * (np.log(noise) + found[2] / noise) + noise_prior(own, null)

    step = 1e-4
    slope = (objective(best[2] + step) - objective(best[2] - step)) / (2.0 * step)
    assert abs(slope) < 1e-6
    assert noise_prior(0.5 * null, null) == pytest.approx(0.0, abs=1e-12)


def tall_table(seed, n=3000, p=8):
    """Three strong components in columns whose noise differs, with more rows than a table needs to tell."""
    rng = np.random.default_rng([seed, n, p, 3, 77])
    loadings, noise = rng.standard_normal((3, p)), np.exp(0.5 * rng.standard_normal(p))
    return 0.7 * rng.standard_normal((n, 3)) @ loadings + noise * rng.standard_normal((n, p))


@pytest.mark.parametrize(("seed", "p"), [(2, 8), (0, 10)])
def test_few_columns_of_many_rows_have_the_components_that_they_have(seed, p):
    """Equal shares of noise need five and more here, and noise of the columns' own kept those that it started with."""
    model = SePCA(family="gaussian").fit(tall_table(seed, p=p))
    assert model.n_components_ == 3
    assert model.dispersion_report_.used == "feature"


def test_noise_of_its_own_is_found_as_well_as_where_it_is_asked_for():
    X = load_breast_cancer().data[:150, :10]
    found, asked = SePCA(family="gaussian").fit(X), SePCA(family="gaussian", dispersion="feature").fit(X)
    assert found.n_components_ == asked.n_components_
    # A near tie between two ways to the same model.
    assert found.evidence_ > asked.evidence_ - 3.0


@pytest.mark.parametrize("p", [3, 5, 6, 8, 10, 15, 20, 60])
def test_most_components_beside_which_noise_is_determined(p):
    """Those with at least as many second moments as free numbers: loadings up to rotations, and noise."""
    k = np.arange(p)
    free = p * k - k * (k - 1) // 2 + p
    assert most_determined_of(p) == k[free <= p * (p + 1) // 2].max()


@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_the_prior_of_noise_has_no_units(factor):
    null, noise = np.array([1.0, 4.0, 9.0, 2.0]), np.array([0.5, 3.0, 1.0, 0.2])
    scaled = np.array([factor, 1.0, 1.0, 1.0])
    assert noise_prior(noise * scaled, null * scaled) == pytest.approx(noise_prior(noise, null), rel=1e-12)


def grid_values(dispersions, n=400, mean=5.0, seed=0):
    """Log-likelihoods of negative binomial columns at the values of the grid."""
    rng = np.random.default_rng(seed)
    columns = [rng.poisson(mean * rng.gamma(1 / a, a, size=n)) for a in dispersions]
    return np.array(
        [[nbinom.logpmf(x, 1 / a, 1 / (1 + a * mean)).sum() for x in columns] for a in DISPERSION_GRID]
    )


def test_own_dispersions_are_worth_it_where_they_differ():
    found = own_dispersions(grid_values(np.array([0.1, 0.3, 1.0, 3.0])))
    assert_allclose(np.log(found.dispersion), np.log([0.1, 0.3, 1.0, 3.0]), atol=0.5)
    assert found.gain > 50.0
    assert found.cost > 0.0


def test_own_dispersions_gain_nothing_where_there_is_one():
    values = grid_values(np.full(6, 0.5))
    found = own_dispersions(values)
    assert found.gain < 3.0
    assert np.ptp(np.log(found.dispersion)) < 0.4
    # Neither a constant of a column nor the order of columns is of any moment.
    other = own_dispersions(values[:, ::-1] + np.arange(6.0))
    assert_allclose(other.dispersion[::-1], found.dispersion, rtol=1e-9)
    assert other.gain == pytest.approx(found.gain, abs=1e-6)


@pytest.mark.parametrize("shape", [(100, 30), (60, 200), (400, 8)], ids=str)
def test_noise_stays_below_its_edge(shape):
    """Ninety-nine of a hundred tables do; three of forty that do not would be one chance in a hundred."""
    rng = np.random.default_rng(3)
    largest = np.array([np.linalg.norm(rng.normal(size=shape), 2) ** 2 for _ in range(40)])
    assert (largest > noise_edge(*shape)).sum() <= 2
    assert largest.mean() > 0.85 * noise_edge(*shape)


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_directions_above_noise_are_counted(rank):
    rng = np.random.default_rng(4)
    signal = rng.normal(size=(150, rank)) @ rng.normal(size=(rank, 40))
    squared = np.linalg.svd(3.0 * (signal + rng.normal(size=(150, 40))), compute_uv=False) ** 2
    assert standing_out(squared[:11], squared.sum(), 150, 40, 10) == rank
    assert standing_out(squared[:2], squared.sum(), 150, 40, 1) == min(rank, 1)


def test_directions_of_wide_tables_are_counted_by_products():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 1100)) + 2.0 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 1100))
    exact = np.linalg.svd(X, compute_uv=False)[:4] ** 2
    found = _leading(lambda basis: X.T @ (X @ basis), np.ones(1100), 4)
    np.testing.assert_allclose(found[:2], exact[:2], rtol=1e-6)
    assert np.all((found[2:] > 0.9 * exact[2:]) & (found[2:] <= exact[2:]))


@pytest.mark.parametrize("family", ["gaussian", "negative_binomial", "bernoulli"])
def test_probabilities_of_dimensions(family):
    X = make_low_rank(120, 30, 2, family=family, signal=2.0, dispersion=0.3, random_state=2).X
    model = SePCA(5, family=family).fit(X)
    probabilities = model.rank_probabilities_
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert set(probabilities) > set(model.evidence_by_rank_)
    assert max(probabilities, key=probabilities.get) == model.n_components_ == 2
    # On a logarithmic scale two components bend the means into more directions.
    assert model.n_above_noise_ == 2 if family != "negative_binomial" else model.n_above_noise_ >= 2
    # One component more is possible, and less likely the more there would be.
    assert probabilities[2] > 0.5
    assert probabilities[2] > probabilities[3] > probabilities[4] > 0.0


def test_no_dimension_has_less_evidence_than_its_last_component_costs():
    cost = 0.5 * np.log(20.0)
    found = nested_evidence({2: -10.0, 3: -4.0, 4: -30.0}, 20, 8)
    assert found == pytest.approx({2: -10.0, 3: -4.0, 4: -4.0 - cost, 5: -4.0 - 2.0 * cost})
    assert list(nested_evidence({2: -10.0, 3: -4.0}, 20, 3)) == [2, 3]
    assert nested_evidence({}, 20, 3) == {}


def test_intervals_of_loadings_cover_them():
    """Nominally 90 %; about 400 loadings of ten tables lie within a few per cent of that."""
    inside = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        loadings = rng.normal(size=(20, 2)) * [1.5, 0.8]
        X = rng.normal(size=(100, 2)) @ loadings.T + rng.normal(size=(100, 20))
        model = SePCA(4, family="gaussian", n_jobs=1).fit(X)
        if model.n_components_ != 2:
            continue
        # The orthogonal basis of the truth in which the model reports.
        basis = np.linalg.svd(loadings / np.sqrt(model.dispersion_)[:, None], full_matrices=False)[2].T
        truth = (loadings @ basis).T
        truth *= np.sign((truth * model.components_).sum(axis=1, keepdims=True))
        inside.append(np.abs(model.components_ - truth) < 1.645 * model.components_std_)
    assert len(inside) >= 8
    assert 0.83 < np.mean(inside) < 0.97


@pytest.mark.parametrize("sizes", [(4.0, 3.0), (1.1,)], ids=["near-sizes", "weak"])
def test_widths_of_loadings_are_those_of_repeated_tables(sizes):
    """Near components turn into each other, scores of weak ones are hardly known: as in 300 tables."""
    n, k, rng = 400, len(sizes), np.random.default_rng(3)
    loadings = np.linalg.qr(rng.normal(size=(12, k)))[0] * sizes

    def draw():
        return rng.normal(size=(n, k)) @ loadings.T + rng.normal(size=(n, 12))

    def leading(X):
        values, vectors = np.linalg.eigh(np.cov(X.T))
        found = vectors[:, : -k - 1 : -1] * np.sqrt(values[: -k - 1 : -1] - values[:-k].mean())
        return (found * np.sign((found * loadings).sum(axis=0))).T

    spread = np.std([leading(draw()) for _ in range(300)], axis=0)
    model = SePCA(4, family="gaussian", dispersion="shared", n_jobs=1).fit(draw())
    assert model.n_components_ == k
    ratio = np.sqrt((model.components_std_**2).sum(axis=1) / (spread**2).sum(axis=1))
    # One table knows the sizes, and their distance, to some fifteen per cent.
    assert_allclose(ratio, 1.0, atol=0.3 if k > 1 else 0.15)
