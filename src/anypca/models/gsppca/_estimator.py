"""Globally sparse probabilistic PCA as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import StrOptions
from anypca.families import Gaussian
from anypca.models._arguments import read_settings
from anypca.models._posterior_model import PosteriorModel
from anypca.models._selector import SelectorMethods
from anypca.models._validation import AT_LEAST_ONE, NOT_NEGATIVE
from anypca.models.gsppca._evidence import EVIDENCES
from anypca.models.gsppca._fit import Fitted, Settings, fit_globally_sparse
from anypca.models.gsppca._noise import NOISE
from anypca.models.gsppca._row_model import SparseRowModel

# Critical value of a test at the level of 0.1 %.
_CRITICAL = 3.1


@dataclass(eq=False, repr=False)
class GSPPCA(SelectorMethods, PosteriorModel):
    r"""Globally sparse probabilistic PCA: select the variables of the principal subspace.

    The rows are modelled as ``x = mean + v * (W y) + noise`` with a set v of active variables that is the same for
    all components, Gaussian loadings W and Gaussian latent vectors y. The set is found in three steps: variational
    EM on a relaxed model, in which v is replaced by relevances u between 0 and 1; the composite evidence of the
    nested sets of the q most relevant variables, q = 1, 2, ...; PCA on the variables of the best set.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Latent dimension. It may exceed the number of rows and of selected variables; fewer components are then
        returned. ``"auto"``: the dimension with the largest variational evidence (minus the free energy of the
        relaxed model) among 1, 2, ..., 10, 12, ..., 20, 25, ..., 50, 60, ..., 100; the search ends when three in a
        row have less than the best.
    n_features_to_select : int or "evidence", default="evidence"
        Number of variables. ``"evidence"``: the number with the largest composite evidence, times the prior.
    noise : {"bc", "ml", "jl"}, default="bc"
        Noise variance of the inactive variables. ``"ml"``: mean of the smallest eigenvalues of the covariance, far
        too small if n_components is near the number of rows. ``"bc"``: the same, corrected for its bias.
        ``"jl"``: median of the variances of the variables, right if most of them are inactive.
    prior : {"uniform", "sparse"}, default="uniform"
        Prior of the set of active variables. ``"uniform"``: all sets are equally probable. ``"sparse"``: each
        variable is active with the probability under which more than n_samples are active in 5 % of the cases
        (at most 1/2: it differs from uniform only when variables outnumber rows about twice).
    evidence : {"noiseless", "noisy"}, default="noiseless"
        Composite evidence of the sets. ``"noiseless"``: its limit without noise in the active variables, in closed
        form. ``"noisy"``: these have the noise of the others too, and an integral of one variable is done by
        quadrature; it gains little where the noise is well estimated, and takes longer.
    scale : bool, default=False
        Divide the variables by their standard deviations first, for variables in different units. The ranking then
        rests on correlations alone and remains good. The composite evidence compares variances, which scaling makes
        equal: the number it chooses is no longer reliable, so give ``n_features_to_select`` as well.
    tol : float, default=1e-4
        The EM stops when an update changes relevances, noise and loadings by at most this; each is a Newton step
        in its block, so this bounds the scaled gradient.
    max_iter : int, default=2000
        Largest number of EM iterations.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the iterations to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=None
        Start of the iterative eigensolver, which is used only when rows and columns both exceed 4000.
    warm_start : bool, default=False
        Start where the last fit of this object ended, if the numbers of columns and components are the same.
    init : fitted estimator of this class or None, default=None
        Where to start otherwise: at the end of a fit that was made with ``warm_start=True``.

    Attributes
    ----------
    support_ : ndarray of shape (n_features,)
        True for the selected variables.
    n_features_selected_ : int
        Number of selected variables.
    relevance_ : ndarray of shape (n_features,)
        The relevances u: root mean square loadings relative to the largest, 0 for constant columns.
    ranking_ : ndarray of shape (n_varying,)
        Columns that are not constant, most relevant first.
    evidence_path_ : ndarray of shape (n_varying,)
        Composite evidence of the sets of the 1, 2, ... most relevant variables, without prior.
    inclusion_probability_ : float
        Prior probability that a variable is active; 1/2 for the uniform prior.
    components_ : ndarray of shape (n_components_, n_features)
        Principal axes of the selected variables, orthonormal, 0 outside the support; the largest-magnitude entry
        of each is positive.
    n_components_ : int
        Number of components: the latent dimension, or less if fewer variables are selected or X has lower rank.
    latent_dimension_ : int
        The latent dimension of the model.
    mean_ : ndarray of shape (n_features,)
        Column means.
    intercept_ : ndarray of shape (n_features,)
        The same as ``mean_``.
    scale_ : ndarray of shape (n_features,)
        What the columns were divided by; 1 unless ``scale``.
    explained_variance_ : ndarray of shape (n_components_,)
        Variances along the components, with divisor n - 1.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a share of the variance of all variables, selected or not.
    explained_deviance_ratio_ : ndarray of shape (n_components_,)
        Equal to ``explained_variance_ratio_``: for Gaussian data the deviance is the sum of squares.
    noise_variance_ : float
        Noise variance of the inactive variables (of the scaled ones if ``scale``).
    n_components_grid_ : ndarray of shape (n_tried,)
        Latent dimensions that were tried.
    evidence_grid_ : ndarray of shape (n_tried,)
        Variational evidence of each, comparable between dimensions.
    n_iter_ : int
        Number of EM iterations.
    converged_ : bool
        Whether the EM reached ``tol``.
    status_ : str
        How the EM ended, in words.
    objective_trace_ : ndarray of shape (n_iter_,)
        Minus the free energy of the relaxed model after each iteration, never decreasing: a lower bound of its log
        evidence.
    resolution_ : ndarray of shape (n_features,)
        Step with which each column is recorded; ``entry_log_likelihood`` gives probabilities of steps.
    family_ : Family
        Gaussian.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    PPCA : The same model with all variables active; fills missing entries.

    Notes
    -----
    *Composite evidence.* In the limit of no noise in the active variables the marginal density of one row is
    closed: with q active variables, latent dimension d, prior variance :math:`\alpha` and R the norm of the active
    part,

    .. math:: \log p = -\tfrac q2\log 2\pi + (1-\tfrac d2)\log 2 - \log\Gamma(\tfrac d2)
              - \tfrac{q+d}4\log\alpha + \tfrac{d-q}2\log R + \log K_{|q-d|/2}(R/\sqrt\alpha)
              + \log N(x_{inactive}; 0, \sigma^2 I).

    The criterion is the sum over rows, at the best :math:`\alpha`. All rows share W, so this is a composite
    (independence) likelihood and not the joint evidence: it sees the rows only through R and the sum of squares
    of the inactive variables, and correlations between variables enter through the ranking alone.

    *With noise in the active variables* (``evidence="noisy"``) the density of the active part of a row is
    :math:`\int N(x; 0, (\sigma^2 + \alpha\tau) I)\, \chi^2_d(\tau)\, d\tau`, the positive form of theorem 1, whose
    printed exponent :math:`-\sigma^2u^2` lacks a factor 1/2.

    *Cost.* The EM takes 2 m p d multiplications per iteration on a rotated table of m = min(n, p) rows, one d x d
    eigenproblem, and no array larger than p x d. The path takes two to three evaluations of two Bessel functions
    per row and cardinality.

    *As a selector in a pipeline.* ``transform`` returns scores. To pass the selected variables on instead, use
    ``SelectFromModel(GSPPCA(), importance_getter="support_", threshold=0.5)`` of scikit-learn.

    References
    ----------
    Mattei, Bouveyron and Latouche (2016), Globally sparse probabilistic PCA, AISTATS: theorem 2 (evidence, here with
    the order (q - d)/2 of the Bessel function in place of (p - d)/2) and proposition 1 (EM, here with
    1/sigma^2 in place of 1/sigma).
    Passemier, Li and Yao (2017), On estimation of the noise variance in high dimensional probabilistic principal
    component analysis, J. R. Statist. Soc. B 79 (``noise="bc"``).
    Johnstone and Lu (2009), On consistency and sparsity for principal components analysis in high dimensions,
    J. Am. Statist. Assoc. 104 (``noise="jl"``).

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import GSPPCA
    >>> rng = np.random.default_rng(0)
    >>> W = np.zeros((12, 2))
    >>> W[:4] = [[1, 1], [1, -1], [2, 0], [0, 2]]
    >>> X = rng.normal(size=(60, 2)) @ W.T + 0.2 * rng.normal(size=(60, 12))
    >>> GSPPCA(n_components=2).fit(X).get_support(indices=True)
    array([0, 1, 2, 3])
    """

    _needs_every_entry = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [AT_LEAST_ONE, StrOptions({"auto"})],
        "n_features_to_select": [AT_LEAST_ONE, StrOptions({"evidence"})],
        "noise": [StrOptions(set(NOISE))],
        "prior": [StrOptions({"uniform", "sparse"})],
        "evidence": [StrOptions(set(EVIDENCES))],
        "scale": ["boolean"],
        "tol": [NOT_NEGATIVE],
    }

    n_components: int | str = "auto"
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    n_features_to_select: int | str = "evidence"
    noise: str = "bc"
    prior: str = "uniform"
    evidence: str = "noiseless"
    scale: bool = False
    tol: float = 1e-4
    max_iter: int = 2000
    random_state: Any = None

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, checkpoint: Any = None) -> Self:
        """Rank the variables, select a subset, and compute its principal components.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            Without missing entries.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row.
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit. After a kill or an interrupt the same call resumes from it. The file is
            removed at the end of the fit.

        Returns
        -------
        self : GSPPCA
        """
        with self._open_fit(X, sample_weight=sample_weight, checkpoint=checkpoint) as session:
            fitted = fit_globally_sparse(session, read_settings(Settings, self))
            self._store(fitted)
        self._warn_unless_converged(fitted.result)
        self._warn_if_noise_is_uncertain(fitted)
        return self

    def _warn_if_noise_is_uncertain(self, fitted: Fitted) -> None:
        """Warn if the number of columns rests on a noise variance that does not hold or that few rows determine."""
        if self.n_features_to_select != "evidence":
            return
        # Eigenvalues that are more equal than noise makes them: components have taken some of the noise.
        is_spent = 2 * self.latent_dimension_ >= fitted.table.n_rows - 1 or fitted.sphericity < -_CRITICAL
        if fitted.n_left <= 1 or (is_spent and fitted.n_selected == len(fitted.ranking)):
            cause = (
                f"With {self.latent_dimension_} components the noise variance is uncertain: it is estimated from "
                f"{max(fitted.n_left, 0)} eigenvalues, and an estimate that is too small selects too many columns. "
                "Use fewer components, noise='jl' if most columns are inactive, or give n_features_to_select"
            )
        elif fitted.sphericity > _CRITICAL:
            cause = (
                "The noise of the columns is not equal, or more components are needed (test for sphericity, "
                f"z = {fitted.sphericity:.1f}), but this number rests on one noise variance. Give n_features_to_select"
            )
        else:
            return
        warnings.warn(
            f"GSPPCA selected {fitted.n_selected} of {len(fitted.ranking)} columns. {cause}; the ranking depends less "
            "on the noise.",
            UserWarning,
            stacklevel=3,
        )

    def _store(self, fitted: Fitted) -> None:
        """Set the fitted attributes."""
        principal, posterior, n_features = fitted.principal, fitted.result.shared, len(fitted.table.mean)
        self.family_ = Gaussian()
        self.support_ = np.zeros(n_features, dtype=bool)
        self.support_[fitted.ranking[: fitted.n_selected]] = True
        self.n_features_selected_ = fitted.n_selected
        self.relevance_ = np.zeros(n_features)
        self.relevance_[fitted.table.varying] = posterior.relevance
        self.ranking_ = fitted.ranking
        self.evidence_path_ = fitted.path
        self.inclusion_probability_ = fitted.inclusion
        self.components_ = principal.components
        self.n_components_ = len(principal.components)
        self.latent_dimension_ = posterior.loadings.shape[1]
        self.mean_ = self.intercept_ = fitted.table.mean
        self.scale_ = fitted.table.scale
        self.explained_variance_ = principal.variances
        self.explained_variance_ratio_ = principal.shares
        self.explained_deviance_ratio_ = self.explained_variance_ratio_
        self.noise_variance_ = principal.noise
        self.n_components_grid_, self.evidence_grid_ = fitted.grid, fitted.grid_evidence
        self._store_result(fitted.result)
        self._principal = principal

    _has_sparse_loadings = True

    @property
    def _description(self) -> dict[str, Any]:
        # The estimated noise variance applies to the dropped columns; the noise of selected columns is not estimated.
        return {**super()._description, "dispersion": None}

    def _row_model(self) -> SparseRowModel:
        return SparseRowModel(self._principal, self.mean_, self.scale_)
