"""Piecewise probabilistic PCA as a scikit-learn estimator."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._compat import StrOptions
from anypca._typing import Floats, Ints
from anypca.columns import settle_family
from anypca.engine import Block
from anypca.exceptions import ConvergenceWarning
from anypca.families import Gaussian
from anypca.models._arguments import check_n_samples, make_generator
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._criteria import Likelihood
from anypca.models._posterior_model import PosteriorModel
from anypca.models._row_model import RowModel
from anypca.models._validation import AT_LEAST_ONE
from anypca.models.piecewise._fit import (
    Fit,
    Settings,
    count_parameters,
    fit_pieces,
    make_settings,
    pseudo_r2,
    score_shares,
)
from anypca.models.piecewise._gaussian import PieceRowModel
from anypca.models.piecewise._pieces import COUPLINGS, make_frame, mean_components


@dataclass(eq=False, repr=False)
class PiecewisePCA(PosteriorModel):
    r"""Piecewise probabilistic PCA: affine in each of several slabs of the latent space.

    A latent point w is standard normal in q dimensions. Breakpoints cut the range of its last coordinate t into K
    pieces, and in piece k a row is ``y = mu_k + B_k w + noise``: a sheet bent along K - 1 parallel hinges. For other
    families than the Gaussian the sheet consists of predictors, such as logits or log rates. Gaussian rows are
    fitted by exact maximum likelihood, and their posterior is exact; all others by a variational bound.

    ``transform`` gives posterior means of w, the last column being t, and with ``return_std`` their standard
    deviations: large where the posterior has two modes, one on each side of a hinge. ``score_samples`` gives exact
    log densities, or their lower bounds.

    Parameters
    ----------
    n_components : int, default=2
        Latent dimension q, less than the number of columns.
    n_pieces : int, default=2
        Number K of pieces. With one, the model is probabilistic PCA.
    family : str, Family, list or dict, default="gaussian"
        Of the entries: any family of `anypca.families`, one for each column, or ``"auto"``; as in `EPCA`. Open
        dispersions are estimated: one for the columns of a family, but scales of a mixed table by column.
    coupling : {"continuous", "shared", "free"}, default="continuous"
        ``"continuous"``: pieces meet at the hinges. ``"shared"``: they share the first q - 1 columns of B but may
        jump. ``"free"``: each has its own map; the first q - 1 coordinates are then comparable between pieces only
        up to a rotation, which is chosen to bring the loadings together.
    breakpoints : {"quantile", "fit"} or array-like of shape (n_pieces - 1,), default="quantile"
        ``"quantile"``: at normal quantiles, all pieces equally probable. ``"fit"``: estimated (Gaussian rows only,
        without offset and covariates).
        Numbers: kept where they are, in increasing order.
    n_init : int, default=20
        Number of random starts. Few are not enough: most starts end in poor local optima.
    coef_scale : float or None, default=2.0
        Standard deviation of the normal prior on coefficients of covariates, which are centred and scaled inside, on
        the scale of the predictor (of a gaussian column: in its standard deviations). It keeps coefficients finite if
        a column has no events in a whole level of a covariate. None, 0 and infinity mean no prior.
    tol : float, default=1e-5
        The fit stops when the gradient per observed entry, in units of the complete-data curvature, is at most this.
    max_iter : int, default=1000
        Largest number of iterations of the last stage.
    n_jobs : int or None, default=None
        Number of threads; ``None`` and -1 mean all cores. Not used for Dask arrays.
    verbose : int, default=0
        If positive, log the iterations to the logger ``anypca`` at level INFO.
    random_state : int, RandomState instance or None, default=0
        Of the starts.

    Attributes
    ----------
    resolution_ : ndarray of shape (n_features,)
        Step with which each column is recorded; ``entry_log_likelihood`` gives probabilities of steps.
    layout_ : Layout
        Maps columns of the table to columns of the model; see `EPCA`.
    family_ : Family
        Of the entries.
    family_report_ : FamilyReport or None
        The choice of ``family="auto"`` for each column, with reasons.
    piece_loadings_ : ndarray of shape (n_pieces, n_features, n_components)
        B_k. The first q - 1 columns are in decreasing length (all q with one piece), and orthogonal for exact fits;
        the bound prefers other directions.
    piece_means_ : ndarray of shape (n_pieces, n_features)
        mu_k.
    breakpoints_ : ndarray of shape (n_pieces - 1,)
        Where t passes from one piece to the next.
    components_ : ndarray of shape (n_components, n_features)
        Loadings averaged over the pieces with their prior probabilities; the last row belongs to t. Signs are such
        that the largest-magnitude entry is positive, except for t when given breakpoints are not symmetric.
    intercept_ : ndarray of shape (n_features,)
        The map at w = 0.
    coef_ : ndarray of shape (n_features, n_covariates)
        Change of the predictors with a unit of each covariate.
    coef_std_ : None
        This model reports no standard deviations of ``coef_``.
    covariate_names_ : list of str
        Of the columns of ``coef_``; ``"tree=b"`` is the level ``b`` of a column of text.
    dispersion_ : ndarray of shape (n_features,)
        Of each column; the noise variance of Gaussian rows.
    noise_variance_ : float or None
        Maximum likelihood, divisor n; None for families other than the Gaussian.
    piece_shares_ : ndarray of shape (n_pieces,)
        Mean posterior probability of each piece over the training rows.
    log_likelihood_ : float
        Of the observed training entries: exact (Gaussian), or its lower bound. A log-density of measurements: it
        compares pieces, components and continuous families in the same units; ``entry_log_likelihood`` the rest.
    n_parameters_ : int
        Free parameters, rotations taken off.
    bic_, aic_ : float
        ``-2 log_likelihood_`` plus ``n_parameters_ * log(n)``, or plus ``2 n_parameters_``: lower is better.
    pseudo_r2_ : float
        ``(L - L_min) / (L_max - L_min)`` with the log-likelihoods L of the model, L_min of one mean per column (with
        covariates and offsets) and of one mean per entry L_max, at the fitted dispersions. At most 1. It is no
        explained variance: it grows when the noise variance falls.
    calibration_slope_ : ndarray of shape (n_columns,) or None
        Factor by which ``impute`` shrinks expectations towards the column means, see `EPCA`.
    explained_deviance_ratio_ : ndarray of shape (n_components,)
        ``pseudo_r2_`` shared out over the principal axes of the training scores, by their variances.
    n_restarts_ : int
        Starts that were replaced because a piece lost its rows.
    start_objectives_ : ndarray of shape (n_init,)
        Log-likelihoods of the starts after 15 steps, best first.
    n_components_, n_features_in_, n_iter_ : int
    objective_trace_ : ndarray of shape (n_iter_,)
        ``log_likelihood_`` after each accepted step of the best start, never decreasing.
    converged_ : bool
        Whether the gradient fell below ``tol``.
    status_ : str
        How the fit ended, in words.

    See Also
    --------
    PPCA : The model with one piece, its variances with the divisor n - 1.

    Notes
    -----
    *Gaussian.* With V_k, m_k the posterior covariance and mean of w under the map of piece k everywhere, and Z_k the
    probability of slab k under N(m_k, V_k), the density of a row is ``sum_k N(y; mu_k, B_k B_k' + s I) Z_k`` and its
    posterior a mixture of normals truncated to the slabs. L-BFGS maximises it in units of the complete-data curvature;
    its first step is a step of EM. The starts take 15 steps, the best three of them 50 more, and the best of these is
    continued. A step costs ``n p q K`` multiplications.

    *Other families.* No exact density exists. The bound takes w given y as normal with a diagonal covariance. What a
    slab adds to it is ``E[log p(y_j | eta_j) 1(t in slab)]``: a Gauss rule with 8 nodes for the truncated normal
    density of t, and across t a closed form or 6 Gauss-Hermite nodes. Rows are solved by Newton steps at each point of
    the maps and dispersions, which L-BFGS maximises in units of their curvature. An evaluation of the rows costs up to
    ``48 n p K`` evaluations of the log-likelihood. Starts are Gaussian fits to the predictors that single entries
    suggest; several pieces that hardly gain over one start again from it too. Gaussian rows with an offset or
    covariates are fitted in this way too.

    *When it fails.* The likelihood has many local optima; look at ``start_objectives_``. Only t bends: structure that
    is curved in several directions needs more pieces than the model has. The bound is loose by up to log 2 where a row
    may lie on either side of a hinge, as on a sheet folded upon itself: BIC then prefers fewer pieces.

    References
    ----------
    Adams (2022), Probabilistic piecewise principal component analysis, thesis, chapter 3. The formulas here are the
    corrected ones: the printed likelihood, M-step and pseudo-R2 assign rows to pieces before averaging.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PiecewisePCA
    >>> rng = np.random.default_rng(0)
    >>> w = rng.normal(size=(300, 2))
    >>> hinge = np.column_stack([w, np.abs(w[:, 0])]) + 0.1 * rng.normal(size=(300, 3))
    >>> model = PiecewisePCA(n_components=2, n_pieces=2, n_init=5).fit(hinge)
    >>> bool(model.noise_variance_ < 0.012)
    True
    """

    _is_calibrated: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_pieces": [AT_LEAST_ONE],
        "coupling": [StrOptions(set(COUPLINGS))],
        "breakpoints": [StrOptions({"quantile", "fit"}), "array-like"],
    }
    _synonyms: ClassVar[dict[str, str]] = {
        "quantiles": "quantile",
        "estimate": "fit",
        "hinge": "continuous",
    }

    n_components: int = 2
    _: KW_ONLY
    n_pieces: int = 2
    family: Any = "gaussian"
    coupling: str = "continuous"
    breakpoints: Any = "quantile"
    n_init: int = 20
    coef_scale: float | None = 2.0
    tol: float = 1e-5
    max_iter: int = 1000
    random_state: Any = 0

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
            NaN marks missing entries.
        y : None, ignored
        sample_weight : array-like of shape (n_samples,) or None, default=None
            A weight of 2 has the effect of repeating the row.
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None, default=None
            Known part of the predictors, such as log exposures of counts.
        covariates : array-like of shape (n_samples, n_covariates), data frame, dict of columns, or None
            Covariates with a linear effect on the predictors, the same in all pieces.
        checkpoint : path-like, Checkpoint or None, default=None, as for `EPCA.fit`

        Returns
        -------
        self
        """
        companions = {"sample_weight": sample_weight, "offset": offset, "covariates": covariates}
        with self._open_fit(X, **companions, checkpoint=checkpoint) as session:
            self.family_, self.family_report_ = settle_family(session)
            settings = make_settings(self, self.family_, session, is_exact=self._is_exact)
            fit = fit_pieces(settings, session)
            self._store(fit, settings, session)
        self._warn_unless_converged(fit.result)
        self._warn_of_empty(fit.sums.empty_pieces(self.n_components_))
        return self

    def _store(self, fit: Fit, settings: Settings, session: FitContext) -> None:
        """Set the fitted attributes."""
        pieces, sums = fit.pieces, fit.sums
        self.piece_loadings_, self.breakpoints_ = pieces.maps[:, :, :-1], pieces.breakpoints
        self.piece_means_ = self._covariates.intercept(pieces.maps[:, :, -1], pieces.coef)
        self.dispersion_ = pieces.dispersion
        self.noise_variance_ = pieces.noise if type(self.family_) is Gaussian else None
        self._rows = fit.row_model(settings)
        self.components_ = mean_components(pieces)
        self._store_fixed(pieces.predict(np.zeros((1, pieces.n_components)))[0], pieces.coef)
        self.piece_shares_ = sums.occupancy / sums.weight
        self.log_likelihood_ = sums.log_likelihood
        self.n_parameters_ = count_parameters(settings, pieces)
        likelihood = Likelihood.integrated(sums.log_likelihood, self.n_parameters_, sums.weight)
        self.bic_, self.aic_ = likelihood.bic, likelihood.aic
        self.pseudo_r2_ = pseudo_r2(fit, settings, session)
        shares = score_shares(self._row_model(), session)
        self.explained_deviance_ratio_ = self.pseudo_r2_ * shares
        self.n_restarts_, self.start_objectives_ = fit.n_restarts, fit.start_objectives
        self._store_result(fit.result)
        self.n_components_ = pieces.n_components

    @property
    def _is_exact(self) -> bool:
        """Whether the likelihood is exact: gaussian columns of unknown variance, without offset and covariates."""
        # Families that derive from the Gaussian are normal on another scale than their entries.
        is_gaussian = type(self.family_) is Gaussian and self.family_.fixed_dispersion is None
        return is_gaussian and not self._uses_offset and self._n_covariates == 0

    def _warn_of_empty(self, empty: list[int]) -> None:
        if empty:
            numbers = ", ".join(str(k + 1) for k in empty)
            warnings.warn(
                f"PiecewisePCA: no rows are left in piece(s) {numbers} of {self.n_pieces}, after "
                f"{self.n_restarts_} restarts; their loadings mean nothing. Use fewer pieces or other breakpoints.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _row_model(self) -> PieceRowModel[Any]:
        return self._rows

    def piece_proba(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Posterior probabilities of the pieces.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_pieces)
        """

        def visit(model: PieceRowModel[Any], block: Block, rows: BlockView) -> Floats:
            return model.probabilities(model.solve(rows))

        return np.concatenate(self._visit_rows(visit, X, offset, covariates))  # type: ignore[arg-type]

    def predict_piece(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Ints:
        """The most probable piece of each row, counted from 0 (ndarray of shape (n_samples,)); see `piece_proba`."""
        return np.asarray(np.argmax(self.piece_proba(X, offset=offset, covariates=covariates), axis=1))

    def reconstruct(self, X: Any, *, offset: Any = None, covariates: Any = None) -> Floats:
        """Expected rows without noise given the rows, averaged over the posterior of w, its pieces included.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
        offset, covariates : as in ``fit``

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """

        def visit(model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            return model.expected(block, rows, model.solve(rows)).astype(rows.dtype)

        return np.concatenate(self._visit_rows(visit, X, offset, covariates))

    def sample_latent(
        self,
        X: Any,
        n_draws: int = 1,
        *,
        offset: Any = None,
        covariates: Any = None,
        random_state: Any = None,
    ) -> Floats:
        """Draw latent points given rows: exactly and independently, or from the variational posterior.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)
        n_draws : int, default=1
        offset, covariates : as in ``fit``
        random_state : int, RandomState instance, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_draws, n_samples, n_components)
        """
        n = check_n_samples(n_draws)
        seed = int(make_generator(random_state).integers(2**31))

        def visit(model: PieceRowModel[Any], block: Block, rows: BlockView) -> Floats:
            # A generator for each block: draws do not depend on the order in which blocks are visited.
            return model.draw_latent(model.solve(rows), n, np.random.default_rng([seed, block.start]))

        return np.concatenate(self._visit_rows(visit, X, offset, covariates), axis=1)  # type: ignore[arg-type]

    def select(
        self,
        X: Any,
        *,
        n_pieces: Iterable[int] = (1, 2, 3),
        n_components: Iterable[int] = (1, 2),
        criterion: str = "bic",
        **fit_params: Any,
    ) -> Any:
        """Fit copies of this model with several numbers of pieces and components, and compare them.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        n_pieces, n_components : iterables of int
            All pairs are fitted.
        criterion : {"bic", "aic"}, default="bic"
        **fit_params : dict
            Further arguments of ``fit``.

        Returns
        -------
        Selection
            With ``trials`` (one row per fit), the fitted ``best`` model, its ``n_pieces`` and ``n_components``. This
            model itself is left as it is.
        """
        # By name and when called: selection is built on the models, which therefore must not import it.
        select_pieces = importlib.import_module("anypca.selection.select").select_pieces
        sizes = {"n_pieces": n_pieces, "n_components": n_components}
        return select_pieces(self, X, **sizes, criterion=criterion, **fit_params)

    def loadings_frame(self) -> Any:
        """The loadings of all pieces as a pandas data frame; columns are pieces (with their slabs) and coordinates."""
        check_is_fitted(self)
        return make_frame(self._row_model().pieces, list(self.layout_.names))
