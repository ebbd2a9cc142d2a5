"""The working set of a fit: its table, who visits it, what is known of it, who is told of progress, and its family."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from anypca._typing import Floats
from anypca._words import counted, quoted
from anypca.columns import Layout, collect_columns, column_forms, resolve_columns, resolve_resolution
from anypca.columns.auto import GIVEN, FamilyChoice, FamilyReport, infer_families, open_entries, with_given
from anypca.columns.forms import Excluded, Form
from anypca.columns.labels import DATES
from anypca.engine import Block, Data, Executor, Summary, check_values, executor_for, first_outside, summarise
from anypca.exceptions import DataConversionWarning
from anypca.families import Family, families
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
    """The columns of the model; those of the user's table until `lay_out` has been called."""
    executor: Executor
    summary: Summary
    """Of ``data``."""
    layout: Layout
    """How ``data`` comes from the user's table."""
    callback: Callback
    """Reports the progress of `anypca.solvers.Loop`."""
    rng: np.random.Generator
    max_iter: int
    tol: float
    journal: NoJournal = NO_JOURNAL
    """Told of the progress of the loops; see `anypca.models._checkpoint`."""
    choice: FamilyChoice | None = None
    """The families of the columns of the user's table, if they are known."""
    coef_scale: float | None = None
    """Prior standard deviation of coefficients of standardised covariates; ``None`` for no prior."""

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
        """Eigendecomposition of the covariance of centred rows: at least the leading ``n_components``, or all of it."""
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
        labels = tuple(data.labels.items())
        layout = Layout(data.n_features, table_names=data.feature_names, labels=labels)
        yield Session(check_values(summary, data), executor, summary, layout, callback, rng, max_iter, tol)


def lay_out(session: Session, choice: FamilyChoice | None, left_out: Mapping[int, Form]) -> Session:
    """A session on the columns of the model in place of those of the user's table.

    Parameters
    ----------
    session : Session
        On the user's table.
    choice : FamilyChoice or None
        The families of its columns, where the model has a choice of them, with the forms that they ask for.
    left_out : mapping of int to Form
        Columns that the model leaves out in any case.
    """
    forms = {**({} if choice is None else choice.forms), **left_out}
    layout = session.layout.with_forms(forms).with_levels(session.data, session.executor)
    layout = layout.adapted(session.summary).without_names()
    # Nothing changes, and the table need not be summarised again.
    if layout.is_identity:
        return replace(session, choice=choice)
    data = layout.lay_out(session.data)
    summary = summarise(data, session.executor)
    summary = replace(summary, resolution=session.summary.resolution[layout.sources])
    return replace(session, data=check_values(summary, data), summary=summary, layout=layout, choice=choice)


def choose_family(family: Any, session: Session) -> tuple[Family, FamilyReport | None]:
    """Resolve ``family`` for a table and check that its values are possible.

    Parameters
    ----------
    family : str, Family, list or dict
        ``"auto"`` infers a family for each column, a dict for those that it does not name.
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
    choice = read_family(family, session) if session.choice is None else session.choice
    resolved = session.layout.family(choice.family)
    # Families that were chosen by the values have them in their support; given ones may not.
    if choice.report is None or any(record.rule == GIVEN for record in choice.report):
        check_support(resolved, session)
        warn_non_integers(resolved, session)
    return _adapted(resolved, session), choice.report


def is_auto(family: Any) -> bool:
    """Whether a family is to be chosen from the data."""
    return isinstance(family, str) and family.strip().lower() == "auto"


def read_family(family: Any, session: Session) -> FamilyChoice:
    """The families of the columns of a user's table, and the forms in which some of them enter.

    Parameters
    ----------
    family : str, Family, list or dict
        As in `choose_family`.
    session : Session
        Open on the user's table.
    """
    data = session.data
    entries = (
        [None] * data.n_features
        if is_auto(family)
        else open_entries(family, data.n_features, data.feature_names)
    )
    if entries is None:
        resolved, forms = resolve_columns(family, data.n_features, data.feature_names)
        return _without_dates(FamilyChoice(resolved, None, forms), data)
    columns = collect_columns(data, session.executor, session.summary)
    return _without_dates(with_given(infer_families(columns), entries, data.feature_names), data)


def _without_dates(choice: FamilyChoice, data: Data) -> FamilyChoice:
    """The choice without columns of dates, which are numbers of nothing; whoever reads them is told."""
    days = [column for column, labels in data.labels.items() if labels == DATES]
    if not days:
        return choice
    names = [column if data.feature_names is None else data.feature_names[column] for column in days]
    verbs = "holds dates and is" if len(days) == 1 else "hold dates and are"
    warnings.warn(
        f"{quoted(names)} {verbs} left out. To use dates make numbers of them, such as days since the first.",
        DataConversionWarning,
        stacklevel=5,
    )
    return choice._replace(forms={**choice.forms, **{column: Excluded() for column in days}})


def check_labels(data: Data, choice: FamilyChoice) -> None:
    """Raise if a column of text or categories has a family that is for numbers."""
    for column, labels in data.labels.items():
        form, count = choice.forms.get(column), len(labels.levels)
        name = choice.family.columns(slice(column, column + 1)).name if form is None else form.name
        if labels.kind == "bool" or name in ("nominal", "excluded") or (name == "bernoulli" and count <= 2):
            continue
        label = column if data.feature_names is None else data.feature_names[column]
        if name == "ordinal":
            if labels.is_ordered or count <= 2:
                continue
            raise ValueError(
                f"column {label!r} is to be ordinal, and the order of its labels ({labels}) is not known. Give an "
                "ordered categorical, as pandas.Categorical(values, categories=[...], ordered=True), or use 'nominal'."
            )
        raise ValueError(
            f"column {label!r} holds {counted(count, 'label')} ({labels}), and family {name!r} is for numbers. "
            "Leave the column to family='auto', or name 'nominal', 'ordinal', 'excluded' or 'bernoulli' (two labels)."
        )


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

        return np.asarray(session.sum(visit))

    family = family.recorded(session.summary.resolution)
    return family.adapted(session.summary.minimum, session.summary.maximum, total)


def is_nonnegative(family: Any) -> bool:
    """Whether a family given by name or object takes no negative values; False while it is not known."""
    if isinstance(family, Family | Form):
        return family.is_nonnegative
    try:
        registry: Any = families if family in families else column_forms
        return isinstance(family, str) and bool(registry.create(family).is_nonnegative)
    except ValueError:  # "auto", or a name that fit will complain about
        return False


def check_support(family: Family, session: Session) -> None:
    """Raise on the first entry that its column's family cannot have produced."""
    found = first_outside(session.data, session.executor, family.in_support)
    if found is not None:
        row, column, value = found
        member, source = family.columns(slice(column, column + 1)), int(session.layout.sources[column])
        raise_outside(member, row, source, value, session.layout.table_names)


def raise_outside(member: Family, row: int, column: int, value: float, names: Sequence[str] | None) -> None:
    """Raise on an entry of the user's table that its column's family cannot have produced."""
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
