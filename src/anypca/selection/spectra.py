"""Numbers of components from the singular values of residuals: methods that were made for normal tables.

Residuals of the model without components bring them to any family: columns are centred, and offsets and covariates are
taken out. Under a log or logit link strong components bend, and each method that counts directions of the
residuals may then count some of the bends.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from anypca._compat import minka_evidence
from anypca._typing import Floats, Ints
from anypca.selection.rank_methods import (
    Finding,
    RankMethod,
    RankTask,
    check_residual,
    leading,
    rank_methods,
)

#: Ratio of the largest to the smallest spread of columns beyond which their noise is hardly equal: components that
#: make up nine tenths of a column and nothing of another make it 3.
_UNEQUAL = 10.0
#: Points of the quadrature of the Marchenko-Pastur law: its median is then right to six digits.
_N_POINTS = 4096


@dataclass(frozen=True)
class SpectralMethod(RankMethod):
    """A method that looks at the table of residuals as a whole."""

    #: Whether 0 can stand in the place of missing residuals.
    handles_missing: ClassVar[bool] = False
    #: Whether the noise of all columns is taken as equal: each family's columns then keep their spreads, since
    #: variances of 1 would make the noise of columns with much signal the smallest.
    needs_equal_noise: ClassVar[bool] = True

    residual: str = "deviance"

    def __post_init__(self) -> None:
        check_residual(self.residual)

    def find(self, task: RankTask) -> Finding:
        if not self.handles_missing:
            task.refuse_missing(self.name)
        values = task.null.residuals(self.residual, task.rng, is_scaled=not self.needs_equal_noise)
        if min(values.shape) < 2:
            return Finding(0, "fewer than two columns vary")
        found = self.count(values, task)
        remark = "; ".join(filter(None, [found.remark, _unequal(values) if self.needs_equal_noise else ""]))
        return Finding(min(found.rank, task.max_rank), remark)

    @abstractmethod
    def count(self, values: Floats, task: RankTask) -> Finding:
        """The number of components in scaled residuals (n_samples, n_columns)."""


@rank_methods.register
@dataclass(frozen=True)
class ParallelAnalysis(SpectralMethod):
    """Parallel analysis: components whose variance is more than that of a table with its columns permuted.

    The k-th eigenvalue is compared with the k-th ones of tables in which each column is permuted by itself, which keeps
    every column's distribution and nothing else. Missing entries stay where they are. A strong component raises
    the variance of the permuted columns too and may hide weak ones.

    Parameters
    ----------
    residual : {"deviance", "pearson", "quantile"}, default="deviance"
        What the entries are turned into.
    n_draws : int, default=99
        Number of permuted tables.
    level : float, default=0.95
        Share of them that an eigenvalue must exceed.

    See Also
    --------
    ParametricParallelAnalysis : noise drawn from the family.

    References
    ----------
    J. Horn (1965). A rationale and test for the number of factors in factor analysis. Psychometrika.
    A. Buja, N. Eyuboglu (1992). Remarks on parallel analysis. Multivariate Behavioral Research.
    """

    name = "parallel"
    label = "parallel analysis, permuted columns"
    handles_missing = True
    needs_equal_noise = False

    n_draws: int = 99
    level: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.n_draws, bool) or not isinstance(self.n_draws, int) or self.n_draws < 1:
            raise ValueError(f"n_draws must be a positive integer; got {self.n_draws!r}.")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {self.level!r}.")

    def count(self, values: Floats, task: RankTask) -> Finding:
        rng, found = task.rng, eigenvalues(values)
        above = np.zeros(len(found))
        for _ in range(self.n_draws):
            drawn = eigenvalues(self._draw(values, task, rng))
            # A drawn table may have a constant column that this one has not.
            above[: len(drawn)] += drawn[: len(found)] >= found[: len(drawn)]
        # The table counts as one of the draws, which makes the level exact.
        return Finding(leading((above + 1.0) / (self.n_draws + 1.0) <= 1.0 - self.level + 1e-9))

    def _draw(self, values: Floats, task: RankTask, rng: np.random.Generator) -> Floats:
        """A table without components."""
        if task.null.observed.all():
            return rng.permuted(values, axis=0)
        drawn = values.copy()
        for column in drawn.T:
            # Of residuals only missing ones are exactly 0.
            seen = np.flatnonzero(column)
            column[seen] = rng.permutation(column[seen])
        return drawn


@rank_methods.register
@dataclass(frozen=True)
class ParametricParallelAnalysis(ParallelAnalysis):
    """Parallel analysis with tables drawn from the family at the fit without components.

    Columns have the family's distribution rather than their own. Otherwise as `ParallelAnalysis`, with its parameters.

    See Also
    --------
    ParallelAnalysis : noise by permutation.
    """

    name = "parametric"
    label = "parallel analysis, drawn tables"

    def _draw(self, values: Floats, task: RankTask, rng: np.random.Generator) -> Floats:
        return task.null.drawn(self.residual, rng)


@rank_methods.register
@dataclass(frozen=True)
class GavishDonoho(SpectralMethod):
    r"""Singular values above the optimal hard threshold for white noise of unknown level.

    The threshold is :math:`\lambda_*(\beta) / \sqrt{\mu_\beta}` times the median singular value, with :math:`\beta` the
    ratio of the sides and :math:`\mu_\beta` the median of the Marchenko-Pastur law. It makes the denoised table
    best in mean square, and is above the threshold of detectability: components between the two are left out.

    Parameters
    ----------
    residual : {"deviance", "pearson", "quantile"}, default="deviance"

    See Also
    --------
    ScreeNot : for correlated noise.

    References
    ----------
    M. Gavish, D. Donoho (2014). The optimal hard threshold for singular values is 4/sqrt(3). IEEE Transactions on
    Information Theory.
    """

    name = "gavish_donoho"
    label = "Gavish and Donoho's threshold"

    def count(self, values: Floats, task: RankTask) -> Finding:
        size = np.sqrt(eigenvalues(values))
        beta = min(values.shape) / max(values.shape)
        # The optimal threshold where the noise level is not known (Gavish and Donoho 2014).
        root = np.sqrt(beta * beta + 14.0 * beta + 1.0)
        best = np.sqrt(2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + root))
        return Finding(leading(size > best / np.sqrt(_median_marchenko_pastur(beta)) * np.median(size)))


@rank_methods.register
@dataclass(frozen=True)
class ScreeNot(SpectralMethod):
    """Singular values above the best hard threshold for noise of any spectrum (ScreeNOT).

    The noise's spectrum is that of the table with its ``max_rank`` largest singular values replaced by what the
    following ones suggest; columns may correlate in the noise.

    Parameters
    ----------
    residual : {"deviance", "pearson", "quantile"}, default="deviance"

    See Also
    --------
    GavishDonoho : for white noise.

    References
    ----------
    D. Donoho, M. Gavish, E. Romanov (2023). ScreeNOT: exact MSE-optimal singular value thresholding in correlated
    noise. Annals of Statistics.
    """

    name = "screenot"
    label = "ScreeNOT"
    needs_equal_noise = False

    def count(self, values: Floats, task: RankTask) -> Finding:
        size = np.sqrt(eigenvalues(values))
        most = min(task.max_rank, (len(size) - 2) // 2)
        if most < 1:
            raise ValueError(
                f"method 'screenot' needs at least 4 rows and columns that vary; got {len(size)}. Use 'parallel'."
            )
        noise = _without_largest(size, most)
        threshold = _best_threshold(noise, min(values.shape) / max(values.shape))
        remark = "" if most == task.max_rank else f"looks for at most {most} in a table of this size"
        return Finding(leading(size > threshold), remark)


@rank_methods.register
@dataclass(frozen=True)
class Minka(SpectralMethod):
    """The rank of highest evidence under probabilistic PCA, by Laplace's approximation.

    It needs more rows than columns.

    Parameters
    ----------
    residual : {"deviance", "pearson", "quantile"}, default="deviance"

    See Also
    --------
    BICMethod : any model with a likelihood.

    References
    ----------
    T. Minka (2000). Automatic choice of dimensionality for PCA. NIPS.
    """

    name = "minka"
    label = "Minka's evidence"

    def count(self, values: Floats, task: RankTask) -> Finding:
        n, p = values.shape
        if n <= p:
            raise ValueError(
                f"method 'minka' needs more rows than columns; got {n} rows and {p} columns that vary. Use 'parallel', "
                "'bic' or 'sepca'."
            )
        evidence = minka_evidence(eigenvalues(values) / n, n)
        return Finding(int(np.argmax(evidence[: task.max_rank + 1])))


@rank_methods.register
@dataclass(frozen=True)
class BiCrossValidation(SpectralMethod):
    """Rows and columns held out at once: a corner of the table is predicted from the other three.

    With the table cut into [A, B; C, D], A is predicted by ``B D_k^+ C``, D_k being D at rank k. Rows and columns are
    cut into halves at random, which retains the quarter of the entries that is best for square tables.

    Parameters
    ----------
    residual : {"deviance", "pearson", "quantile"}, default="deviance"
    n_repeats : int, default=10
        Random cuts, each of which gives four corners.

    See Also
    --------
    EntryKFold : hides single entries.

    References
    ----------
    A. Owen, P. Perry (2009). Bi-cross-validation of the SVD and the nonnegative matrix factorization. Annals of
    Applied Statistics.
    A. Owen, J. Wang (2016). Bi-cross-validation for factor analysis. Statistical Science.
    """

    name = "bicv"
    label = "bi-cross-validation"

    n_repeats: int = 10

    def count(self, values: Floats, task: RankTask) -> Finding:
        rng, (n, p) = task.rng, values.shape
        most = min(task.max_rank, n // 2, p // 2)
        loss: Floats = np.zeros(most + 1)
        for _ in range(self.n_repeats):
            rows, columns = (np.array_split(rng.permutation(size), 2) for size in (n, p))
            for held, kept in ((0, 1), (1, 0)):
                for out, rest in ((0, 1), (1, 0)):
                    loss = loss + _corner_losses(
                        values, rows[held], rows[kept], columns[out], columns[rest], most
                    )
        return Finding(int(np.argmin(loss)))


def eigenvalues(values: Floats) -> Floats:
    """Squared singular values, decreasing, shape (min(n, p),)."""
    gram = values.T @ values if values.shape[1] <= len(values) else values @ values.T
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))


def _unequal(values: Floats) -> str:
    """A remark on columns that hardly have equal noise."""
    spread = values.std(axis=0)
    ratio = spread.max() / spread.min()
    if ratio <= _UNEQUAL:
        return ""
    return f"takes the noise of columns as equal, and their spreads differ by a factor of {ratio:.0f}"


def _corner_losses(values: Floats, held: Ints, kept: Ints, out: Ints, rest: Ints, most: int) -> Floats:
    """Squared errors of a corner predicted from the others at ranks 0, 1, ..., shape (most + 1,)."""
    goal = values[np.ix_(held, out)]
    left, sizes, right = np.linalg.svd(values[np.ix_(kept, rest)], full_matrices=False)
    along = values[np.ix_(held, rest)] @ right[:most].T
    across = left[:, :most].T @ values[np.ix_(kept, out)]
    found = np.empty(most + 1)
    found[0] = (goal**2).sum()
    for k in range(most):
        if sizes[k] > np.finfo(float).eps * sizes[0]:
            goal = goal - np.outer(along[:, k], across[k]) / sizes[k]
        found[k + 1] = (goal**2).sum()
    return found


def _median_marchenko_pastur(beta: float) -> float:
    """Median of the eigenvalues of white noise at unit variance and ratio beta of the sides."""
    # With x = 1 + beta + 2 sqrt(beta) cos(angle) the density is smooth in the angle.
    angle = (np.arange(_N_POINTS) + 0.5) * np.pi / _N_POINTS
    x = 1.0 + beta + 2.0 * np.sqrt(beta) * np.cos(angle)
    mass = np.cumsum(np.sin(angle) ** 2 / x)
    return float(np.interp(0.5, mass / mass[-1], x))


def _without_largest(size: Floats, most: int) -> Floats:
    """Singular values with the ``most`` largest replaced as at the edge of a bulk, where gaps grow as the power 2/3."""
    step = (1.0 - (np.arange(most) / most) ** (2.0 / 3.0)) / (2.0 ** (2.0 / 3.0) - 1.0)
    noise = size.copy()
    noise[:most] = size[most] + step * (size[most] - size[2 * most])
    return noise


def _best_threshold(noise: Floats, beta: float) -> float:
    """Where the elasticity of the D-transform of the noise is -4: the optimal threshold."""
    top = float(noise.max())

    def gap(y: float) -> float:
        inverse = 1.0 / (y * y - noise**2)
        first, slope = float(np.mean(y * inverse)), -float(np.mean((y * y + noise**2) * inverse**2))
        second = beta * first + (1.0 - beta) / y
        return y * (slope / first + (beta * slope - (1.0 - beta) / (y * y)) / second) + 4.0

    # It rises from minus infinity at the edge to -2 far away.
    return float(brentq(gap, top * (1.0 + 1e-9), 100.0 * top))
