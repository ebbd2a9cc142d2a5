"""What models say of rows and single entries: posteriors, imputation, log-likelihoods, rows without entries."""

from __future__ import annotations

from functools import cache
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from tests.draws import generator

from anypca import BEPCA, EPCA, GPCA, GSPPCA, PLNPCA, PPCA, VAE, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank

N, P = 100, 8
RATES = make_low_rank(N, P, 2, family="poisson", signal=0.7, random_state=generator("rows"))
COUNTS = RATES.X
REALS = make_low_rank(N, P, 2, family="gaussian", random_state=generator("real rows"), dispersion=0.1).X
HIDDEN = generator("hidden entries").random((N, P)) < 0.1
HIDDEN[:, 0] = False
ROWS, COLUMNS = (index[:6] for index in np.nonzero(HIDDEN))

POISSON: dict[str, Any] = {
    "EPCA": EPCA(2, family="poisson"),
    "SePCA": SePCA(3, family="poisson"),
    "SePCA map": SePCA(3, family="poisson", inference="map"),
    "PLNPCA": PLNPCA(2),
    "PiecewisePCA": PiecewisePCA(2, n_pieces=1, family="poisson", n_init=1),
    "PiecewisePCA bent": PiecewisePCA(1, family="poisson", n_init=1),
}
GAUSSIAN: dict[str, Any] = {
    "PPCA": PPCA(2),
    "EPCA of numbers": EPCA(2, family="gaussian"),
    "GSPPCA": GSPPCA(2),
    "PiecewisePCA of numbers": PiecewisePCA(2, n_pieces=1, n_init=1),
}
OTHERS: dict[str, Any] = {
    "BEPCA": BEPCA(2, family="gaussian", n_draws=60, n_tune=60, n_chains=2, random_state=0),
    "VAE": VAE(2, family="gaussian", n_iter_no_change=5, random_state=0),
}
MODELS = POISSON | GAUSSIAN | OTHERS
pytestmark = pytest.mark.filterwarnings("ignore:.*the chains disagree", "ignore:VAE")


@cache
def fitted(name: str) -> tuple[Any, np.ndarray]:
    """Return a model of a table and the table with hidden entries."""
    if name == "BEPCA":
        pytest.importorskip("polyagamma")
        pytest.importorskip("nutpie")
    X = COUNTS if name in POISSON else REALS
    return clone(MODELS[name]).set_params(n_jobs=1).fit(X), np.where(HIDDEN, np.nan, X)


@pytest.mark.parametrize("name", MODELS)
def test_entries_have_the_posterior_of_their_predictor(name: str) -> None:
    model, holes = fitted(name)
    mean, std = model.entry_posterior(holes, *np.nonzero(HIDDEN))
    assert np.all(std >= 0 if name == "GSPPCA" else std > 0)
    if name == "GSPPCA":  # its scores need every entry, its expectations do not
        assert_allclose(mean, model.impute(holes)[HIDDEN])
    elif name.startswith("PiecewisePCA") and model.breakpoints_.size:
        drawn = model.sample_latent(holes, 1000, random_state=0)
        eta = model.family_.link(np.array([model.inverse_transform(points)[HIDDEN] for points in drawn]))
        assert np.all(np.abs(eta.mean(axis=0) - mean) < 6 * std / np.sqrt(1000))
        assert_allclose(eta.std(axis=0), std, rtol=0.25)  # a standard error of 0.03 for normal draws
    else:
        expected = model.inverse_transform(model.transform(holes))[HIDDEN]
        # Scores and loadings vary together over draws: the mean of products is not the product of means.
        assert_allclose(model.family_.mean(mean), expected, rtol=0.05 if name == "BEPCA" else 1e-6, atol=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_imputed_entries_are_as_far_off_as_their_deviations(name: str) -> None:
    """Standardised errors of hidden entries, of which there are about 70, have a mean square near one."""
    model, holes = fitted(name)
    filled, std = model.impute(holes, return_std=True)
    square = np.mean(((filled - (COUNTS if name in POISSON else REALS))[HIDDEN] / std[HIDDEN]) ** 2)
    assert 0.25 < square < 3.0


@pytest.mark.parametrize("name", ["PPCA", "EPCA of numbers"])
def test_noise_and_posterior_make_the_deviation_of_numbers(name: str) -> None:
    model, holes = fitted(name)
    variance = model.entry_posterior(holes, *np.nonzero(HIDDEN))[1] ** 2
    noise = model.noise_variance_ if name == "PPCA" else model.dispersion_[np.nonzero(HIDDEN)[1]]
    assert_allclose(model.impute(holes, return_std=True)[1][HIDDEN], np.sqrt(variance + noise), rtol=1e-9)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "negative_binomial(3)", "gamma(5)"])
def test_predictive_deviation_is_that_of_the_family_over_the_posterior(family: str) -> None:
    """Law of total variance, by a quadrature of 100 nodes over the posterior of the predictor."""
    X = make_low_rank(60, 5, 1, family=family, random_state=generator(family)).X
    X[3, 2] = np.nan
    model = EPCA(1, family=family, ridge=1.0, n_jobs=1).fit(X, offset=np.zeros(60))
    (mean,), (std,) = model.entry_posterior(X, [3], [2], offset=np.zeros(60))
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    means = model.family_.mean(mean + std * nodes)
    moments = means, model.family_.variance(means, model.dispersion_[2]) + means**2
    first, second = (part @ weights / weights.sum() for part in moments)
    expected = np.sqrt(second - first**2)
    assert model.impute(X, return_std=True, offset=np.zeros(60))[1][3, 2] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", [*POISSON, "PPCA", "EPCA of numbers"])
def test_log_likelihoods_against_scipy(name: str) -> None:
    """Of rows at their scores, and of entries: at the predictor, or averaged over a variational posterior."""
    model, holes = fitted(name)
    means = model.inverse_transform(model.transform(holes))
    if name in POISSON:
        log_density, steps = (lambda x, mu: stats.poisson.logpmf(x, mu)), np.zeros(P)
    else:
        scale = np.sqrt(getattr(model, "noise_variance_", model.describe().dispersion[0]))
        log_density, steps = (lambda x, mu: stats.norm.logpdf(x, mu, scale)), np.log(model.resolution_)
    rows = np.nansum(log_density(holes, means) + steps, axis=1)
    assert_allclose(model.plug_in_log_likelihood(holes), rows, rtol=1e-9)
    values = np.arange(6.0)
    found = model.entry_log_likelihood(holes, ROWS, COLUMNS, values)
    if name == "SePCA":
        mean, std = model.entry_posterior(holes, ROWS, COLUMNS)
        nodes, dz = np.linspace(-8, 8, 4001, retstep=True)
        mass = stats.poisson.pmf(values, np.exp(mean + nodes[:, None] * std))
        assert_allclose(found, np.log(stats.norm.pdf(nodes) * dz @ mass), rtol=1e-6)
    else:
        assert_allclose(found, log_density(values, means[ROWS, COLUMNS]) + steps[COLUMNS], rtol=1e-9)


@pytest.mark.parametrize(
    ("family", "dispersion", "low"),
    [("gaussian", 0.01, 0.0), ("bernoulli", 1.0, 0.0), ("negative_binomial", 0.5, 0.0), ("gamma", 0.1, 0.5)],
)
def test_probabilities_of_entries_are_integrals_over_the_predictor(
    family: str, dispersion: float, low: float
) -> None:
    """Also if a value is far more certain than its predictor."""
    rng = generator("integrals", family)
    X = make_low_rank(60, 5, 1, family=family, signal=1.0, dispersion=dispersion, random_state=rng).X
    X[3, 1:], X[4, 2] = np.nan, np.nan
    model = SePCA(1, family=family, n_jobs=1).fit(X)
    rows, columns, values = np.array([3, 4, 4]), np.array([2, 2, 0]), np.array([1.0, 1.0, low or 0.0])
    mean, std = model.entry_posterior(X, rows, columns)
    eta = mean + np.linspace(-30.0, 30.0, 60_001)[:, None] * std
    phi, step = model.dispersion_[columns], model.resolution_[columns]
    mass = np.exp(model.family_.log_interval_probability(np.broadcast_to(values, eta.shape), eta, phi, step))
    density = stats.norm.pdf(eta, mean, std)
    expected = np.log(np.trapezoid(mass * density, eta, axis=0))
    assert_allclose(model.entry_log_likelihood(X, rows, columns, values), expected, atol=1e-3)


def test_each_entry_has_the_family_and_noise_of_its_own_column() -> None:
    mixed = np.hstack([REALS[:, :4], np.exp(0.5 * REALS[:, 4:])])
    mixed[3, 2] = mixed[10, 7] = np.nan
    rows, columns, values = np.array([3, 10]), np.array([2, 7]), np.array([4.0, 2.0])
    model = EPCA(2, family=["gaussian"] * 4 + ["gamma"] * 4, n_jobs=1).fit(mixed)
    first, second = model.inverse_transform(model.transform(mixed))[rows, columns]
    shape = 1.0 / model.dispersion_[7]
    expected = [
        stats.norm.logpdf(4.0, first, np.sqrt(model.dispersion_[2])),
        stats.gamma.logpdf(2.0, shape, scale=second / shape),
    ] + np.log(model.resolution_)[columns]
    assert_allclose(model.entry_log_likelihood(mixed, rows, columns, values), expected, rtol=1e-9)


def test_offsets_and_covariates_enter_predictors(rng: np.random.Generator) -> None:
    both = {"offset": 0.3 * rng.normal(size=N), "covariates": rng.normal(size=(N, 1))}
    model = EPCA(1, family="poisson", n_jobs=1).fit(COUNTS, **both)
    scores = model.transform(COUNTS, **both)
    eta = scores @ model.components_ + model.intercept_ + both["covariates"] @ model.coef_.T
    rates = np.exp(eta + both["offset"][:, None])
    assert_allclose(model.inverse_transform(scores, **both), rates, rtol=1e-10)
    expected = stats.poisson.logpmf(COUNTS, rates).sum(axis=1)
    assert_allclose(model.plug_in_log_likelihood(COUNTS, **both), expected, rtol=1e-9)


def test_entries_may_come_in_any_order_repeat_and_be_none() -> None:
    model, holes = fitted("SePCA")
    chunks = da.from_array(holes, chunks=(7, P))
    rows, columns, values = np.array([40, 3, 21, 3, 3]), np.array([1, 2, 0, 2, 5]), np.arange(5.0)
    found = model.entry_log_likelihood(chunks, rows, columns, values)
    alone = [
        model.entry_log_likelihood(holes, [i], [j], [x])[0]
        for i, j, x in zip(rows, columns, values, strict=True)
    ]
    assert_allclose(found, alone, rtol=1e-9)
    for one, other in zip(
        model.entry_posterior(chunks, rows, columns), model.entry_posterior(holes, rows, columns), strict=True
    ):
        assert_allclose(one, other, rtol=1e-7)
    assert [part.shape for part in model.entry_posterior(holes, [], [])] == [(0,), (0,)]
    assert model.entry_log_likelihood(holes, [], [], []).shape == (0,)


@pytest.mark.parametrize(
    ("rows", "columns", "error", "message"),
    [
        ([3, N], [0, 0], IndexError, "entry 1 of 2 lies in no row"),
        ([3], [P], IndexError, f"column {P}"),
        ([3], [2, 4], ValueError, r"\(1,\) and \(2,\)"),
        ([0.5], [2.0], ValueError, "integers; got float64"),
    ],
)
def test_places_outside_of_the_table_are_refused(rows: Any, columns: Any, error: Any, message: str) -> None:
    model, _ = fitted("EPCA")
    with pytest.raises(error, match=message):
        model.entry_posterior(COUNTS, rows, columns)
    with pytest.raises(error, match=message):
        model.entry_log_likelihood(COUNTS, rows, columns, np.ones(len(rows)))


def test_single_precision_is_kept() -> None:
    model = EPCA(2, family="poisson", n_jobs=1).fit(COUNTS.astype(np.float32))
    scores = model.transform(COUNTS.astype(np.float32))
    holes = np.where(HIDDEN, np.nan, COUNTS).astype(np.float32)
    assert scores.dtype == model.inverse_transform(scores).dtype == model.impute(holes).dtype == np.float32


EMPTY: dict[str, Any] = {
    "PPCA": PPCA(1, tol=1e-8),
    "EPCA": EPCA(1, family="poisson", tol=1e-8),
    "SePCA": SePCA(1, family="poisson", tol=1e-6),
    "GPCA": GPCA(1, family="poisson", tol=1e-8),
    "PLNPCA": PLNPCA(1, tol=1e-7),
}


@pytest.mark.parametrize("name", EMPTY)
def test_rows_without_entries_have_the_prior_and_change_nothing(name: str) -> None:
    X = REALS.copy() if name == "PPCA" else COUNTS.copy()
    X[7], X[3, 2] = np.nan, np.nan
    found = clone(EMPTY[name]).set_params(n_jobs=1).fit(X)
    without = clone(EMPTY[name]).set_params(n_jobs=1).fit(np.delete(X, 7, axis=0))
    # An empty row may add a sweep: both fits end within tol of the same optimum.
    assert_allclose(found.components_, without.components_, rtol=2e-3, atol=2e-3)
    assert_allclose(found.transform(X)[7], 0.0, atol=1e-10)
    assert_allclose(found.score_samples(X)[7], 0.0, atol=1e-10)
    assert np.isfinite(found.impute(X)).all()
    if name in ("PPCA", "EPCA", "SePCA"):
        std = found.transform(X, return_std=True)[1]
        assert_array_equal(std[7], std.max(axis=0))
        assert np.all(std[7] > 1.1 * np.median(std, axis=0))
