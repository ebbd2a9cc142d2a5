"""A fitted model as rows see it, and what it says of the rows of a block; all public methods are written over it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import logsumexp

from anypca._typing import Bools, Floats, Ints
from anypca.columns import Layout
from anypca.engine import Block, Data
from anypca.engine.executors import one_blas_thread
from anypca.families import Family
from anypca.models._opened import OpenedBlock, check_rows, observed_only, open_block, weigh

Solved = TypeVar("Solved")

# Nodes of the quadrature over a normal predictor: moments of its exponential are right to 1e-6 up to a standard
# deviation of 1.5, beyond which a prediction says little.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
# Newton steps to the peak of a likelihood times a normal density, none longer than the standard deviation of that; the
# nodes around it need not be centred to many digits.
_STEPS_TO_PEAK = 20

# Standard deviations of a column within which an expectation of a missing entry may lie where no entry is: expectations
# vary less than entries, of which 0.3 per cent are beyond in a normal column. Without a limit the errors of single
# cells of small tables were up to 1e8 times those of means.
_USUAL = 3.0
# Share of a column's variance that is noise below which a table of low rank is completed, not predicted.
_REPRODUCED = 1e-3
# Slope of hidden entries on their predictions above which such a table is completed: trials end early and are cautious.
_EXACT = 0.9
# Two predictors at which expectations with bounds of their own are the same: beyond 40 a logistic function is 1.
_FAR = (40.0, 700.0)


class RowModel(ABC, Generic[Solved]):
    """Opens a block, solves its rows, and tells their scores, likelihoods and entries.

    It is frozen, knows nothing of scikit-learn, and travels to where the blocks are. A row's answers do not depend
    on its neighbours. Scores are those that the estimator reports.
    """

    family: Family
    """Of the entries given the predictor."""
    dispersion: Floats
    """Of each column, shape (n_features,)."""
    likelihood: ClassVar[str] = "marginal"
    """What `log_likelihood` is; see `anypca.models._description.Description`."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> OpenedBlock:
        """Read the rows of a block; raise on a value that the family cannot have produced."""
        rows = open_block(block)
        check_rows(self.family, rows, names)
        return rows

    @abstractmethod
    def solve(self, rows: OpenedBlock) -> Solved:
        """The rows' latent points, or their posteriors, each row to its own convergence."""

    def scores(self, solved: Solved) -> Floats:
        """Scores of solved rows, shape (rows, k); by default what they were solved to."""
        return np.asarray(solved)

    def deviations(self, solved: Solved) -> Floats:
        """Posterior standard deviations of the scores, shape (rows, k)."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior")

    @abstractmethod
    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        """Log-likelihood of each row with its scores integrated out, or what stands for that, shape (rows,)."""

    def integrate(self, rows: OpenedBlock) -> tuple[Floats, Floats]:
        """The same, and the entropies of the posteriors of the scores in units of their prior; (rows,) each."""
        raise NotImplementedError(f"{type(self).__name__} does not tell entropies")

    def predictor(self, block: Block, scores: Floats) -> Floats:
        """eta (rows, n_features) at given scores, with the offsets and covariates of a block."""
        raise NotImplementedError(f"{type(self).__name__} has no predictor")

    def mean(self, block: Block, scores: Floats) -> Floats:
        """Expected entries (rows, n_features) at given scores."""
        return self.family.mean(self.predictor(block, scores), self.dispersion)

    def expected(self, block: Block, rows: OpenedBlock, solved: Solved) -> Floats:
        """Expected entries (rows, n_features) given the rows, by default those at their scores."""
        return self.mean(block, self.scores(solved))

    def entry_moments(
        self, rows: OpenedBlock, solved: Solved, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        """Posterior mean and variance of eta, without the offset, at entries (index, columns); (n_entries,) each."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior")

    def entry_deviations(self, rows: OpenedBlock, solved: Solved, index: Ints, columns: Ints) -> Floats:
        """Standard deviations of unseen entries given the rows: of the predictor and of the noise, (n_entries,)."""
        mean, variance = with_offset(rows, index, columns, *self.entry_moments(rows, solved, index, columns))
        return predictive_deviations(self.family.take(columns), mean, variance, self.dispersion[columns])

    def entry_log_likelihood(
        self, block: Block, rows: OpenedBlock, index: Ints, columns: Ints, values: Floats, steps: Floats
    ) -> Floats:
        """Log-probability of values at entries (index, columns), recorded in steps, at the rows' own scores."""
        eta = plugged_in(self, block, rows)[index, columns]
        return self.family.take(columns).log_mass(values, eta, self.dispersion[columns], steps[columns])

    def draw_posterior(
        self,
        block: Block,
        rows: OpenedBlock,
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
    rows: OpenedBlock, index: Ints, columns: Ints, mean: Floats, variance: Floats
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

    The nodes lie around the mode of the product of likelihood and normal density, and as wide as that: a value that
    tells much more of its predictor than is known beforehand would fall between nodes of the normal distribution.
    """
    # So much spread that its nodes are not lost in rounding.
    mean, variance = moments[0], np.maximum(moments[1], 1e-12 * (1.0 + moments[0] ** 2))
    centre, width = _peak(family, values, mean, variance, dispersion)
    eta = centre + np.multiply.outer(_NODES, width)
    log_prior = -0.5 * (eta - mean) ** 2 / variance - 0.5 * np.log(variance)
    log_nodes = (np.log(_WEIGHTS / _WEIGHTS.sum()) + 0.5 * _NODES**2)[:, None] + np.log(width)
    terms = family.log_mass(np.broadcast_to(values, eta.shape), eta, dispersion, steps)
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


def plugged_in(model: RowModel[Any], block: Block, rows: OpenedBlock) -> Floats:
    """eta (rows, n_features) at the rows' own scores, in the precision of the block."""
    scores = model.scores(model.solve(rows)).astype(rows.dtype)
    return model.predictor(block, scores.astype(np.float64, copy=False))


def plug_in(model: RowModel[Any], block: Block, rows: OpenedBlock, steps: Floats, axis: int = 1) -> Floats:
    """Log-probability of the observed entries, recorded in steps, at their rows' own scores, summed along an axis."""
    x = rows.x.astype(np.float64, copy=False)
    # At missing entries eta may be anything, also too large for its exponential.
    eta = observed_only(rows, slice(None), plugged_in(model, block, rows))
    terms = model.family.log_mass(x, eta, model.dispersion, steps)
    return np.asarray(np.sum(weigh(rows, slice(None), terms), axis=axis))


def log_steps(model: RowModel[Any], rows: OpenedBlock, steps: Floats | None) -> Floats | float:
    """What turns log-densities of rows into log-probabilities of their entries as they are recorded, shape (rows,)."""
    if steps is None:
        return 0.0
    terms = observed_only(rows, slice(None), model.family.log_step(rows.x, steps))
    return np.asarray(terms.sum(axis=1, dtype=float))


class Expectations(NamedTuple):
    """What is known of expectations of missing entries before their rows are seen; (n_features,) each, or a number."""

    low: Floats | float = -np.inf
    high: Floats | float = np.inf
    mean: Floats | float = 0.0
    slope: Floats | float = 1.0
    """Of entries on what the model expects of them, both as deviations from the mean."""
    far: Floats | float = 1.0
    """The same beyond the bulk of a column."""
    bulk: tuple[Floats | float, Floats | float] = (-np.inf, np.inf)

    @classmethod
    def of(
        cls,
        model: RowModel[Any],
        moments: tuple[Floats, ...],
        slope: Floats | None,
        far: tuple[float, Floats, Floats] | None,
    ) -> Expectations:
        """From the mean, the variance and the extremes of the columns of a table, and from what trials have shown."""
        if slope is None:
            return cls(*usual_range(model, *moments), moments[0])
        # Where noise is shared it is small beside that of a large column, which is not completed for that.
        is_exact = is_completed(model, moments[1]) & (slope > _EXACT)
        inside = cls(*usual_range(model, *moments), moments[0], np.where(is_exact, 1.0, slope))
        # A file of an earlier version has one slope.
        return inside if far is None else inside._replace(far=np.where(is_exact, 1.0, far[0]), bulk=far[1:])

    def believed(self, expected: Floats) -> Floats:
        """Expectations as far as they may be believed."""
        cut = np.clip(expected, self.low, self.high)
        inside = np.clip(cut, *self.bulk)
        return np.asarray(self.mean + self.slope * (inside - self.mean) + self.far * (cut - inside))


def is_completed(model: RowModel[Any], variance: Floats) -> Bools:
    """Columns of which the model leaves nothing unexplained: their missing entries are what it says, (n_features,)."""
    found, dispersion = np.zeros(len(variance), dtype=bool), np.broadcast_to(model.dispersion, len(variance))
    for member, columns in model.family.member_columns(len(variance)):
        if member.has_units:
            found[columns] = dispersion[columns] < _REPRODUCED * variance[columns]
    return found


def has_bounds(family: Family, dispersion: Floats) -> Bools:
    """Columns whose expectation has bounds of its own, such as shares, (n_features,)."""
    first, second = family.mean(np.broadcast_to(np.array(_FAR)[:, None], (2, len(dispersion))), dispersion)
    return np.asarray(np.isclose(first, second))


def usual_range(
    model: RowModel[Any], mean: Floats, variance: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Between what expectations of missing entries lie: entries, or some deviations of a column; (n_features,) each.

    Columns whose expectation has bounds of its own, such as shares, have infinite ones here, as have those of which
    the model leaves nothing unexplained.
    """
    is_bounded = has_bounds(model.family, np.broadcast_to(model.dispersion, len(mean)))
    reach = np.where(is_bounded, np.inf, _USUAL * np.sqrt(variance))
    reach[is_completed(model, variance)] = np.inf
    return np.fmin(mean - reach, low), np.fmax(mean + reach, high)


def fill(model: RowModel[Any], block: Block, rows: OpenedBlock, usual: Expectations) -> tuple[Floats, Any]:
    """The rows with expectations in place of missing entries, and what they were solved to (None if complete).

    Expectations are believed as far as ``usual`` says.
    """
    if rows.observed is None:
        return rows.x, None
    solved = model.solve(rows)
    # Where a single entry is told by next to nothing its expectation may overflow.
    with np.errstate(over="ignore"):
        expected = usual.believed(model.expected(block, rows, solved))
    return np.where(rows.observed, rows.x, expected).astype(rows.dtype, copy=False), solved


def fill_with_deviations(
    model: RowModel[Any], block: Block, rows: OpenedBlock, usual: Expectations
) -> tuple[Floats, Floats]:
    """The same, and the standard deviations of what was filled in, 0 elsewhere."""
    filled, solved = fill(model, block, rows, usual)
    std = np.zeros_like(filled)
    if rows.observed is not None:
        index, columns = np.nonzero(~rows.observed)

        def deviations(index: Ints, columns: Ints) -> Floats:
            return model.entry_deviations(rows, solved, index, columns)

        std[index, columns] = in_pieces(deviations, index, columns, np.empty(0))
    return filled, std


def in_pieces(function: Callable[[Ints, Ints], Floats], index: Ints, columns: Ints, none: Floats) -> Floats:
    """``function`` of entries, some at a time; ``none`` where there are no entries."""
    starts = range(0, len(index), _ENTRIES_AT_ONCE)
    parts = [slice(start, start + _ENTRIES_AT_ONCE) for start in starts]
    return np.concatenate([none, *(function(index[part], columns[part]) for part in parts)])
