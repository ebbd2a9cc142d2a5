"""Exponential-family PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._compat import Interval, StrOptions
from anypca._typing import Floats
from anypca.engine import Block, check_data
from anypca.linalg import PackedCholesky
from anypca.models._base import LatentModel, check_n_samples, make_generator
from anypca.models._bilinear.kernel import Rows, open_block
from anypca.models._bilinear.rows import RowFit, check_solved, solve_rows
from anypca.models._bilinear.support import check_rows, choose_family, is_nonnegative
from anypca.models.epca._fit import EPCAFit, EPCAFitter, Options
from anypca.priors import Prior, Ridge


class EPCA(LatentModel):
    r"""Exponential-family PCA: the right likelihood for each column.

    The linear predictor of row i and column j is

    .. math:: \eta_{ij} = o_{ij} + b_j + c_i^\top B_j + z_i^\top w_j

    with offsets o, intercepts b, covariates c, scores z and loadings w; the column's family turns it into a
    distribution (identity, log or logit link). Scores and loadings maximise the penalised log-likelihood.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    family : str, Family, list or dict, default="auto"
        One family for all columns, one per column, or a dict from column to family. ``"auto"`` chooses by the
        values of each column and says why in ``family_report_``.
    ridge : float, default=1.0
        Strength of the quadratic penalty on scores *and* loadings. Together the two shrink the singular values
        of the predictor by ``ridge`` in units of information (they are a nuclear norm of that weight), where
        noise alone has singular values of about ``sqrt(n_samples) + sqrt(n_features)``: the default removes
        infinite estimates and little else. 0 is maximum likelihood.
    score_penalty : {"ridge", "l1"}, default="ridge"
        ``"l1"`` penalises absolute scores instead, so that each row uses few components (SpEPCA).
    l1_strength : float, default=1.0
        Weight of the absolute scores for ``score_penalty="l1"``.
    fit_intercept : bool, default=True
        Without it eta = 0 is the origin of the scores.
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

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings: orthonormal rows (unit-length rows for ``score_penalty="l1"``), in decreasing order of explained
        deviance, the largest entry of each positive.
    intercept_ : ndarray of shape (n_features,)
        b.
    coef_ : ndarray of shape (n_features, n_covariates)
        B.
    dispersion_ : ndarray of shape (n_features,)
        Dispersion of each column, estimated where the family leaves it open.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Share of the deviance of the model without components that each component explains: the deviance lost
        without it, scaled to sum to the share of the whole model, which is never above 1.
    explained_variance_ : ndarray of shape (n_components,)
        Mean square of the training scores.
    deviance_, null_deviance_ : float
        Scaled deviance with and without the components.
    family_ : Family
        The family used.
    family_report_ : FamilyReport or None
        What ``family="auto"`` chose, and why.
    n_components_, n_features_in_, n_iter_ : int
    objective_trace_ : ndarray of shape (n_iter_,)
        Penalised log-likelihood after each sweep, never decreasing.
    converged_ : bool
        Whether the scaled gradient fell below ``tol``.
    status_ : str
        How the fit ended.

    Notes
    -----
    Sweeps alternate one Newton step for all rows with one for all columns, halved where the objective would get
    worse, and extrapolate the columns' path (see `anypca.solvers`). Dispersions are estimated between converged
    fits. Time is proportional to ``n_samples * n_features * n_components**2``; memory beyond the table is a few
    blocks and ``n_features * n_components**2 / 2`` numbers.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "family": "no_validation",
        "ridge": [Interval(Real, 0, None, closed="left")],
        "score_penalty": [StrOptions({"ridge", "l1"})],
        "l1_strength": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }
    _synonyms: ClassVar[dict[str, str]] = {"lasso": "l1", "sparse": "l1", "l2": "ridge", "gaussian": "ridge"}

    def __init__(
        self,
        n_components: int = 2,
        *,
        family: Any = "auto",
        ridge: float = 1.0,
        score_penalty: str = "ridge",
        l1_strength: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.ridge = ridge
        self.score_penalty = score_penalty
        self.l1_strength = l1_strength
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, offset: Any = None, covariates: Any = None
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
        covariates : array-like of shape (n_samples, n_covariates) or None
            Known influences, taken out before the components.

        Returns
        -------
        self
        """
        with self._open_fit(X, sample_weight=sample_weight, offset=offset, covariates=covariates) as session:
            self._check_rank(session.data.n_samples, session.data.n_features)
            family, report = choose_family(self.family, session.data, session.executor, session.summary)
            fitter = EPCAFitter(
                session.data, session.executor, session.summary, family, self._options(), session.callback
            )
            fit = fitter.fit(make_generator(self.random_state))
        self.family_, self.family_report_ = family, report
        self._store(fit)
        self._warn_unless_converged(fit.result)
        return self

    def transform(
        self, X: Any, *, offset: Any = None, covariates: Any = None, return_std: bool = False
    ) -> Any:
        """Scores of rows under the fitted loadings, each row solved to its own convergence.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``
        return_std : bool
            Also return standard deviations from the curvature at the mode (Laplace).

        Returns
        -------
        scores : ndarray of shape (n_samples, n_components)
        std : ndarray of shape (n_samples, n_components)
            Only with ``return_std=True``.
        """
        check_is_fitted(self)
        prior = self._fit.problem.score_prior

        def project(block: Block) -> tuple[Floats, Floats]:
            rows, found = self._solve(block, prior)
            std = _standard_deviations(prior, found) if return_std else found.scores
            return found.scores.astype(rows.x.dtype), std.astype(rows.x.dtype)

        parts = self._map_rows(project, X, offset=offset, covariates=covariates)
        scores, std = (np.concatenate(part) for part in zip(*parts, strict=True))
        return (scores, std) if return_std else scores

    def inverse_transform(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Means of the entries given scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        eta = self._predict(X, offset, covariates)
        return self.family_.mean(eta)

    def impute(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """The table with missing entries replaced by their fitted means.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        prior = self._checked_fit().problem.score_prior

        def complete(block: Block) -> Floats:
            rows, found = self._solve(block, prior)
            if rows.observed is None:
                return rows.x
            eta = found.scores @ self.components_ + rows.features @ self._fit.coefficients.fixed.T
            means = self.family_.mean(eta if rows.offset is None else eta + rows.offset)
            return np.where(rows.observed, rows.x, means)

        return np.concatenate(self._map_rows(complete, X, offset=offset, covariates=covariates))

    def score_samples(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Marginal log-likelihood of each row, by Laplace's approximation.

        The scores are integrated out under a centred normal distribution with the variances of the training
        scores (``explained_variance_``), the one that ``sample`` draws from. Exact for gaussian columns.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        coefficients = self._checked_fit().coefficients
        variance = np.maximum(self.explained_variance_, 1e-12 * (1.0 + self.explained_variance_.max()))
        prior = Ridge(1.0 / variance)

        def integrate(block: Block) -> Floats:
            rows, found = self._solve(block, prior)
            base = self.family_.log_base(rows.x, coefficients.dispersion)
            if rows.observed is not None:
                base = np.where(rows.observed, base, 0.0)
            precision = PackedCholesky(found.curvature + prior.packed, len(variance))
            determinant = precision.log_determinant() + np.log(variance).sum()
            joint: Floats = found.value + base.sum(axis=1) - prior.value(found.scores)
            marginal: Floats = joint - 0.5 * determinant
            return marginal

        return np.concatenate(self._map_rows(integrate, X, offset=offset, covariates=covariates))

    def sample(
        self, n_samples: int = 1, *, offset: Any = None, covariates: Any = None, random_state: Any = None
    ) -> Floats:
        """Draw rows from the model: scores from a centred normal with the training scores' variances.

        Parameters
        ----------
        n_samples : int
        offset, covariates : as in ``fit``, for the new rows
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        self._checked_fit()
        rng = make_generator(random_state)
        shape = (check_n_samples(n_samples), self.n_components_)
        scores = rng.standard_normal(shape) * np.sqrt(self.explained_variance_)
        return self.family_.sample(self._predict(scores, offset, covariates), self.dispersion_, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_nonnegative(self.family)
        return tags

    def _options(self) -> Options:
        return Options(
            n_components=self.n_components,
            ridge=float(self.ridge),
            l1_strength=float(self.l1_strength) if self.score_penalty == "l1" else None,
            fit_intercept=bool(self.fit_intercept),
            max_iter=self.max_iter,
            tol=float(self.tol),
        )

    def _check_rank(self, n_samples: int, n_features: int) -> None:
        largest = min(n_samples, n_features)
        if self.n_components > largest:
            raise ValueError(
                f"n_components={self.n_components} is more than min(n_samples, n_features) = {largest} for a table "
                f"of shape ({n_samples}, {n_features}). Choose at most {largest}."
            )

    def _store(self, fit: EPCAFit) -> None:
        """Set the fitted attributes."""
        self._fit = fit
        self.components_ = fit.coefficients.loadings.T.copy()
        first = int(self.fit_intercept)
        fixed = fit.coefficients.fixed
        self.intercept_ = fixed[:, 0].copy() if first else np.zeros(self.n_features_in_)
        self.coef_ = fixed[:, first:].copy()
        self.dispersion_ = fit.coefficients.dispersion
        self.n_components_ = len(self.components_)
        self.explained_deviance_ratio_ = fit.explained
        self.explained_variance_ = fit.score_variance
        self.deviance_, self.null_deviance_ = fit.deviance, fit.null_deviance
        self.objective_trace_ = fit.result.trace
        self.n_iter_ = fit.result.n_iter
        self.converged_ = fit.result.converged
        self.status_ = fit.result.status.value

    def _checked_fit(self) -> EPCAFit:
        check_is_fitted(self)
        return self._fit

    def _solve(self, block: Block, prior: Prior) -> tuple[Rows, RowFit]:
        """Rows of a block and their modes under a score prior."""
        rows = open_block(block, fit_intercept=bool(self.fit_intercept))
        check_rows(self.family_, rows, block.start, getattr(self, "feature_names_in_", None))
        problem = replace(self._fit.problem, score_prior=prior, eps=float(np.finfo(rows.x.dtype).eps))
        found = solve_rows(problem, self._fit.coefficients, rows)
        check_solved(found, block.start)
        return rows, found

    def _predict(self, scores: Any, offset: Any, covariates: Any) -> Floats:
        """eta (n_samples, n_features) of scores."""
        scores = self._check_scores(scores)
        # A table without values: only its companions are of interest.
        shape = (len(scores), self.n_features_in_)
        data = check_data(np.broadcast_to(np.zeros(1), shape), offset=offset, covariates=covariates)
        self._check_companions(offset, data)
        return np.vstack(
            [self._predict_block(block, scores[block.start : block.stop]) for block in data.blocks]
        )

    def _predict_block(self, block: Block, scores: Floats) -> Floats:
        ones = np.ones((block.n_rows, int(self.fit_intercept)))
        eta = scores @ self.components_ + np.hstack([ones, block.covariates]) @ self._fit.coefficients.fixed.T
        offset = block.offset()
        return eta if offset is None else eta + offset


def _standard_deviations(prior: Prior, found: RowFit) -> Floats:
    precision = found.curvature + prior.packed if isinstance(prior, Ridge) else found.curvature
    inverse = PackedCholesky(precision, found.scores.shape[1]).inverse()
    variances: Floats = np.einsum("iaa->ia", inverse)
    return np.sqrt(variances)
