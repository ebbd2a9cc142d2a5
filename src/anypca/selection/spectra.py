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

from anypca._compat import minka_evidence
from anypca._typing import Floats
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
    residual : {"deviance", "pearson"}, default="deviance"
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
class Minka(SpectralMethod):
    """The rank of highest evidence under probabilistic PCA, by Laplace's approximation.

    It needs more rows than columns.

    Parameters
    ----------
    residual : {"deviance", "pearson"}, default="deviance"

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
