"""Piecewise PCA: densities, posteriors and bounds against quadrature, optima, special cases, choices, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from tests.draws import generator
from tests.models.tables import is_monotone, punch

from anypca import PLNPCA, PPCA, PiecewisePCA
from anypca.columns import resolve_family
from anypca.exceptions import ConvergenceWarning
from anypca.families import families
from anypca.families.mixed import known_dispersion

COUPLINGS = ["continuous", "shared", "free"]
each_coupling = pytest.mark.parametrize("coupling", COUPLINGS)
FAMILIES = ["poisson", "bernoulli", "negative_binomial(3)", "gamma(5)", "log_normal"]
MIXED = ["bernoulli", "negative_binomial", "gaussian", "gamma", "binomial(10)"]


def hinge(n: int = 120, corner: float = 0.0, noise: float = 0.1, key: str = "") -> np.ndarray:
    """Draw rows near a sheet that is bent along one line: z = |x - corner|."""
    rng = generator("hinge", n, key)
    w = rng.normal(size=(n, 2))
    return np.column_stack([w, np.abs(w[:, 0] - corner)]) + noise * rng.normal(size=(n, 3))


def bent(family: Any, n: int = 40, p: int = 5, q: int = 2) -> np.ndarray:
    """Draw entries of a family whose predictors bend along the last of q coordinates."""
    rng, family = generator("bent", str(family)), resolve_family(family, p)
    w = rng.normal(size=(n, q))
    eta = 0.3 + w @ rng.normal(0, 0.7, (q, p)) + np.abs(w[:, -1:]) * rng.normal(0, 0.7, p)
    dispersion = np.where(np.isnan(known_dispersion(family, p)), 0.3, known_dispersion(family, p))
    return family.sample(eta, dispersion, rng)


def gaussian(q: int = 2, **settings: Any) -> PiecewisePCA:
    return PiecewisePCA(q, **{"n_init": 2, "n_jobs": 1, **settings})


def rough(family: Any, q: int = 1, **settings: Any) -> PiecewisePCA:
    return PiecewisePCA(
        q, family=family, **{"n_init": 1, "tol": 0.01, "max_iter": 200, "n_jobs": 1, **settings}
    )


def predict(model: Any, w: np.ndarray) -> np.ndarray:
    """Return the map from latent points (..., q) to predictors (..., p) by its published parameters."""
    piece = np.searchsorted(model.breakpoints_, w[..., -1])
    return (model.piece_loadings_[piece] @ w[..., None])[..., 0] + model.piece_means_[piece]


def latent_rule(
    edges: Any, centre: Any = (0.0, 0.0), width: Any = (1.0, 1.0), n: int = 1201
) -> tuple[Any, Any]:
    """Return points (n, 2) and weights for a normal density of two coordinates that has kinks at the edges."""
    first, step = np.linspace(-8, 8, n, retstep=True)
    ends = np.clip((np.r_[-np.inf, edges, np.inf] - centre[1]) / width[1], -9, 9)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = np.diff(ends)[:, None] / 2
    z = (ends[:-1, None] + half * (nodes + 1)).ravel()
    a, t = np.meshgrid(first, z, indexing="ij")
    w = np.outer(step * norm.pdf(first), (half * weights).ravel() * norm.pdf(z))
    return np.column_stack([centre[0] + width[0] * a.ravel(), centre[1] + width[1] * t.ravel()]), w.ravel()


@each_coupling
@pytest.mark.parametrize("n_pieces", [3])
def test_density_and_posterior_are_integrals_over_the_latent_space(coupling: str, n_pieces: int) -> None:
    X = hinge(80, noise=0.5)
    model = gaussian(coupling=coupling, n_pieces=n_pieces).fit(X)
    rows = np.vstack([X[:2], np.where(np.eye(3) > 0, np.nan, X[3:6])])
    w, prior = latent_rule(model.breakpoints_)
    eta, noise = predict(model, w), model.noise_variance_
    places = np.arange(len(rows)), np.arange(len(rows)) % 3
    mean, std = model.entry_posterior(rows, *places)
    scores, deviations = model.transform(rows, return_std=True)
    values, share, reconstructed = model.score_samples(rows), model.piece_proba(rows), model.reconstruct(rows)
    piece = np.searchsorted(model.breakpoints_, w[:, -1])
    for i, y in enumerate(rows):
        seen = ~np.isnan(y)
        mass = prior * norm.pdf(y[seen], eta[:, seen], np.sqrt(noise)).prod(axis=1)
        total = mass.sum()
        assert values[i] == pytest.approx(np.log(total), abs=1e-6)
        mass /= total
        assert_allclose(share[i], np.bincount(piece, mass, n_pieces), atol=1e-6)
        assert_allclose(scores[i], mass @ w, atol=1e-6)
        assert_allclose(deviations[i], np.sqrt(mass @ (w - mass @ w) ** 2), atol=1e-6)
        assert_allclose(reconstructed[i], mass @ eta, atol=1e-6)
        j = places[1][i]
        assert_allclose(
            [mean[i], std[i]],
            [mass @ eta[:, j], np.sqrt(mass @ (eta[:, j] - mass @ eta[:, j]) ** 2)],
            atol=1e-5,
        )
    assert_array_equal(model.predict_piece(rows), model.piece_proba(rows).argmax(axis=1))
    drawn = model.sample_latent(rows[[0]], 4000, random_state=0)[:, 0]
    assert np.all(np.abs(drawn.mean(axis=0) - scores[0]) < 5 * deviations[0] / np.sqrt(4000))


def parameters_of(model: Any, theta: np.ndarray, coupling: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return loadings, means and noise of two pieces after a change of their free parameters."""
    B, mu = model.piece_loadings_.copy(), model.piece_means_.copy()
    shared, slopes, means = theta[:3].reshape(3, 1), theta[3:9].reshape(2, 3), theta[9:15].reshape(2, 3)
    B[:, :, :-1] += shared
    B[:, :, -1] += slopes
    mu += means
    if coupling == "free":
        B[0, :, :-1] -= 2 * shared
    if coupling == "continuous":
        mu[1] = mu[0] + (B[0, :, -1] - B[1, :, -1]) * model.breakpoints_[0]
    return B, mu, model.noise_variance_ * np.exp(theta[15])


def log_likelihood(B: np.ndarray, mu: np.ndarray, noise: float, edge: float, X: np.ndarray) -> float:
    """Return the sum over rows of log ``sum_k N(y; mu_k, B_k B_k' + s I) P(t in slab k | y)``."""
    density = np.zeros(len(X))
    for k, (loadings, mean) in enumerate(zip(B, mu, strict=True)):
        V = np.linalg.inv(np.eye(2) + loadings.T @ loadings / noise)
        t = ((X - mean) @ loadings @ V / noise)[:, -1]
        below = norm.cdf((edge - t) / np.sqrt(V[-1, -1]))
        covariance = loadings @ loadings.T + noise * np.eye(3)
        density += multivariate_normal(mean, covariance).pdf(X) * (below if k == 0 else 1 - below)
    return float(np.log(density).sum())


@each_coupling
@pytest.mark.parametrize("breakpoints", ["quantile", "fit"])
def test_no_small_change_of_the_parameters_raises_the_likelihood(coupling: str, breakpoints: str) -> None:
    X = hinge(80, noise=0.3)
    model = gaussian(coupling=coupling, breakpoints=breakpoints, tol=1e-7, n_init=4).fit(X)
    edge, rng = float(model.breakpoints_[0]), generator("directions")
    best = log_likelihood(*parameters_of(model, np.zeros(16), coupling), edge, X)
    assert model.log_likelihood_ == pytest.approx(best, abs=1e-7)
    for direction in 3e-3 * rng.normal(size=(10, 17)):
        for change in (direction, -direction):
            found = parameters_of(model, change[:16], coupling)
            assert (
                log_likelihood(*found, edge + (change[16] if breakpoints == "fit" else 0.0), X) < best + 1e-9
            )


@each_coupling
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["complete", "gaps"])
def test_fits_are_monotone_and_report_their_likelihood(coupling: str, share: float) -> None:
    X = punch(hinge(), share, generator("gaps"))
    weight = generator("weights").integers(1, 3, len(X))
    model = gaussian(coupling=coupling).fit(X, sample_weight=weight)
    assert model.converged_
    assert is_monotone(model.objective_trace_, 1e-9)
    assert model.objective_trace_[-1] == pytest.approx(model.log_likelihood_, abs=1e-7)
    assert weight @ model.score_samples(X) == pytest.approx(model.log_likelihood_, abs=1e-6)
    assert_allclose(model.piece_shares_, np.average(model.piece_proba(X), axis=0, weights=weight), atol=1e-8)
    if coupling == "continuous":
        line = (model.piece_loadings_ @ np.r_[0.7, model.breakpoints_]) + model.piece_means_
        assert_allclose(line[1], line[0], atol=1e-10)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "gaps"])
def test_one_piece_is_ppca(q: int, share: float) -> None:
    X = punch(hinge(), share, generator("gaps of one piece"))
    model, ppca = gaussian(q, n_pieces=1, tol=1e-7).fit(X), PPCA(q, tol=1e-9, max_iter=5000).fit(X)
    n = len(X)
    assert model.log_likelihood_ == pytest.approx(ppca.objective_trace_[-1], abs=1e-4)
    assert model.noise_variance_ == pytest.approx(
        ppca.noise_variance_ * (n - 1) / n, rel=1e-2 if share else 1e-8
    )


@pytest.mark.parametrize("change", ["units", "tiny", "order", "sparse", "dask", "float32"])
def test_what_does_not_change_a_fit(change: str) -> None:
    X = hinge()
    plain = gaussian().fit(X)
    scale = {"units": 1e12, "tiny": 1e-20}.get(change, 1.0)
    table: Any = scale * X
    if change == "order":
        table = X[::-1]
    elif change == "float32":
        table = X.astype(np.float32)
    elif change == "sparse":
        table = pytest.importorskip("scipy.sparse").csr_array(X)
    elif change == "dask":
        table = pytest.importorskip("dask.array").from_array(X, chunks=(50, 3))
    found = gaussian().fit(table)
    atol = 0.05 if change == "float32" else 1e-3
    assert found.log_likelihood_ + X.size * np.log(scale) == pytest.approx(plain.log_likelihood_, abs=atol)
    if change != "order":  # starts depend on the order of rows
        assert_allclose(found.piece_means_ / scale, plain.piece_means_, atol=1e-2)


def test_rows_on_the_pieces_reach_the_floor_of_the_noise() -> None:
    """The likelihood has no maximum: the noise ends at a share of 1e-10 of the variance."""
    X = hinge(200, noise=0.0)
    model = gaussian(n_init=4).fit(X)
    assert is_monotone(model.objective_trace_, 1e-8)
    assert model.noise_variance_ == pytest.approx(1e-10 * X.var(axis=0).mean(), rel=0.05)


def test_a_hinge_and_its_corner_are_found() -> None:
    X = hinge(300, corner=0.4)
    model = gaussian(breakpoints="fit", n_init=10).fit(X)
    assert model.breakpoints_[0] == pytest.approx(0.4, abs=0.25)
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.3)
    assert np.mean((X - model.reconstruct(X)) ** 2) < 0.01
    assert model.sample(1000, random_state=0)[:, 2].min() > -1.0  # nothing below the hinge
    assert gaussian(breakpoints=[0.4]).fit(X).breakpoints_.tolist() == [0.4]


def test_an_empty_piece_is_restarted_and_reported() -> None:
    model = gaussian(1, n_pieces=3, breakpoints=[0.0, 8.0])
    with pytest.warns(ConvergenceWarning, match="no rows are left in piece"):
        model.fit(hinge(80))
    assert model.n_restarts_ == 2
    assert np.isfinite(model.piece_loadings_).all()
    assert np.isfinite(model.log_likelihood_)


def test_select_compares_the_fits_themselves() -> None:
    X, weight = hinge(), generator("weights of trials").uniform(0.5, 2.0, 120)
    model = gaussian()
    found = model.select(X, n_pieces=(2, 1), n_components=iter((1, 2)), criterion="aic", sample_weight=weight)
    assert not hasattr(model, "n_components_")
    assert [trial[:2] for trial in found.trials] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert (found.n_pieces, found.n_components) == (2, 2)
    assert found.best.aic_ == pytest.approx(min(trial.aic for trial in found.trials))
    alone = gaussian(1, n_pieces=2).fit(X, sample_weight=weight)
    assert found.trials[2][2:] == pytest.approx(
        (alone.log_likelihood_, alone.n_parameters_, alone.bic_, alone.aic_)
    )
    for wrong, words in (({"n_pieces": ()}, "empty grid"), ({"criterion": "icl"}, "'bic' or 'aic'")):
        with pytest.raises(ValueError, match=words):
            model.select(X, **wrong)
    with pytest.raises(ValueError, match="cannot be given as numbers"):
        gaussian(breakpoints=[0.0]).select(X)


# ------------------------------------------------------------------------------------------ other families


@pytest.mark.parametrize("family", [*FAMILIES, "gaussian", MIXED], ids=str)
def test_the_bound_is_an_integral_at_its_maximum(family: Any) -> None:
    """The bound of a row is E[log p(y | w)] - KL(q, prior) for a normal q, whose moments are the scores."""
    X, offset = bent(family), 0.2 * generator("offsets").normal(size=40)
    X[1, 2] = np.nan
    model = rough(family, 2).fit(X, offset=offset)
    m, s = model.transform(X, return_std=True, offset=offset)

    def bound(i: int, m: np.ndarray, s: np.ndarray) -> float:
        w, weight = latent_rule(model.breakpoints_, m, s, 41)
        eta = predict(model, w) + offset[i]
        x = np.nan_to_num(np.broadcast_to(X[i], eta.shape), nan=1.0)
        terms = model.family_.log_likelihood(x, eta, model.dispersion_)
        value = weight @ np.where(np.isnan(X[i]), 0.0, terms).sum(axis=1)
        return float(value - 0.5 * (m**2 + s**2 - 2 * np.log(s) - 1).sum())

    values = model.score_samples(X, offset=offset)
    if family == MIXED:  # rows of mixed tables have probabilities of what is recorded
        values = values - np.where(
            np.isnan(X), 0.0, model.family_.log_step(np.nan_to_num(X, nan=1.0), model.resolution_)
        ).sum(axis=1)
    for i in range(2):
        assert values[i] == pytest.approx(bound(i, m[i], s[i]), rel=1e-4, abs=1e-3)
        for change in np.vstack([np.eye(2), -np.eye(2)]) * 0.1:
            assert bound(i, m[i] + change * s[i], s[i]) < values[i] + 1e-3
            assert bound(i, m[i], s[i] * np.exp(change)) < values[i] + 1e-3


@pytest.mark.parametrize(
    "family",
    [
        *FAMILIES,
        MIXED,
        *(
            pytest.param(family, marks=pytest.mark.conformance)
            for name in families
            for family in families[name].examples()
        ),
    ],
    ids=str,
)
def test_bounds_never_decrease(family: Any) -> None:
    X = bent(family)
    X[3, 1] = np.nan
    offset = np.zeros(40)  # fits with an offset are not calibrated
    with np.errstate(all="raise", under="ignore", over="ignore", invalid="ignore"):
        model = rough(family, tol=0.05).fit(X, offset=offset)
    assert is_monotone(model.objective_trace_, 1e-9)
    assert model.objective_trace_[-1] == model.log_likelihood_
    assert -0.1 < model.pseudo_r2_ < 1  # a bound may be below the null model's likelihood, not far
    filled, std = model.impute(X, return_std=True, offset=offset)
    assert np.isfinite(filled).all()
    assert std[3, 1] > 0
    assert model.family_.in_support(model.sample(20, random_state=0, offset=np.zeros(20))).all()


@pytest.mark.parametrize("q", [1, 2])
def test_one_piece_of_counts_is_plnpca_without_ridge(q: int) -> None:
    X = bent("poisson", n=60, q=2)
    model = rough("poisson", q, n_pieces=1, tol=1e-5, max_iter=1000).fit(X)
    plain = PLNPCA(q, ridge=0, n_jobs=1).fit(X)
    assert is_monotone(model.objective_trace_, 1e-9)
    assert model.converged_
    assert model.log_likelihood_ == pytest.approx(plain.objective_trace_[-1], abs=0.02)


@pytest.mark.parametrize("share", [0.0, 0.15], ids=["complete", "gaps"])
def test_several_pieces_of_a_mixed_table_are_at_least_as_good_as_one(share: float) -> None:
    X, covariates = bent(MIXED, n=80), generator("covariates of pieces").normal(size=(80, 1))
    X = punch(X, share, generator("gaps of a mixed table"))
    fits = [rough(MIXED, n_pieces=k, tol=1e-4, max_iter=1000).fit(X, covariates=covariates) for k in (1, 2)]
    assert all(fit.converged_ and is_monotone(fit.objective_trace_, 1e-9) for fit in fits)
    assert fits[1].objective_trace_[-1] > fits[0].objective_trace_[-1] - 0.01


def test_dispersions_are_estimated_in_units_of_their_columns() -> None:
    X = bent(MIXED, n=60)
    fits = [rough(MIXED).fit(X * [1, 1, scale, 1, 1]) for scale in (1.0, 1e4)]
    assert_allclose(fits[1].dispersion_, fits[0].dispersion_ * [1, 1, 1e8, 1, 1], rtol=0.05)


def test_covariates_and_offsets_are_separated_from_pieces(rng: np.random.Generator) -> None:
    coef = np.array([1.0, -1.0, 0.5, 0.0, 0.7])
    w, covariates, offset = rng.normal(size=(200, 1)), rng.normal(size=(200, 1)), rng.normal(size=200)
    eta = np.abs(w) * [1.5, 1, 1, 1, -1] + covariates * coef + offset[:, None]
    X = (rng.logistic(size=eta.shape) < eta).astype(float)
    both = {"covariates": covariates, "offset": offset}
    model, plain = rough("bernoulli").fit(X, **both), rough("bernoulli").fit(X)
    # Standard errors of a logistic regression with 200 rows are about 0.2.
    assert_allclose(model.coef_[:, 0], coef, atol=1.0)
    assert model.log_likelihood_ > plain.log_likelihood_
    assert model.n_parameters_ == plain.n_parameters_ + 5
    assert model.score_samples(X, **both).sum() == pytest.approx(model.log_likelihood_, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_pieces": 3, "breakpoints": [0.0]}, "needs 2 breakpoint"),
        ({"breakpoints": [np.inf]}, "finite"),
        ({"n_components": 3}, "less than the number of columns"),
        ({"family": "gamma", "breakpoints": "fit"}, "family='gaussian'"),
        ({"n_pieces": 40}, "needs at least 120 rows"),
    ],
)
def test_bad_parameters(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PiecewisePCA(**options).fit(np.abs(hinge(50)))
