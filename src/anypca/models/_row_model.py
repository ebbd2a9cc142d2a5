"""Inference for new rows; implements `transform`, `score_samples` and `impute`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from scipy.special import logsumexp

from anypca._typing import Floats, Ints
from anypca.columns import Layout
from anypca.engine import Block, Data
from anypca.engine.executors import one_blas_thread
from anypca.families import Family
from anypca.models._block_view import BlockView, apply_entry_weights, check_rows, observed_only, open_block

Solved = TypeVar("Solved")

# Nodes of the quadrature over a normal predictor: moments of its exponential are right to 1e-6 up to a standard
# deviation of 1.5, beyond which a prediction says little.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
# Newton steps to the peak of a likelihood times a normal density, none longer than the standard deviation of that; the
# nodes around it need not be centred to many digits.
_STEPS_TO_PEAK = 20


class RowModel(ABC, Generic[Solved]):
    """Opens a block, solves its rows, and computes their scores, likelihoods and expected entries.

    It is frozen, knows nothing of scikit-learn, and travels to where the blocks are. Results of a row do not
    depend on other rows. Scores are in the coordinates that the estimator reports.
    """

    family: Family
    """Of the entries given the predictor."""
    dispersion: Floats
    """Of each column, shape (n_features,)."""
    likelihood: ClassVar[str] = "marginal"
    """What `log_likelihood` is; see `anypca.models._description.Description`."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        """Read the rows of a block; raise on a value that the family cannot have produced."""
        rows = open_block(block)
        check_rows(self.family, rows, names)
        return rows

    @abstractmethod
    def solve(self, rows: BlockView) -> Solved:
        """The rows' latent points, or their posteriors, each row to its own convergence."""

    def scores(self, solved: Solved) -> Floats:
        """Scores of solved rows, shape (rows, k); by default the solution itself."""
        return np.asarray(solved)

    def deviations(self, solved: Solved) -> Floats:
        """Posterior standard deviations of the scores, shape (rows, k)."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior")

    @abstractmethod
    def log_likelihood(self, rows: BlockView) -> Floats:
        """Log-likelihood of each row with its scores integrated out, or an approximation, shape (rows,)."""

    def integrate(self, rows: BlockView) -> tuple[Floats, Floats]:
        """The same, and the entropies of the posteriors of the scores in units of their prior; (rows,) each."""
        raise NotImplementedError(f"{type(self).__name__} does not tell entropies")

    def predictor(self, block: Block, scores: Floats) -> Floats:
        """eta (rows, n_features) at given scores, with the offsets and covariates of a block."""
        raise NotImplementedError(f"{type(self).__name__} has no predictor")

    def mean(self, block: Block, scores: Floats) -> Floats:
        """Expected entries (rows, n_features) at given scores."""
        return self.family.mean(self.predictor(block, scores), self.dispersion)

    def expected(self, block: Block, rows: BlockView, solved: Solved) -> Floats:
        """Expected entries (rows, n_features) given the rows, by default those at their scores."""
        return self.mean(block, self.scores(solved))

    def entry_moments(
        self, rows: BlockView, solved: Solved, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        """Posterior mean and variance of eta, without the offset, at entries (index, columns); (n_entries,) each."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior")

    def entry_deviations(self, rows: BlockView, solved: Solved, index: Ints, columns: Ints) -> Floats:
        """Standard deviations of unseen entries given the rows: of the predictor and of the noise, (n_entries,)."""
        mean, variance = with_offset(rows, index, columns, *self.entry_moments(rows, solved, index, columns))
        return predictive_deviations(self.family.take(columns), mean, variance, self.dispersion[columns])

    def leverages(
        self, rows: BlockView, solved: Solved, eta: Floats, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        """How much the predictor of an observed entry depends on the entry itself through its row's scores.

        Parameters
        ----------
        rows : BlockView
        solved
        eta : ndarray of shape (n_entries,)
            Predictors with the offset.
        index, columns : ndarray of int of shape (n_entries,)

        Returns
        -------
        leverage : ndarray of shape (n_entries,)
            Derivative of eta in the working value, 0 to 1.
        residual : ndarray of shape (n_entries,)
            Working value less eta: a Newton step of the entry alone.
        """
        family, x = self.family.take(columns), rows.x[index, columns].astype(float)
        found = family.evaluate(x, eta, self.dispersion[columns])
        assert found.gradient is not None
        curvature = family.newton_curvature(x, eta, found, self.dispersion[columns])
        variance = self.entry_moments(rows, solved, index, columns)[1]
        step = np.divide(found.gradient, curvature, out=np.zeros_like(eta), where=curvature > 0)
        return curvature * variance, step

    def entry_log_likelihood(
        self, block: Block, rows: BlockView, index: Ints, columns: Ints, values: Floats, steps: Floats
    ) -> Floats:
        """Log-probability of values at entries (index, columns), recorded in steps, at the rows' own scores."""
        eta = plugged_in(self, block, rows)[index, columns]
        return self.family.take(columns).log_interval_probability(
            values, eta, self.dispersion[columns], steps[columns]
        )

    def draw_posterior(
        self,
        block: Block,
        rows: BlockView,
        solved: Solved,
        rng: np.random.Generator,
        shared: np.random.Generator,
    ) -> Floats:
        """Draw eta (rows, n_features) of the missing entries given the rows.

        ``shared`` draws parameters that all blocks have in common. By default entries are drawn from their own
        posteriors, independently of each other.
        """
        eta = np.zeros((rows.n_rows, len(self.dispersion)))
        if rows.observed is not None:
            index, columns = np.nonzero(~rows.observed)
            moments = self.entry_moments(rows, solved, index, columns)
            mean, variance = with_offset(rows, index, columns, *moments)
            eta[index, columns] = rng.normal(mean, np.sqrt(variance))
        return eta

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        """Scores of new rows, shape (n_samples, k)."""
        raise NotImplementedError(f"{type(self).__name__} has no distribution of scores")

    def draw_predictors(self, data: Data, rng: np.random.Generator) -> Floats:
        """eta (n_samples, n_features) of new rows with the offsets and covariates of a table."""
        return predict_table(self, data, self.draw_scores(data.n_samples, rng))


def with_offset(
    rows: BlockView, index: Ints, columns: Ints, mean: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """Moments of the predictor with the rows' offsets, (n_entries,) each."""
    if rows.offset is None:
        return mean, variance
    return mean + rows.offset[index, columns if rows.offset.shape[1] > 1 else 0], variance


def draw_normal(mean: Floats, covariance: Floats, rng: np.random.Generator) -> Floats:
    """Draw one normal vector for each mean (n, k), given covariances of shape (n, k, k)."""
    root = np.linalg.cholesky(covariance)
    return np.asarray(mean + np.einsum("iab,ib->ia", root, rng.standard_normal(mean.shape)))


def predictive_deviations(family: Family, mean: Floats, variance: Floats, dispersion: Floats) -> Floats:
    """Standard deviations of x whose predictor is normal: noise on the average, and how the mean varies, (n,)."""
    nodes = mean + np.multiply.outer(_NODES, np.sqrt(variance))
    weights: Any = _WEIGHTS / _WEIGHTS.sum()
    means = family.mean(nodes, dispersion)
    # By the law of total variance: the mean of the variances and the variance of the means.
    noise = weights @ family.variance(means, dispersion)
    spread = weights @ (means - weights @ means) ** 2
    return np.asarray(np.sqrt(noise + spread))


def predictive_log_mass(
    family: Family, values: Floats, moments: tuple[Floats, Floats], dispersion: Floats, steps: Floats
) -> Floats:
    """Log-probability of values, recorded in steps, whose predictors are normal with such moments, (n,) each.

    The quadrature is adaptive: nodes are centred at the mode of likelihood times normal density and scaled to its
    width. A narrow likelihood would fall between the nodes of the normal distribution.
    """
    # So much spread that its nodes are not lost in rounding.
    mean, variance = moments[0], np.maximum(moments[1], 1e-12 * (1.0 + moments[0] ** 2))
    centre, width = _peak(family, values, mean, variance, dispersion)
    eta = centre + np.multiply.outer(_NODES, width)
    log_prior = -0.5 * (eta - mean) ** 2 / variance - 0.5 * np.log(variance)
    log_nodes = (np.log(_WEIGHTS / _WEIGHTS.sum()) + 0.5 * _NODES**2)[:, None] + np.log(width)
    terms = family.log_interval_probability(np.broadcast_to(values, eta.shape), eta, dispersion, steps)
    return np.asarray(logsumexp(terms + log_prior + log_nodes, axis=0))


def _peak(
    family: Family, values: Floats, mean: Floats, variance: Floats, dispersion: Floats
) -> tuple[Floats, Floats]:
    """Where the product of likelihood and normal density is largest, and its width there, (n,) each."""
    eta, longest = mean, np.sqrt(variance)
    for _ in range(_STEPS_TO_PEAK):
        found = family.evaluate(values, eta, dispersion)
        assert found.gradient is not None
        curvature = family.newton_curvature(values, eta, found, dispersion) + 1.0 / variance
        step = (found.gradient - (eta - mean) / variance) / curvature
        eta = eta + np.clip(step, -longest, longest)
    return eta, 1.0 / np.sqrt(curvature)


def predict_table(model: RowModel[Any], data: Data, scores: Floats) -> Floats:
    """eta (n_samples, n_features) at scores, with the offsets and covariates of a table."""
    return np.concatenate([part for _, part in at_scores(model.predictor, data, scores)])


def at_scores(
    function: Callable[[Block, Floats], Floats], data: Data, scores: Floats
) -> Iterator[tuple[slice, Floats]]:
    """The rows of each block of a table, and a function of the block and of their scores.

    Parameters
    ----------
    function : callable
        It runs with one thread of BLAS, as everything that is done with blocks: more gain nothing in products so small.
    data : Data
    scores : ndarray of shape (n_samples, n_components)
    """
    for block in data.blocks:
        rows = slice(block.start, block.stop)
        with one_blas_thread:
            part = function(block, scores[rows])
        yield rows, part


def draw_table(layout: Layout, model: RowModel[Any], eta: Floats, rng: np.random.Generator) -> Floats:
    """Rows of the user's table (n_samples, n_features) drawn at predictors (n_samples, n_columns) of the model."""
    draws = model.family.sample(eta, model.dispersion, rng)
    if layout.is_identity:
        return draws
    return layout.join_draws(draws, model.family.mean(eta, model.dispersion), rng)


# Entries whose matrices are gathered together: k x k numbers each, a few megabytes at k = 10.
_ENTRIES_AT_ONCE = 8192


def plugged_in(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
    """eta (rows, n_features) at the rows' own scores, in the precision of the block."""
    scores = model.scores(model.solve(rows)).astype(rows.dtype)
    return model.predictor(block, scores.astype(np.float64, copy=False))


def plug_in(model: RowModel[Any], block: Block, rows: BlockView, steps: Floats, axis: int = 1) -> Floats:
    """Log-probability of the observed entries, recorded in steps, at their rows' own scores, summed along an axis."""
    x = rows.x.astype(np.float64, copy=False)
    # At missing entries eta may be anything, also too large for its exponential.
    eta = observed_only(rows, slice(None), plugged_in(model, block, rows))
    terms = model.family.log_interval_probability(x, eta, model.dispersion, steps)
    return np.asarray(np.sum(apply_entry_weights(rows, slice(None), terms), axis=axis))


def log_steps(model: RowModel[Any], rows: BlockView, steps: Floats | None) -> Floats | float:
    """What turns log-densities of rows into log-probabilities of their entries as they are recorded, shape (rows,)."""
    if steps is None:
        return 0.0
    terms = observed_only(rows, slice(None), model.family.log_step(rows.x, steps))
    return np.asarray(terms.sum(axis=1, dtype=float))


def in_pieces(function: Callable[[Ints, Ints], Floats], index: Ints, columns: Ints, none: Floats) -> Floats:
    """``function`` of entries, some at a time; ``none`` where there are no entries."""
    starts = range(0, len(index), _ENTRIES_AT_ONCE)
    parts = [slice(start, start + _ENTRIES_AT_ONCE) for start in starts]
    return np.concatenate([none, *(function(index[part], columns[part]) for part in parts)])
