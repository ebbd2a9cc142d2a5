"""Facts of a fit from which criteria are computed."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.engine import executor_for, summarise
from anypca.families.mixed import known_dispersion
from anypca.models import EPCA, PPCA
from anypca.models._covariates import encode_covariates
from anypca.models._criteria import FitFacts, Likelihood
from anypca.models._description import describe
from anypca.models._posterior_model import integrate_rows
from anypca.selection._numbers import check_numbers


class Companions(NamedTuple):
    """What came along with the table."""

    offset: Any = None
    covariates: Any = None
    sample_weight: Any = None

    @classmethod
    def of(cls, offset: Any, covariates: Any, sample_weight: Any = None) -> Companions:
        """Companions with covariates as numbers, so that rows can be taken."""
        return cls(offset, encode_covariates(covariates)[0], sample_weight)

    def for_fit(self) -> dict[str, Any]:
        """Arguments of ``fit``: only what was given, since not every model takes everything."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def for_rows(self) -> dict[str, Any]:
        """Arguments of the methods for rows."""
        return {name: value for name, value in self.for_fit().items() if name != "sample_weight"}

    def total_weight(self, n_samples: int) -> float:
        """Number of rows, or the sum of their weights."""
        return float(
            n_samples if self.sample_weight is None else np.sum(np.asarray(self.sample_weight, float))
        )

    def weighted(self, rows: Floats) -> float:
        """Sum over rows, with their weights; a row of weight 0 counts as absent."""
        if self.sample_weight is None:
            return float(rows.sum())
        return float(np.asarray(self.sample_weight, float) @ rows)


@singledispatch
def describe_fit(model: Any, X: Any, companions: Companions) -> FitFacts:
    """The facts of a fitted model.

    This version reads them from fitted attributes, so that a model need not be known here: ``n_parameters_`` with
    ``log_likelihood_`` (else the last entry of ``objective_trace_``) where scores are integrated out, ``entropy_``
    and ``evidence_``, as far as they exist. `EPCA` and `PPCA` have versions of their own.

    Parameters
    ----------
    model : fitted estimator
        The fitted model.
    X : table of shape (n_samples, n_features)
        The one it was fitted to.
    companions : Companions
        ``offset`` and ``covariates`` of the table, as in the fit.

    Returns
    -------
    FitFacts
        What criteria need to know of the fit.

    See Also
    --------
    Criterion : uses it.
    """
    found, likelihood = describe(model), None
    known = found.criteria
    if "n_parameters" in known:
        value = known["log_likelihood"] if "log_likelihood" in known else float(found.trace[-1])
        likelihood = Likelihood.integrated(
            value, int(known["n_parameters"]), companions.total_weight(n_rows(X))
        )
    return FitFacts(likelihood, likelihood, known.get("entropy"), known.get("evidence"))


@describe_fit.register
def _describe_ppca(model: PPCA, X: Any, companions: Companions) -> FitFacts:
    """Exact likelihood; loadings, mean and noise are the parameters."""
    k, p = model.components_.shape
    # Loadings up to rotations, the means, and the noise.
    count = p * k - k * (k - 1) // 2 + p + 1
    likelihood = Likelihood.integrated(
        float(model.objective_trace_[-1]), count, companions.total_weight(n_rows(X))
    )
    return FitFacts(likelihood, likelihood, companions.weighted(integrate_rows(model, X)[1]))


@describe_fit.register
def _describe_epca(model: EPCA, X: Any, companions: Companions) -> FitFacts:
    """Likelihood at plugged-in scores, which are parameters; and Laplace's approximation without them."""
    rows, k, p = companions.total_weight(n_rows(X)), model.n_components_, model.layout_.n_columns
    entries = _count_entries(model, X, companions)
    n_fixed = int(model.fit_intercept) + model.coef_.shape[1]
    n_dispersions = _count_dispersions(model)
    by_column = p * (k + n_fixed) + n_dispersions
    # Scores are identified up to a linear map of k x k numbers and up to multiples of the fixed features.
    by_row = max(round(k * (rows - n_fixed - k)), 0)
    marginal, entropy = integrate_rows(model, X, **companions.for_rows())
    return FitFacts(
        likelihood=Likelihood(
            companions.weighted(model.plug_in_log_likelihood(X, **companions.for_rows())),
            by_column + by_row,
            entries,
            0.5 * (by_column * float(np.log(entries / p)) + by_row * float(np.log(entries / rows))),
        ),
        marginal=Likelihood.integrated(companions.weighted(marginal), by_column - k * (k - 1) // 2, rows),
        entropy=companions.weighted(entropy),
    )


def n_rows(X: Any) -> int:
    """Number of rows of a table of any kind."""
    return check_numbers(X).n_samples


def _count_entries(model: EPCA, X: Any, companions: Companions) -> float:
    """Observed entries of the columns of the model, weighted."""
    data = model.layout_.lay_out(check_numbers(X, sample_weight=companions.sample_weight))
    with executor_for(data, 1) as executor:
        return float(summarise(data, executor).weight.sum())


def _count_dispersions(model: EPCA) -> int:
    """Dispersions that were estimated; columns of one family share one where the fit made them share it."""
    rows = model._row_model()
    is_open = np.isnan(known_dispersion(rows.family, rows.dispersion.size))
    return sum(
        len(np.unique(rows.dispersion[columns]))
        for _, columns in rows.family.member_columns(rows.dispersion.size)
        if is_open[columns].any()
    )
