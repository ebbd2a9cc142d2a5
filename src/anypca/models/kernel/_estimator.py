"""Kernel PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from anypca._compat import Interval, StrOptions
from anypca.models._arguments import read_settings
from anypca.models._base import LatentModel
from anypca.models._context import FitContext
from anypca.models._validation import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE
from anypca.models.kernel._features import FEATURE_MAPS, Embedding
from anypca.models.kernel._fit import Settings, prepare_fit
from anypca.models.kernel._kernels import KERNELS, Kernel
from anypca.models.kernel._row_model import KernelRowModel, learn_preimage


def _has_rows(model: KernelPCA) -> bool:
    """Whether X holds rows: distances need k(x, x) of new rows, not only values with the training rows."""
    if model.kernel == "precomputed":
        raise AttributeError(
            "kernel='precomputed' has no score: distances need k(x, x) of new rows. Give the kernel by name or as "
            "a function."
        )
    return True


@dataclass(eq=False, repr=False)
class KernelPCA(LatentModel):
    r"""Kernel principal component analysis: exact, by random Fourier features, or by landmarks.

    Principal components of ``phi(x)``, where the inner products of phi are the values of a kernel. The exact
    method needs the kernel values of all pairs of rows. The two others replace phi by ``n_basis`` explicit
    features and pass over the rows block by block: time grows with the number of rows, memory with the square
    of ``n_basis`` only.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; ``None`` for all that are not 0.
    kernel : {"rbf", "laplacian", "polynomial", "linear", "cosine", "precomputed"} or callable, default="rbf"
        ``exp(-gamma |x - y|^2)``, ``exp(-gamma |x - y|_1)``, ``(gamma x'y + coef0)^degree``, ``x'y``,
        ``x'y / (|x| |y|)``. ``"precomputed"``: X holds kernel values, of all pairs of training rows in ``fit``
        and of new rows with all training rows in ``transform``; exact method only. A function takes two rows
        and returns a number; it is called for every pair.
    method : {"exact", "rff", "nystroem"}, default="exact"
        ``"rff"``: random Fourier features, for rbf and laplacian kernels. ``"nystroem"``: kernel values with
        ``n_basis`` rows, the landmarks, drawn at random; for every kernel.
    n_basis : int, default=1000
        Number of random features or landmarks. Not used by the exact method.
    gamma : float, "median", "scale" or None, default="median"
        Inverse width of the kernel. ``"median"``: the median distance between (up to 1000 evenly spaced) rows
        becomes the standard deviation of the rbf kernel, ``gamma = 1 / (2 median^2)``, or the length of the
        laplacian one, ``gamma = 1 / median``; the same as ``"scale"`` for the polynomial kernel. ``"scale"``:
        ``1 / (n_features * X.var())``. ``None``: ``1 / n_features``.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial kernel.
    kernel_params : dict or None, default=None
        Further arguments of a function given as kernel.
    fit_inverse_transform : bool, default=False
        Whether to learn to rebuild rows from scores.
    alpha : float, default=1.0
        Ridge of that regression.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
        Of the exact method, as in scikit-learn, except that ``"auto"`` is arpack if it needs fewer operations than the
        dense solver, which is also used if arpack does not converge.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        Not used: nothing iterates.
    random_state : int, RandomState instance or None, default=None
        Draws features and landmarks, and starts iterative eigensolvers.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Sums of squared scores of the training rows, decreasing.
    explained_variance_ : ndarray of shape (n_components,)
        The same over n_samples - 1.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Shares of the total variance in feature space.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Equal to ``explained_variance_ratio_``.
    gamma_ : float or None
        gamma as chosen; ``None`` for kernels without.
    mean_ : ndarray of shape (n_features,)
        Means of the columns, which ``inverse_transform`` adds.
    family_ : None
        No distribution of the columns is assumed.
    n_components_ : int
        Number of components.
    n_iter_ : int
        1: nothing iterates.
    converged_ : bool
        True.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    sklearn.decomposition.KernelPCA : The solver of the exact method.

    Notes
    -----
    All methods centre the features on the training rows. With the linear kernel the scores equal PCA scores. The
    largest-magnitude coefficient fixes the sign of a component. The exact method has coefficients of training rows,
    other methods of features, so that signs can differ between methods. All kernels are smooth measures of
    similarity: kernel PCA does not unfold a surface if close rows belong to different folds of it.

    ``score_samples`` is the negative squared distance of a row from the span of the components in feature space.
    Rows unlike the training rows have low values. ``kernel="precomputed"`` does not support it.

    ``inverse_transform`` regresses rows on the kernel features of their scores with a ridge, as scikit-learn
    does, after the means of the columns have been subtracted. Where gamma is a rule it is applied to the
    scores anew, since scores and rows have different units; a number is used for both.

    References
    ----------
    Schoelkopf, Smola and Mueller (1998), Nonlinear component analysis as a kernel eigenvalue problem.
    Rahimi and Recht (2008), Random features for large-scale kernel machines.
    Williams and Seeger (2001), Using the Nystroem method to speed up kernel machines.
    Bakir, Weston and Schoelkopf (2004), Learning to find pre-images.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from anypca import KernelPCA
    >>> X, ring = make_circles(200, factor=0.3, noise=0.02, random_state=0)
    >>> scores = KernelPCA(1, gamma=2.0).fit_transform(X)[:, 0]
    >>> inner, outer = scores[ring == 1], scores[ring == 0]
    >>> bool(inner.min() > outer.max() or inner.max() < outer.min())
    True
    """

    _needs_every_entry = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [AT_LEAST_ONE, None],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "method": [StrOptions({"exact", *FEATURE_MAPS})],
        "n_basis": [AT_LEAST_ONE],
        "gamma": [POSITIVE, StrOptions({"median", "scale"}), None],
        "degree": [NOT_NEGATIVE],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "fit_inverse_transform": ["boolean"],
        "alpha": [NOT_NEGATIVE],
        "eigen_solver": [StrOptions({"auto", "dense", "arpack", "randomized"})],
    }
    _synonyms: ClassVar[dict[str, str]] = {"poly": "polynomial", "gaussian": "rbf", "fourier": "rff"}

    n_components: int | None = None
    _: KW_ONLY
    kernel: str | Callable[..., float] = "rbf"
    method: str = "exact"
    n_basis: int = 1000
    gamma: float | str | None = "median"
    degree: float = 3
    coef0: float = 1.0
    kernel_params: Mapping[str, Any] | None = None
    fit_inverse_transform: bool = False
    alpha: float = 1.0
    eigen_solver: str = "auto"
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            Without missing entries. The exact method gathers the rows in memory. For a precomputed kernel, of
            shape (n_samples, n_samples).
        y : None
            Ignored.

        Returns
        -------
        self : KernelPCA
        """
        settings = read_settings(Settings, self)
        with self._rollback_on_error():
            with self._open_fit(X) as session:
                self._check_combination(session.data.n_samples)
                solve = prepare_fit(session, settings)
            # The session has ended, which allowed BLAS one thread only: this algebra is dense and large.
            kernel, embedding = solve()
            self._store(kernel, embedding, session)
            self._preimage = None
            if self.fit_inverse_transform:
                self._preimage = learn_preimage(session, settings, kernel, embedding, self.alpha)
        return self

    def _check_combination(self, n_samples: int) -> None:
        """Raise on parameters that are right each by itself, but not together."""
        if n_samples < 2:
            raise ValueError(f"KernelPCA needs at least 2 rows; X has {n_samples} sample(s).")
        if self.kernel_params is not None and isinstance(self.kernel, str):
            raise ValueError(
                f"kernel_params are for a function given as kernel; kernel is {self.kernel!r}. Use gamma, degree "
                "and coef0."
            )
        if self.kernel == "precomputed" and self.fit_inverse_transform:
            raise ValueError(
                "fit_inverse_transform=True needs rows to learn from; with kernel='precomputed' there are none. "
                "Give the kernel by name or as a function."
            )

    def _store(self, kernel: Kernel, embedding: Embedding, session: FitContext) -> None:
        """Set the fitted attributes."""
        values = embedding.eigenvalues
        self.family_ = None
        self.eigenvalues_ = values
        self.explained_variance_ = values / (session.data.n_samples - 1)
        shares = values / embedding.total if embedding.total > 0 else np.zeros_like(values)
        self.explained_variance_ratio_ = self.explained_deviance_ratio_ = shares
        self.gamma_ = kernel.parameters.get("gamma")
        self.mean_ = session.summary.mean
        self.n_components_ = len(values)
        self.n_iter_ = 1
        self.converged_ = True
        self._embedding = embedding

    @property
    def _description(self) -> dict[str, Any]:
        return {**super()._description, "has_way_back": self.fit_inverse_transform}

    def _row_model(self) -> KernelRowModel:
        return KernelRowModel(self._embedding, self._preimage)

    score_samples = available_if(_has_rows)(LatentModel.score_samples)
    score = available_if(_has_rows)(LatentModel.score)
