"""Poisson log-normal PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats
from anypca.columns import check_support, warn_fractions
from anypca.families import Poisson
from anypca.models._arguments import check_rank, check_ranks
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.row_model import Reported, store_coefficients
from anypca.models._context import FitContext
from anypca.models._criteria import FitFacts, evaluate_all
from anypca.models._posterior_model import PosteriorModel
from anypca.models._stream import Stream, partial_fit
from anypca.models._validation import NOT_NEGATIVE
from anypca.models.plnpca._fit import PLNFit, PLNFitter, RankPath, Settings
from anypca.models.plnpca._row_model import CountRowModel
from anypca.models.plnpca._stream import CountRule, report


class _Counts(Poisson):
    """Poisson counts, with an error message for `PLNPCA`, which has no parameter ``family``."""

    remedy = "PLNPCA is for counts; EPCA and PPCA take other values."


@dataclass(eq=False, repr=False)
class PLNPCA(PosteriorModel):
    r"""Poisson log-normal PCA: counts whose log rates are normal with a covariance of low rank.

    .. math:: y_{ij} \sim \mathrm{Poisson}(\exp z_{ij}), \quad
              z_{ij} = o_{ij} + b_j + x_i^\top B_j + w_i^\top c_j, \quad w_i \sim N(0, I_q)

    with offsets o (logarithms of sampling efforts), intercepts b, covariates x with coefficients B, and loadings c.
    Each :math:`w_i` gets an independent normal posterior, and the variational bound on the log-likelihood is maximised
    over posteriors and coefficients.

    Parameters
    ----------
    n_components : int, default=2
        q, the rank of the covariance of the log rates.
    fit_intercept : bool, default=True
        Whether to estimate intercepts of the log rates.
    coef_scale : float or None, default=2.0
        Standard deviation of the normal prior on the coefficients of the centred and scaled covariates. It keeps
        coefficients finite if a column has no counts in a level of a covariate. None, 0 and infinity mean no prior.
    ridge : float, default=0.25
        Precision of the normal prior on loadings; the default is a standard deviation of 2. It keeps loadings finite if
        all counts of a column are in a few rows. 0 is the objective of R's PLNmodels.
    max_iter : int, default=1000
        Largest number of sweeps over the table.
    tol : float, default=1e-4
        Stop when the Newton decrement per observed entry, a scaled gradient, is below this.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    verbose : int, default=0
        Log each iteration to the logger ``anypca``.
    random_state : int, RandomState or None, default=0
        Seed of the start.
    warm_start : bool, default=False
        Whether to start from the last fit of this object, if the numbers of columns and components are the same.
    init : fitted estimator of this class or None, default=None
        Initial model otherwise; it must be fitted with ``warm_start=True`` or by ``partial_fit``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions of the log rates, from the singular value decomposition of the fitted ``M C'``: scores
        are uncorrelated, in order of decreasing variance, the largest entry of each component positive.
    intercept_ : ndarray of shape (n_features,)
        b.
    coef_ : ndarray of shape (n_features, n_covariates)
        B, in the units of the covariates; 0 for covariates that depend on others.
    coef_std_ : ndarray of shape (n_features, n_covariates) or None
        Standard deviations of ``coef_`` given the posteriors of the scores. None without covariates.
    covariate_names_ : list of str
        Of the columns of ``coef_``; ``"tree=b"`` is the level ``b`` of a column of text.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the training scores.
    pseudo_r2_ : float
        ``(l - l_null) / (l_max - l_null)`` of the Poisson log-likelihoods at the posterior means, of the regression
        without components and of the saturated model; never above 1.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        ``pseudo_r2_`` (0 if negative) split in proportion to what each component adds to the Poisson log-likelihood of
        the components before it, with intercepts refitted.
    percent_variance_ : ndarray of shape (n_components,)
        The same in per cent.
    calibration_slope_ : ndarray of shape (n_columns,) or None
        Factor by which ``impute`` shrinks expectations towards the column means, see `EPCA`.
    bic_, icl_, aic_ : float
        Criteria; lower is better. See Notes.
    log_likelihood_ : float
        The bound J without penalties.
    entropy_ : float
        Of the posteriors of all training rows.
    n_parameters_ : int
        ``p (d + q) - q (q - 1) / 2`` with d independent fixed features.
    resolution_ : ndarray of shape (n_features,)
        Step with which each column is recorded; ``entry_log_likelihood`` gives probabilities of steps.
    family_ : Family
        Poisson.
    n_components_, n_features_in_, n_iter_ : int
    n_samples_seen_ : int
        Number of rows passed to ``partial_fit``. Later calls do not update ``pseudo_r2_``, the criteria, ``entropy_``,
        ``objective_trace_``, ``converged_`` and ``status_``.
    objective_trace_ : ndarray of shape (n_iter_,)
        The bound with all constants less the penalties after each sweep, never decreasing.
    converged_ : bool
        Whether the scaled gradient fell below ``tol``.
    status_ : str
        How the fit ended.

    See Also
    --------
    SePCA : counts and all other families; chooses the number of components.
    anypca.offsets : offsets from the counts.

    Notes
    -----
    Sweeps alternate one Newton step for all rows (means and log variances jointly) with one for all columns, halved
    where the bound would get worse, and extrapolate the columns' path. After each sweep the latent coordinates are
    shifted and scaled for the smallest divergence from the prior; from time to time they are rotated. Time is
    proportional to ``n_samples * n_features * n_components**2``.

    With the bound J, without penalties, ``bic_ = -2 J + n_parameters_ log(n)``, ``icl_ = bic_ + 2 entropy_`` and
    ``aic_ = -2 J + 2 n_parameters_``. R's PLNmodels reports -1/2 times these numbers (larger is better there), of a J
    that is too large by ``n p / 2``. J bounds the log-probability of the counts: these criteria compare ranks, offsets
    and covariates on one table, not with likelihoods of other models; ``entry_log_likelihood`` does.

    References
    ----------
    J. Chiquet, M. Mariadassou, S. Robin (2018). Variational inference for probabilistic Poisson PCA. Annals of Applied
    Statistics 12.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PLNPCA
    >>> rng = np.random.default_rng(0)
    >>> effort = rng.uniform(0.5, 2.0, size=100)
    >>> rates = np.exp(rng.normal(size=(100, 2)) @ rng.normal(size=(2, 12)) + 1.0)
    >>> counts = rng.poisson(effort[:, None] * rates)
    >>> model = PLNPCA(n_components=2).fit(counts, offset=np.log(effort))
    >>> model.transform(counts, offset=np.log(effort)).shape
    (100, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"ridge": [NOT_NEGATIVE]}

    _is_calibrated = True
    _takes_entry_weight = True
    family = "poisson"
    n_components: int = 2
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    fit_intercept: bool = True
    coef_scale: float | None = 2.0
    ridge: float = 0.25
    max_iter: int = 1000
    tol: float = 1e-4
    random_state: Any = 0

    partial_fit = partial_fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        offset: Any = None,
        covariates: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Counts: numpy, pandas, polars, scipy.sparse, memory map or Dask array; NaN is a missing entry.
        y : None
            Ignored.
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None
            Logarithms of sampling efforts; `anypca.offsets` computes some.
        covariates : array-like of shape (n_samples, n_covariates), data frame, dict of columns, or None
            Known influences on the log rates. Text has one coefficient for each level except the first, the reference.
        sample_weight : array-like of shape (n_samples,) or None
            A row of weight 2 counts as two equal rows.
        entry_weight : array-like of shape (n_samples, n_features) or None
            Weights of the log-likelihood of each entry, with mean 1. An entry of weight 0 is missing; weight 2 equals
            two observations. Not for Dask arrays.
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit. After an interruption the same call resumes from it. The file is removed
            when the fit ends.

        Returns
        -------
        self
        """
        companions = {"sample_weight": sample_weight, "offset": offset, "covariates": covariates}
        with self._open_fit(X, **companions, entry_weight=entry_weight, checkpoint=checkpoint) as session:
            check_rank(self.n_components, session.data)
            fits = self._fitter(session).fit([self.n_components])
            self._store(fits[0])
        self._warn_unless_converged(fits[0].result)
        return self

    def path(
        self,
        X: Any,
        ranks: Any,
        *,
        offset: Any = None,
        covariates: Any = None,
        sample_weight: Any = None,
    ) -> RankPath:
        """Fit several ranks, each from a new start and from the rank below; keeps the better start.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        ranks : sequence of int
            Numbers of components; ``n_components`` is not used.
        offset, covariates, sample_weight : as in ``fit``

        Returns
        -------
        RankPath
            Bound, criteria and R2 of each rank, and the fitted models.
        """
        opener = clone(self)
        companions = {"offset": offset, "covariates": covariates, "sample_weight": sample_weight}
        with opener._open_fit(X, **companions) as session:
            data = session.data
            checked = check_ranks(ranks, min(data.n_samples, data.n_features), least=1)
            fits = opener._fitter(session).fit(checked)
        models = []
        for rank, fit in zip(checked, fits, strict=True):
            model = clone(self).set_params(n_components=rank)
            model._set_input_metadata(X, data, uses_offset=offset is not None)
            model._covariates = opener._covariates
            model.layout_, model.resolution_ = opener.layout_, opener.resolution_
            model._moments = opener._moments
            model._store(fit)
            model._warn_unless_converged(fit.result)
            models.append(model)
        return RankPath.of(models)

    @property
    def latent_covariance_(self) -> Floats:
        """Covariance of the log rates, ``C (M' M + diag(sum S)) C' / n``, shape (n_features, n_features)."""
        fit = self._checked_fit()
        loadings = fit.coefficients.loadings
        return loadings @ fit.second_moment @ loadings.T

    def _fitter(self, session: FitContext) -> PLNFitter:
        """Validate the counts and create their fitter."""
        check_support(_Counts(), session)
        warn_fractions(Poisson(), session)
        return PLNFitter(session, Poisson(), Settings(bool(self.fit_intercept), float(self.ridge)))

    def _store(self, fit: PLNFit) -> None:
        """Set the fitted attributes."""
        self.family_ = Poisson()
        self._store_components(fit)
        self.pseudo_r2_ = fit.r2
        self.entropy_, self.n_parameters_ = fit.entropy, fit.likelihood.n_parameters
        self.log_likelihood_ = fit.likelihood.value
        criteria = evaluate_all(FitFacts(fit.likelihood, fit.likelihood, fit.entropy))
        self.bic_, self.icl_, self.aic_ = (criteria[name] for name in ("bic", "icl", "aic"))
        self._store_result(fit.result)

    def _store_components(self, fit: PLNFit) -> None:
        """Set those that the coefficients tell."""
        self._fit = fit
        self._coefficients = replace(fit.canonical.coefficients, fixed=fit.coefficients.fixed)
        store_coefficients(self, self._coefficients, fit.coef_std)
        self.explained_variance_ = fit.canonical.variance
        self.explained_deviance_ratio_ = fit.shares
        self.percent_variance_ = 100.0 * fit.shares

    def _begin_stream(self) -> tuple[CountRule, Shared]:
        return CountRule(self._fit.problem), Shared(self._fit.coefficients)

    def _store_stream(self, stream: Stream[Shared]) -> None:
        self._store_components(report(self._fit, stream))

    def _checked_fit(self) -> PLNFit:
        check_is_fitted(self)
        return self._fit

    def _row_model(self) -> CountRowModel:
        fit = self._checked_fit()
        return CountRowModel(
            Reported(_Counts(), self._coefficients, self.explained_variance_, bool(self.fit_intercept)), fit
        )
