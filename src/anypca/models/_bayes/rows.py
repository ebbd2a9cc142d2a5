"""Rows under draws of a posterior: every answer is an average over draws; no estimate is plugged in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data
from anypca.families import Family
from anypca.linalg import unpack_symmetric
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.row_model import warn_unsolved
from anypca.models._block_view import BlockView, check_rows, open_block
from anypca.models._row_model import RowModel
from anypca.priors import Ridge

#: Draws that rows are averaged over: the error of an average is then an eighth of the spread between draws.
N_AVERAGED = 64
#: Points of a row under each draw, in pairs around its mode; with 64 draws a thousand points in all.
N_POINTS = 16
#: Entries whose expected values are compared between chains: they do not depend on latent coordinates.
N_COMPARED = 200


class Cloud(NamedTuple):
    """Weighted points that approximate the posterior of rows under one draw."""

    scores: Floats
    """As they are reported, shape (points, rows, k)."""
    eta: Floats
    """(points, rows, n_features)."""
    weight: Floats
    """Of each point of a row; they sum to 1, shape (points, rows)."""
    log_likelihood: Floats
    """Of the rows under the draw, scores integrated out, shape (rows,)."""


class Averages(NamedTuple):
    """Posterior expectations over draws and scores."""

    scores: Floats
    score_squares: Floats
    """(rows, k)."""
    expected: Floats
    """Of the entries, shape (rows, n_features)."""
    eta: Floats
    eta_squares: Floats
    """(rows, n_features)."""
    log_likelihood: Floats
    """(rows,)."""


class DrawnRowModel(RowModel[Averages]):
    """Rows under draws of loadings; a subclass says what each draw makes of them."""

    dispersion: Floats

    @abstractmethod
    def clouds(self, rows: BlockView) -> Iterator[Cloud]:
        """The posterior of rows under each draw."""

    @abstractmethod
    def predictors(self, scores: Floats) -> Iterator[Floats]:
        """eta (rows, n_features) at reported scores under each draw."""

    @abstractmethod
    def draw_predictors(self, data: Data, rng: np.random.Generator) -> Floats:
        """eta (n_samples, n_features) of new rows, each under a draw of its own."""

    def solve(self, rows: BlockView) -> Averages:
        # One pass over the draws: the clouds of all of them together would fill the memory.
        sums, logs = None, []
        for cloud in self.clouds(rows):
            logs.append(cloud.log_likelihood)
            values = (
                cloud.scores,
                cloud.scores**2,
                self.family.mean(cloud.eta, self.dispersion),
                cloud.eta,
                cloud.eta**2,
            )
            parts = [np.einsum("mi,mia->ia", cloud.weight, value) for value in values]
            sums = parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]
        assert sums is not None
        scores, squares, expected, eta, eta_squares = (total / len(logs) for total in sums)
        return Averages(scores, squares, expected, eta, eta_squares, log_mean(np.array(logs)))

    def scores(self, solved: Averages) -> Floats:
        return solved.scores

    def deviations(self, solved: Averages) -> Floats:
        return np.sqrt(np.maximum(solved.score_squares - solved.scores**2, 0.0))

    def log_likelihood(self, rows: BlockView) -> Floats:
        return log_mean(np.array([cloud.log_likelihood for cloud in self.clouds(rows)]))

    def expected(self, block: Block, rows: BlockView, solved: Averages) -> Floats:
        return solved.expected

    def predictor(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(np.mean(list(self.predictors(scores)), axis=0))

    def mean(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(
            np.mean([self.family.mean(eta, self.dispersion) for eta in self.predictors(scores)], axis=0)
        )

    def entry_moments(
        self, rows: BlockView, solved: Averages, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        mean, square = solved.eta[index, columns], solved.eta_squares[index, columns]
        return mean, np.maximum(square - mean**2, 0.0)

    def entry_log_likelihood(
        self, block: Block, rows: BlockView, index: Ints, columns: Ints, values: Floats, steps: Floats
    ) -> Floats:
        """Log of the average probability of values at entries (index, columns), recorded in steps, (n_entries,)."""
        used, index = np.unique(index, return_inverse=True)
        family, known = self.family.take(columns), (self.dispersion[columns], steps[columns])
        found = []
        for cloud in self.clouds(rows.take(used)):
            eta = cloud.eta[:, index, columns]
            terms = family.log_interval_probability(np.broadcast_to(values, eta.shape), eta, *known)
            found.append(logsumexp(terms, axis=0, b=cloud.weight[:, index]))
        return log_mean(np.array(found))

    def log_joint(self, rows: BlockView, eta: Floats) -> Floats:
        """Log-likelihood of rows at predictors (points, rows, n_features), with constants; (points, rows)."""
        # Far points of a cloud may overflow: they have no weight then.
        x = rows.x.astype(float, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.family.evaluate(np.broadcast_to(x, eta.shape), eta, self.dispersion, order=0).value
        terms = terms + self.family.log_base_measure(x, self.dispersion)
        if rows.observed is not None:
            terms = np.where(rows.observed, terms, 0.0)
        return np.asarray(terms.sum(axis=-1))


def weighted_cloud(scores: Floats, eta: Floats, log_weight: Floats) -> Cloud:
    """A cloud of points with log densities over those they were drawn from, (points, rows)."""
    # The mean of the weights estimates the likelihood of a row with its scores integrated out.
    return Cloud(scores, eta, softmax(log_weight, axis=0), log_mean(log_weight))


def log_mean(logs: Floats) -> Floats:
    """Logarithm of the mean of exponentials over the first axis."""
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(logs)))


def thin(n_draws: int) -> Ints:
    """Evenly spaced draws of all chains, as many as rows are averaged over."""
    return np.unique(np.linspace(0, n_draws - 1, min(n_draws, N_AVERAGED)).round().astype(int))


@cache
def normal_points(k: int, n_points: int = N_POINTS) -> Floats:
    """Points of a standard normal distribution in pairs of opposites, the same for every row, (n_points, k)."""
    # Pairs of opposites integrate odd functions exactly; with a fixed seed a row has the same answer in every call.
    half = np.random.default_rng(0).standard_normal((n_points // 2, k))
    return np.concatenate([half, -half])


def choose_entries(n_samples: int, n_features: int) -> tuple[Ints, Ints]:
    """Rows and columns of some entries, evenly spread over a table, by which chains are compared."""
    size = n_samples * n_features
    chosen = np.unique(np.linspace(0, size - 1, min(size, N_COMPARED)).round().astype(int))
    row, column = np.divmod(chosen, n_features)
    return row, column


@dataclass(frozen=True, eq=False)
class NormalRowModel(DrawnRowModel):
    """Rows of ``eta = b + W z`` with standard normal z under each draw.

    Points are drawn from the normal distribution at the mode of z and weighted to the posterior (importance sampling).
    """

    family: Family
    dispersion: Floats
    loadings: Floats
    """W, shape (draws, n_features, k)."""
    intercept: Floats
    """b, shape (draws, n_features)."""
    forward: Floats
    """Reported scores are ``z forward + shift``, shape (draws, k, n_components)."""
    shift: Floats
    """(draws, n_components)."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        rows = open_block(block, fit_intercept=True)
        check_rows(self.family, rows, names)
        return rows

    def clouds(self, rows: BlockView) -> Iterator[Cloud]:
        k = self.loadings.shape[2]
        eps = float(np.finfo(rows.dtype).eps)
        problem = BilinearProblem(self.family, Ridge(np.ones(k)), Ridge(np.zeros(k + 1)), eps=eps)
        nodes = normal_points(k)
        for W, b, forward, shift in zip(self.loadings, self.intercept, self.forward, self.shift, strict=True):
            evaluator = problem.evaluator(Coefficients(W, b[:, None], self.dispersion), rows)
            found = problem.solve_rows(evaluator, evaluator.origin)
            warn_unsolved(found.converged, rows.numbers)
            factor = np.linalg.cholesky(unpack_symmetric(found.curvature, k) + np.eye(k))
            # z = mode + L^-T e has the precision L L' of the posterior at its mode.
            steps = np.linalg.solve(np.swapaxes(factor, 1, 2), nodes.T)
            points = found.points + steps.transpose(2, 0, 1)
            eta = points @ W.T + b
            log_weight = self.log_joint(rows, eta) - 0.5 * (points**2).sum(axis=-1)
            # Divided by the density of the proposal: the density of e, and the determinant of L.
            log_weight += 0.5 * (nodes**2).sum(axis=1)[:, None]
            log_weight -= np.log(np.einsum("iaa->ia", factor)).sum(axis=1)
            yield weighted_cloud(points @ forward + shift, eta, log_weight)

    def predictors(self, scores: Floats) -> Iterator[Floats]:
        for W, b, forward, shift in zip(self.loadings, self.intercept, self.forward, self.shift, strict=True):
            yield (scores - shift) @ np.linalg.pinv(forward) @ W.T + b

    def draw_predictors(self, data: Data, rng: np.random.Generator) -> Floats:
        index = rng.integers(len(self.loadings), size=data.n_samples)
        z = rng.standard_normal((data.n_samples, self.loadings.shape[2]))
        return np.asarray(np.einsum("ijk,ik->ij", self.loadings[index], z) + self.intercept[index])
