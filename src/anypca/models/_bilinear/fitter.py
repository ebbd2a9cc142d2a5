"""What fitters of bilinear models have in common: a checked table and simple passes over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Data, Executor, Summary
from anypca.families import Family
from anypca.models._bilinear.kernel import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import mean_coefficients, null_coefficients
from anypca.solvers import Callback


class FitOptions(Protocol):
    """Settings that every fitter reads."""

    @property
    def fit_intercept(self) -> bool: ...

    @property
    def tol(self) -> float: ...


Options = TypeVar("Options", bound=FitOptions)


class BilinearFitter(Generic[Options]):
    """Fits one table.

    Parameters
    ----------
    data, executor, summary
        The checked table.
    family : Family
    options
        Settings of the fit.
    callback : callable or None
        Told of each sweep.
    """

    def __init__(
        self,
        data: Data,
        executor: Executor,
        summary: Summary,
        family: Family,
        options: Options,
        callback: Callback | None = None,
    ) -> None:
        self.data = data
        self.executor = executor
        self.summary = summary
        self.family = family
        self.options = options
        self.callback = callback
        self.visit = Pass(data, executor, options.fit_intercept)

    def _open_columns(self) -> list[Ints]:
        """Columns whose family leaves the dispersion to be estimated, one group for each family."""
        groups = self.family.member_columns(self.data.n_features)
        return [columns for member, columns in groups if member.fixed_dispersion is None]

    def _mean_fixed(self) -> Floats:
        """Where intercepts and covariates start, shape (n_features, n_fixed)."""
        return mean_coefficients(
            self.family, self.summary, self.data.n_covariates, fit_intercept=self.options.fit_intercept
        )

    def _null(self, dispersion: Floats, fixed: Floats) -> Coefficients:
        """The model without components, from the start ``fixed``."""
        start = Coefficients(np.zeros((self.data.n_features, 0)), fixed, dispersion)
        return null_coefficients(self.family, start, self.visit, tol=self.options.tol)

    def _each(self, local: Sequence[Any], change: Callable[[Any], Any]) -> Sequence[Any]:
        """Something made of the scores of each block, where the blocks are."""

        def visit(_: Any, scores: Any) -> tuple[Any, float]:
            assert scores is not None
            return change(scores), 0.0

        return self.executor.sweep(visit, self.data, local)[0]
