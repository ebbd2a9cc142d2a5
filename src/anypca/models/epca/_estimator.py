"""Exponential-family PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import Interval, RealNotInt, StrOptions
from anypca._typing import Floats
from anypca.columns import settle_family
from anypca.families import Family
from anypca.models._arguments import check_rank
from anypca.models._base import for_rows
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.row_model import ModeRowModel, Reported, store_coefficients
from anypca.models._bilinear.stream import BilinearRule
from anypca.models._context import FitContext
from anypca.models._posterior_model import PosteriorModel
from anypca.models._stream import Stream, partial_fit
from anypca.models._validation import NOT_NEGATIVE
from anypca.models.epca._fit import EPCAFit, EPCAFitter, Fitted, Settings
from anypca.models.epca._ridge import LEAST_RIDGE, choose_ridge
from anypca.models.epca._share import least_rank
from anypca.models.epca._stream import report, rule_of
from anypca.priors import Prior, Ridge, Scaled, find_prior

_PENALTIES = ("score_penalty", "loading_penalty")


@dataclass(eq=False, repr=False)
class EPCA(PosteriorModel):
    r"""Exponential-family PCA: the right likelihood for each column.

    The linear predictor of row i and column j is

    .. math:: \eta_{ij} = o_{ij} + b_j + c_i^\top B_j + z_i^\top w_j

    with offsets o, intercepts b, covariates c, scores z and loadings w; the column's family turns it into a
    distribution (identity, log or logit link). Scores and loadings maximise the penalised log-likelihood.

    Parameters
    ----------
    n_components : int or float, default=2
        Number of components; 0 is the model of intercepts and covariates alone. A number between 0 and 1 selects the
        fewest components that explain this share of the deviance, by several fits.
    family : str, Family, list or dict, default="auto"
        One family for all columns, one per column, or a dict from column to family. ``"auto"`` chooses a family from
        the values of each column; ``family_report_`` contains the reasons.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    ridge : float, "auto" or "cv", default="auto"
        Strength of the quadratic penalty on scores *and* loadings. Together the two shrink the singular values
        of the predictor by ``ridge``, in units of information: they equal a nuclear norm with this weight. Noise alone
        has singular values of about ``sqrt(n_samples) + sqrt(n_features)``. If an entry has information below 1 about
        its eta, as with rare counts, they are multiplied by the root of this information. ``"auto"`` is half of the
        result, at least 8 or half of the value without the root (a quarter for answers), which shrinks possible noise.
        If a component would vanish, it is lowered to 3/4, 1/2, 1/4, ... of this value, at least 1, until all
        requested components remain. It is 1 with other penalties and if ``n_components`` is a share. ``partial_fit``
        keeps the ridge of its first rows.
        ``"cv"`` uses the ridge that predicts hidden entries best, among all that predict them no worse than column
        means. It uses a part of a large table; on a small table it takes about ten times as long as a fit.
        A ridge of 1 mainly removes infinite estimates, and 0 is maximum likelihood. On small tables both fit the
        observed entries more closely and predict new entries worse.
    score_penalty : str or Prior, default="ridge"
        ``"l1"`` penalises absolute scores instead, so that each row uses few components (SpEPCA). ``"scad"`` does the
        same without shrinking large scores. ``"group"`` sets all scores of a row to zero. Also a `anypca.priors.Prior`.
    loading_penalty : str or Prior, default="ridge"
        Penalty on the loadings of the columns, in units of their noise. ``"l1"`` and ``"scad"`` give components with
        few columns, ``"group"`` sets all loadings of a column to zero, ``"adaptive_l0"`` penalises the number of
        nonzero loadings.
    l1_strength : float, default=1.0
        Weight of the score penalty if that is not a ridge.
    loading_strength : float, default=1.0
        Weight of the loading penalty if that is not a ridge.
    fit_intercept : bool, default=True
        Whether to estimate intercepts. Without intercepts, scores of zero give eta = 0.
    coef_scale : float or None, default=2.0
        Standard deviation of the normal prior on the coefficients of the centred and scaled covariates, on the scale of
        the predictor (for a gaussian column, in its standard deviations). The prior keeps coefficients finite if a
        column has no events in a level of a covariate. None, 0 and infinity mean no prior.
    whiten : bool, default=False
        Whether to scale scores to unit variance, and loadings inversely.
    max_iter : int, default=500
        Largest number of sweeps over the table.
    tol : float, default=1e-5
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
        Loadings in decreasing order of explained deviance, the largest entry of each positive. Rows are orthonormal, or
        orthogonal with ``whiten``. With penalties other than the ridge (and ``"group"`` on loadings) they have unit
        length but are not orthogonal. If columns have different families, this holds for loadings divided by the
        standard deviation of their column's noise, which is 1 for columns without units.
    intercept_ : ndarray of shape (n_features,)
        b.
    coef_ : ndarray of shape (n_features, n_covariates)
        B, in the units of the covariates.
    coef_std_ : ndarray of shape (n_features, n_covariates) or None
        Standard deviations of ``coef_`` given the scores, from the curvature (Laplace). None without covariates, above
        15 components and after ``partial_fit`` of further rows.
    covariate_names_ : list of str
        Of the columns of ``coef_``; ``"tree=b"`` is the level ``b`` of a column of text.
    dispersion_ : ndarray of shape (n_features,)
        Dispersion of each column, estimated unless the family fixes it.
    calibration_slope_ : ndarray of shape (n_columns,) or None
        Factor by which ``impute`` shrinks expectations towards the column means, between 0 and 1: the slope of the
        entries of a column on approximate leave-one-out predictions within one standard deviation of the mean. None if
        the table was complete or came with offsets or covariates.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Share of a column's deviance that each component explains, mean over the columns that vary, as in the columns
        of `anypca.interpretation.cos2`. In each column it is the deviance lost without the component, scaled to sum to
        the share of the whole model.
    explained_variance_ : ndarray of shape (n_components,)
        Mean square of the training scores; 1 with ``whiten``.
    deviance_, null_deviance_ : float
        Scaled deviance with and without the components.
    resolution_ : ndarray of shape (n_features,)
        Step with which each column is recorded: the given step, the step of the lattice on which its values lie (up to
        four decimals), or a thousandth of its standard deviation. ``entry_log_likelihood``, ``plug_in_log_likelihood``
        and the criteria of `anypca.selection` are log-probabilities of intervals of this length.
    ridge_ : float
        The ridge used.
    ridge_trials_ : dict or None
        With ``ridge="cv"``: mean log-likelihood of hidden entries for each ridge that was tried.
    family_ : Family
        The family used.
    layout_ : Layout
        Maps columns of the table to columns of the model. Arrays over columns, for example loadings, have one entry for
        each column of the table, 0 if it is dropped. If a column is encoded as several, they have one entry for each
        column of the model, with the names ``layout_.names``.
    family_report_ : FamilyReport or None
        The choice of ``family="auto"`` for each column, with reasons.
    n_components_, n_features_in_, n_iter_ : int
    n_samples_seen_ : int
        Number of rows passed to ``partial_fit``. Later calls do not update ``deviance_``, ``null_deviance_``,
        ``objective_trace_``, ``converged_`` and ``status_``.
    objective_trace_ : ndarray of shape (n_iter_,)
        Penalised log-likelihood after each sweep, never decreasing.
    converged_ : bool
        Whether the scaled gradient fell below ``tol``.
    status_ : str
        How the fit ended.

    See Also
    --------
    SePCA : chooses the number of components.
    GPCA : projects saturated parameters: scores of new rows in one product.
    PPCA : real numbers, in closed form.

    Notes
    -----
    ``transform`` gives the modes of the scores under the penalty, standard deviations come from the curvature there
    (Laplace). ``score_samples`` integrates the scores out by Laplace's approximation under a centred normal
    distribution with the variances of the training scores (``explained_variance_``), the one that ``sample`` draws
    from; this is exact for gaussian columns. ``entry_posterior`` takes the loadings as known.

    With penalties other than the ridge, the objective depends on the latent coordinates and has several maxima. A fit
    with sparse loadings starts at a varimax rotation. ``"scad"`` does not identify the scale of scores relative to
    loadings, so the ridge is kept in addition.

    Sweeps alternate one Newton step for all rows with one for all columns. Steps that would decrease the objective are
    halved, and the columns' path is extrapolated (see `anypca.solvers`). Dispersions are estimated between converged
    fits. Above 15 components, if both penalties are ridges, steps are a few conjugate gradients towards Newton's: time
    is then proportional to ``n_samples * n_features * n_components`` and memory beyond the table is a few blocks and
    some twenty times ``n_features * n_components`` numbers. Otherwise the square of ``n_components`` takes its place.
    Early sweeps are in single precision, if no column is too far from zero for it, the last ones in double precision,
    whatever the type of X.

    References
    ----------
    M. Collins, S. Dasgupta, R. Schapire (2001). A generalization of principal components analysis to the
    exponential family. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import EPCA
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.exp(rng.normal(size=(100, 2)) @ rng.normal(size=(2, 12))))
    >>> model = EPCA(n_components=2, family="poisson").fit(counts)
    >>> model.transform(counts).shape
    (100, 2)
    """

    _is_calibrated: ClassVar[bool] = True
    _takes_entry_weight: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
        ],
        "ridge": [StrOptions({"auto", "cv"}), NOT_NEGATIVE],
        "score_penalty": "no_validation",
        "loading_penalty": "no_validation",
        "l1_strength": [NOT_NEGATIVE],
        "loading_strength": [NOT_NEGATIVE],
        "whiten": ["boolean"],
    }

    n_components: int | float = 2
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    family: Any = "auto"
    resolution: Any = None
    ridge: float | str = "auto"
    score_penalty: str | Prior = "ridge"
    loading_penalty: str | Prior = "ridge"
    l1_strength: float = 1.0
    loading_strength: float = 1.0
    fit_intercept: bool = True
    coef_scale: float | None = 2.0
    whiten: bool = False
    max_iter: int = 500
    tol: float = 1e-5
    random_state: Any = 0

    partial_fit = partial_fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
        entry_weight: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            numpy, pandas, polars, scipy.sparse, memory map or Dask array; NaN is a missing entry.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None
            A row of weight 2 counts as two equal rows.
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None
            Known part of eta, such as log exposures.
        covariates : array-like of shape (n_samples, n_covariates), data frame, dict of columns, or None
            Known influences, taken out before the components. Text has one coefficient for each level except the
            first, the reference.
        entry_weight : array-like of shape (n_samples, n_features) or None
            Weights of the log-likelihood of each entry, with mean 1, for example inverse error variances. An entry of
            weight 0 is missing. Not for Dask arrays.
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit. After an interruption the same call resumes from it. The file is removed
            when the fit ends.

        Returns
        -------
        self
        """
        companions = {"sample_weight": sample_weight, "offset": offset, "covariates": covariates}
        with self._open_fit(X, **companions, entry_weight=entry_weight, checkpoint=checkpoint) as session:
            self._fit_table(session)
        self._warn_unless_converged(self._fit.result)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit the model and return the scores, equal to ``fit(X, ...).transform(X, ...)`` up to rounding.

        Rows with a unique optimum start from their scores in the fit, which takes fewer steps.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **fit_params : dict
            Further arguments of ``fit``; arguments for rows or entries are also passed to ``transform``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        with self._open_fit(X, **fit_params) as session:
            fitted = self._fit_table(session)
            scores = self._training_scores(session, fitted)
        self._warn_unless_converged(fitted.fit.result)
        return self.transform(X, **for_rows(fit_params)) if scores is None else scores

    def _fit_table(self, session: FitContext) -> Fitted:
        """Fit and set the fitted attributes."""
        family, report = settle_family(session)
        fitted = self._fit_components(session, family)
        self.family_, self.family_report_ = fitted.fit.problem.family, report
        self._store(fitted.fit)
        return fitted

    def _training_scores(self, session: FitContext, fitted: Fitted) -> Floats | None:
        """Scores of the training rows, started at the last sweep; ``None`` if the result could depend on the start."""
        model, gauge, data = self._row_model(), fitted.gauge, session.data
        # Without a ridge rows with few entries may have many optima. Scores of a Dask array stay where its chunks are.
        if data.is_distributed or not model.has_one_optimum or (data.may_miss and not self.ridge_ > 0):
            return None
        found = session.map(lambda block, local: model.solve_training(block, local, gauge), fitted.local)
        return np.concatenate(session.executor.gather(found))

    def _fit_components(self, session: FitContext, family: Family) -> Fitted:
        """Fit ``n_components`` components, or as many as explain the requested share of the deviance."""
        wanted: Any = self.n_components
        if isinstance(wanted, Integral):
            check_rank(int(wanted), session.data)
            return self._fit_rank(session, family, int(wanted))
        largest = min(session.data.n_samples, session.data.n_features)
        attempt = cache(lambda rank: (self._fit_rank(session, family, rank), self.ridge_, self.ridge_trials_))
        rank = least_rank(lambda k: float(attempt(k)[0].fit.deviances.shares.sum()), float(wanted), largest)
        fitted, self.ridge_, self.ridge_trials_ = attempt(rank)
        return fitted

    def _fit_rank(self, session: FitContext, family: Family, n_components: int) -> Fitted:
        self.n_components_ = n_components
        # Without another choice the ridge is 1: it removes infinite estimates.
        self.ridge_, self.ridge_trials_ = LEAST_RIDGE, None
        if not isinstance(self.ridge, str):
            self.ridge_ = float(self.ridge)
        elif n_components and self.ridge == "cv":
            self.ridge_, self.ridge_trials_ = choose_ridge(self, session, family)
        finds_ridge = bool(n_components) and self.ridge == "auto" and self._is_plain()
        fitted = EPCAFitter(session, family, replace(self._settings(), finds_ridge=finds_ridge)).fit()
        self.ridge_ *= fitted.ridge
        return fitted

    def _is_plain(self) -> bool:
        """Whether scores and loadings have ridges, and the number of components is given."""
        wanted: Any = self.n_components
        priors = [find_prior(getattr(self, name), name, self.n_components_) for name in _PENALTIES]
        return isinstance(wanted, Integral) and all(isinstance(prior, Ridge) for prior in priors)

    def _settings(self) -> Settings:
        scores = self._prior("score_penalty", self.l1_strength)
        loadings = self._prior("loading_penalty", self.loading_strength)
        settings = Settings(self.n_components_, scores, loadings, bool(self.fit_intercept), bool(self.whiten))
        free = [
            what for what, prior in (("scores", scores), ("loadings", loadings)) if not self._grows(prior)
        ]
        if self.ridge_ == 0 and settings.ridges is None and free:
            raise ValueError(
                f"score_penalty={self.score_penalty!r} with loading_penalty={self.loading_penalty!r} needs ridge > 0: "
                f"without a penalty that holds the {free[0]}, larger {free[0]} and less of the others are always "
                f"better. Got ridge={self.ridge!r}; leave it at 'auto', or give 1.0."
            )
        if not scores.leaves_zero:
            raise ValueError(
                f"score_penalty={self.score_penalty!r} keeps scores at zero, where they start. "
                "Use it as loading_penalty, or 'l1' or 'scad' for the scores."
            )
        return settings

    def _grows(self, prior: Prior) -> bool:
        """Whether a large score or loading costs more than a middling one."""
        # Both are far beyond where bounded penalties such as SCAD, at some multiples of their strength, stop growing.
        middling, large = (prior.value(np.full((1, self.n_components_), size)) for size in (1e3, 1e6))
        return bool(large.sum() > middling.sum())

    def _prior(self, parameter: str, strength: float) -> Prior:
        """The prior that a parameter names, of the weight that another one gives."""
        prior = find_prior(getattr(self, parameter), parameter, self.n_components_)
        if isinstance(prior, Ridge):
            return replace(prior, precision=self.ridge_ * np.asarray(prior.precision, dtype=float))
        return Scaled(prior, float(strength), ridge=self.ridge_ if prior.is_bounded else 0.0)

    def _store(self, fit: EPCAFit) -> None:
        """Set the fitted attributes."""
        self._fit: EPCAFit = fit
        store_coefficients(self, fit.coefficients, fit.coef_std)
        self.explained_deviance_ratio_ = fit.deviances.shares
        self.explained_variance_ = fit.score_variance
        self.deviance_, self.null_deviance_ = fit.deviances.full, fit.deviances.null
        self._store_result(fit.result)

    def _row_model(self) -> ModeRowModel:
        fit = self._fit
        reported = Reported(
            fit.problem.family, fit.coefficients, fit.score_variance, bool(self.fit_intercept)
        )
        return ModeRowModel(reported, fit.problem)

    def _begin_stream(self) -> tuple[BilinearRule, Shared]:
        return rule_of(self._fit, self._settings()), Shared(self._fit.result.shared.coefficients)

    def _store_stream(self, stream: Stream[Shared]) -> None:
        fit: EPCAFit = report(self._fit, self._settings(), stream)
        self._fit = fit
        store_coefficients(self, fit.coefficients)
        loadings, variance = fit.coefficients.loadings, fit.score_variance
        total = float(fit.deviances.shares.sum())
        self.explained_deviance_ratio_ = stream.averages.shares(
            loadings, variance, total, fit_intercept=self.fit_intercept
        )
        self.explained_variance_ = variance
