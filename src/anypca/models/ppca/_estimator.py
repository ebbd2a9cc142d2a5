"""Probabilistic PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._compat import Interval, RealNotInt, StrOptions
from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Gaussian
from anypca.models._block_view import BlockView
from anypca.models._gaussian.posterior import Parameters
from anypca.models._gaussian.principal import Principal, fit_principal, from_parameters, noise_floor, unbias
from anypca.models._gaussian.problem import MissingProblem
from anypca.models._gaussian.row_model import PrincipalRowModel
from anypca.models._gaussian.stream import GaussianRule
from anypca.models._posterior_model import PosteriorModel
from anypca.models._stream import Stream, continue_fit
from anypca.models._validation import AT_LEAST_ONE, NOT_NEGATIVE
from anypca.solvers import Result


@dataclass(eq=False, repr=False)
class PPCA(PosteriorModel):
    r"""Probabilistic principal component analysis, with missing entries.

    Rows are modelled as ``x = mean + U' t + e`` with orthonormal components U, independent Gaussian scores t
    and Gaussian noise e of equal variance in all columns. The fit is by maximum likelihood: in closed form
    when the table is complete, by EM on the exact likelihood of the observed entries when some are NaN.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=None
        Number of components. A float in (0, 1): the fewest that explain more than this share of the variance.
        ``"mle"``: Minka's evidence. ``None``: the largest number that leaves a noise variance. With missing
        entries the share and the evidence are computed from the covariances of filled-in columns.
    tol : float, default=1e-5
        EM stops when the gradient of the log-likelihood per observed entry, in units of the complete-data
        curvature, is at most this.
    max_iter : int, default=1000
        Largest number of EM iterations.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the iterations to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=None
        Start of the iterative eigensolver, which is used only when rows and columns both exceed 4000. The
        result does not depend on it beyond rounding.
    warm_start : bool, default=False
        Whether to start from the last fit of this object, if the numbers of columns and components are the same.
    init : fitted estimator of this class or None, default=None
        Initial model otherwise; it must be fitted with ``warm_start=True`` or by ``partial_fit``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Principal axes, orthonormal, by decreasing variance; the largest-magnitude entry of each is positive.
    mean_ : ndarray of shape (n_features,)
        Mean of the model. With missing entries it is not the mean of the observed entries.
    intercept_ : ndarray of shape (n_features,)
        The same as ``mean_``.
    noise_variance_ : float
        Variance of the noise.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the rows along each component, noise included.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the total variance.
    calibration_slope_ : ndarray of shape (n_columns,) or None
        Factor by which ``impute`` shrinks expectations towards the column means, see `EPCA`.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Equal to ``explained_variance_ratio_``: for Gaussian data the deviance is the sum of squares.
    n_components_ : int
        Number of components.
    n_iter_ : int
        Number of EM iterations; 1 for the closed form.
    converged_ : bool
        Whether EM reached ``tol``; True for the closed form.
    objective_trace_ : ndarray of shape (n_iter_,)
        Log-likelihood of the observed entries during the fit, never decreasing.
    resolution_ : ndarray of shape (n_features,)
        Step with which each column is recorded; ``entry_log_likelihood`` returns log-probabilities of such intervals.
    family_ : Family
        Gaussian.
    n_samples_seen_ : int
        Number of rows passed to ``partial_fit``. Later calls do not update ``objective_trace_``, ``converged_`` and
        ``status_``.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    sklearn.decomposition.PCA : The same components for complete data, without posterior.

    Notes
    -----
    Likelihood is maximised with the divisor n, and ``objective_trace_`` is that likelihood. The variances are
    then given the divisors of scikit-learn's ``PCA``, so that both agree on complete tables: n - 1 in place
    of n (n is the sum of the weights), and for the noise min(n_samples, n_features) - n_components in place
    of n_features - n_components. Scores and densities use these variances, with missing entries too. With
    more columns than rows the noise variance is therefore larger than the maximum likelihood one, by
    (n_features - n_components) / (n_samples - n_components).

    References
    ----------
    Tipping and Bishop (1999), Probabilistic principal component analysis, J. R. Statist. Soc. B 61, eqs. 7
    and 8 (closed form), 6 (posterior).
    Minka (2000), Automatic choice of dimensionality for PCA.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> X = np.outer(np.arange(1.0, 7.0), [1.0, 2.0, 3.0]) + 0.01 * np.eye(6, 3)
    >>> X[2, 1] = np.nan
    >>> model = PPCA(n_components=1).fit(X)
    >>> bool(abs(model.impute(X)[2, 1] - 6) < 0.2)
    True
    """

    _is_calibrated: ClassVar[bool] = True
    _takes_entry_weight: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [
            AT_LEAST_ONE,
            Interval(RealNotInt, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "tol": [NOT_NEGATIVE],
    }

    n_components: int | float | str | None = None
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    tol: float = 1e-5
    max_iter: int = 1000
    random_state: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        entry_weight: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            NaN marks missing entries.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row.
        entry_weight : array-like of shape (n_samples, n_features) or None, default=None
            Weights of the log-likelihood of each entry, with mean 1. An entry of weight 0 is missing; weight 2 equals
            two observations. Not for Dask arrays.
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit. After an interruption the same call resumes from it. The file is removed
            when the fit ends.

        Returns
        -------
        self : PPCA
        """
        weights = {"sample_weight": sample_weight, "entry_weight": entry_weight}
        with self._open_fit(X, **weights, checkpoint=checkpoint) as session:
            principal, result = fit_principal(session, self.n_components)
            self._store(principal, result)
        self._warn_unless_converged(result)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Update the fit with further rows, without storing them.

        The first call fits the model to its rows and fixes the number of components: pass about 600 rows, and blocks
        of 200 rows or more afterwards. Each row counts once for each time it is passed; ``fit`` starts afresh.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            As in ``fit``.
        y : None
            Ignored.
        sample_weight : as in ``fit``, for these rows

        Returns
        -------
        self : PPCA
        """
        continue_fit(self, X, {"sample_weight": sample_weight})
        return self

    def _begin_stream(self) -> tuple[GaussianRule, Parameters]:
        principal = self._principal
        problem = MissingProblem(noise_floor(principal.total / len(principal.mean)))
        return GaussianRule(problem, principal.mean), principal.parameters

    def _store_stream(self, stream: Stream[Parameters]) -> None:
        assert isinstance(stream.rule, GaussianRule)
        floor = stream.rule.problem.noise_floor
        self._store_principal(unbias(from_parameters(stream.shared), stream.weight, stream.n_samples, floor))

    def _store(self, principal: Principal, result: Result[Principal]) -> None:
        """Set the fitted attributes."""
        self.family_ = Gaussian()
        self._store_principal(principal)
        self._store_result(result)

    def _store_principal(self, principal: Principal) -> None:
        """Set those that the principal axes tell."""
        self.components_ = principal.components
        self.mean_ = self.intercept_ = principal.mean
        self.noise_variance_ = principal.noise
        self.explained_variance_ = principal.variances
        self.explained_variance_ratio_ = principal.shares
        self.explained_deviance_ratio_ = self.explained_variance_ratio_
        self.n_components_ = len(principal.components)
        self._principal = principal

    def _row_model(self) -> PrincipalRowModel:
        return PrincipalRowModel(self._principal)

    def posterior_covariance(self, X: Any = None) -> Floats:
        """Posterior covariance of the scores.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features), or None
            The covariance depends only on which entries are missing; ``None`` means complete rows.

        Returns
        -------
        ndarray of shape (n_components, n_components) or (n_samples, n_components, n_components)
            One matrix if X is complete or ``None``, else one per row.
        """
        check_is_fitted(self)
        principal = self._principal
        complete = np.diag(principal.noise * principal.signal / (principal.signal + principal.noise))
        if X is None:
            return complete

        def visit(model: PrincipalRowModel, block: Block, rows: BlockView) -> tuple[Floats, bool]:
            solved = model.solve(rows)
            return solved.patterns.spread(model.covariances(solved)), rows.observed is None

        parts = self._visit_rows(visit, X)  # type: ignore[arg-type]
        if all(is_complete for _, is_complete in parts):
            return complete
        return np.concatenate([covariances for covariances, _ in parts])

    def get_covariance(self) -> Floats:
        """Covariance of the model, ``U' diag(explained_variance_ - noise_variance_) U + noise_variance_ I``.

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self)
        U, noise = self.components_, self._principal.noise
        return np.asarray((U.T * self._principal.signal) @ U + noise * np.eye(U.shape[1]))

    def get_precision(self) -> Floats:
        """Inverse of the covariance of the model.

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self)
        U, noise, signal = self.components_, self._principal.noise, self._principal.signal
        return np.asarray((np.eye(U.shape[1]) - (U.T * (signal / (signal + noise))) @ U) / noise)
