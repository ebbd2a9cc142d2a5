"""The composite evidence: against quadrature, its derivatives, its maximum, its path."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import binom, norm

from anypca.engine import check_data
from anypca.models._session import open_session
from anypca.models.gsppca._evidence import CompositeEvidence, inclusion_probability
from anypca.models.gsppca._noisy import NoisyEvidence, _density
from anypca.models.gsppca._standardiser import make_standardiser
from anypca.special import log_bessel_k

CASES = [(1, 3), (2, 5), (5, 2), (10, 3), (4, 4), (40, 5)]


def make_table(n=25, p=9, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + 0.4 * rng.normal(size=(n, p))


def make_evidence(X, d, noise=0.3, order=None, block_rows=None, sample_weight=None):
    data = check_data(X, block_rows=block_rows, sample_weight=sample_weight)
    with open_session(data, 1) as session:
        n_rows = float(len(X) if sample_weight is None else np.sum(sample_weight))
        table = make_standardiser(session.summary, n_rows, scale=False)
        order = np.arange(len(table.varying)) if order is None else order
        return CompositeEvidence(session, table, order, d, noise)


def log_active_density(norm, q, d, alpha):
    """Log density of the active part of a row of that norm, as the formula stands."""
    constant = (
        -q / 2 * np.log(2 * np.pi) + (1 - d / 2) * np.log(2) - gammaln(d / 2) - (q + d) / 4 * np.log(alpha)
    )
    return constant + (d - q) / 2 * np.log(norm) + log_bessel_k((q - d) / 2, norm / np.sqrt(alpha))


def mixture(radius, q, d, alpha, noise=0.0):
    """log of the integral of N(x; 0, (noise + alpha tau) I) over tau ~ chi2 with d degrees of freedom, in log tau."""

    def exponent(t):
        tau = np.exp(t)
        variance = noise + alpha * tau
        gauss = -q / 2 * np.log(2 * np.pi * variance) - radius**2 / (2 * variance)
        return gauss + d / 2 * t - tau / 2 - d / 2 * np.log(2) - gammaln(d / 2)

    peak = minimize_scalar(lambda t: -exponent(t), bounds=(-30, 30), method="bounded").x
    top = exponent(peak)
    pieces = [
        quad(lambda t: np.exp(exponent(t) - top), *ends, epsabs=0, epsrel=1e-13, limit=400)[0]
        for ends in ((peak - 25, peak), (peak, peak + 10))
    ]
    return top + np.log(sum(pieces))


@pytest.mark.parametrize(("q", "d"), CASES)
@pytest.mark.parametrize("alpha", [0.3, 4.0])
def test_density_equals_the_scale_mixture(q, d, alpha):
    for radius in np.sqrt(alpha * q * d) * np.array([0.3, 1.0, 2.5]):
        expected = mixture(radius, q, d, alpha)
        found = log_active_density(radius, q, d, alpha)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("q", "d"), CASES)
def test_density_integrates_to_one(q, d):
    alpha = 1.7
    log_area = np.log(2) + q / 2 * np.log(np.pi) - gammaln(q / 2)

    def integrand(t):
        radius = np.exp(t)
        return np.exp(log_area + q * t + log_active_density(radius, q, d, alpha))

    centre = 0.5 * np.log(alpha * q * d)
    total = sum(
        quad(integrand, *ends, epsabs=1e-14, epsrel=1e-12, limit=400)[0]
        for ends in ((centre - 40, centre), (centre, centre + 5))
    )
    np.testing.assert_allclose(total, 1.0, atol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 4, 30], ids=lambda d: f"d={d}")
def test_path_is_the_sum_over_rows_at_the_best_alpha(d):
    X = make_table()
    order = np.random.default_rng(1).permutation(9)
    path = make_evidence(X, d, order=order).path()
    centred = X - X.mean(axis=0)
    for q in range(1, 10):
        active, rest = centred[:, order[:q]], centred[:, order[q:]]
        radius = np.linalg.norm(active, axis=1)
        noise = norm.logpdf(rest, scale=np.sqrt(0.3)).sum()

        def total(s, radius=radius, q=q):
            return log_active_density(radius, q, d, np.exp(s)).sum()

        best = minimize_scalar(
            lambda s: -total(s), bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}
        )
        np.testing.assert_allclose(path.evidence[q - 1], noise - best.fun, rtol=1e-10)
        np.testing.assert_allclose(np.log(path.prior_variance[q - 1]), best.x, atol=1e-4)


@pytest.mark.parametrize("d", [1, 4, 12])
def test_slope_and_curvature_are_derivatives(d):
    evidence = make_evidence(make_table(), d)
    q = np.arange(1, 10)
    s, h = evidence.moment_estimate(q) + 0.3, 1e-4

    def value(shift):
        return evidence.value(q, s + shift, evidence.row_sums(q, s + shift))

    def gradient(shift):
        sums = evidence.row_sums(q, s + shift)
        return sums.weight * d - sums.slope

    np.testing.assert_allclose((value(h) - value(-h)) / (2 * h), gradient(0.0), rtol=1e-6, atol=1e-5)
    second = (gradient(h) - gradient(-h)) / (2 * h)
    np.testing.assert_allclose(second, -evidence.row_sums(q, s).curvature, rtol=1e-6)


@pytest.mark.parametrize("d", [1, 5, 20])
def test_the_problem_in_log_beta_is_concave(d):
    evidence = make_evidence(make_table(), d)
    q = np.arange(1, 10)
    for shift in np.linspace(-6, 6, 13):
        assert (evidence.row_sums(q, evidence.moment_estimate(q) + shift).curvature > 0).all()


@pytest.mark.parametrize("shift", [-12.0, -3.0, 3.0, 12.0])
def test_newton_finds_the_maximum_from_far_away(shift):
    evidence = make_evidence(make_table(), 3)
    q = np.arange(1, 10)
    near, _ = evidence.solve(q, evidence.moment_estimate(q))
    far, sums = evidence.solve(q, evidence.moment_estimate(q) + shift)
    np.testing.assert_allclose(far, near, atol=1e-6)
    np.testing.assert_allclose(sums.slope, 3 * 25, rtol=1e-5)


def test_blocks_of_rows_add_up():
    X = make_table()
    whole, cut = (make_evidence(X, 3, block_rows=rows).path() for rows in (None, 4))
    np.testing.assert_allclose(cut.evidence, whole.evidence, rtol=1e-12)


def test_a_weight_of_two_repeats_the_row():
    X = make_table()
    weight = np.random.default_rng(2).integers(0, 3, len(X))
    twice = make_evidence(np.repeat(X, weight, axis=0), 3).path()
    weighted = make_evidence(X, 3, sample_weight=weight).path()
    np.testing.assert_allclose(weighted.evidence, twice.evidence, rtol=1e-9)


def test_rows_at_the_mean_do_not_count():
    X = make_table(seed=3)
    X -= X.mean(axis=0)
    with_mean = np.vstack([X, np.zeros((2, 9))])
    evidence = make_evidence(with_mean, 3)
    q = np.arange(1, 10)
    sums = evidence.row_sums(q, evidence.moment_estimate(q))
    assert sums.weight == 25
    assert np.isfinite(evidence.path().evidence).all()


def test_many_cardinalities():
    X = np.random.default_rng(0).normal(size=(12, 700))
    d = 5
    path = make_evidence(X, d, noise=1.0).path()
    radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
    best = log_active_density(radius, 700, d, path.prior_variance[-1]).sum()
    np.testing.assert_allclose(path.evidence[-1], best, rtol=1e-10)
    assert np.abs(np.diff(np.log(path.prior_variance[20:]))).max() < 0.1


@pytest.mark.parametrize(("n", "p"), [(50, 5000), (38, 3051), (100, 400)])
def test_sparse_prior_rarely_exceeds_the_number_of_rows(n, p):
    rho = inclusion_probability(p, n, "sparse")
    np.testing.assert_allclose(binom.sf(n, p, rho), 0.05, rtol=1e-8)


def test_sparse_prior_of_the_documented_case():
    np.testing.assert_allclose(inclusion_probability(5000, 50, "sparse"), 0.00798, atol=5e-6)


@pytest.mark.parametrize(("n", "p", "prior"), [(50, 5000, "uniform"), (50, 50, "sparse"), (50, 60, "sparse")])
def test_otherwise_the_prior_is_uniform(n, p, prior):
    assert inclusion_probability(p, n, prior) == 0.5


@pytest.mark.parametrize(("q", "d"), [*CASES, (20, 10), (60, 1), (100, 30)])
@pytest.mark.parametrize("noise", [0.01, 0.3, 5.0])
def test_the_noisy_density_is_an_integral(q, d, noise):
    alpha = 0.7
    typical = np.sqrt(q * (noise + alpha * d))
    for radius in (0.5 * typical, typical, 2.0 * typical):
        found = _density(np.array([[radius**2]]), np.array([q]), d, noise, np.log([alpha]))[0, 0, 0]
        # Half of the pieces of quad end 25 below the peak, where a power of d / 2 of tau is left.
        np.testing.assert_allclose(found, mixture(radius, q, d, alpha, noise), atol=2e-5 if d == 1 else 1e-7)


def test_without_noise_the_noisy_density_is_the_closed_one():
    squares, q = np.array([[2.0, 30.0]]), np.array([4, 9])
    found = _density(squares, q, 5, 1e-9, np.log([0.7, 0.7]))[0, 0]
    expected = [log_active_density(np.sqrt(r), k, 5, 0.7) for r, k in zip(squares[0], q, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_slope_of_the_noisy_density_is_its_derivative():
    squares, q, at, step = np.array([[1.0, 8.0], [3.0, 2.0]]), np.array([3, 7]), np.log([0.5, 2.0]), 1e-5
    up, down = (_density(squares, q, 4, 0.3, at + sign * step)[0] for sign in (1, -1))
    np.testing.assert_allclose(_density(squares, q, 4, 0.3, at)[1], (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("noise", [0.16, 3.0])
def test_the_noisy_path_is_at_its_best_alpha(noise):
    evidence = NoisyEvidence(make_evidence(make_table(), 3, noise))
    q = np.arange(1, 10)
    log_alpha = evidence.solve(q)
    best = evidence.row_sums(q, log_alpha)[0]
    for move in (-0.01, 0.01):
        assert np.all(evidence.row_sums(q, log_alpha + move)[0] <= best + 1e-6)
    np.testing.assert_allclose(
        evidence.path().evidence, best + evidence.plain.inactive_value(q, 25.0), atol=1e-5
    )


def test_blocks_and_weights_of_the_noisy_path():
    X = make_table()
    whole = NoisyEvidence(make_evidence(X, 3)).path().evidence
    np.testing.assert_allclose(
        NoisyEvidence(make_evidence(X, 3, block_rows=7)).path().evidence, whole, rtol=1e-10
    )
    twice = NoisyEvidence(make_evidence(np.repeat(X, 2, axis=0), 3)).path().evidence
    weighted = NoisyEvidence(make_evidence(X, 3, sample_weight=np.full(25, 2.0))).path().evidence
    np.testing.assert_allclose(weighted, twice, rtol=1e-8)
