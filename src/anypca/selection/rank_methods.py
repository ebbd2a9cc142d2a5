"""Ways to tell the number of components from a table, all with one signature."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anypca._registry import Registry
from anypca._typing import Bools
from anypca._words import counted
from anypca.columns import choose_families, settle_family
from anypca.engine import check_data
from anypca.engine._convert import describe_entry
from anypca.families import Family
from anypca.models import EPCA
from anypca.models._arguments import check_ranks, make_generator
from anypca.models._context import lay_out, open_context
from anypca.models._row_methods import linear_predictor
from anypca.selection._numbers import as_numbers, check_numbers, entries_of
from anypca.selection._residuals import RESIDUALS, NullFit
from anypca.selection.facts import Companions

#: The largest answer unless another is asked for, as in `select_rank`.
_DEFAULT_LARGEST = 10

rank_methods: Registry[RankMethod] = Registry("method")


class RankAnswer(NamedTuple):
    """What one method says of a table.

    See Also
    --------
    RankMethod : gives it.
    """

    method: str
    """Its name."""
    rank: int | None
    """Number of components; ``None`` where the method cannot be used on the table."""
    seconds: float
    """How long it took."""
    remark: str
    """What is to be known of the answer, or why there is none."""


class Finding(NamedTuple):
    """A number of components, and what is to be known of it."""

    rank: int
    remark: str = ""


@dataclass(frozen=True, eq=False)
class RankTask:
    """A checked table as the methods see it."""

    X: Any
    family: Family
    """Of the columns, ``"auto"`` resolved."""
    max_rank: int
    companions: Companions
    random_state: Any

    @property
    def rng(self) -> np.random.Generator:
        """A generator that starts anew for each method."""
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
    """Check a table and what comes along with it, and resolve its family.

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
        # Methods see the columns of the model: parts of columns, questions in place of categories.
        table = as_numbers(X) if session.layout.is_identity else entries_of(session.data)
    return RankTask(table, resolved, largest, companions, random_state)


@dataclass(frozen=True)
class RankMethod(ABC):
    """A way to tell the number of components from a table.

    To add one, write a frozen dataclass with a ``name``, a ``label`` and ``find``, and register it with
    ``rank_methods.register``: `compare_ranks` and the command line know it at once.

    See Also
    --------
    compare_ranks : runs several.
    """

    name: ClassVar[str]
    #: What it is, in a few words for tables and pictures.
    label: ClassVar[str]

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
        """Tell the number of components of a table.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        family : str, Family, list or dict, default="auto"
            As in `anypca.EPCA`.
        max_rank : int, optional
            The largest answer; by default 10, or less than the table's sides.
        offset, covariates : as in `anypca.EPCA`
        random_state : int, RandomState, Generator or None, default=0
            Seed of what is drawn.

        Returns
        -------
        RankAnswer

        Raises
        ------
        ValueError, TypeError
            If the method is not for such a table; the message says which are.
        """
        task = open_task(X, family, max_rank, Companions.of(offset, covariates), random_state)
        return self.answer(task)

    def answer(self, task: RankTask) -> RankAnswer:
        """The same of a checked table: `find` with its time and what it warned of."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = self.find(task)
        seconds = time.perf_counter() - start
        remarks = [found.remark, *dict.fromkeys(str(warning.message) for warning in said)]
        # An answer at the end of the range may have been cut off by it.
        if found.rank >= task.max_rank:
            remarks.append(f"the largest that was asked for: raise max_rank={task.max_rank}")
        return RankAnswer(self.name, found.rank, seconds, "; ".join(filter(None, remarks)))


def resolve_method(method: Any) -> RankMethod:
    """A method from its name, or itself.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if isinstance(method, RankMethod):
        return method
    if isinstance(method, str):
        return rank_methods.create(method)
    raise TypeError(
        f"a method is one of {', '.join(map(repr, rank_methods))} or a RankMethod; got {method!r}."
    )


def check_residual(kind: Any) -> None:
    """Raise a ValueError unless residuals of this kind are known."""
    if kind not in RESIDUALS:
        raise ValueError(f"residual must be one of {', '.join(map(repr, RESIDUALS))}; got {kind!r}.")


def leading(passes: Bools) -> int:
    """How many of the first are true before one is not."""
    return int(np.argmin(np.append(passes, False)))
