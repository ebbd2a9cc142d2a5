"""Sparse PCA as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import Interval, StrOptions
from anypca._words import listed
from anypca.families import Gaussian
from anypca.models._arguments import read_settings
from anypca.models._base import LatentModel
from anypca.models._gaussian.regression import RegressionRowModel
from anypca.models._validation import AT_LEAST_ONE, NOT_NEGATIVE
from anypca.models.spca._eigen import DEFLATIONS
from anypca.models.spca._fit import Settings, SparseComponents, fit_sparse
from anypca.solvers import Result


@dataclass(eq=False, repr=False)
class SPCA(LatentModel):
    r"""Sparse principal component analysis by elastic-net regression, or by a search for sparse eigenvectors.

    Each component combines few columns. By default the regression of a principal component on the columns has
    an L1 penalty: elastic-net regressions and a singular value decomposition alternate until the criterion
    below is stationary. ``method="eigen"`` finds the direction of largest variance with at most ``n_nonzero``
    loadings, deflates, and repeats. In small tables it proves that the solution is optimal.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components. ``None``: the length of ``n_nonzero`` or ``penalty`` if one is a sequence, else
        the rank of the table.
    n_nonzero : int, sequence of int or None, default=None
        Number of non-zero loadings, for all components or for each. There are fewer if no solution has this number,
        for example with collinear columns. For ``method="eigen"`` the largest number, all by default.
    penalty : float, sequence of float or None, default=None
        L1 penalty, for all components or for each, in the units of the criterion below: it grows with the
        number of rows. At most one of ``n_nonzero`` and ``penalty`` may be given; without either the
        components are the principal ones.
    ridge : float or "auto", default="auto"
        Ridge penalty, which makes the regressions unique if there are more columns than rows. ``numpy.inf`` is the
        limit of a large ridge: soft thresholding in place of regressions, which is fast for many columns and the only
        choice above 10000. ``"auto"``: infinite for tables with more columns than rows, as Zou et al. recommend, else
        1e-6.
    input : {"data", "gram"}, default="data"
        Whether ``fit`` gets a table of rows, which is centred, or a matrix of inner products: ``X.T @ X``, a
        covariance or a correlation matrix.
    method : {"elastic_net", "eigen"}, default="elastic_net"
        ``"eigen"`` takes neither ``penalty`` nor ``ridge``.
    deflation : {"schur", "hotelling", "projection", "orthogonalised"}, default="schur"
        How ``method="eigen"`` deflates the matrix S by a direction a. ``"schur"``: ``S - Saa'S / a'Sa``, columns
        regressed on the score. ``"projection"``: ``(I - aa') S (I - aa')``; ``"orthogonalised"``: the same with the
        part of a that is orthogonal to the directions before it. ``"hotelling"``: ``S - a'Sa aa'``, which leaves
        negative variances unless a is an eigenvector.
    max_nodes : int, default=1000
        Largest number of nodes of the branch and bound by which ``method="eigen"`` proves each component of tables of
        up to 200 columns the best; 0 proves nothing. A better component found on the way is taken.
    tol : float, default=1e-8
        Stop when the distance of the gradient from stationarity, in units of the largest eigenvalue of
        ``X.T @ X``, is at most this.
    max_iter : int, default=1000
        Largest number of alternations.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the iterations to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=None
        Start of the iterative eigensolver, which is used only when rows and columns both exceed 4000.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings: rows of unit length with exact zeros, the largest-magnitude entry of each positive; a row of
        zeros if the penalty removes the component. The order is the order of the principal components they started
        from, as in ``n_nonzero`` and ``penalty``. They are not orthogonal.
    mean_ : ndarray of shape (n_features,)
        Means of the columns; 0 for ``input="gram"``.
    intercept_ : ndarray of shape (n_features,)
        The same as ``mean_``.
    n_nonzero_ : ndarray of shape (n_components,)
        Number of non-zero loadings of each component.
    penalty_ : ndarray of shape (n_components,)
        L1 penalties, as given or as ``n_nonzero`` led to; 0 for ``method="eigen"``.
    eigenvalues_ : ndarray of shape (n_components,) or None
        For ``method="eigen"``: variance of each score in what the components before it left, which for
        ``deflation="schur"`` is ``explained_variance_``.
    upper_bound_ : ndarray of shape (n_components,) or None
        Upper bounds of ``eigenvalues_`` for directions with as few loadings.
    optimal_ : ndarray of shape (n_components,) of bool or None
        Whether ``eigenvalues_`` are proved to be optimal.
    explained_variance_ : ndarray of shape (n_components,)
        Adjusted variances: of each score, what is uncorrelated with the scores before it. With the divisor
        n_samples - 1, or in the units of the matrix for ``input="gram"``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the total variance.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Equal to ``explained_variance_ratio_``.
    objective_trace_ : ndarray
        The negative of the criterion after each alternation, never decreasing; with ``n_nonzero``, only those
        for which penalties or supports are fixed. For ``method="eigen"``: the sum of squares found, component by
        component.
    converged_ : bool
        Whether ``tol`` was reached.
    n_iter_ : int
        Number of alternations.
    n_components_ : int
        Number of components.
    family_ : Family
        Gaussian: the criterion is a sum of squares.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    sklearn.decomposition.SparsePCA : Another criterion: sparse dictionaries.

    Notes
    -----
    The criterion is, for centred X, orthonormal A and B with columns proportional to the loadings,

    .. math:: |X - X B A'|^2 + ridge\,|B|^2 + \sum_j penalty_j\,|b_j|_1

    without factors 1/2 or 1/n, as in R's ``elasticnet::spca``, whose ``para`` and ``lambda`` are ``penalty``
    and ``ridge`` here. Both steps of the alternation are exact minimisations.

    With ``n_nonzero`` the regressions stop on the LARS path where the number of non-zero entries is reached,
    which amounts to a new penalty in each alternation; ``penalty_`` has the last. Such alternations need not
    converge: with nearly collinear columns they may cycle between supports. Then the supports of the best fit are kept,
    and the criterion without L1 penalty is minimised on them (``penalty_`` is 0).

    *Sparse eigenvectors.* For a given support the best direction is the leading eigenvector of a submatrix. Supports
    are searched greedily and by truncated power iterations from seven starts, and improved by exchanges of one
    variable for another. Branch and bound compares the best with upper bounds of all others: the leading eigenvalue
    of the variables that are still possible, Gershgorin's bound, and the sum of the largest variances.

    References
    ----------
    Zou, Hastie and Tibshirani (2006), Sparse principal component analysis, J. Comput. Graph. Statist. 15:
    criterion (3.12), algorithm 1, adjusted variance (section 3.4), infinite ridge (section 4).
    Moghaddam, Weiss and Avidan (2006), Spectral bounds for sparse PCA, NIPS 18 (greedy search, branch and bound).
    Yuan and Zhang (2013), Truncated power method for sparse eigenvalue problems, J. Mach. Learn. Res. 14.
    Mackey (2009), Deflation methods for sparse PCA, NIPS 21.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import SPCA
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.standard_normal((100, 2)) * [3, 2]
    >>> X = np.hstack([scores[:, [0, 0, 0]], scores[:, [1, 1]]]) + 0.1 * rng.standard_normal((100, 5))
    >>> model = SPCA(n_nonzero=[3, 2]).fit(X)
    >>> (model.components_ != 0).astype(int)
    array([[1, 1, 1, 0, 0],
           [0, 0, 0, 1, 1]])
    """

    _needs_every_entry = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [AT_LEAST_ONE, None],
        "n_nonzero": [AT_LEAST_ONE, "array-like", None],
        "penalty": [NOT_NEGATIVE, "array-like", None],
        "ridge": [Interval(Real, 0, np.inf, closed="both"), StrOptions({"auto"})],
        "input": [StrOptions({"data", "gram"})],
        "method": [StrOptions({"elastic_net", "eigen"})],
        "deflation": [StrOptions(set(DEFLATIONS))],
        "max_nodes": [Interval(Integral, 0, None, closed="left")],
        "tol": [NOT_NEGATIVE],
    }

    n_components: int | None = None
    _: KW_ONLY
    n_nonzero: int | Sequence[int] | None = None
    penalty: float | Sequence[float] | None = None
    ridge: float | str = "auto"
    input: str = "data"
    method: str = "elastic_net"
    deflation: str = "schur"
    max_nodes: int = 1000
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            Without missing entries. For ``input="gram"``, of shape (n_features, n_features).
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row. Not for ``input="gram"``.

        Returns
        -------
        self : SPCA
        """
        with self._open_fit(X, sample_weight=sample_weight) as session:
            found, result = fit_sparse(session, read_settings(Settings, self))
            self._store(found, result)
        self._warn_of_counts()
        self._warn_unless_converged(result)
        return self

    def _store(self, found: SparseComponents, result: Result[Any]) -> None:
        """Set the fitted attributes."""
        self.family_ = Gaussian()
        self.components_ = found.components
        self.mean_ = self.intercept_ = found.mean
        self.n_nonzero_ = np.count_nonzero(found.components, axis=1)
        self.penalty_ = found.penalties
        is_eigen = self.method == "eigen"
        self.eigenvalues_ = np.array([one.value for one in found.vectors]) if is_eigen else None
        self.upper_bound_ = np.array([one.upper_bound for one in found.vectors]) if is_eigen else None
        self.optimal_ = np.array([one.is_optimal for one in found.vectors]) if is_eigen else None
        self.explained_variance_ = found.variances
        self.explained_variance_ratio_ = self.explained_deviance_ratio_ = found.shares
        self._store_result(result)
        self.n_components_ = len(found.components)
        self._back = found.back

    def _warn_of_counts(self) -> None:
        """Tell of components that have no loadings, or fewer than asked for."""
        empty = np.flatnonzero(self.n_nonzero_ == 0).tolist()
        if len(empty):
            warnings.warn(
                f"all loadings of component(s) {listed(empty)} are 0: the penalty is too large, or the table has a "
                "smaller rank. Lower the penalty or n_components.",
                UserWarning,
                stacklevel=3,
            )
        # A sparse eigenvector has fewer where fewer have all the variance.
        is_free = self.n_nonzero is None or self.method == "eigen"
        asked = 0 if is_free else np.asarray(self.n_nonzero)
        short = np.flatnonzero((self.n_nonzero_ < asked) & (self.n_nonzero_ > 0)).tolist()
        if len(short):
            warnings.warn(
                f"component(s) {listed(short)} have {listed(self.n_nonzero_[short].tolist())} non-zero loadings, fewer "
                "than asked for: columns are collinear, or more than the rows, and the ridge is too small to share "
                "loadings among them. Increase ridge, or use ridge=numpy.inf.",
                UserWarning,
                stacklevel=3,
            )

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit the model and return the scores of the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : None
            Ignored.
        **fit_params : dict
            Further arguments of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        if self.input == "gram":
            raise ValueError(
                "input='gram' has no rows to transform. Call fit, then transform a table of rows."
            )
        return super().fit_transform(X, y, **fit_params)

    _has_sparse_loadings = True

    def _row_model(self) -> RegressionRowModel:
        return RegressionRowModel(self.components_, self._back, self.mean_, "SPCA")
