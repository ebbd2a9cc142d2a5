"""The two kinds of noise: what differs between them, in one place each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anypca._typing import Floats
from anypca.engine import Data, Executor, Summary
from anypca.families import Poisson
from anypca.models._session import Session
from anypca.models._support import check_support, warn_non_integers
from anypca.models.piecewise._fit import Fitted, Task, fit_gaussian
from anypca.models.piecewise._fit_poisson import FittedCounts, fit_poisson
from anypca.models.piecewise._pieces import Coefficients, Pieces, count_parameters
from anypca.models.piecewise._report import gaussian_pseudo_r2, poisson_pseudo_r2, score_shares
from anypca.models.piecewise._row_model import GaussianRowModel, PieceRowModel, PoissonRowModel
from anypca.solvers import Callback, Result


@dataclass(frozen=True)
class Report:
    """What a fit is described by."""

    result: Result[Coefficients]
    log_likelihood: float
    n_rows: float
    """Sum of the weights."""
    noise: float
    n_parameters: int
    shares: Floats
    """Mean posterior probabilities of the pieces (K,)."""
    pseudo_r2: float
    score_shares: Floats
    """(q,)"""
    n_restarts: int
    start_objectives: Floats


class Kind(ABC):
    """A kind of noise."""

    can_fit_breakpoints: ClassVar[bool]

    @abstractmethod
    def check_table(self, offset: Any, session: Session) -> None:
        """Raise on training values or offsets that are impossible."""

    @abstractmethod
    def fit(self, task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback) -> Any:
        """The fitted model."""

    @abstractmethod
    def rows(self, pieces: Pieces) -> PieceRowModel[Any]:
        """The model for rows."""

    @abstractmethod
    def report(
        self, fitted: Any, pieces: Pieces, task: Task, data: Data, executor: Executor, summary: Summary
    ) -> Report:
        """Describe a fit; ``pieces`` are the fitted ones in canonical form."""


class GaussianKind(Kind):
    """Normal noise of equal variance in all columns."""

    can_fit_breakpoints = True

    def check_table(self, offset: Any, session: Session) -> None:
        if offset is not None:
            raise ValueError("offset= is for family='poisson'. For family='gaussian' subtract it from X.")
        if not np.any(session.summary.variance > 0):
            raise ValueError("all columns of X are constant: there is nothing to fit. Check how X was read.")

    def fit(self, task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback) -> Fitted:
        return fit_gaussian(task, data, executor, summary, callback)

    def rows(self, pieces: Pieces) -> GaussianRowModel:
        return GaussianRowModel(pieces)

    def report(
        self, fitted: Fitted, pieces: Pieces, task: Task, data: Data, executor: Executor, summary: Summary
    ) -> Report:
        stats = fitted.stats
        return Report(
            result=fitted.result,
            log_likelihood=stats.log_likelihood,
            n_rows=stats.weight,
            noise=pieces.noise,
            n_parameters=_count(task, data),
            shares=_mirrored(fitted, pieces) / stats.weight,
            pseudo_r2=gaussian_pseudo_r2(stats.log_likelihood, stats.n_entries, pieces.noise, summary),
            score_shares=score_shares(GaussianRowModel(pieces), data, executor),
            n_restarts=fitted.n_restarts,
            start_objectives=fitted.start_objectives,
        )


class PoissonKind(Kind):
    """Counts with log link."""

    can_fit_breakpoints = False

    def check_table(self, offset: Any, session: Session) -> None:
        check_support(Poisson(), session)
        warn_non_integers(Poisson(), session)
        zero, data = np.flatnonzero(session.summary.mean == 0), session.data
        if len(zero):
            name = "" if data.feature_names is None else f" ({data.feature_names[zero[0]]!r})"
            raise ValueError(
                f"column {zero[0]}{name} of X holds only zeros ({len(zero)} such columns): its log rate has no "
                "finite estimate. Drop these columns."
            )

    def fit(
        self, task: Task, data: Data, executor: Executor, summary: Summary, callback: Callback
    ) -> FittedCounts:
        return fit_poisson(task, data, executor, summary, callback)

    def rows(self, pieces: Pieces) -> PoissonRowModel:
        return PoissonRowModel(pieces)

    def report(
        self,
        fitted: FittedCounts,
        pieces: Pieces,
        task: Task,
        data: Data,
        executor: Executor,
        summary: Summary,
    ) -> Report:
        bound = fitted.stats.bound
        return Report(
            result=fitted.result,
            log_likelihood=bound,
            n_rows=fitted.stats.weight,
            noise=float("nan"),
            n_parameters=_count(task, data) - 1,  # no noise variance
            shares=_mirrored(fitted, pieces) / fitted.stats.weight,
            pseudo_r2=poisson_pseudo_r2(bound, data, executor),
            score_shares=score_shares(PoissonRowModel(pieces), data, executor),
            n_restarts=fitted.n_restarts,
            start_objectives=fitted.start_objectives,
        )


def _count(task: Task, data: Data) -> int:
    return count_parameters(
        task.coupling, data.n_features, task.n_components, task.n_pieces, fitted=task.fit_breakpoints
    )


def _mirrored(fitted: Fitted | FittedCounts, pieces: Pieces) -> Floats:
    """Occupancies in the order of the canonical pieces, which may be reversed."""
    same = np.allclose(fitted.pieces.maps[0, :, -1], pieces.maps[0, :, -1])
    return fitted.stats.occupancy if same else fitted.stats.occupancy[::-1]


#: By the name that users write.
FAMILIES: dict[str, Kind] = {"gaussian": GaussianKind(), "poisson": PoissonKind()}
