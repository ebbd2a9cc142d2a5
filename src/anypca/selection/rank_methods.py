"""Methods that choose the number of components of a table, all with one signature.

Parallel analysis and Minka's evidence use the singular values of residuals of the model without components: columns are
centred, and offsets and covariates are taken out. The other methods fit models to the table.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anypca._compat import minka_evidence
from anypca._registry import Registry
from anypca._typing import Bools, Floats
from anypca._words import counted
from anypca.columns import choose_families, settle_family
from anypca.engine import check_data
from anypca.engine._convert import describe_entry
from anypca.families import Family
from anypca.models import EPCA, SePCA
from anypca.models._arguments import check_ranks, make_generator
from anypca.models._context import lay_out, open_context
from anypca.models._row_methods import linear_predictor
from anypca.selection._numbers import as_numbers, check_numbers, entries_of
from anypca.selection._residuals import NullFit
from anypca.selection.facts import Companions
from anypca.selection.select import select_rank
from anypca.selection.splits import EntryShuffleSplit

#: Default of the largest answer, as in `select_rank`.
_DEFAULT_LARGEST = 10
#: Ratio of the largest to the smallest standard deviation of columns beyond which equal noise is implausible: the
#: ratio is 3 if components explain nine tenths of one column's variance and none of another's.
_UNEQUAL = 10.0

rank_methods: Registry[RankMethod] = Registry("method")


class RankAnswer(NamedTuple):
    """The answer of one method.

    See Also
    --------
    RankMethod : gives it.
    """

    method: str
    """Name of the method."""
    rank: int | None
    """Number of components; ``None`` if the method cannot be used on the table."""
    seconds: float
    """Run time."""
    remark: str
    """Caveats, or the reason for a missing answer."""


class Finding(NamedTuple):
    """A number of components, and a remark on it.

    See Also
    --------
    RankMethod : returns it.
    """

    rank: int
    remark: str = ""


@dataclass(frozen=True, eq=False)
class RankTask:
    """A checked table for the methods."""

    X: Any
    family: Family
    """Families of the columns; ``"auto"`` is resolved."""
    max_rank: int
    companions: Companions
    random_state: Any

    @property
    def rng(self) -> np.random.Generator:
        """A new generator for each method."""
        return make_generator(self.random_state)

    @cached_property
    def null(self) -> NullFit:
        """The table and the fit without components."""
        model = EPCA(0, family=self.family, n_jobs=1).fit(self.X, **self.companions.for_fit())
        x = entries_of(check_data(self.X))
        observed = ~np.isnan(x)
        eta = linear_predictor(model, np.zeros((len(x), 0)), **self.companions.for_rows())
        return NullFit(model.family_, np.where(observed, x, 1.0), observed, eta, model.dispersion_)

    def refuse_missing(self, name: str) -> None:
        """Raise on the first missing entry."""
        observed: Bools = self.null.observed
        if not observed.all():
            row, column = np.unravel_index(int(np.argmin(observed)), observed.shape)
            raise ValueError(
                f"{describe_entry('X', int(row), int(column))} is missing; method {name!r} needs every entry. Use "
                "'parallel', 'held_out', 'bic' or 'sepca', or fill the gaps first: PPCA().fit(X).impute(X)."
            )


def open_task(
    X: Any, family: Any, max_rank: int | None, companions: Companions, random_state: Any
) -> RankTask:
    """Check a table with its offset and covariates, and resolve its family.

    Raises
    ------
    TypeError, ValueError
        If the table, the family or the largest rank is not possible.
    """
    data = check_numbers(X, **companions.for_fit())
    if data.is_distributed:
        raise TypeError("X is a Dask array; ranks are compared in this process. Pass X.compute().")
    if min(data.n_samples, data.n_features) < 2:
        raise ValueError(
            f"X has {counted(data.n_samples, 'row')} and {counted(data.n_features, 'column')}; components need at "
            "least two of each. Add rows or columns."
        )
    most = min(data.n_samples, data.n_features) - 1
    largest = min(_DEFAULT_LARGEST, most) if max_rank is None else max(check_ranks(max_rank, most, least=1))
    with open_context(data, 1) as session:
        session = lay_out(session, choose_families(family, session), {})
        resolved, _ = settle_family(session)
        # Methods use the model columns: parts of two-part columns, binary columns of categories.
        table = as_numbers(X) if session.layout.is_identity else entries_of(session.data)
    return RankTask(table, resolved, largest, companions, random_state)


@dataclass(frozen=True)
class RankMethod(ABC):
    """A method that chooses the number of components of a table.

    To add one, write a frozen dataclass with a ``name``, a ``label`` and ``find``, and register it with
    ``rank_methods.register``: `compare_ranks` and the command line use it at once.

    See Also
    --------
    compare_ranks : runs several.
    """

    name: ClassVar[str]
    #: Label for tables and plots.
    label: ClassVar[str]
    #: Why its answer may differ from the number of components of the model.
    caveat: ClassVar[str] = ""

    @abstractmethod
    def find(self, task: RankTask) -> Finding:
        """The number of components of a checked table, at most ``task.max_rank``."""

    def find_rank(
        self,
        X: Any,
        *,
        family: Any = "auto",
        max_rank: int | None = None,
        offset: Any = None,
        covariates: Any = None,
        random_state: Any = 0,
    ) -> RankAnswer:
        """Choose the number of components of a table.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        family : str, Family, list or dict, default="auto"
            As in `anypca.EPCA`.
        max_rank : int, optional
            The largest answer; by default 10, or less than the table's sides.
        offset, covariates : as in `anypca.EPCA`
        random_state : int, RandomState, Generator or None, default=0
            Seed of random draws.

        Returns
        -------
        RankAnswer

        Raises
        ------
        ValueError, TypeError
            If the method does not apply to the table; the message names others.
        """
        return self.answer(open_task(X, family, max_rank, Companions.of(offset, covariates), random_state))

    def answer(self, task: RankTask) -> RankAnswer:
        """`find` with its time and its warnings."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.find(task)
        seconds = time.perf_counter() - start
        remarks = [found.remark, *dict.fromkeys(str(warning.message) for warning in caught)]
        # An answer at the end of the range may be truncated.
        if found.rank >= task.max_rank:
            remarks.append(f"the largest that was asked for: raise max_rank={task.max_rank}")
        return RankAnswer(self.name, found.rank, seconds, "; ".join(filter(None, remarks)))


# ------------------------------------------------------------------------------------------- singular values


@dataclass(frozen=True)
class SpectralMethod(RankMethod):
    """A method that uses the table of residuals as a whole."""

    #: Whether 0 can replace missing residuals.
    handles_missing: ClassVar[bool] = False
    #: Whether the method assumes equal noise of all columns. Columns of a family then keep their variances, since
    #: scaling to variance 1 would shrink the noise of columns with much signal.
    needs_equal_noise: ClassVar[bool] = True

    def find(self, task: RankTask) -> Finding:
        if not self.handles_missing:
            task.refuse_missing(self.name)
        values = task.null.residuals(is_scaled=not self.needs_equal_noise)
        if min(values.shape) < 2:
            return Finding(0, "fewer than two columns vary")
        found, remarks = self.count(values, task), []
        if self.needs_equal_noise:
            spread = values.std(axis=0)
            ratio = spread.max() / spread.min()
            if ratio > _UNEQUAL:
                remarks.append(
                    f"assumes equal noise of all columns; their spreads differ by a factor of {ratio:.0f}"
                )
        return Finding(min(found.rank, task.max_rank), "; ".join(filter(None, [found.remark, *remarks])))

    @abstractmethod
    def count(self, values: Floats, task: RankTask) -> Finding:
        """The number of components in residuals (n_samples, n_columns)."""


def eigenvalues(values: Floats) -> Floats:
    """Squared singular values, decreasing, shape (min(n, p),)."""
    gram = values.T @ values if values.shape[1] <= len(values) else values @ values.T
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))


def leading(passes: Bools) -> int:
    """Number of leading true values."""
    return int(np.argmin(np.append(passes, False)))


@rank_methods.register
@dataclass(frozen=True)
class ParallelAnalysis(SpectralMethod):
    """Parallel analysis: components with a larger variance than in tables with permuted columns.

    The k-th eigenvalue is compared with the k-th eigenvalues of tables with independently permuted columns, which keep
    only the distribution of each column. Missing entries keep their places. A strong component also increases the
    variance of the permuted columns and may hide weak ones.

    Parameters
    ----------
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
    caveat = "strong components hide weak ones, and a log link adds some"
    handles_missing = True
    needs_equal_noise = False

    n_draws: int = 99
    level: float = 0.95

    def __post_init__(self) -> None:
        if isinstance(self.n_draws, bool) or not isinstance(self.n_draws, int) or self.n_draws < 1:
            raise ValueError(f"n_draws must be a positive integer; got {self.n_draws!r}.")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {self.level!r}.")

    def count(self, values: Floats, task: RankTask) -> Finding:
        rng, found = task.rng, eigenvalues(values)
        above = np.zeros(len(found))
        for _ in range(self.n_draws):
            drawn = eigenvalues(self._draw(values, task, rng))
            # A drawn table may have additional constant columns.
            above[: len(drawn)] += drawn[: len(found)] >= found[: len(drawn)]
        # The table counts as one of the draws, which makes the level exact.
        return Finding(leading((above + 1.0) / (self.n_draws + 1.0) <= 1.0 - self.level + 1e-9))

    def _draw(self, values: Floats, task: RankTask, rng: np.random.Generator) -> Floats:
        """A table without components."""
        if task.null.observed.all():
            return rng.permuted(values, axis=0)
        drawn = values.copy()
        for column in drawn.T:
            # Only missing residuals are exactly 0.
            seen = np.flatnonzero(column)
            column[seen] = rng.permutation(column[seen])
        return drawn


@rank_methods.register
@dataclass(frozen=True)
class ParametricParallelAnalysis(ParallelAnalysis):
    """Parallel analysis with tables drawn from the family at the fit without components.

    Columns are drawn from the family instead of permuted. Otherwise the same as `ParallelAnalysis`, with the same
    parameters.

    See Also
    --------
    ParallelAnalysis : noise by permutation.
    """

    name = "parametric"
    label = "parallel analysis, drawn tables"

    def _draw(self, values: Floats, task: RankTask, rng: np.random.Generator) -> Floats:
        return task.null.drawn(rng)


@rank_methods.register
@dataclass(frozen=True)
class Minka(SpectralMethod):
    """The rank of highest evidence under probabilistic PCA, by Laplace's approximation.

    It needs more rows than columns.

    See Also
    --------
    BICMethod : any model with a likelihood.

    References
    ----------
    T. Minka (2000). Automatic choice of dimensionality for PCA. NIPS.
    """

    name = "minka"
    label = "Minka's evidence"
    caveat = "assumes equal Gaussian noise of all columns"

    def count(self, values: Floats, task: RankTask) -> Finding:
        n, p = values.shape
        if n <= p:
            raise ValueError(
                f"method 'minka' needs more rows than columns; got {n} rows and {p} columns that vary. Use 'parallel', "
                "'bic' or 'sepca'."
            )
        evidence = minka_evidence(eigenvalues(values) / n, n)
        return Finding(int(np.argmax(evidence[: task.max_rank + 1])))


# ------------------------------------------------------------------------------------------------ fitted models


@dataclass(frozen=True)
class CriterionMethod(RankMethod):
    """`select_rank` over fits of `EPCA` with the columns' families."""

    criterion: ClassVar[str]

    def find(self, task: RankTask) -> Finding:
        return Finding(self._select(task))

    def _select(self, task: RankTask, **options: Any) -> int:
        estimator = EPCA(family=task.family, ridge=1.0, n_jobs=1, random_state=task.random_state)
        ranks = range(task.max_rank + 1)
        given = task.companions.for_fit()
        return select_rank(
            estimator, task.X, ranks=ranks, criterion=self.criterion, **options, **given
        ).best_rank


@rank_methods.register
@dataclass(frozen=True)
class BICMethod(CriterionMethod):
    """BIC of `EPCA` with the scores integrated out; ``"marginal_bic"`` of `select_rank`.

    See Also
    --------
    ICLMethod : adds the entropy of the scores.
    """

    name = "bic"
    label = "BIC, scores integrated out"
    caveat = "a large-sample approximation of the evidence"
    criterion = "marginal_bic"


@rank_methods.register
@dataclass(frozen=True)
class ICLMethod(CriterionMethod):
    """Integrated completed likelihood of `EPCA`; ``"icl"`` of `select_rank`.

    See Also
    --------
    BICMethod : without the entropy of the scores.
    """

    name = "icl"
    label = "integrated completed likelihood"
    caveat = "counts only components with well-determined scores"
    criterion = "icl"


@rank_methods.register
@dataclass(frozen=True)
class HiddenEntries(CriterionMethod):
    """The rank that predicts hidden entries best; ``"held_out"`` of `select_rank`.

    Parameters
    ----------
    cv : EntryKFold, EntryShuffleSplit or int, optional
        Splitter of the hidden entries; by default three random splits of a tenth.

    See Also
    --------
    EntryKFold : folds of entries.
    """

    name = "held_out"
    label = "hidden entries"
    caveat = "chooses what predicts best; losses near the lowest are flat"
    criterion = "held_out"

    cv: Any = None

    def find(self, task: RankTask) -> Finding:
        cv = EntryShuffleSplit(3, random_state=task.random_state) if self.cv is None else self.cv
        return Finding(self._select(task, cv=cv))


@rank_methods.register
@dataclass(frozen=True)
class SePCAMethod(RankMethod):
    """The number of components that `anypca.SePCA` chooses.

    See Also
    --------
    Minka : for real numbers, in closed form.
    """

    name = "sepca"
    label = "SePCA"

    def find(self, task: RankTask) -> Finding:
        model = SePCA(task.max_rank, family=task.family, n_jobs=1, random_state=task.random_state)
        return Finding(int(model.fit(task.X, **task.companions.for_fit()).n_components_))
