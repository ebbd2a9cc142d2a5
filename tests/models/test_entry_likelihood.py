"""Log-likelihoods at plugged-in scores."""

from __future__ import annotations

import dask.array as dask_array
import numpy as np
import pytest
from scipy import stats

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA, SePCA
from anypca.linalg import unpack_symmetric

RNG = np.random.default_rng(0)
RATES = np.exp(RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) * 0.5 + 1.0)
COUNTS = RNG.poisson(RATES).astype(float)
COUNTS[3, 2] = COUNTS[10, 7] = np.nan
REALS = RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) + RNG.normal(size=(50, 8))
REALS[3, 2] = np.nan
ROWS, COLUMNS, VALUES = np.array([3, 10]), np.array([2, 7]), np.array([4.0, 2.0])

POISSON = {
    "epca": EPCA(2, family="poisson", n_jobs=1),
    "sepca": SePCA(3, family="poisson", n_jobs=1),
    "plnpca": PLNPCA(2, n_jobs=1),
    "piecewise": PiecewisePCA(2, n_pieces=1, family="poisson", n_init=1, n_jobs=1),
}
GAUSSIAN = {
    "epca": EPCA(2, family="gaussian", n_jobs=1),
    "ppca": PPCA(2, n_jobs=1),
    "piecewise": PiecewisePCA(2, n_pieces=1, n_init=1, n_jobs=1),
}


def noise(model):
    """Noise variance, whatever the model calls it."""
    return model.noise_variance_ if hasattr(model, "noise_variance_") else model.dispersion_[0]


def averaged(values, mean, std):
    """Log-probability of counts whose predictors are normal."""
    nodes = np.linspace(-8, 8, 4001)
    weights = stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    return np.log(weights @ stats.poisson.pmf(values, np.exp(mean + nodes[:, None] * std)))


@pytest.mark.parametrize("model", POISSON.values(), ids=POISSON)
def test_counts_against_scipy(model):
    model.fit(COUNTS)
    rates = model.inverse_transform(model.transform(COUNTS))
    terms = stats.poisson.logpmf(COUNTS, rates)
    np.testing.assert_allclose(model.plug_in_log_likelihood(COUNTS), np.nansum(terms, axis=1), rtol=1e-9)
    found = model.entry_log_likelihood(COUNTS, ROWS, COLUMNS, VALUES)
    if isinstance(model, SePCA):
        expected = averaged(VALUES, *model.entry_posterior(COUNTS, ROWS, COLUMNS))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        np.testing.assert_allclose(found, stats.poisson.logpmf(VALUES, rates[ROWS, COLUMNS]), rtol=1e-9)


@pytest.mark.parametrize("model", GAUSSIAN.values(), ids=GAUSSIAN)
def test_reals_against_scipy(model):
    model.fit(REALS)
    means = model.inverse_transform(model.transform(REALS))
    steps = np.log(model.resolution_)
    terms = stats.norm.logpdf(REALS, means, np.sqrt(noise(model))) + steps
    np.testing.assert_allclose(model.plug_in_log_likelihood(REALS), np.nansum(terms, axis=1), rtol=1e-9)
    found = model.entry_log_likelihood(REALS, ROWS, COLUMNS, VALUES)
    expected = stats.norm.logpdf(VALUES, means[ROWS, COLUMNS], np.sqrt(noise(model)))
    np.testing.assert_allclose(found, expected + steps[COLUMNS], rtol=1e-9)


def test_each_entry_has_the_noise_of_its_own_column():
    mixed = np.where(np.arange(8) < 4, REALS, np.exp(REALS))
    model = EPCA(2, family=["gaussian"] * 4 + ["gamma"] * 4, n_jobs=1).fit(mixed)
    means, steps = model.inverse_transform(model.transform(mixed)), np.log(model.resolution_)
    assert len(np.unique(model.dispersion_)) == 8
    found = model.entry_log_likelihood(mixed, ROWS, COLUMNS, VALUES)
    (first, second), shape = means[ROWS, COLUMNS], 1.0 / model.dispersion_[7]
    expected = [
        stats.norm.logpdf(VALUES[0], first, np.sqrt(model.dispersion_[2])),
        stats.gamma.logpdf(VALUES[1], shape, scale=second / shape),
    ]
    np.testing.assert_allclose(found, expected + steps[COLUMNS], rtol=1e-9)


def test_offsets_and_covariates_enter():
    offset, covariates = RNG.normal(size=50) * 0.3, RNG.normal(size=(50, 1))
    model = EPCA(1, family="poisson", n_jobs=1).fit(COUNTS, offset=offset, covariates=covariates)
    both = {"offset": offset, "covariates": covariates}
    rates = model.inverse_transform(model.transform(COUNTS, **both), **both)
    found = model.plug_in_log_likelihood(COUNTS, **both)
    expected = np.nansum(stats.poisson.logpmf(COUNTS, rates), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_without_components_the_marginal_is_the_plug_in():
    model = EPCA(0, family="poisson", n_jobs=1).fit(COUNTS)
    means = np.nanmean(COUNTS, axis=0)
    expected = np.nansum(stats.poisson.logpmf(COUNTS, means), axis=1)
    np.testing.assert_allclose(model.score_samples(COUNTS), expected, rtol=1e-6)
    np.testing.assert_allclose(model.plug_in_log_likelihood(COUNTS), expected, rtol=1e-6)
    assert model.transform(COUNTS).shape == (50, 0)


def test_entries_may_come_in_any_order():
    # Chunks become blocks.
    X = dask_array.from_array(COUNTS, chunks=(7, 8))
    model = SePCA(2, family="poisson", n_jobs=1).fit(COUNTS)
    rows, columns = np.array([40, 3, 21, 3]), np.array([1, 2, 0, 5])
    values = np.array([1.0, 4.0, 2.0, 0.0])
    order = np.argsort(rows, kind="stable")
    found = model.entry_log_likelihood(X, rows, columns, values)
    sorted_ = model.entry_log_likelihood(COUNTS, rows[order], columns[order], values[order])
    np.testing.assert_allclose(found[order], sorted_, rtol=1e-9)
    for one, other in zip(
        model.entry_posterior(X, rows, columns),
        model.entry_posterior(COUNTS, rows[order], columns[order]),
        strict=True,
    ):
        np.testing.assert_allclose(one[order], other, rtol=1e-7)


@pytest.mark.parametrize("row", [-1, 50])
def test_entries_outside_of_the_table(row):
    model = EPCA(1, family="poisson", n_jobs=1).fit(COUNTS)
    with pytest.raises(IndexError, match="entry 1 of 2 lies in no row of X"):
        model.entry_log_likelihood(COUNTS, [3, row], [2, 2], [1.0, 1.0])


@pytest.mark.parametrize("inference", ["vb", "map"])
def test_predictor_at_entries_against_draws(inference):
    """Mean and spread of products of independent normal scores and loadings."""
    offset = RNG.normal(size=50) * 0.3
    model = SePCA(2, family="poisson", inference=inference, n_jobs=1).fit(COUNTS, offset=offset)
    assert model.n_components_ == 2
    mean, std = model.entry_posterior(COUNTS, ROWS, COLUMNS, offset=offset)
    rng, scores = np.random.default_rng(1), model.transform(COUNTS, offset=offset)
    np.testing.assert_allclose(
        np.exp(mean), model.inverse_transform(scores, offset=offset)[ROWS, COLUMNS], rtol=1e-9
    )
    if inference == "map":
        assert (std > 0).all()
        return
    view = model._row_model()
    with model._open_new(COUNTS, offset=offset, covariates=None) as (data, _):
        found = view.solve(view.open(data.blocks[0]))
    for row, column, m, s in zip(ROWS, COLUMNS, mean, std, strict=True):
        z = rng.multivariate_normal(
            found.mean[row], np.linalg.inv(unpack_symmetric(found.precision[[row]], 2)[0]), 200_000
        )
        w = rng.multivariate_normal(view.loadings.mean[column], view.loadings.covariance[column], 200_000)
        eta = (z * w[:, :2]).sum(axis=1) + w[:, 2] + offset[row]
        np.testing.assert_allclose([eta.mean(), eta.std()], [m, s], rtol=0.02, atol=0.01)


def test_known_loadings_leave_the_spread_of_scores_alone():
    """One Gaussian column per score of a mode: the variance is the loading squared times that of the score."""
    model = SePCA(1, family="gaussian", inference="map", n_jobs=1).fit(REALS)
    _, std = model.entry_posterior(REALS, ROWS, COLUMNS)
    deviations = model.transform(REALS, return_std=True)[1]
    np.testing.assert_allclose(std, deviations[ROWS, 0] * np.abs(model.components_[0, COLUMNS]), rtol=1e-9)


def test_several_values_at_one_entry():
    model = EPCA(2, family="poisson", n_jobs=1).fit(COUNTS)
    values = [0.0, 1.0, 5.0]
    together = model.entry_log_likelihood(COUNTS, [3, 3, 3], [2, 2, 2], values)
    apart = [model.entry_log_likelihood(COUNTS, [3], [2], [value])[0] for value in values]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    assert len(set(together)) == 3


def test_entries_of_a_mixed_table():
    X = np.hstack([COUNTS, REALS])
    model = SePCA(2, family=["poisson"] * 8 + ["gaussian"] * 8, n_jobs=1).fit(X)
    rows, columns, values = np.array([10, 3, 3]), np.array([7, 10, 2]), np.array([2.0, 0.5, 4.0])
    fitted = model.inverse_transform(model.transform(X))[rows, columns]
    mean, std = model.entry_posterior(X, rows, columns)
    expected = averaged(np.ceil(values), mean, std)
    density = stats.norm.logpdf(0.5, fitted[1], np.sqrt(model.dispersion_[10] + std[1] ** 2))
    expected[1] = density + np.log(model.resolution_[10])
    np.testing.assert_allclose(model.entry_log_likelihood(X, rows, columns, values), expected, rtol=1e-6)
    means = [
        model.family_.columns(slice(c, c + 1)).mean(m) for c, m in zip(columns, mean[:, None], strict=True)
    ]
    np.testing.assert_allclose(np.ravel(means), fitted, rtol=1e-9)
    assert (std > 0).all()


@pytest.mark.parametrize(
    ("rows", "columns", "error", "message"),
    [
        ([3], [-1], IndexError, "column -1 is outside of the table, which has 8"),
        ([3], [8], IndexError, "column 8 is outside"),
        ([3], [2, 4], ValueError, r"in pairs, one of each; got shapes \(1,\) and \(2,\)"),
        ([0.5], [2.0], ValueError, "must be integers; got float64"),
    ],
)
def test_places_that_are_none(rows, columns, error, message):
    model = SePCA(1, family="poisson", n_jobs=1).fit(COUNTS)
    with pytest.raises(error, match=message):
        model.entry_posterior(COUNTS, rows, columns)
    with pytest.raises(error, match=message):
        model.entry_log_likelihood(COUNTS, rows, columns, np.ones(len(rows)))


def test_no_entries():
    model = SePCA(1, family="poisson", n_jobs=1).fit(COUNTS)
    assert [part.shape for part in model.entry_posterior(COUNTS, [], [])] == [(0,), (0,)]
    assert model.entry_log_likelihood(COUNTS, [], [], []).shape == (0,)


def test_entries_of_one_count_component_vary_as_its_scores():
    model = PLNPCA(1, n_jobs=1).fit(COUNTS)
    _, std = model.entry_posterior(COUNTS, ROWS, COLUMNS)
    deviations = model.transform(COUNTS, return_std=True)[1]
    np.testing.assert_allclose(std, deviations[ROWS, 0] * np.abs(model.components_[0, COLUMNS]), rtol=1e-9)
