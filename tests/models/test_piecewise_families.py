"""Piecewise PCA of any family: integrals over slabs, the bound, its derivatives, fits, dispersions, covariates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anypca import PiecewisePCA
from anypca.engine import check_data
from anypca.families import (
    Bernoulli,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    Mixed,
    NegativeBinomial,
    Poisson,
    families,
    resolve_family,
)
from anypca.models._opened import open_block
from anypca.models.piecewise import _fit as piece_fit
from anypca.models.piecewise._bound import Scores, evaluate, solve_scores, sum_columns
from anypca.models.piecewise._dispersion import highest, open_groups
from anypca.models.piecewise._pieces import COUPLINGS, Coefficients, Pieces, expand
from anypca.models.piecewise._problem import BoundProblem
from anypca.models.piecewise._slabs import COARSE, FINE, Predictors, Rule, integrate, slab_moments
from anypca.models.piecewise._terms import Counts, Entries, Linear

EXACT = Rule(40, 15, 8.0)
#: Families with a value of an entry and the worst errors of the rules 16/7/6, 20/9/6 and 32/11/8, from the document.
FAMILIES = {
    "bernoulli": (Bernoulli(), 1.0, (7e-6, 3e-7, 4e-7)),
    "binomial": (Binomial(10), 7.0, (7e-5, 3e-6, 4e-6)),
    "poisson": (Poisson(), 3.0, (1e-4, 1e-6, 1e-8)),
    "gaussian": (Gaussian(1.0), 1.2, (4e-6, 2e-8, 4e-12)),
    "exponential": (Exponential(), 2.0, (6e-5, 2e-6, 6e-9)),
    "gamma": (Gamma(0.2), 2.0, (1e-4, 2e-6, 1e-8)),
    "negative_binomial": (NegativeBinomial(3.0), 4.0, (1e-4, 2e-5, 5e-6)),
}
MIXED = resolve_family([Bernoulli(), NegativeBinomial(3.0), Gaussian(0.5), Gamma(0.2), Binomial(10)], 5)
ALL = {name: family for name, (family, _, _) in FAMILIES.items()} | {"mixed": MIXED}
each_family = pytest.mark.parametrize("family", ALL.values(), ids=ALL)
every_family = pytest.mark.parametrize(
    "family", [*(family for name in families for family in families[name].examples()), MIXED], ids=str
)


def random_cases():
    """The 60 cases of the document: slabs of three kinds, and predictors on them."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        mean, std = rng.normal(size=1), rng.uniform(0.05, 1.0, 1)
        level, slope = rng.normal(0, 0.7, (1, 1)), rng.normal(size=1)
        spread, edge, kind = np.abs(rng.normal(0, 0.5, (1, 1))), rng.normal(), rng.choice([0, 1, 2])
        width = abs(rng.normal())
        ends = ((-np.inf, edge), (edge, np.inf), (edge, edge + width))[kind]
        yield Predictors(level, slope, spread, mean, std), ends


@pytest.mark.parametrize("name", FAMILIES)
def test_errors_of_the_rules(name):
    """As in the table of the document, which is rounded to one digit."""
    family, x, wanted = FAMILIES[name]
    dispersion = np.array([family.fixed_dispersion])

    def likelihood(eta, _):
        return family.log_likelihood(np.full(eta.shape, x), eta, dispersion)

    worst = np.zeros(3)
    for on, ends in random_cases():
        exact = integrate(likelihood, on, ends, Rule(240, 60, 9.0))[0, 0]
        rules = (Rule(16, 7, 6.0), FINE, Rule(32, 11, 8.0))
        found = np.array([integrate(likelihood, on, ends, rule)[0, 0] for rule in rules])
        worst = np.maximum(worst, np.abs(found - exact) / max(1.0, abs(exact)))
    assert np.all(worst <= 1.5 * np.array(wanted) + 1e-12), worst


def setting(family, seed=0, n=4, p=5, q=2, rule=FINE):
    """Entries with offsets and one gap, pieces, and some posteriors."""
    rng = np.random.default_rng(seed)
    pieces = Pieces(0.5 * rng.normal(size=(3, p, q + 1)), 1.0, np.array([-0.4, 0.6]))
    dispersion = np.where(np.isnan(family.known_dispersion(p)), 0.4, family.known_dispersion(p))
    x = family.sample(rng.normal(size=(n, p)), dispersion, rng)
    observed = np.ones((n, p), dtype=bool)
    observed[1, 2] = False
    base = np.where(observed, family.log_base(x, dispersion), 0.0).sum(axis=1)
    kind = Linear if family.is_linear else Entries
    entries = kind(x, observed, 0.3 * rng.normal(size=(n, p)), base, family, dispersion, rule)
    return entries, pieces, 0.5 * rng.normal(size=(n, q)), rng.uniform(0.3, 0.8, (n, q))


@pytest.mark.parametrize("q", [1, 2])
def test_quadrature_has_the_closed_form_of_counts(q):
    general, pieces, m, s = setting(Poisson(), q=q, rule=EXACT)
    fields = (general.x, general.observed, general.offset, general.base, Poisson(), general.dispersion)
    for matrix, low, high in pieces.slabs:
        closed = Counts(*fields).terms(matrix, low, high, m, s)
        for kind in (Linear, Entries):
            found = kind(*fields, EXACT).terms(matrix, low, high, m, s)
            for name, one, other in zip(closed._fields, closed, found, strict=True):
                np.testing.assert_allclose(other, one, atol=1e-10, err_msg=name)


def test_quadrature_has_the_closed_form_of_real_numbers():
    entries, pieces, m, s = setting(Gaussian(0.5), rule=EXACT)
    for matrix, low, high in pieces.slabs:
        slab = slab_moments(m[:, -1:], s[:, -1:], low, high)
        b, level = matrix[:, -2], m[:, :-1] @ matrix[:, :-2].T + matrix[:, -1] + entries.offset
        rest, others = entries.x - level, s[:, :-1] ** 2 @ (matrix[:, :-2] ** 2).T
        squares = (rest**2 + others) * slab.zeroth - 2 * rest * b * slab.first + b**2 * slab.second
        value = np.where(entries.observed, -squares / (2 * 0.5), 0.0)
        np.testing.assert_allclose(entries.terms(matrix, low, high, m, s).value, value, atol=1e-10)


@pytest.mark.parametrize("rule", [COARSE, FINE], ids=["coarse", "fine"])
@every_family
def test_gradient_in_the_rows(family, rule):
    """Derivatives are those of the rule itself: they are as good with few nodes."""
    entries, pieces, m, s = setting(family, rule=rule)
    at = evaluate(entries, pieces, m, s)
    for coordinate in range(2):
        step = np.zeros_like(m)
        step[:, coordinate] = h = 1e-5
        up, down = (evaluate(entries, pieces, m + sign * step, s).value for sign in (1, -1))
        np.testing.assert_allclose(at.slope_m[:, coordinate], (up - down) / (2 * h), rtol=1e-6, atol=1e-6)
        up, down = (evaluate(entries, pieces, m, s * np.exp(sign * step)).value for sign in (1, -1))
        np.testing.assert_allclose(at.slope_log_s[:, coordinate], (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


@every_family
def test_gradient_in_the_coefficients_of_maps_and_covariates(family):
    entries, pieces, m, s = setting(family)
    rng = np.random.default_rng(1)
    covariates, transfer = rng.normal(size=(4, 2)), COUPLINGS["continuous"]
    (block,) = check_data(np.where(entries.observed, entries.x, np.nan), covariates=covariates).blocks
    size = 2 + transfer(2, pieces.breakpoints).shape[1]
    shared = Coefficients(0.3 * rng.normal(size=(5, size)), 1.0, pieces.breakpoints)
    problem = BoundProblem(transfer, 2, family, entries.dispersion)
    direction, weight = rng.normal(size=shared.matrix.shape), np.array([1.0, 2.0, 0.5, 1.0])

    def value(h):
        moved = expand(replace(shared, matrix=shared.matrix + h * direction), transfer, 2)
        return weight @ evaluate(problem.read(open_block(block), moved), moved, m, s).value

    there = problem.pieces(shared)
    sums = sum_columns(problem.read(open_block(block), there), there, Scores(m, s), weight, covariates)
    numeric = (value(1e-5) - value(-1e-5)) / 2e-5
    assert np.vdot(problem.derivatives(shared, sums)[0], direction) == pytest.approx(
        numeric, rel=1e-6, abs=1e-6
    )


@each_family
def test_bound_is_below_the_density(family):
    """With one coordinate the log-likelihood of a row is a sum over a fine grid."""
    entries, pieces, _, _ = setting(family, q=1, n=6)
    bound = solve_scores(entries, pieces)[1].value
    t, dt = np.linspace(-8.0, 8.0, 4001, retstep=True)
    eta = pieces.predict(t[:, None])[:, None] + entries.offset
    terms = family.log_likelihood(np.broadcast_to(entries.x, eta.shape), eta, entries.dispersion)
    rows = np.where(entries.observed, terms, 0.0).sum(axis=2) - 0.5 * t[:, None] ** 2
    exact = np.log((np.exp(rows) * dt).sum(axis=0) / np.sqrt(2.0 * np.pi))
    assert np.all(bound <= exact + 1e-6)
    # One normal in place of at most three modes, one for each piece.
    assert np.all(bound > exact - np.log(3.0))


def bent(family, n=40, p=5, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, 2))
    eta = 0.3 + w @ rng.normal(0, 0.7, (2, p)) + np.abs(w[:, 1:]) * rng.normal(size=p)
    dispersion = np.where(np.isnan(family.known_dispersion(p)), 0.3, family.known_dispersion(p))
    return family.sample(eta, dispersion, rng)


@pytest.mark.parametrize(
    "family",
    [
        *(pytest.param(family, id=name) for name, family in (ALL | {"log_normal": LogNormal()}).items()),
        *(
            pytest.param(family, id=str(family), marks=pytest.mark.conformance)
            for name in families
            for family in families[name].examples()
            if name not in ALL
        ),
    ],
)
@pytest.mark.usefixtures("uncalibrated")
def test_bound_never_decreases(family):
    X = bent(family)
    X[3, 1] = np.nan
    with np.errstate(all="raise", under="ignore", over="ignore", invalid="ignore"):
        model = PiecewisePCA(1, family=family, n_init=1, tol=0.05, max_iter=60, n_jobs=1).fit(X)
    assert np.diff(model.objective_trace_, prepend=-np.inf).min() >= -1e-9 * abs(model.log_likelihood_)
    assert model.objective_trace_[-1] == model.log_likelihood_
    assert -0.1 < model.pseudo_r2_ < 1  # a bound may be below the null model's likelihood, not far
    # Rows that are solved anew end where those of the fit did, within what tol leaves.
    # Of a mixed table they are probabilities of what is recorded.
    steps = (
        family.log_step(np.nan_to_num(X, nan=1.0), model.resolution_) if isinstance(family, Mixed) else 0.0
    )
    expected = model.log_likelihood_ + np.where(np.isnan(X), 0.0, steps).sum()
    assert model.score_samples(X).sum() == pytest.approx(expected, rel=1e-3)
    filled, std = model.impute(X, return_std=True)
    assert np.isfinite(filled).all()
    assert std[3, 1] > 0
    drawn = model.sample(20, random_state=0)
    assert family.in_support(drawn).all()


@pytest.mark.parametrize("name", ["bernoulli", "negative_binomial"])
def test_new_rows_follow_the_fitted_model(name):
    """Rotations are no part of the bound: rows that are solved anew have the log-likelihood of the fit."""
    X = bent(ALL[name], n=100)
    model = PiecewisePCA(2, n_pieces=1, family=name, tol=1e-3, n_jobs=1).fit(X)
    assert model.score_samples(X).sum() == pytest.approx(model.log_likelihood_, abs=1e-3)
    lengths = (model.components_**2).sum(axis=1)
    assert lengths[0] >= lengths[1]
    scores, std = model.transform(X[:7], return_std=True)
    np.testing.assert_allclose(model.transform(X)[:7], scores, atol=1e-4)
    assert np.all((std > 0) & (std < 1))


def test_dispersions_are_found_and_raise_the_bound():
    X = bent(NegativeBinomial(3.0), n=300)
    free, fixed = (
        PiecewisePCA(1, n_pieces=1, family=family, tol=1e-3, n_jobs=1).fit(X)
        for family in ("negative_binomial", NegativeBinomial(0.5))
    )
    assert free.log_likelihood_ > fixed.log_likelihood_
    assert np.ptp(free.dispersion_) == 0.0
    # One of two coordinates is in the dispersion; the truth is 1/3.
    assert 0.2 < free.dispersion_[0] < 1.0
    assert free.n_parameters_ == fixed.n_parameters_ + 1
    assert np.isnan(free.noise_variance_)


def test_columns_of_a_mixed_table_have_their_own_scales():
    family = resolve_family([Bernoulli(), NegativeBinomial(), Gaussian(), Gaussian(), Gamma()], 5)
    groups = open_groups(family, 5)
    assert [columns.tolist() for columns in groups] == [[1], [2], [3], [4]]
    assert [columns.tolist() for columns in open_groups(Gamma(), 3)] == [[0, 1, 2]]
    X = bent(family, n=60)
    X[:, 3] *= 1e4
    model = PiecewisePCA(1, family=family, n_init=1, tol=1e-2, n_jobs=1).fit(X)
    X[:, 3] *= 1e-4
    again = PiecewisePCA(1, family=family, n_init=1, tol=1e-2, n_jobs=1).fit(X)
    np.testing.assert_allclose(model.dispersion_, again.dispersion_ * [1, 1, 1, 1e8, 1], rtol=0.02)
    shift = -np.log(1e4) * len(X)  # the Jacobian
    assert model.log_likelihood_ == pytest.approx(again.log_likelihood_ + shift, abs=0.5)


def test_search_is_never_worse_than_where_it_starts():
    peaks = np.array([0.3, -0.8, 5.0])

    def value(x):
        return np.append(-np.abs(x - peaks)[:2], 0.0 * x[2])

    found = highest(value, 3)
    np.testing.assert_allclose(found[:2], peaks[:2], atol=0.06)
    assert found[2] == 0.0


def test_covariates_and_offsets_are_told_from_pieces():
    rng = np.random.default_rng(0)
    n, coef = 400, np.array([1.0, -1.0, 0.5, 0.0, 0.7])
    w, covariates, offset = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), rng.normal(size=n)
    eta = np.abs(w) * [1.5, 1, 1, 1, -1] + covariates * coef + offset[:, None]
    X = Bernoulli().sample(eta, np.ones(5), rng)
    companions = {"covariates": covariates, "offset": offset}
    model = PiecewisePCA(1, family="bernoulli", n_init=1, tol=1e-2, n_jobs=1).fit(X, **companions)
    # Standard errors of a logistic regression with 400 rows are about 0.15.
    np.testing.assert_allclose(model.coef_[:, 0], coef, atol=0.6)
    plain = PiecewisePCA(1, family="bernoulli", n_init=1, tol=1e-2, n_jobs=1).fit(X)
    assert model.log_likelihood_ > plain.log_likelihood_ + 50
    assert model.n_parameters_ == plain.n_parameters_ + 5
    assert model.score_samples(X, **companions).sum() == pytest.approx(model.log_likelihood_, rel=1e-3)
    gappy = X.copy()
    gappy[:, 1] = np.nan
    mean = model.impute(gappy, **companions)[:, 1]
    assert np.corrcoef(mean, eta[:, 1])[0, 1] > 0.7
    drawn = model.sample(n, **companions, random_state=0)
    assert np.corrcoef(drawn[:, 0], covariates[:, 0])[0, 1] > 0.15
    rows, columns = np.arange(n), np.full(n, 1)
    moments = model.entry_posterior(X, rows, columns, **companions)
    assert np.corrcoef(moments[0], eta[:, 1])[0, 1] > 0.7
    assert model.predict_piece(X, **companions).max() == 1


def test_gaussian_rows_with_covariates():
    rng = np.random.default_rng(1)
    w, covariates = rng.normal(size=(150, 2)), rng.normal(size=(150, 1))
    X = (
        np.column_stack([w, np.abs(w[:, 0])])
        + 0.5 * rng.normal(size=(150, 3))
        + covariates * [1.0, -2.0, 0.0]
    )
    model = PiecewisePCA(1, n_init=1, tol=1e-2, n_jobs=1).fit(X, covariates=covariates)
    np.testing.assert_allclose(model.coef_[:, 0], [1.0, -2.0, 0.0], atol=0.35)
    assert model.noise_variance_ == model.dispersion_[0]
    assert model.describe().likelihood == "bound"


def test_selection_prefers_one_piece_on_straight_bits():
    rng = np.random.default_rng(2)
    X = Bernoulli().sample(rng.normal(size=(120, 1)) @ rng.normal(size=(1, 6)), np.ones(6), rng)
    model = PiecewisePCA(family="bernoulli", n_init=1, tol=1e-2, n_jobs=1)
    found = model.select(X, n_pieces=(1, 2), n_components=(1,))
    assert found.n_pieces == 1
    assert found.trials[1].n_parameters == found.trials[0].n_parameters + 6


@pytest.mark.parametrize(
    ("family", "column", "match"),
    [
        ("bernoulli", 1.0, "column 2 of X is constant at 1"),
        ("negative_binomial", 0.0, "column 2 of X is constant at 0"),
        (["gamma", "gamma", "gaussian", "gamma"], 3.0, "column 2 of X is constant at 3"),
    ],
)
def test_columns_without_a_finite_estimate(family, column, match):
    X = np.random.default_rng(0).integers(0, 2, (40, 4)).astype(float)
    if not isinstance(family, str):
        X += 0.5
    X[:, 2] = column
    with pytest.raises(ValueError, match=match):
        PiecewisePCA(1, family=family, n_jobs=1).fit(X)


def test_unknown_family():
    with pytest.raises(ValueError, match="bernoulli"):
        PiecewisePCA(family="bernouli").fit(np.ones((20, 3)))


def test_several_pieces_whose_starts_are_poor_start_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without loadings a start is a saddle point, which no sweep leaves."""
    search = piece_fit.search_couplings

    def without_loadings(*args: Any) -> Any:
        found = search(*args)
        matrix = np.zeros_like(found.best.shared.matrix)
        poor = replace(found.best.shared, matrix=matrix)
        return replace(found, best=replace(found.best, shared=poor), others=())

    rng = np.random.default_rng(5)
    eta = rng.normal(size=(60, 1)) * np.linspace(-2.0, 2.0, 6)
    X = (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    settings = {"family": "bernoulli", "n_init": 1, "tol": 1e-3, "n_jobs": 1}
    one = PiecewisePCA(1, n_pieces=1, **settings).fit(X)
    monkeypatch.setattr(piece_fit, "search_couplings", without_loadings)
    two = PiecewisePCA(1, n_pieces=2, **settings).fit(X)
    assert two.log_likelihood_ > one.log_likelihood_
    assert np.all(np.diff(two.objective_trace_) >= -1e-9 * abs(two.log_likelihood_))


@pytest.mark.parametrize(("family", "n_climbs"), [("bernoulli", 3), ("poisson", 2)], ids=["straight", "bent"])
def test_several_pieces_that_hardly_gain_start_from_one_too(
    family: str, n_climbs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    climb, reached = piece_fit._Bound.climb, []

    def noted(*args: Any, **settings: Any) -> Any:
        fit = climb(*args, **settings)
        reached.append(fit.sums.log_likelihood)
        return fit

    rng = np.random.default_rng(5)
    z, slopes = rng.normal(size=(80, 1)), np.linspace(-1.5, 1.5, 6)
    logits, log_rates = z * slopes, 2.0 + np.maximum(z, 0.0) * slopes - np.minimum(z, 0.0)
    bits = (rng.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))).astype(float)
    X = bits if family == "bernoulli" else rng.poisson(np.exp(log_rates)).astype(float)
    monkeypatch.setattr(piece_fit._Bound, "climb", noted)
    model = PiecewisePCA(1, n_pieces=2, family=family, n_init=2, tol=1e-3, n_jobs=1).fit(X)
    assert len(reached) == n_climbs
    assert model.log_likelihood_ == pytest.approx(max(reached[1:]), abs=1e-6)
