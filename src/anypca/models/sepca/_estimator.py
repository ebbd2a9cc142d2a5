"""Simple exponential-family PCA: chooses its own dimension."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._compat import Interval, StrOptions
from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import PackedCholesky, fix_signs
from anypca.models._base import Session, make_generator
from anypca.models._bilinear.estimator import BilinearModel
from anypca.models._bilinear.kernel import Rows
from anypca.models._bilinear.rows import warn_unsolved
from anypca.models._bilinear.support import choose_family
from anypca.models.sepca._fit import VariationalFit, VariationalFitter, VariationalOptions
from anypca.models.sepca._posterior import Scores

# More starting components than this rarely matter and cost with their square.
_DEFAULT_COMPONENTS = 20


class SePCA(BilinearModel):
    r"""Exponential-family PCA that chooses its number of components.

    The predictor is that of `EPCA`, with scores :math:`z_i \sim N(0, I)` and a separate prior precision
    :math:`\alpha_k` for the loadings of each component (automatic relevance determination). The posterior of scores
    and loadings is approximated by normal distributions of rows and columns; components without signal lose
    their loadings and leave. Neighbouring dimensions are then compared by the bound on the evidence.

    Parameters
    ----------
    max_components : int or None, default=None
        Number of components to start from; None is 20, or what the table allows.
    family : str, Family, list or dict, default="auto"
        As in `EPCA`. Counts get the negative binomial under ``"auto"``, whose limit is Poisson: over-dispersion
        that is not modelled is taken for components.
    inference : {"vb"}, default="vb"
        The variational posterior.
    dispersion : {"auto", "feature"} or float, default="auto"
        ``"auto"`` estimates open dispersions between converged fits: one for the columns of a family, and one for each
        column where the residuals call for it. Counts that vary less than Poisson counts (judged against a table
        drawn from the fit) become `ScaledPoisson`. ``"feature"`` gives each column a scale from the start; a number
        fixes open dispersions.
    fit_intercept : bool, default=True
        Without it the model spends a component on the means.
    max_iter : int, default=500
        Largest number of sweeps of one fit to convergence.
    tol : float, default=1e-4
        Stop when the Newton decrement per observed entry, a scaled gradient, is below this.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    verbose : int, default=0
        Log each iteration to the logger ``anypca``.
    random_state : int, RandomState or None, default=0
        Seed of the start.

    Attributes
    ----------
    n_components_ : int
        The chosen dimension, possibly 0.
    components_ : ndarray of shape (n_components_, n_features)
        Posterior means of the loadings, largest first, the largest entry of each positive. Scores have unit variance,
        so loadings carry the sizes.
    components_std_ : ndarray of shape (n_components_, n_features)
        Posterior standard deviations of the loadings.
    alpha_ : ndarray of shape (n_components_,)
        Prior precisions of the loadings.
    intercept_, coef_, dispersion_ : ndarray
        As in `EPCA`.
    evidence_ : float
        Lower bound of the log evidence (with all constants; comparable across dimensions and families on the same
        table; for negative binomial columns an approximation).
    evidence_by_rank_ : dict
        The same for the dimensions that were compared.
    pruning_path_ : tuple of Removal
        Which component left when, at what alpha, for what reason.
    explained_deviance_ratio_ : ndarray of shape (n_components_,)
    explained_variance_ : ndarray of shape (n_components_,)
        Ones: the prior variance of the scores, which ``sample`` draws from.
    family_, family_report_, n_features_in_, n_iter_, objective_trace_, converged_, status_
        As in `EPCA`; the trace is that of the bound in the final fit.

    References
    ----------
    J. Li, D. Tao (2013). Simple exponential family PCA. IEEE Transactions on Neural Networks and Learning Systems.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import SePCA
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.exp(rng.normal(size=(150, 2)) @ rng.normal(size=(2, 20)) + 1))
    >>> SePCA(max_components=6).fit(counts).n_components_
    2
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_components": [None, Interval(Integral, 0, None, closed="left")],
        "family": "no_validation",
        "inference": [StrOptions({"vb"})],
        "dispersion": [StrOptions({"auto", "feature"}), Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_components: int | None = None,
        *,
        family: Any = "auto",
        inference: str = "vb",
        dispersion: str | float = "auto",
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.max_components = max_components
        self.family = family
        self.inference = inference
        self.dispersion = dispersion
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, offset: Any = None, covariates: Any = None
    ) -> Self:
        """Fit the model and choose its dimension.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            As in `EPCA.fit`; NaN is a missing entry.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None
        covariates : array-like of shape (n_samples, n_covariates) or None

        Returns
        -------
        self
        """
        with self._open_fit(X, sample_weight=sample_weight, offset=offset, covariates=covariates) as session:
            family, report = choose_family(self.family, session.data, session.executor, session.summary)
            fitter = VariationalFitter(
                session.data,
                session.executor,
                session.summary,
                family,
                self._options(session),
                session.callback,
            )
            fit = fitter.fit(make_generator(self.random_state))
            self._store(fit, fitter)
        self.family_, self.family_report_ = fitter.family, report
        self._warn_unless_converged(fit.result)
        return self

    def score_samples(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Lower bound of the log-likelihood of each row under the posterior of the loadings.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)

        def bound(block: Block) -> Floats:
            rows = self._open_rows(block)
            scores = self._posterior(rows, block.start)
            base = self.family_.log_base(rows.x, self.dispersion_)
            if rows.observed is not None:
                base = np.where(rows.observed, base, 0.0)
            total: Floats = self._fit.problem.row_bounds(rows, self._fit.loadings, scores) + base.sum(axis=1)
            return total

        return np.concatenate(self._map_rows(bound, X, offset=offset, covariates=covariates))

    def _options(self, session: Session) -> VariationalOptions:
        data = session.data
        largest = min(data.n_samples, data.n_features) - 1
        wanted = _DEFAULT_COMPONENTS if self.max_components is None else self.max_components
        return VariationalOptions(
            max_components=max(min(wanted, largest), 0),
            fit_intercept=bool(self.fit_intercept),
            max_iter=self.max_iter,
            tol=float(self.tol),
            dispersion=None if isinstance(self.dispersion, str) else float(self.dispersion),
            by_column=self.dispersion == "feature",
        )

    def _store(self, fit: VariationalFit, fitter: VariationalFitter) -> None:
        """Set the fitted attributes, components in order of the deviance they explain."""
        loadings = fit.loadings
        k = loadings.n_components
        deviances = fitter.deviances(fit)
        order = np.argsort(-deviances.without, kind="stable")
        signs = fix_signs(loadings.mean[:, :k].T)[order]
        self._order, self._signs = order, signs
        self._fit = replace(fit, local=())
        self._store_coefficients(loadings.mean[:, order] * signs, loadings.mean[:, k:], loadings.dispersion)
        self.components_std_ = np.sqrt(np.einsum("jaa->aj", loadings.covariance[:, :k, :k]))[order]
        self.alpha_ = loadings.alpha[order]
        self.evidence_ = float(fit.result.trace[-1])
        self.evidence_by_rank_ = fit.evidence_by_rank
        self.pruning_path_ = fit.removals
        self.explained_variance_ = np.ones(k)
        self.explained_deviance_ratio_ = deviances.shares[order]
        self.deviance_, self.null_deviance_ = deviances.full, deviances.null
        self._store_result(fit.result)

    def _posterior(self, rows: Rows, start: int) -> Scores:
        problem = replace(self._fit.problem, eps=float(np.finfo(rows.dtype).eps))
        scores, solved = problem.solve_rows(rows, self._fit.loadings)
        warn_unsolved(solved, start)
        return scores

    def _project(self, rows: Rows, start: int, *, with_std: bool) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations."""
        found = self._posterior(rows, start)
        scores = found.mean[:, self._order] * self._signs
        if not with_std:
            return scores, scores
        inverse = PackedCholesky(found.precision, found.mean.shape[1]).inverse()
        return scores, np.sqrt(np.einsum("iaa->ia", inverse))[:, self._order]
