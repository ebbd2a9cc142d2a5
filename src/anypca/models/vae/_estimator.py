"""The variational autoencoder as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

from anypca._compat import Interval, StrOptions
from anypca.columns import FamilyReport, settle_family
from anypca.families import Family
from anypca.models._arguments import read_settings
from anypca.models._network import ACTIVATIONS, check_hidden
from anypca.models._posterior_model import PosteriorModel
from anypca.models._validation import AT_LEAST_ONE, POSITIVE
from anypca.models.vae._fit import Settings, VAEFit, fit_vae
from anypca.models.vae._row_model import DecodedRowModel
from anypca.models.vae._training import Schedule
from anypca.solvers import Result


@dataclass(eq=False, repr=False)
class VAE(PosteriorModel):
    r"""Variational autoencoder: nonlinear latents with a likelihood for each column.

    Each entry has a distribution of its column's family whose linear predictor is a net of standard normal latents,

    .. math:: \eta_{ij} = o_{ij} + b_j + z_i^\top w_j + \mathrm{net}_j(z_i), \qquad z_i \sim N(0, I),

    with offsets o and intercepts b. A second net, the encoder, approximates the posterior of the latents of a row. Both
    nets maximise the evidence lower bound. Training starts at probabilistic PCA, the linear special case. Results for
    rows do not depend on the accuracy of the encoder: scores are posterior modes, and ``score_samples`` estimates the
    log-likelihood by importance sampling.

    Parameters
    ----------
    n_components : int, default=2
        Number of latents; at most the number of columns are used.
    family : str, Family, list or dict, default="auto"
        One family for all columns, one per column, or a dict from column to family. ``"auto"`` chooses by the
        values of each column and says why in ``family_report_``.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    hidden_layer_sizes : int or sequence of int, default=(64,)
        Sizes of the hidden layers of decoder and encoder, as for scikit-learn's ``MLPRegressor``. Without any
        the model is linear.
    activation : {"identity", "logistic", "tanh", "relu", "elu", "softplus"}, default="tanh"
        Of the hidden layers.
    batch_size : int, default=64
        Rows of a step of Adam.
    learning_rate_init : float, default=0.002
        Initial learning rate of Adam; halved after an overflow.
    validation_fraction : float, default=0.1
        Share of the rows that is held out for validation. The model of the epoch with the highest bound on these rows
        is kept. All rows are used for validation if it is 0 or there are fewer than 20 rows.
    n_iter_no_change : int, default=25
        Training ends after so many epochs without progress.
    score_draws : int, default=300
        Draws of the latents of each row in ``score_samples``.
    max_iter : int, default=300
        Largest number of epochs.
    n_jobs : int or None, default=None
        Number of threads, of methods for rows; training uses one. ``None`` and -1 mean all cores.
    verbose : int, default=0
        If positive, log the epochs to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, batches and latents, also for ``score_samples``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Mean slopes of the linear predictors along the latents, which are turned to the principal axes of these slopes;
        the largest-magnitude entry of each is positive.
    intercept_ : ndarray of shape (n_features,)
        Linear predictors without latents.
    dispersion_ : ndarray of shape (n_features,)
        Dispersion of each column, estimated where the family leaves it open.
    bound_ : float
        Lower bound of the log-likelihood of a row, mean over the validation rows.
    n_parameters_ : int
        Number of weights and biases of both nets.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        Share of a column's deviance without latents that the scores explain, mean over columns, divided by the squared
        sizes of ``components_`` in units of the noise.
    resolution_ : ndarray of shape (n_features,)
        Measurement step of each column: as given, or detected from the values (up to four decimals), or else a
        thousandth of the standard deviation; see ``entry_log_likelihood``.
    layout_ : Layout
        Maps input columns to model columns; see `EPCA`.
    family_ : Family
        The family used.
    family_report_ : FamilyReport or None
        What ``family="auto"`` chose, and why.
    n_components_ : int
        Number of latents.
    n_iter_ : int
        Number of entries of ``objective_trace_``.
    objective_trace_ : ndarray of shape (n_iter_,)
        The bound at the start and the highest one after each epoch, never decreasing.
    converged_ : bool
        Whether training ended because the bound stopped increasing.
    status_ : str
        How the training ended.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.

    See Also
    --------
    Autoencoder : An autoencoder with squared error.
    PiecewisePCA : A latent space with a few flat pieces, whose likelihood is exact.

    Notes
    -----
    Missing entries are left out of the likelihood; the encoder replaces them by the prediction of the model without
    latents. A row's score is the posterior mode that Gauss-Newton steps reach from the encoder's mean. Its standard
    deviations come from the Laplace approximation at that mode. ``score_samples`` draws from a mixture of such normals,
    at the modes reached from the encoder's mean and from four draws of the prior, and weights the draws by the exact
    joint density. All rows use the same standard normals. Training holds the dense table in memory.

    References
    ----------
    Kingma and Welling (2014), Auto-encoding variational Bayes, ICLR.
    Burda, Grosse and Salakhutdinov (2016), Importance weighted autoencoders, ICLR, eq. 8.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA, VAE
    >>> rng = np.random.default_rng(0)
    >>> t = rng.normal(size=(600, 1))
    >>> X = np.hstack([t, np.sin(2.0 * t), 0.5 * t]) + 0.2 * rng.normal(size=(600, 3))
    >>> model = VAE(1, family="gaussian", hidden_layer_sizes=8, learning_rate_init=0.01, random_state=0).fit(X[:400])
    >>> bool(model.score(X[400:]) > PPCA(1).fit(X[:400]).score(X[400:]) + 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "activation": [StrOptions(set(ACTIVATIONS))],
        "batch_size": [AT_LEAST_ONE],
        "learning_rate_init": [POSITIVE],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "n_iter_no_change": [AT_LEAST_ONE],
        "score_draws": [AT_LEAST_ONE],
    }
    _synonyms: ClassVar[dict[str, str]] = {"linear": "identity", "sigmoid": "logistic"}

    n_components: int = 2
    _: KW_ONLY
    family: Any = "auto"
    resolution: Any = None
    hidden_layer_sizes: int | Sequence[int] = (64,)
    activation: str = "tanh"
    batch_size: int = 64
    learning_rate_init: float = 0.002
    validation_fraction: float = 0.1
    n_iter_no_change: int = 25
    score_draws: int = 300
    max_iter: int = 300
    random_state: Any = None

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, offset: Any = None) -> Self:
        """Train the nets.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            NaN marks missing entries.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the rows in the bound.
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None, default=None
            Known parts of the linear predictor.

        Returns
        -------
        self : VAE
        """
        hidden = check_hidden(self.hidden_layer_sizes)
        with self._open_fit(X, sample_weight=sample_weight, offset=offset) as session:
            family, report = settle_family(session)
            fitted, result = fit_vae(session, family, self._settings(hidden, session.data.n_features))
            self._store(fitted, result, report)
        self._warn_unless_converged(result)
        return self

    def _settings(self, hidden: tuple[int, ...], n_features: int) -> Settings:
        schedule = read_settings(Schedule, self)
        k = min(self.n_components, n_features)
        return read_settings(Settings, self, n_components=k, hidden=hidden, schedule=schedule)

    def _store(self, fitted: VAEFit, result: Result[Any], report: FamilyReport | None) -> None:
        """Set the fitted attributes."""
        rows = fitted.rows
        self.family_: Family = rows.family
        self.family_report_ = report
        self.components_ = fitted.components
        self.intercept_ = rows.inputs.intercept
        self.dispersion_ = rows.dispersion
        self.bound_ = float(result.trace[-1])
        self.n_parameters_ = fitted.n_parameters
        self.explained_deviance_ratio_ = fitted.shares
        self.n_components_ = len(self.components_)
        self._store_result(result)
        self._rows = rows

    def _row_model(self) -> DecodedRowModel:
        return self._rows
