"""What the methods over rows have in common, for every model with a posterior."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from anypca import (
    BEPCA,
    EPCA,
    GPCA,
    GSPPCA,
    PLNPCA,
    PPCA,
    SPCA,
    VAE,
    Autoencoder,
    KernelPCA,
    PiecewisePCA,
    SePCA,
)
from anypca.families import Bernoulli, Gamma, Gaussian, NegativeBinomial, Poisson
from anypca.models._posterior_model import integrate_rows
from anypca.models._row_methods import linear_predictor
from anypca.models._row_model import predictive_deviations

RNG = np.random.default_rng(0)
Z, W = RNG.standard_normal((60, 2)), RNG.standard_normal((2, 8))
REALS = Z @ W + 0.3 * RNG.standard_normal((60, 8)) + 2.0
COUNTS = RNG.poisson(np.exp(0.4 * Z @ W + 1.0)).astype(float)
HIDDEN = RNG.random((60, 8)) < 0.1

WITH_POSTERIOR = {
    "ppca": (PPCA(2, n_jobs=1), REALS),
    "epca gaussian": (EPCA(2, family="gaussian", n_jobs=1), REALS),
    "epca poisson": (EPCA(2, family="poisson", n_jobs=1), COUNTS),
    "bepca": (BEPCA(2, family="gaussian", n_draws=60, n_tune=60, n_jobs=1), REALS),
    "sepca vb": (SePCA(3, family="poisson", n_jobs=1), COUNTS),
    "sepca map": (SePCA(3, family="poisson", inference="map", n_jobs=1), COUNTS),
    "plnpca": (PLNPCA(2, n_jobs=1), COUNTS),
    "gsppca": (GSPPCA(2, n_jobs=1), REALS),
    "vae gaussian": (VAE(2, family="gaussian", n_iter_no_change=5, random_state=0, n_jobs=1), REALS),
    "vae poisson": (VAE(2, family="poisson", n_iter_no_change=5, random_state=0, n_jobs=1), COUNTS),
    "piecewise gaussian": (PiecewisePCA(2, n_init=2, n_jobs=1), REALS),
    "piecewise poisson": (PiecewisePCA(2, family="poisson", n_init=2, n_jobs=1), COUNTS),
    "piecewise bits": (PiecewisePCA(1, family="bernoulli", n_init=1, tol=0.1, n_jobs=1), 1.0 * (COUNTS > 2)),
}


@pytest.fixture(params=WITH_POSTERIOR, name="fitted", scope="module")
def _fitted(request):
    model, X = WITH_POSTERIOR[request.param]
    return model.fit(X), np.where(HIDDEN, np.nan, X), X


def test_imputation_keeps_what_is_there_and_tells_how_sure_it_is(fitted):
    model, holes, _ = fitted
    filled, std = model.impute(holes, return_std=True)
    assert_array_equal(filled, model.impute(holes))
    assert_array_equal(filled[~HIDDEN], holes[~HIDDEN])
    assert (std[HIDDEN] > 0).all()
    assert (std[~HIDDEN] == 0).all()


def test_imputed_entries_are_as_far_off_as_told(fitted):
    """Standardised errors of hidden entries have a mean square near one."""
    model, holes, X = fitted
    filled, std = model.impute(holes, return_std=True)
    square = np.mean(((filled - X)[HIDDEN] / std[HIDDEN]) ** 2)
    assert 0.5 < square < 1.8  # 48 entries: a standard error of 0.2 for normal errors, more for counts


def test_posterior_of_entries_is_at_the_predictor(fitted):
    model, holes, _ = fitted
    rows, columns = np.nonzero(HIDDEN)
    mean, std = model.entry_posterior(holes, rows, columns)
    assert (std > 0).all()
    if isinstance(model, GSPPCA):  # its scores need every entry; its expectations do not
        assert_allclose(mean, model.impute(holes)[HIDDEN])
    elif isinstance(
        model, PiecewisePCA
    ):  # the predictor bends: its mean is not where the mean of the scores is
        drawn = model.sample_latent(holes, 400, random_state=0)
        means = [model.inverse_transform(points)[HIDDEN] for points in drawn]
        eta = model.family_.link(np.array(means))
        assert np.all(np.abs(eta.mean(axis=0) - mean) < 5 * std / np.sqrt(400))
        assert_allclose(
            eta.std(axis=0), std, rtol=0.25
        )  # 400 draws: 0.05 for normal ones, more for two pieces
    else:
        expected = model.inverse_transform(model.transform(holes))[HIDDEN]
        # Over draws, scores and loadings vary together: the mean of products is not the product of means.
        assert_allclose(model.family_.mean(mean), expected, rtol=1e-2 if isinstance(model, BEPCA) else 1e-6)


def test_noise_and_posterior_make_the_deviation_of_gaussian_entries():
    model = PPCA(2, n_jobs=1).fit(REALS)
    holes = np.where(HIDDEN, np.nan, REALS)
    variance = model.entry_posterior(holes, *np.nonzero(HIDDEN))[1] ** 2 + model.noise_variance_
    assert_allclose(model.impute(holes, return_std=True)[1][HIDDEN], np.sqrt(variance))


@pytest.mark.parametrize(
    ("family", "dispersion"),
    [(Gaussian(), 0.5), (Poisson(), 1.0), (Bernoulli(), 1.0), (NegativeBinomial(), 0.3), (Gamma(), 0.2)],
    ids=lambda value: getattr(value, "name", None),
)
def test_predictive_deviation_is_that_of_draws(family, dispersion):
    rng = np.random.default_rng(3)
    mean, std = np.array([-0.5, 0.8]), np.array([0.3, 0.6])
    eta = mean + std * rng.standard_normal((400_000, 2))
    drawn = family.sample(eta, np.full(2, dispersion), rng).std(axis=0)
    assert_allclose(predictive_deviations(family, mean, std**2, np.full(2, dispersion)), drawn, rtol=0.02)


def test_linear_predictors_are_the_links_of_means(fitted):
    model, _, X = fitted
    scores = model.transform(X)
    means = model.inverse_transform(scores)
    assert_allclose(linear_predictor(model, scores), model.family_.link(means), rtol=1e-9, atol=1e-9)


def test_linear_predictors_hold_offset_and_covariates():
    companions = {"offset": RNG.normal(size=60), "covariates": RNG.normal(size=(60, 1))}
    model = EPCA(1, family="poisson", n_jobs=1).fit(COUNTS, **companions)
    scores = model.transform(COUNTS, **companions)
    by_hand = scores @ model.components_ + model.intercept_ + companions["covariates"] @ model.coef_.T
    by_hand += companions["offset"][:, None]
    assert_allclose(linear_predictor(model, scores, **companions), by_hand, rtol=1e-12)


@pytest.mark.parametrize("model", [PPCA(2, n_jobs=1), EPCA(2, family="gaussian", n_jobs=1)])
def test_integrated_rows_are_the_scores_of_samples(model):
    values, entropies = integrate_rows(model.fit(REALS), REALS)
    # Probabilities of what is recorded, where the others are densities.
    steps = np.log(model.resolution_).sum()
    assert_allclose(values, model.score_samples(REALS) + steps, rtol=1e-10)
    # A normal posterior of scores in units of their prior: never wider than the prior.
    assert (entropies < 0.5 * 2 * np.log(2 * np.pi * np.e)).all()


def test_methods_without_posterior_do_not_offer_deviations():
    for model in (GPCA(2, family="poisson"), SPCA(2, penalty=0.1), KernelPCA(2)):
        model.fit(COUNTS)
        assert not hasattr(model, "entry_posterior")
        with pytest.raises(TypeError, match="return_std"):
            model.transform(COUNTS, return_std=True)


def test_float32_scores_give_float32_rows():
    model = EPCA(2, family="poisson", n_jobs=1).fit(COUNTS.astype(np.float32))
    scores = model.transform(COUNTS.astype(np.float32))
    assert scores.dtype == model.inverse_transform(scores).dtype == np.float32
    holes = np.where(HIDDEN, np.nan, COUNTS).astype(np.float32)
    assert model.impute(holes).dtype == np.float32


@pytest.mark.parametrize(
    "model",
    [
        PPCA(2),
        EPCA(2, family="poisson"),
        SePCA(2, family="poisson"),
        SePCA(2, family="poisson", inference="map"),
        PLNPCA(2),
        GPCA(2, family="poisson"),
        GSPPCA(1),
        SPCA(1, penalty=0.1),
        KernelPCA(1),
        PiecewisePCA(1, n_init=1),
        Autoencoder(1, tol=0.1),
        VAE(1, family="poisson", n_iter_no_change=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_that_is_interrupted_leaves_the_model_as_it_was(model, monkeypatch):
    model.set_params(n_jobs=1).fit(COUNTS)
    before, names = model.transform(COUNTS), set(vars(model))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "_store_result", interrupt)
    monkeypatch.setattr(type(model), "_store", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(COUNTS[:, :5])
    assert set(vars(model)) == names
    assert_array_equal(model.transform(COUNTS), before)


@pytest.mark.parametrize("name", ["inverse_transform", "sample", "impute", "transform", "linear_predictor"])
def test_row_methods_run_with_one_thread_of_blas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of BLAS took nine times the processor time of one on small tables, and gained nothing."""
    X = np.where(HIDDEN, np.nan, REALS)
    model = EPCA(2, family="gaussian", n_jobs=1).fit(X)
    rows, threads = type(model._row_model()), []
    predict, solve = rows.predictor, rows.solve

    def count() -> None:
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")

    monkeypatch.setattr(rows, "predictor", lambda *args: count() or predict(*args))
    monkeypatch.setattr(rows, "solve", lambda *args: count() or solve(*args))
    calls = {
        "inverse_transform": lambda: model.inverse_transform(Z),
        "sample": lambda: model.sample(5, random_state=0),
        "impute": lambda: model.impute(X),
        "transform": lambda: model.transform(X),
        "linear_predictor": lambda: linear_predictor(model, Z),
    }
    with threadpool_limits(2, user_api="blas"):
        count()
        if max(threads) == 1:
            pytest.skip("BLAS has one thread only")
        threads.clear()
        calls[name]()
    assert set(threads) == {1}
