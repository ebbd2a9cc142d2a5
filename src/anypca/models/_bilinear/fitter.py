"""What fitters of bilinear models have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.models._bilinear.alternating import Gauge
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import mean_coefficients, null_coefficients
from anypca.models._opened import fixed_features
from anypca.models._session import Session


class BilinearSettings(Protocol):
    """Settings that every fitter reads."""

    @property
    def fit_intercept(self) -> bool: ...


Settings = TypeVar("Settings", bound=BilinearSettings)


@dataclass(frozen=True, eq=False)
class BilinearFitter(Generic[Settings]):
    """What fitting a bilinear model to one table needs; subclasses add what is their own.

    Parameters
    ----------
    session : Session
    family : Family
    settings
        Those of the model.
    """

    session: Session
    family: Family
    settings: Settings

    @cached_property
    def visit(self) -> Pass:
        """Passes over the table."""
        return Pass(self.session, self.settings.fit_intercept)

    def open_columns(self) -> list[Ints]:
        """Columns whose family leaves the dispersion to be estimated, one group for each family."""
        groups = self.family.member_columns(self.session.data.n_features)
        return [columns for member, columns in groups if member.fixed_dispersion is None]

    def mean_fixed(self) -> Floats:
        """Where intercepts and covariates start, shape (n_features, n_fixed)."""
        session = self.session
        return mean_coefficients(
            self.family, session.summary, session.data.n_covariates, fit_intercept=self.settings.fit_intercept
        )

    def null(self, dispersion: Floats, fixed: Floats) -> Coefficients:
        """The model without components, from the start ``fixed``."""
        start = Coefficients(np.zeros((len(dispersion), 0)), fixed, dispersion)
        return null_coefficients(self.family, start, self.visit, tol=self.session.tol)

    def each(self, local: Sequence[Any] | None, change: Callable[[Any], Any]) -> Sequence[Any]:
        """Something made of the scores of each block, where the blocks are."""
        return self.session.map(lambda _, scores: change(scores), local)

    def moved(self, local: Sequence[Any] | None, gauge: Gauge) -> Sequence[Any]:
        """The scores of each block in other latent coordinates, where the blocks are."""
        fit_intercept = self.settings.fit_intercept
        return self.session.map(
            lambda block, scores: gauge.apply(scores, fixed_features(block, fit_intercept=fit_intercept)),
            local,
        )
