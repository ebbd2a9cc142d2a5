"""The working set of a fit: its table, who visits it, what is known of it, who is told of progress, and its family."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, Summary, check_values, executor_for, first_outside, summarise
from anypca.exceptions import DataConversionWarning
from anypca.families import Family, families, resolve_family, resolve_resolution
from anypca.families.auto import FamilyReport, infer_families
from anypca.solvers import BlockProblem, Callback, Loop, Progress
from anypca.solvers.checkpoint import NO_JOURNAL, NoJournal
from anypca.solvers.closed_form import Centring, Spectrum, covariance_spectrum

Shared = TypeVar("Shared")
Local = TypeVar("Local")
Stats = TypeVar("Stats")


@dataclass(frozen=True)
class Session:
    """What a fit works with, open while the ``with`` block of `open_session` runs."""

    data: Data
    executor: Executor
    summary: Summary
    """Of ``data``."""
    callback: Callback
    """Reports the progress of `anypca.solvers.Loop`."""
    rng: np.random.Generator
    max_iter: int
    tol: float
    journal: NoJournal = NO_JOURNAL
    """Told of the progress of the loops; see `anypca.models._checkpoint`."""

    def sum(self, function: Callable[[Block, Any], Any], local: Sequence[Any] | None = None) -> Any:
        """Sum of ``function(block, local)`` over the blocks, of anything that adds."""
        return self.executor.sum(function, self.data, local)

    def map(self, function: Callable[[Block, Any], Any], local: Sequence[Any] | None = None) -> Sequence[Any]:
        """``function(block, local)`` of each block, where the blocks are."""
        return self.executor.map(function, self.data, local)

    def gather(self, function: Callable[[Block], Any]) -> list[Any]:
        """``function(block)`` of each block, in row order, in this process."""
        return self.executor.collect(function, self.data)

    def spectrum(self, centring: Centring, *, divisor: float, n_components: int | None = None) -> Spectrum:
        """Eigendecomposition of the covariance of centred rows, all of it or the leading ``n_components``."""
        return covariance_spectrum(
            self.data, self.executor, centring, divisor=divisor, n_components=n_components, rng=self.rng
        )

    def loop(
        self,
        problem: BlockProblem[Shared, Local, Stats],
        *,
        max_iter: int | None = None,
        tol: float | None = None,
        accelerate: bool = True,
        is_reported: bool = True,
    ) -> Loop[Shared, Local, Stats]:
        """The loop that solves a problem on this table, with the limits of the fit unless others are given."""
        callback = self.callback if is_reported else None
        return Loop(
            problem,
            self.data,
            self.executor,
            max_iter=self.max_iter if max_iter is None else max_iter,
            tol=self.tol if tol is None else tol,
            accelerate=accelerate,
            callback=callback,
            journal=self.journal,
        )


def ignore(progress: Progress) -> None:
    """The callback of fits that nobody is told of."""


@contextmanager
def open_session(
    data: Data,
    n_jobs: int | None = None,
    *,
    callback: Callback = ignore,
    rng: np.random.Generator | None = None,
    max_iter: int = 1,
    tol: float = 0.0,
    resolution: Any = None,
) -> Iterator[Session]:
    """Open what a fit to a table works with.

    Parameters
    ----------
    data : Data
    n_jobs : int or None
        Number of threads; None means all cores.
    callback : callable, optional
    rng : Generator or None
        None is for what draws nothing.
    max_iter : int
    tol : float
    resolution : None, float, sequence or mapping
        Steps with which columns are recorded, instead of those that their values show.

    Raises
    ------
    ValueError
        If no model can be fitted to the table; see `anypca.engine.check_values`.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    with executor_for(data, n_jobs) as executor:
        summary = summarise(data, executor)
        steps = resolve_resolution(resolution, summary.resolution, data.feature_names)
        summary = replace(summary, resolution=steps)
        yield Session(check_values(summary, data), executor, summary, callback, rng, max_iter, tol)


def choose_family(family: Any, session: Session) -> tuple[Family, FamilyReport | None]:
    """Resolve ``family`` for a table and check that its values are possible.

    Parameters
    ----------
    family : str, Family, list or dict
        ``"auto"`` infers a family for each column.
    session : Session
        Open on the table.

    Returns
    -------
    family : Family
    report : FamilyReport or None
        What was chosen and why, for ``"auto"``.

    Raises
    ------
    ValueError
        If the family is unknown or an entry is outside its support.
    """
    if isinstance(family, str) and family.strip().lower() == "auto":
        return infer_families(session.summary, session.data.feature_names)
    resolved = resolve_family(family, session.data.n_features, session.data.feature_names)
    check_support(resolved, session)
    warn_non_integers(resolved, session)
    return _adapted(resolved, session), None


def _adapted(family: Family, session: Session) -> Family:
    """The family with the parameters of its columns, such as the levels of ordered answers, taken from the table."""
    if not family.has_parameters:
        return family

    def total(function: Callable[..., Floats]) -> Floats:
        def visit(block: Block, _: Any) -> Floats:
            table = block.read()
            weights = np.broadcast_to(block.weights[:, None], table.x.shape)
            return function(
                table.x, weights if table.observed is None else np.where(table.observed, weights, 0.0)
            )

        found: Floats = session.sum(visit)
        return found

    return family.adapted(session.summary.minimum, session.summary.maximum, total)


def is_nonnegative(family: Any) -> bool:
    """Whether a family given by name or object takes no negative values; False while it is not known."""
    if isinstance(family, Family):
        return family.is_nonnegative
    try:
        return isinstance(family, str) and families.create(family).is_nonnegative
    except ValueError:  # "auto", or a name that fit will complain about
        return False


def check_support(family: Family, session: Session) -> None:
    """Raise on the first entry that its column's family cannot have produced."""
    found = first_outside(session.data, session.executor, family.in_support)
    if found is not None:
        raise_outside(family, *found, session.data.feature_names)


def raise_outside(family: Family, row: int, column: int, value: float, names: Sequence[str] | None) -> None:
    member = family.columns(slice(column, column + 1))
    name = "" if names is None else f" (column {names[column]!r})"
    # scikit-learn's words for what its tag positive_only says.
    reason = "Negative values in data: " if value < 0 and member.is_nonnegative else ""
    raise ValueError(
        f"{reason}family {member.name!r} needs {member.support}; X[{row}, {column}]{name} is {value:.10g}. "
        f"{member.remedy}"
    )


def warn_non_integers(family: Family, session: Session) -> None:
    """Warn when a count family gets fractions: the likelihood is then a quasi-likelihood."""
    data, summary = session.data, session.summary
    for member, columns in family.member_columns(data.n_features):
        bad = columns[summary.n_noninteger[columns] > 0]
        if member.is_discrete and bad.size:
            column = int(bad[0])
            name = column if data.feature_names is None else repr(data.feature_names[column])
            warnings.warn(
                f"family {member.name!r} is for integers; column {name} holds {int(summary.n_noninteger[column])} "
                f"fractions ({np.size(bad)} such columns). The likelihood is used as a quasi-likelihood; "
                "family='gamma' or 'gaussian' are meant for fractions.",
                DataConversionWarning,
                stacklevel=4,
            )
