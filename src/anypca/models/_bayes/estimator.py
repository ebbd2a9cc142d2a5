"""Base class of estimators whose posterior is represented by draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import StrOptions
from anypca._typing import Floats
from anypca.columns import settle_family
from anypca.exceptions import ConvergenceWarning
from anypca.families import Family
from anypca.families.mixed import known_dispersion
from anypca.models._bayes.chains import SampledResult, Summary
from anypca.models._bayes.rows import DrawnRowModel
from anypca.models._bilinear.passes import Deviances
from anypca.models._context import FitContext, ignore
from anypca.models._posterior_model import PosteriorModel
from anypca.models._validation import POSITIVE
from anypca.models.epca import EPCA
from anypca.models.epca._fit import EPCAFitter, Settings
from anypca.priors import Ridge
from anypca.solvers import Result


@dataclass(frozen=True, eq=False)
class DrawnFit:
    """A posterior by draws."""

    row_model: DrawnRowModel
    deviances: Deviances
    summary: Summary
    result: SampledResult[Any]


class DrawnModel(PosteriorModel):
    """Base of estimators whose row model is a `DrawnRowModel`: answers about rows are averages over draws."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"dispersion": [StrOptions({"auto"}), POSITIVE]}
    family: Any
    dispersion: str | float
    fit_intercept: bool

    def _dispersion_rank(self, session: FitContext) -> int:
        """Components of the fit that open dispersions are estimated by."""
        raise NotImplementedError

    def _draw(self, session: FitContext, family: Family, dispersion: Floats) -> DrawnFit:
        """Draw from the posterior, given the families and the dispersions of the columns."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            As in `EPCA.fit`; NaN is a missing entry.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        with self._open_fit(X) as session:
            k, known = self._dispersion_rank(session), {"fit_intercept": self.fit_intercept}
            family, report = settle_family(session)
            dispersion = find_dispersion(session, family, self.dispersion, n_components=k, **known)
            fit = self._draw(session, family, dispersion)
            self.family_, self.family_report_ = family, report
            self._store(fit)
        self._warn_unless_converged(fit.result)
        return self

    def _store(self, fit: Any) -> None:
        """Set the fitted attributes."""
        self._rows: DrawnRowModel = fit.row_model
        self.explained_deviance_ratio_ = fit.deviances.shares
        self.deviance_, self.null_deviance_ = fit.deviances.full, fit.deviances.null
        self.posterior_, self.r_hat_, self.ess_ = fit.summary
        self._store_result(fit.result)

    def _row_model(self) -> DrawnRowModel:
        return self._rows

    def _warn_unless_converged(self, result: Result[Any]) -> None:
        """Warn when the chains disagree."""
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__}: {result.status.value} (draws of each chain: {result.n_iter}, largest R-hat: "
                f"{result.criterion:.3g}).",
                ConvergenceWarning,
                stacklevel=3,
            )


def find_dispersion(
    session: FitContext, family: Family, given: str | float, *, n_components: int, fit_intercept: bool
) -> Floats:
    """Dispersion of each column: known by its family, the given number, or for ``"auto"`` the estimate of EPCA.

    Parameters
    ----------
    session : FitContext
        The table of the fit.
    family : Family
        Of the columns of the model.
    given : "auto" or float
        For columns whose family leaves it open.
    n_components : int
        Of EPCA.
    fit_intercept : bool
        Of EPCA.

    Returns
    -------
    ndarray of shape (n_columns,)
        For the columns of the model.
    """
    known = known_dispersion(family, session.data.n_features)
    if not np.isnan(known).any():
        return known
    if not isinstance(given, str):
        return np.where(np.isnan(known), float(given), known)
    quiet = replace(session, callback=ignore, max_iter=EPCA.max_iter, tol=EPCA.tol)
    settings = Settings(n_components, Ridge(1.0), Ridge(1.0), fit_intercept)
    fitted = EPCAFitter(quiet, family, settings).fit().fit
    return np.asarray(np.where(np.isnan(known), fitted.coefficients.dispersion, known))
