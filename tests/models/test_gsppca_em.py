"""The variational EM: equal to its literal form, monotone, stationary."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.engine import check_data, executor_for
from anypca.models.gsppca._noise import Moments
from anypca.models.gsppca._problem import RelaxedProblem, latent_scale
from anypca.models.gsppca._start import EquivalentTable, start_posterior
from anypca.solvers import Loop


def make_table(n=30, p=14, d=3, q=6, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(p, d)) * (np.arange(p) < q)[:, None]
    X = rng.normal(size=(n, d)) @ loadings.T + noise * rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def read(block):
    return block.read().x


def make_equivalent(X):
    """A table as it is, in blocks of 8 rows, with its spectrum."""
    _, singular, right = np.linalg.svd(X, full_matrices=False)
    values = singular**2 / len(X)
    return EquivalentTable(check_data(X, block_rows=8), read, None, values, right.T)


def start(X, d):
    table = make_equivalent(X)
    moments = Moments(table.values, np.mean(X**2, axis=0), float(len(X)))
    return table, start_posterior(table, moments, d)


def iterate(X, d, n_iter, *, rescale):
    """Posteriors and objectives of some iterations."""
    table, shared = start(X, d)
    problem = RelaxedProblem(read, total=float(np.sum(X**2)), n_rows=float(len(X)), rescale=rescale)
    posteriors, objectives = [], []
    with executor_for(table.data, 1) as executor:
        for _ in range(n_iter):
            now = shared

            def step(block, _, now=now):
                return problem.step(block, now, None)

            stats = executor.sweep(step, table.data)[1]
            posteriors.append(shared)
            objectives.append(problem.objective(shared, stats))
            shared = problem.update(shared, stats).shared
    return posteriors, np.array(objectives)


class Literal:
    """The updates with one d x d covariance per variable, written as the formulas stand."""

    def __init__(self, X, posterior):
        self.X = X
        self.u = posterior.relevance.copy()
        self.M = posterior.loadings.copy()
        self.S = np.array([np.diag(v) for v in posterior.variances])
        self.alpha, self.s2 = posterior.prior_variance, posterior.noise
        self.update_rows()

    def second(self):
        return self.S + self.M[:, :, None] * self.M[:, None, :]

    def update_rows(self):
        n, d = len(self.X), self.M.shape[1]
        precision = np.eye(d) + np.einsum("k,kab->ab", self.u**2, self.second()) / self.s2
        self.Sigma = np.linalg.inv(precision)
        self.MU = self.X @ (self.u[:, None] * self.M) @ self.Sigma / self.s2
        self.A = n * self.Sigma + self.MU.T @ self.MU

    def misfit(self):
        fit = np.einsum("ka,ia,ik->k", self.M, self.MU, self.X)
        spread = np.einsum("ab,kab->k", self.A, self.second())
        total = np.sum(self.X**2) - 2 * np.sum(self.u * fit) + np.sum(self.u**2 * spread)
        return total, fit, spread

    def update_columns(self):
        (n, p), d = self.X.shape, self.M.shape[1]
        for k in range(p):
            self.S[k] = np.linalg.inv(np.eye(d) / self.alpha + self.u[k] ** 2 / self.s2 * self.A)
            self.M[k] = self.u[k] / self.s2 * self.S[k] @ (self.MU.T @ self.X[:, k])
        self.alpha = np.einsum("kaa->", self.second()) / (d * p)
        total, fit, spread = self.misfit()
        self.s2 = total / (n * p)
        self.u = np.clip(fit / spread, 0.0, 1.0)

    def free_energy(self):
        (n, p), d = self.X.shape, self.M.shape[1]
        energy = n * p / 2 * np.log(2 * np.pi * self.s2) + self.misfit()[0] / (2 * self.s2)
        energy += d * p / 2 * np.log(self.alpha) + np.einsum("kaa->", self.second()) / (2 * self.alpha)
        energy += n / 2 * np.trace(self.Sigma) + 0.5 * np.sum(self.MU**2)
        energy -= n / 2 * np.linalg.slogdet(self.Sigma)[1] + 0.5 * np.linalg.slogdet(self.S)[1].sum()
        return energy - (n + p) * d / 2


@pytest.mark.parametrize(
    ("n", "p", "d", "n_iter"),
    # With n < d the noise falls towards 0, and rounding grows with its inverse.
    [(30, 14, 3, 60), (10, 25, 2, 60), (6, 12, 8, 10)],
    ids=["tall", "wide", "n < d"],
)
def test_fast_form_equals_the_literal_one(n, p, d, n_iter):
    X = make_table(n, p, d)
    posteriors, objectives = iterate(X, d, n_iter, rescale=False)
    literal = Literal(X, posteriors[0])
    for posterior, objective in zip(posteriors, objectives, strict=True):
        np.testing.assert_allclose(posterior.relevance, literal.u, rtol=0, atol=1e-10)
        np.testing.assert_allclose(posterior.prior_variance, literal.alpha, rtol=1e-10)
        # The noise is a small difference of sums of the size of the mean square.
        np.testing.assert_allclose(posterior.noise, literal.s2, rtol=0, atol=1e-10 * np.mean(X**2))
        np.testing.assert_allclose(-objective, literal.free_energy(), rtol=1e-10)
        gram = posterior.loadings @ posterior.loadings.T  # the same in any latent basis
        np.testing.assert_allclose(gram, literal.M @ literal.M.T, rtol=0, atol=1e-10 * np.abs(gram).max())
        literal.update_columns()
        literal.update_rows()


def test_free_energy_is_what_it_is_defined_as():
    """Minus the mean of log p(X, Y, W) - log q(Y) - log q(W) over draws from q."""
    X = make_table(5, 4, 2, q=3)
    posteriors, objectives = iterate(X, 2, 4, rescale=True)
    literal = Literal(X, posteriors[-1])
    rng, n_draws = np.random.default_rng(1), 40000
    (n, p), d = X.shape, 2
    Y = literal.MU + rng.normal(size=(n_draws, n, d)) @ np.linalg.cholesky(literal.Sigma).T
    scale = np.sqrt(posteriors[-1].variances)
    noise = rng.normal(size=(n_draws, p, d))
    W = literal.M + noise * scale
    residual = X - literal.u * np.einsum("sid,skd->sik", Y, W)
    log_p = -0.5 * np.sum(residual**2, (1, 2)) / literal.s2 - n * p / 2 * np.log(2 * np.pi * literal.s2)
    log_p += -0.5 * np.sum(Y**2, (1, 2)) - n * d / 2 * np.log(2 * np.pi)
    log_p += -0.5 * np.sum(W**2, (1, 2)) / literal.alpha - p * d / 2 * np.log(2 * np.pi * literal.alpha)
    white = np.linalg.solve(np.linalg.cholesky(literal.Sigma), np.swapaxes(Y - literal.MU, 1, 2))
    log_q = -0.5 * np.sum(white**2, (1, 2)) - n / 2 * np.linalg.slogdet(2 * np.pi * literal.Sigma)[1]
    log_q += -0.5 * np.sum(noise**2, (1, 2)) - np.log(scale).sum() - p * d / 2 * np.log(2 * np.pi)
    draws = log_p - log_q
    assert abs(draws.mean() - objectives[-1]) < 4 * draws.std() / np.sqrt(n_draws)


@pytest.mark.parametrize("rescale", [False, True], ids=["plain", "rescaled"])
@pytest.mark.parametrize(
    ("n", "p", "d", "noise"),
    [(30, 14, 3, 0.5), (10, 40, 2, 0.5), (6, 12, 8, 0.5), (40, 10, 3, 1e-6), (40, 10, 3, 30.0)],
    ids=["tall", "wide", "n < d", "no noise", "no signal"],
)
def test_free_energy_never_increases(n, p, d, noise, rescale):
    X = make_table(n, p, d, noise=noise)
    _, objectives = iterate(X, d, 150, rescale=rescale)
    assert np.diff(objectives).min() >= -1e-11 * np.abs(objectives).max()


def test_each_update_is_a_minimum_over_its_block():
    """Finite differences of the literal free energy in alpha, noise and interior relevances."""
    X = make_table()
    posteriors, _ = iterate(X, 3, 400, rescale=True)
    literal = Literal(X, posteriors[-1])

    def slope(name, k=None, h=1e-5):
        values = []
        for sign in (1, -1):
            other = Literal(X, posteriors[-1])
            if k is None:
                setattr(other, name, getattr(other, name) * (1 + sign * h))
            else:
                other.u[k] *= 1 + sign * h
            values.append(other.free_energy())
        return (values[0] - values[1]) / (2 * h)

    scale = abs(literal.free_energy())
    assert abs(slope("alpha")) < 1e-5 * scale
    assert abs(slope("s2")) < 1e-5 * scale
    assert max(abs(slope("u", k)) for k in range(14)) < 1e-5 * scale


def test_rescaling_speeds_up_and_ends_where_the_scales_are_balanced():
    X = make_table(40, 20, 3)
    rescaled, fast = iterate(X, 3, 100, rescale=True)
    _, slow = iterate(X, 3, 400, rescale=False)
    assert fast[-1] >= slow[-1]
    end = rescaled[-1]
    assert end.relevance.max() == 1.0
    second = np.sum(end.variances + end.loadings**2, axis=1)
    alive = end.relevance > 1e-50  # below, relevances are held above their floor
    assert alive.sum() >= 6
    np.testing.assert_allclose(second[alive], end.prior_variance * 3, rtol=1e-6)


@pytest.mark.parametrize(("n", "p"), [(50, 10**9), (50, 60), (50, 50), (60, 50), (10**9, 50)])
def test_latent_scales_minimise_their_part_of_the_free_energy(n, p):
    """Slopes in log c_j, at the best alpha for these c."""
    moments, second = np.array([3.0, 80.0, 40.0]), np.array([7.0, 0.2, 1.0])
    square = latent_scale(float(n), p, moments, second)
    assert (square > 0).all()
    alpha = np.sum(second * square) / (3 * p)
    terms = np.array([-moments / square, np.full(3, float(n - p)), second * square / alpha])
    np.testing.assert_allclose(terms.sum(axis=0), 0.0, atol=1e-9 * np.abs(terms).max())


def test_relevances_vanish_without_signal():
    X = make_table(60, 12, 2, noise=1000.0)
    table, shared = start(X, 2)
    problem = RelaxedProblem(read, total=float(np.sum(X**2)), n_rows=60.0)
    with executor_for(table.data, 1) as executor:
        loop = Loop(problem, table.data, executor, max_iter=2000, tol=1e-6, accelerate=False)
        result = loop.run(shared)[0]
    assert result.converged
    assert result.shared.prior_variance > 0
