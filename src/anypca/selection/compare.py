"""`compare_ranks`: compare the numbers of components that several methods choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anypca._words import counted
from anypca.selection.facts import Companions
from anypca.selection.rank_methods import (
    RankAnswer,
    RankMethod,
    RankTask,
    open_task,
    rank_methods,
)

#: Methods by decreasing priority if answers differ: the evidence under the families of the columns first.
_PREFERRED = ("sepca", "held_out", "bic", "parallel", "parametric")
#: Exceptions of a method that does not apply to a table. Other exceptions are bugs.
_REFUSALS = (ValueError, TypeError, ArithmeticError)


@dataclass(frozen=True, eq=False)
class RankComparison:
    """Result of `compare_ranks`.

    See Also
    --------
    compare_ranks : computes it.
    """

    answers: tuple[RankAnswer, ...]
    """Answers of the methods, in the requested order."""
    labels: tuple[str, ...]
    """Labels of the methods for plots."""
    family: str
    """Name of the columns' family, ``"mixed"`` for several."""
    caveats: tuple[str, ...] = ()
    """Why the answer of each method may differ from the number of components."""

    @property
    def ranks(self) -> dict[str, int]:
        """The answers by name of the method; methods without an answer are left out."""
        return {answer.method: answer.rank for answer in self.answers if answer.rank is not None}

    @property
    def conclusion(self) -> str:
        """Recommended answer, and why other methods differ, in one or two sentences."""
        ranks = self.ranks
        if len(ranks) < 2 or len(set(ranks.values())) == 1:
            agreed = counted(next(iter(ranks.values())), "component") if ranks else "nothing"
            return f"{counted(len(ranks), 'method')} found {agreed}."
        best = next((name for name in _PREFERRED if name in ranks), next(iter(ranks)))
        caveats = {answer.method: caveat for answer, caveat in zip(self.answers, self.caveats, strict=False)}
        others = [
            f"{name} found {rank}" + (f" ({caveats[name]})" if caveats.get(name) else "")
            for name, rank in ranks.items()
            if rank != ranks[best]
        ]
        return f"Believe {best}: {counted(ranks[best], 'component')}. {'; '.join(others)}."

    def to_frame(self) -> Any:
        """The table as a data frame with one row per method: ``rank``, ``seconds`` and ``remark``.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas  # optional

        frame = pandas.DataFrame([answer._asdict() for answer in self.answers]).set_index("method")
        # Integers, although some are missing.
        return frame.astype({"rank": "Int64"})

    def plot(self, ax: Any = None) -> Any:
        """Draw the answers; see `anypca.plotting.plot_rank_comparison`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        ax : matplotlib.axes.Axes
        """
        from anypca.plotting import plot_rank_comparison  # matplotlib is optional

        return plot_rank_comparison(self, ax)


def compare_ranks(
    X: Any,
    methods: Sequence[str | RankMethod] | str | RankMethod | None = None,
    *,
    family: Any = "auto",
    max_rank: int | None = None,
    offset: Any = None,
    covariates: Any = None,
    random_state: Any = 0,
) -> RankComparison:
    """Compare the numbers of components that several methods choose for a table.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        In this process; it is held dense. NaN is missing.
    methods : sequence of str or RankMethod, optional
        Which to ask; all by default. See Notes.
    family : str, Family, list or dict, default="auto"
        Of the columns, for all methods; as in `anypca.EPCA`.
    max_rank : int, optional
        The largest answer; by default 10, or less than the table's sides.
    offset, covariates : as in `anypca.EPCA`
        What comes along with the table; as in ``fit``.
    random_state : int, RandomState, Generator or None, default=0
        Seed of what is drawn.

    Returns
    -------
    RankComparison
        ``answers`` with method, rank, seconds and remark, ``conclusion``, ``to_frame()`` and ``plot()``. A method that
        is not for the table has no rank, and its remark says why.

    See Also
    --------
    select_rank : one criterion for one model.

    Notes
    -----
    ==================  ===================================================================================
    ``parallel``        `ParallelAnalysis`, columns permuted
    ``parametric``      `ParametricParallelAnalysis`, tables drawn from the family
    ``minka``           `Minka`, evidence of probabilistic PCA
    ``bic``, ``icl``    `BICMethod`, `ICLMethod`, criteria of `anypca.EPCA`
    ``held_out``        `HiddenEntries`, prediction by `anypca.EPCA`
    ``sepca``           `SePCAMethod`, the dimension of `anypca.SePCA`
    ==================  ===================================================================================

    Only the answers are comparable between methods: eigenvalues, criteria, losses and evidences have different scales.
    ``held_out`` chooses the best prediction, the other methods estimate the true number of components. Compare models
    with `entry_cross_validate` or ``anypca compare``.

    Examples
    --------
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.selection import compare_ranks
    >>> X = make_low_rank(100, 20, 2, family="gaussian", signal=2.0, random_state=0).X
    >>> compare_ranks(X, ["parallel", "bic", "minka"]).ranks
    {'parallel': 2, 'bic': 2, 'minka': 2}
    >>> compare_ranks(X, ["parallel", "minka"]).conclusion
    '2 methods found 2 components.'
    """
    wanted = _resolve(methods)
    task = open_task(X, family, max_rank, Companions.of(offset, covariates), random_state)
    # Methods share the fit without components, which is not part of their times.
    _ = task.null
    answers = tuple(_ask(method, task) for method in wanted)
    return RankComparison(
        answers,
        tuple(method.label for method in wanted),
        task.family.name,
        tuple(method.caveat for method in wanted),
    )


def _resolve(methods: Sequence[str | RankMethod] | str | RankMethod | None) -> list[RankMethod]:
    if methods is None:
        return [rank_methods.create(name) for name in rank_methods]
    found = [methods] if isinstance(methods, str | RankMethod) else list(methods)
    known = ", ".join(map(repr, rank_methods))
    if not found:
        raise ValueError(f"methods is empty; name some of {known}, or leave it out.")
    wrong = [method for method in found if not isinstance(method, str | RankMethod)]
    if wrong:
        raise TypeError(f"a method is one of {known} or a RankMethod; got {wrong[0]!r}.")
    return [rank_methods.create(method) if isinstance(method, str) else method for method in found]


def _ask(method: RankMethod, task: RankTask) -> RankAnswer:
    """Run a method; an expected error becomes a remark."""
    try:
        return method.answer(task)
    except _REFUSALS as error:
        return RankAnswer(method.name, None, 0.0, " ".join(str(error).split()))
