"""The autoencoder as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import StrOptions
from anypca._typing import Floats
from anypca.families import Gaussian
from anypca.models._arguments import read_settings
from anypca.models._base import LatentModel
from anypca.models._network import ACTIVATIONS, check_hidden
from anypca.models._validation import NOT_NEGATIVE
from anypca.models.autoencoder._fit import AutoencoderFit, Settings, fit_autoencoder
from anypca.models.autoencoder._row_model import CodedRowModel
from anypca.solvers import Result


@dataclass(eq=False, repr=False)
class Autoencoder(LatentModel):
    r"""Autoencoder: a neural network that reconstructs each row from a few latent units.

    Encoder and decoder mirror each other; every layer is an affine map followed by an activation. Training minimises
    the squared error of standardised rows by L-BFGS. It starts with a net that rebuilds rows from their principal
    components, hence ends no worse than these do. With a linear latent layer (the default) the latents are
    reported along the principal axes of their regression on the rows, which does not depend on the coordinates that
    the training has ended in.

    Parameters
    ----------
    n_components : int, default=2
        Number of latent units; at most the number of columns are used.
    hidden_layer_sizes : int or sequence of int, default=(8,)
        Sizes of the hidden layers of the encoder, as for scikit-learn's ``MLPRegressor``; the decoder has them in
        reverse.
    activation : {"identity", "logistic", "tanh", "relu", "elu", "softplus"}, default="relu"
        Of the hidden layers.
    latent_activation : {"identity", "logistic", "tanh", "relu", "elu", "softplus"}, default="identity"
        Of the latent layer.
    output_activation : {"identity", "logistic", "tanh", "relu", "elu", "softplus"}, default="identity"
        Activation of the output. A ``"relu"`` output is never negative, but half of the standardised values are.
    alpha : float, default=1e-4
        Ridge on the weights.
    linearity : float, default=0.03
        Weight of an auxiliary loss: the squared error of a linear read-out of the latents. A decoder can undo any
        nonlinear stretching of its latents; the read-out keeps them as linear as the reconstruction allows. It is
        dropped after the training. 0 for none.
    init : {"pca", "random"}, default="pca"
        ``"pca"``: the principal components pass through all layers at the start, where these have two units or more
        for each component and latents and output are linear; otherwise, and by ``"random"``, weights are random.
    n_init : int, default=1
        Number of starts; the one with the smallest loss at the end is kept.
    standardize : bool, default=True
        Divide centred columns by their standard deviations first.
    tol : float, default=1e-4
        Stop when ten steps together lower the loss by less than this share of it, or when no derivative is larger.
    max_iter : int, default=500
        Largest number of steps of L-BFGS.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the iterations to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=None
        Draws the weights at the start.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal principal axes of the regression of standardised rows on the latents, the strongest first; the
        largest-magnitude entry of each is positive.
    n_parameters_ : int
        Number of weights and biases.
    loss_ : float
        At the end of the training.
    r2_ : float
        Share of the variance of standardised columns that the reconstruction explains.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        The same, shared out by the squared singular values of that regression.
    mean_ : ndarray of shape (n_features,)
        Means of the columns.
    intercept_ : ndarray of shape (n_features,)
        The same as ``mean_``.
    scale_ : ndarray of shape (n_features,)
        What centred columns were divided by.
    family_ : Family
        Gaussian: rows are rebuilt by least squares.
    n_components_ : int
        Number of latents.
    n_iter_ : int
        Number of entries of ``objective_trace_``.
    objective_trace_ : ndarray of shape (n_iter_,)
        Minus the loss at the start and after each step, never decreasing.
    converged_ : bool
        Whether ``tol`` was reached.
    status_ : str
        How the training ended.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    VAE : The same idea with a likelihood for each column, missing entries and uncertainty.
    sklearn.neural_network.MLPRegressor : Computes the same loss when it is fitted to its own input.

    Notes
    -----
    The loss is ``sum_i |x_i - decoder(encoder(x_i))|^2 / (2 n) + alpha sum |weights|^2 / (2 n)``. It and its
    gradient are sums over rows, so that a fit runs block by block, in threads, out of core and on Dask.
    ``score_samples`` is the negative squared distance of a standardised row from its reconstruction.

    References
    ----------
    Hinton and Salakhutdinov (2006), Reducing the dimensionality of data with neural networks, Science 313.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import Autoencoder
    >>> rng = np.random.default_rng(0)
    >>> t = rng.normal(size=(200, 1))
    >>> X = np.hstack([t, np.sin(2.0 * t), 0.5 * t]) + 0.1 * rng.normal(size=(200, 3))
    >>> model = Autoencoder(1, activation="tanh", tol=1e-3, random_state=0).fit(X)
    >>> bool(model.r2_ > 0.9)
    True
    """

    _needs_every_entry = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "activation": [StrOptions(set(ACTIVATIONS))],
        "latent_activation": [StrOptions(set(ACTIVATIONS))],
        "output_activation": [StrOptions(set(ACTIVATIONS))],
        "alpha": [NOT_NEGATIVE],
        "linearity": [NOT_NEGATIVE],
        "init": [StrOptions({"pca", "random"})],
        "standardize": ["boolean"],
        "tol": [NOT_NEGATIVE],
    }
    _synonyms: ClassVar[dict[str, str]] = {"linear": "identity", "sigmoid": "logistic"}

    n_components: int = 2
    _: KW_ONLY
    hidden_layer_sizes: int | Sequence[int] = (8,)
    activation: str = "relu"
    latent_activation: str = "identity"
    output_activation: str = "identity"
    alpha: float = 1e-4
    linearity: float = 0.03
    init: str = "pca"
    n_init: int = 1
    standardize: bool = True
    tol: float = 1e-4
    max_iter: int = 500
    random_state: Any = None

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Train the net.

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
        self : Autoencoder
        """
        hidden = check_hidden(self.hidden_layer_sizes)
        with self._open_fit(X, sample_weight=sample_weight) as session:
            settings = self._settings(hidden, session.data.n_features)
            fitted, result = fit_autoencoder(session, settings)
            self._store(fitted, result)
        self._warn_unless_converged(result)
        return self

    def _settings(self, hidden: tuple[int, ...], n_features: int) -> Settings:
        linearity = self.linearity if self.latent_activation == "identity" else 0.0
        k = min(self.n_components, n_features)
        return read_settings(Settings, self, n_components=k, hidden=hidden, linearity=linearity)

    def _store(self, fitted: AutoencoderFit, result: Result[Floats]) -> None:
        """Set the fitted attributes."""
        self.family_ = Gaussian()
        self.components_ = fitted.components
        self.mean_ = self.intercept_ = fitted.scaling.centre
        self.scale_ = fitted.scaling.scale
        self.n_parameters_ = fitted.encoder.n_parameters + fitted.decoder.n_parameters
        self.loss_ = float(-result.trace[-1])
        self.r2_ = fitted.r2
        squares = fitted.sizes**2
        share = squares / max(float(squares.sum()), np.finfo(float).tiny)
        self.explained_deviance_ratio_ = max(fitted.r2, 0.0) * share
        self.n_components_ = len(self.components_)
        self._store_result(result)
        self._fitted = fitted

    def _row_model(self) -> CodedRowModel:
        return CodedRowModel(self._fitted.scaling, self._fitted.encoder, self._fitted.decoder)
