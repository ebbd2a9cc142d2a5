"""Structured sparse PCA as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import Interval, StrOptions
from anypca.families import Gaussian
from anypca.models._arguments import check_rank, read_settings
from anypca.models._base import LatentModel
from anypca.models._context import FitContext
from anypca.models._gaussian.principal import count_rows
from anypca.models._gaussian.regression import RegressionRowModel
from anypca.models._selector import SelectorMethods
from anypca.models._validation import AT_LEAST_ONE, NOT_NEGATIVE
from anypca.models.sspca._fit import Settings, SparsePattern, fit_patterns


@dataclass(eq=False, repr=False)
class SSPCA(SelectorMethods, LatentModel):
    r"""Structured sparse PCA: components that share few patterns of non-zero loadings.

    Scores U and loadings V minimise

    .. math:: \frac{1}{2 n p} \|X - U V^\top\|^2 + \lambda \sum_g \sum_j \|V_{jg}\|_2

    with the components split into groups g, one for each pattern: a variable enters all components of a group or
    none. One pattern selects variables for all components together, as many patterns as components is plain sparse
    PCA. The components that are reported are fitted without penalty on the selected variables.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    n_patterns : int, default=1
        Number of patterns; components are shared out evenly.
    penalty : "auto" or float, default="auto"
        lambda, in the units of the columns. ``"auto"`` chooses by cross-validation along a path of penalties.
    n_features_to_select : int or None, default=None
        Select this number of variables instead; ``penalty`` is not used then.
    constraint : {"ball", "orthogonal"}, default="ball"
        What holds the size of the scores of a group: squares that sum to at most its number of components, as
        published, or orthonormal columns, which is nearer to a ranking by variance.
    exponent : float, default=1.0
        a in (0, 1] of the penalty :math:`(\sum_j \|V_{jg}\|^a)^{1/a}`: below 1 it is not convex and shrinks large
        loadings less.
    criterion : {"press", "row"}, default="press"
        How ``"auto"`` measures error on rows left out. ``"press"``: each cell is predicted from the others of its row.
        ``"row"``: distance of the row from the span of the loadings, as published; it keeps more, so the sparsest
        pattern within one standard error is taken.
    n_folds : int, default=5
        Number of folds of rows.
    n_penalties : int, default=30
        Length of the path.
    tol : float, default=1e-6
        The descent at the chosen penalty ends when a sweep changes the loadings by at most this, relative to their
        size. Those along the path, whose points are starts and supports, end at 1e-4 or after 100 sweeps.
    max_iter : int, default=2000
        Largest number of sweeps of one descent.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the sweeps to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit rows, zero outside of their pattern; orthogonal within a pattern, the largest entry of each positive. Those
        of the first pattern come first. A row of zeros where a pattern has fewer variables than components.
    support_ : ndarray of shape (n_features,)
        True for variables of some pattern.
    patterns_ : ndarray of shape (n_patterns, n_features)
        True for the variables of each pattern.
    relevance_ : ndarray of shape (n_features,)
        Lengths of the rows of penalised loadings relative to the longest; 0 where nothing is left.
    ranking_ : ndarray of shape (n_features,)
        Columns by relevance, the most relevant first.
    n_features_selected_ : int
        Number of variables of some pattern.
    penalty_ : float
        The lambda that was used.
    penalty_path_, cv_errors_ : ndarray of shape (n_penalties,) and (n_folds, n_penalties), or None
        What ``"auto"`` compared.
    penalised_components_ : ndarray of shape (n_components, n_features)
        The penalised loadings, rotated within each group to their principal axes.
    mean_, intercept_ : ndarray of shape (n_features,)
        Column means.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each score beyond the scores before it, with divisor n - 1.
    explained_variance_ratio_, explained_deviance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the variance of all variables.
    n_components_, n_features_in_, n_iter_ : int
    objective_trace_ : ndarray of shape (n_iter_,)
        Minus the penalised objective after each sweep of the last descent, never decreasing.
    converged_ : bool
    status_ : str

    See Also
    --------
    GSPPCA : One pattern, chosen by evidence instead of cross-validation.
    SPCA : A pattern for each component, by elastic net.

    Notes
    -----
    Loadings and scores of a group are minimised in turn, each exactly (a root of one variable per row), so the
    objective never rises. All columns of the scores are combinations of columns of the table: rows enter through
    products with ``X'X`` only. Penalties are followed from small to large, each descent starting from the one before:
    descents that start dense end lower. Cross-validation gathers the rows in memory.

    References
    ----------
    Jenatton, Obozinski and Bach (2010), Structured sparse principal component analysis, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import SSPCA
    >>> rng = np.random.default_rng(0)
    >>> W = np.zeros((12, 2))
    >>> W[:4] = [[1, 1], [1, -1], [2, 0], [0, 2]]
    >>> X = rng.normal(size=(60, 2)) @ W.T + 0.2 * rng.normal(size=(60, 12))
    >>> SSPCA(n_components=2).fit(X).get_support(indices=True)
    array([0, 1, 2, 3])
    """

    _needs_every_entry = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_patterns": [AT_LEAST_ONE],
        "penalty": [StrOptions({"auto"}), NOT_NEGATIVE],
        "n_features_to_select": [AT_LEAST_ONE, None],
        "constraint": [StrOptions({"ball", "orthogonal"})],
        "exponent": [Interval(Real, 0, 1, closed="right")],
        "criterion": [StrOptions({"press", "row"})],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "n_penalties": [Interval(Integral, 2, None, closed="left")],
        "tol": [NOT_NEGATIVE],
    }

    n_components: int = 2
    _: KW_ONLY
    n_patterns: int = 1
    penalty: float | str = "auto"
    n_features_to_select: int | None = None
    constraint: str = "ball"
    exponent: float = 1.0
    criterion: str = "press"
    n_folds: int = 5
    n_penalties: int = 30
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Select variables and find their components.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            Without missing entries.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row.

        Returns
        -------
        self : SSPCA
        """
        with self._open_fit(X, sample_weight=sample_weight) as session:
            self._check_combination(session)
            pattern = fit_patterns(session, read_settings(Settings, self))
            self._store(pattern, session)
        self._warn_unless_selected()
        self._warn_unless_converged(pattern.result)
        return self

    def _check_combination(self, session: FitContext) -> None:
        """Raise on parameters that are right each by itself, but not together or for this table."""
        count_rows(session, type(self).__name__)
        check_rank(self.n_components, session.data)
        if self.n_patterns > self.n_components:
            raise ValueError(
                f"n_patterns={self.n_patterns} is more than n_components={self.n_components}: a pattern needs a "
                "component. Use fewer patterns or more components."
            )
        n_varying = int(np.count_nonzero(session.summary.variance))
        wanted = self.n_features_to_select
        if wanted is not None and wanted > n_varying:
            raise ValueError(
                f"n_features_to_select={wanted} must be at most {n_varying}, the number of columns of X that are not "
                f"constant; X has {session.data.n_features} columns. Ask for fewer, or for n_features_to_select=None."
            )

    def _store(self, pattern: SparsePattern, session: FitContext) -> None:
        """Set the fitted attributes."""
        validation = pattern.cross_validation
        self.family_ = Gaussian()
        self.patterns_ = pattern.supports
        self.support_ = np.asarray(pattern.supports.any(axis=0))
        self.n_features_selected_ = int(np.count_nonzero(self.support_))
        lengths = np.linalg.norm(pattern.loadings, axis=1)
        self.relevance_ = lengths / (lengths.max() or 1.0)
        self.ranking_ = np.argsort(-self.relevance_, kind="stable")
        self.penalty_ = pattern.penalty
        self.penalty_path_ = None if validation is None else validation.shares * pattern.largest_penalty
        self.cv_errors_ = None if validation is None else validation.errors
        self.components_ = pattern.components
        self.penalised_components_ = pattern.loadings.T.copy()
        self.mean_ = self.intercept_ = session.summary.mean
        self.explained_variance_ = pattern.variances
        self.explained_variance_ratio_ = self.explained_deviance_ratio_ = pattern.shares
        self.n_components_ = len(self.components_)
        self._store_result(pattern.result)
        self._back = pattern.back

    def _warn_unless_selected(self) -> None:
        """Tell of a fit that left nothing."""
        if not self.n_features_selected_:
            warnings.warn(
                "no variable was selected: the penalty is too large, or the table is constant or noise. Lower "
                "penalty, or give n_features_to_select.",
                UserWarning,
                stacklevel=3,
            )

    _has_sparse_loadings = True

    def _row_model(self) -> RegressionRowModel:
        return RegressionRowModel(self.components_, self._back, self.mean_, type(self).__name__)
