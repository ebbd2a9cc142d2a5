"""Generalised PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import StrOptions
from anypca.columns import FamilyChoice, is_auto
from anypca.families import Family
from anypca.models._arguments import check_rank
from anypca.models._context import FitContext
from anypca.models._row_methods import GenerativeModel
from anypca.models._validation import NOT_NEGATIVE, POSITIVE
from anypca.models.gpca._fit import GPCAFit, Settings, compare_bounds, fit_gpca
from anypca.models.gpca._reader import find_family, guess_family, usual_bound
from anypca.models.gpca._row_model import ProjectionRowModel
from anypca.priors import Prior, Ridge, find_prior


@dataclass(eq=False, repr=False)
class GPCA(GenerativeModel):
    r"""Generalised PCA: principal components of natural parameters, linear in the data.

    A saturated model has one natural parameter :math:`\tilde\theta_{ij}` per entry, which gives the entry as mean.
    Infinite parameters are replaced by a bound M: :math:`\pm M` for yes and no, :math:`\log x` for counts with -M for
    zero, x itself for real numbers. The predictor of a row is its projection,

    .. math:: \eta_i = \mu + U U^\top (\tilde\theta_i - \mu),

    with the orthonormal loadings U and the main effects :math:`\mu` of smallest deviance. With the gaussian family
    this is PCA. In contrast to `EPCA`, scores are not parameters: a matrix product gives the scores of new rows.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    family : str or Family, default="auto"
        ``"gaussian"``, ``"poisson"``, ``"bernoulli"`` or ``"binomial(n)"``, one for all columns. ``"auto"`` is
        bernoulli if all entries are 0 or 1, poisson if all are whole numbers >= 0, else gaussian.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    bound : float, "auto" or "cv", default="auto"
        M. ``"auto"``: 4 for yes and no, as in the authors' software; log(8/3) for counts, so that a zero has the
        logarithm of 3/8 (Anscombe 1948). ``"cv"``: of 1, 2, 3, 4, 6, 8 and 10 the bound with the smallest deviance of
        held-out entries (five folds, 35 fits). Not used by the gaussian family.
    penalty : str, Prior or None, default=None
        Penalty of the loadings. ``"l1"`` (absolute values) and ``"scad"`` (smoothly clipped, without shrinking large
        loadings) make single loadings zero. ``"group"`` (norms of the rows of loadings) removes columns from all
        components. A `anypca.priors.Prior` must have one strength for all components. ``"ridge"`` has no effect,
        since it is constant for orthonormal components.
    alpha : float, default=0.01
        Weight of the penalty, as a share of the null deviance.
    fit_intercept : bool, default=True
        Without it the main effects are 0.
    max_iter : int, default=1000
        Largest number of iterations.
    tol : float, default=1e-5
        Stop when the Newton decrement per observed entry, a scaled gradient, is below this.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    verbose : int, default=0
        Log each iteration to the logger ``anypca``.
    random_state : int, RandomState or None, default=0
        Seed of the held-out entries, and of the initial subspace iteration with more than 500 rows and columns.
    warm_start : bool, default=False
        Start where the last fit of this object ended, if the numbers of columns and components are the same.
    init : fitted estimator of this class or None, default=None
        Start from another model, fitted with ``warm_start=True``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings, orthonormal rows in decreasing order of explained deviance, the largest entry of each positive.
        Without a penalty scores are uncorrelated; with one some loadings are exactly 0.
    intercept_ : ndarray of shape (n_features,)
        Main effects, such that training scores have mean 0.
    bound_ : float or None
        The bound used; None for the gaussian family, which needs none.
    bound_deviances_ : dict or None
        With ``bound="cv"``: deviance per held-out entry for each bound.
    dispersion_ : float
        Variance of the noise for the gaussian family, else 1.
    calibration_slope_ : ndarray of shape (n_columns,) or None
        Factor by which ``impute`` shrinks expectations towards the column means, see `EPCA`.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Share of a column's deviance that each component explains, mean over the columns that vary. In each column it
        is the deviance lost without the component, scaled to sum to the share of the whole model.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the training scores.
    deviance_, null_deviance_ : float
        Deviance with and without the components, of dispersion 1.
    resolution_ : ndarray of shape (n_features,)
        Measurement step of each column: as given, or detected from the values (up to four decimals), or else a
        thousandth of the standard deviation; see ``entry_log_likelihood``.
    layout_ : Layout
        Maps input columns to model columns; see `EPCA`.
    family_ : Family
        The family used.
    n_components_, n_features_in_, n_iter_ : int
    objective_trace_ : ndarray of shape (n_iter_,)
        Minus half the deviance, less the penalty, after each iteration; never decreasing.
    converged_ : bool
        Whether the scaled gradient fell below ``tol``.
    status_ : str
        How the fit ended.

    See Also
    --------
    anypca.EPCA : Scores as parameters, more families, offsets and covariates.
    anypca.SPCA : Sparse components of real numbers.

    Notes
    -----
    Scores of a row with missing entries are least-squares coefficients, with missing entries replaced by column means
    of half the weight.

    Each iteration maximises a quadratic approximation of the log-likelihood with the curvature of each column. A step
    is halved if the deviance does not decrease, so that it decreases for every family, even for the unbounded curvature
    of the Poisson family. The iterates are extrapolated. With a penalty the objective is

    .. math:: \tfrac12 D(U, \mu) + \tfrac12 \alpha D_0 \sum_j p(\sqrt d u_j) / \sqrt d, \qquad U^\top U = I,

    where D is the deviance, :math:`D_0` the deviance without components, and :math:`u_j` the loadings of column j of
    d. In a component with equal loadings, :math:`\sqrt d u_j` is 1, where ``"scad"`` becomes flat; ``"l1"`` and
    ``"group"`` do not depend on this scale. The fit starts at the model without penalty. For a penalty of single
    loadings it alternates between thresholding columns and rotating pairs of columns; both keep the loadings
    orthonormal. For other penalties all loadings change together. The fit ends at a local optimum; as with other
    sparse methods there can be several.

    Time is proportional to ``n_samples * n_features * n_components**2``; memory beyond the table is a few blocks,
    ``n_features * n_components**2 / 2`` numbers, and at the start ``min(n_samples, n_features)**2`` if that is at most
    500**2 (4000**2 for the gaussian family).

    References
    ----------
    A. J. Landgraf, Y. Lee (2020). Generalized principal component analysis: projection of saturated model parameters.
    Technometrics 62.
    L. Smallman, A. Artemiou, J. Morgan (2018). Sparse generalised principal component analysis. Pattern Recognition 83.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import GPCA
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.random((200, 10)) < 1 / (1 + np.exp(-3 * rng.normal(size=(200, 1))))
    >>> model = GPCA(1, family="bernoulli").fit(answers)
    >>> bool(np.all(model.components_ > 0.2))
    True
    """

    _is_calibrated: ClassVar[bool] = True
    _takes_entry_weight: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bound": [StrOptions({"auto", "cv"}), POSITIVE],
        "penalty": "no_validation",
        "alpha": [NOT_NEGATIVE],
    }

    n_components: int = 2
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    family: Any = "auto"
    resolution: Any = None
    bound: float | str = "auto"
    penalty: str | Prior | None = None
    alpha: float = 0.01
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-5
    random_state: Any = 0

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
        X : table of shape (n_samples, n_features)
            numpy, pandas, polars, scipy.sparse, memory map or Dask array; NaN is a missing entry.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None
            A row of weight 2 counts as two equal rows.
        entry_weight : array-like of shape (n_samples, n_features) or None
            Weights of the entries' log-likelihoods, with mean 1. Weight 0 makes an entry missing; weight 2 has the
            effect of observing it twice. Not for Dask arrays.
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit. After a kill or an interrupt the same call resumes from it. The file is
            removed at the end of the fit.

        Returns
        -------
        self
        """
        weights = {"sample_weight": sample_weight, "entry_weight": entry_weight}
        with self._open_fit(X, **weights, checkpoint=checkpoint) as session:
            check_rank(self.n_components, session.data)
            family = find_family(session)
            settings = self._settings()
            bound, deviances = self._find_bound(session, family)
            fit = fit_gpca(session, family, settings, bound)
            self.family_ = family
            self.bound_, self.bound_deviances_ = None if family.has_units else bound, deviances
            self._store(fit)
        self._warn_unless_converged(fit.result)
        return self

    def _choose_families(self, session: FitContext) -> FamilyChoice | None:
        if is_auto(self.family):
            return FamilyChoice(guess_family(session.summary), None)
        return super()._choose_families(session)

    def _settings(self) -> Settings:
        given = self.penalty is not None
        prior = find_prior(self.penalty, "penalty", self.n_components) if given else None
        if isinstance(prior, Ridge) and prior.weight is not None:
            prior = None  # it is the same for all orthonormal loadings
        return Settings(self.n_components, prior, float(self.alpha), bool(self.fit_intercept))

    def _find_bound(self, session: FitContext, family: Family) -> tuple[float, dict[float, float] | None]:
        """The bound and, if it was chosen by cross-validation, the deviances."""
        if family.has_units:
            return np.inf, None
        if not isinstance(self.bound, str):
            return float(self.bound), None
        if self.bound == "auto":
            return usual_bound(family), None
        deviances = compare_bounds(self, session, family)
        return min(deviances, key=lambda bound: deviances[bound], default=usual_bound(family)), deviances

    def _store(self, fit: GPCAFit) -> None:
        """Set the fitted attributes."""
        self._fit = fit
        self.components_ = fit.subspace.loadings.T.copy()
        self.intercept_ = fit.subspace.intercept
        self.n_components_ = len(self.components_)
        lost = float(self.fit_intercept)
        self.explained_variance_ = fit.score_squares / max(fit.weight - lost, 1.0)
        self.explained_deviance_ratio_ = fit.deviances.shares
        self.deviance_, self.null_deviance_ = fit.deviances.full, fit.deviances.null
        self.dispersion_ = self._dispersion(fit)
        self._store_result(fit.result)

    def _dispersion(self, fit: GPCAFit) -> float:
        """Noise variance of gaussian columns: the deviance per degree of freedom, as in scikit-learn's PCA."""
        given = self.family_.fixed_dispersion
        if given is not None:
            return given
        k, p = self.components_.shape
        freedom = (fit.entries / p - float(self.fit_intercept)) * (p - k)
        smallest = np.finfo(float).eps * max(fit.deviances.null / fit.entries, np.finfo(float).tiny)
        return max(fit.deviances.full / freedom if freedom > 0 else 0.0, smallest, np.finfo(float).tiny)

    @property
    def _has_sparse_loadings(self) -> bool:  # type: ignore[override]
        return self.penalty is not None

    def _row_model(self) -> ProjectionRowModel:
        dispersion = np.full(self.layout_.n_columns, self.dispersion_)
        return ProjectionRowModel(self._fit.subspace, self._fit.reader, dispersion, self.explained_variance_)
