"""Simple exponential-family PCA: chooses its own dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from anypca._compat import Interval, RealNotInt, StrOptions
from anypca._typing import Floats, Ints
from anypca.columns import FamilyChoice, check_support, encode, find_redundant, report_dropped, settle_family
from anypca.columns.forms import Form
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.row_model import (
    ModeRowModel,
    Reported,
    coefficient_deviations,
    store_coefficients,
)
from anypca.models._context import FitContext
from anypca.models._posterior_model import PosteriorModel
from anypca.models._stream import Stream, partial_fit
from anypca.models._validation import NOT_NEGATIVE, POSITIVE
from anypca.models._warm import find_start
from anypca.models.sepca._hidden import choose_sparsity, choose_weight
from anypca.models.sepca._hmc import SampledFit, SamplerOptions, fit_draws
from anypca.models.sepca._noise import Settings, count_rows, is_given
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._rows import PosteriorRowModel
from anypca.models.sepca._search import PosteriorFit, fit_posterior
from anypca.models.sepca._stream import PosteriorRule, report_stream
from anypca.models.sepca.map._mode import ModeFit, fit_mode
from anypca.models.sepca.map._options import ModeOptions, ModeSettings, weights_to_try
from anypca.priors import AdaptiveL0
from anypca.solvers import Result

# Components to start from unless the user says otherwise. Sweeps cost with their square; the tables of
# ``experiments/RESULTS.md`` have up to 15.
_DEFAULT_COMPONENTS = 20
# Tolerance of modes in units of ``tol``: rounds gain little each, so that a change of the objective by less than
# ``tol`` would stop them on their way.
_MODE_TOLERANCE = 0.01


@dataclass(eq=False, repr=False)
class SePCA(PosteriorModel):
    r"""Exponential-family PCA that chooses its number of components.

    The predictor has the same form as in `EPCA`, with scores :math:`z_i \sim N(0, I)` and a separate prior precision
    :math:`\alpha_k` for the loadings of each component. This automatic relevance determination (ARD) shrinks the
    loadings of components without signal to zero and prunes these components.

    Parameters
    ----------
    max_components : int or None, default=None
        Initial and largest number of components; None is 20, or the maximum for the table if smaller.
    n_components : {"auto"}, int or float, default="auto"
        ``"auto"``: chosen by evidence. An int: exactly so many, without a search. A number between 0 and 1: the fewest
        components that explain this share of the deviance that the components chosen by evidence explain.
    family : str, Family, list or dict, default="auto"
        As in `EPCA`. Counts get the negative binomial under ``"auto"``, whose limit is Poisson: over-dispersion
        that is not modelled would appear as components. A column between two families gets the safer one;
        ``family_report_`` names the other.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, for example 0.1 for one decimal: one for all, one per column, or a dict
        from column to step. None finds it from the values.
    inference : {"vb", "map", "hmc"}, ModeOptions or SamplerOptions, default="vb"
        ``"vb"``: normal posteriors of scores and loadings; neighbouring dimensions are compared by a bound on the
        evidence. ``"map"``: the published algorithm, joint modes of scores and loadings; `ModeOptions` sets its
        options. ``"hmc"``: draws from the posterior by the No-U-Turn sampler at the dimension of ``"vb"``, for tables
        of up to about a million entries; `SamplerOptions` sets the number of draws. Needs the extra ``mcmc``.
    sparsity : {"auto"} or float, default=0.0
        Price of a non-zero loading (adaptive L0). Loadings then have exact zeros, except that below 1/2 ``"vb"`` only
        shrinks. ``"auto"`` takes the largest price whose fit predicts hidden entries within one standard error
        of the best and has components left. Not in ``"hmc"``.
    dispersion : {"auto", "shared", "feature"} or float, default="auto"
        ``"auto"`` estimates open dispersions between fits: one for the columns of a family (for real columns one share
        of their variance, so that units do not matter), and in ``"vb"`` one for each column if it has the
        larger evidence. Counts that vary less than Poisson counts become `ScaledPoisson`, steady exponential amounts
        `Gamma`, and so do log-normal amounts with skewed logarithms, unless their family was given, if that has the
        larger evidence; ``dispersion_report_`` states it, and a warning does if
        ``family`` was not ``"auto"``. ``"shared"`` keeps the family and has one for the columns of a family, for real
        columns one variance, which needs one unit. ``"feature"`` has one for each column, with `ScaledPoisson` for
        Poisson columns. A number fixes open dispersions.
    fit_intercept : bool, default=True
        Without it the model spends a component on the means.
    coef_scale : float or None, default=2.0
        Standard deviation of the normal prior on coefficients of covariates, as in `EPCA`.
    max_iter : int, default=500
        Largest number of sweeps of one fit to convergence; in ``"map"`` of rounds of sweeps.
    tol : float, default=1e-4
        Stop when the Newton decrement per observed entry, a scaled gradient, is below this; in ``"map"`` when the
        objective changes by less than a hundredth of this fraction in a round.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    verbose : int, default=0
        Log each iteration to the logger ``anypca``; in ``"hmc"`` also show a progress bar.
    random_state : int, RandomState or None, default=0
        Seed of the start, and of the draws.
    warm_start : bool, default=False
        Whether to start from the components and dispersions of the last fit of this object, if the number of columns
        is the same. The search continues from there. In ``"vb"`` only.
    init : fitted estimator of this class or None, default=None
        Initial model otherwise; it must be fitted with ``warm_start=True`` or by ``partial_fit``.

    Attributes
    ----------
    n_components_ : int
        The chosen dimension, possibly 0.
    components_ : ndarray of shape (n_components_, n_features)
        Posterior means (or modes) of the loadings, largest first, the largest entry of each positive. Scores have
        unit variance, so loadings carry the sizes.
    components_std_ : ndarray of shape (n_components_, n_features)
        Posterior standard deviations of the loadings, in ``"vb"`` from squared scores of the rows, and with what scores
        that move together with them add (near components turn into each other); in ``"map"`` from the mode's curvature.
    alpha_ : ndarray of shape (n_components_,)
        Prior precisions of the loadings.
    intercept_, coef_, dispersion_, coef_std_, covariate_names_ : ndarray or list
        As in `EPCA`.
    evidence_ : float
        ``"vb"``: the variational lower bound of the log evidence, plus a normal approximation of the loss from treating
        scores and loadings as independent. It is the log-probability of the table recorded in steps of ``resolution_``.
        It is comparable across dimensions, families (counts with measurements too) and units, for fits to the same
        rows and columns with the same steps. Each estimated cut point or zero-inflation probability is penalised by
        ``log(n) / 2``. The evidence averages over scores and loadings, so do not compare it with criteria of plugged-in
        scores (`EPCA`) or with ``score_samples``.
        ``"map"``: Laplace's approximation, NaN with a loading penalty, whose prior has no known constant. NaN in
        ``"hmc"``, whose draws give none.
    evidence_by_rank_ : dict
        Evidence of each compared dimension. Only the chosen fit converges to ``tol``, the others to about a tenth of a
        nat.
    rank_probabilities_ : dict
        ``"vb"`` only: posterior probabilities of the compared dimensions, with equal prior probabilities.
    n_above_noise_ : int
        Directions of the residuals without components that lie above the edge of noise (99 % of the Tracy-Widom law),
        at most ``max_components``. Under a logarithmic link strong components bend the means into more directions
        than there are components. Not in ``"map"``.
    dispersion_report_ : DispersionReport
        The dispersions used, and the difference in evidence, in nats, to the alternatives; not in ``"map"``.
    joint_log_likelihood_ : float
        ``"map"`` only: log-density of the table, scores and loadings at the mode.
    nu_, nu_path_ : float, dict
        ``"map"`` only: the weight used, and the criterion and dimension of each that was tried. Of hidden entries it is
        their mean log-likelihood, with the median dimension of the fits that it was found with.
    sparsity_ : float
        The price of a non-zero loading that was used.
    posterior_, r_hat_, ess_
        ``"hmc"`` only: aligned draws for ArviZ (InferenceData; from its version 1 on xarray.DataTree), and their
        diagnostics by variable.
    pruning_path_ : tuple of Removal
        The pruned components: iteration, alpha and reason of each.
    explained_deviance_ratio_ : ndarray of shape (n_components_,)
    explained_variance_ : ndarray of shape (n_components_,)
        Ones: the prior variance of the scores, which ``sample`` draws from.
    family_, family_report_, resolution_, layout_, n_features_in_, n_iter_, objective_trace_, converged_, status_
        As in `EPCA`; the trace contains the bound (or objective) of the final fit.
    n_samples_seen_ : int
        Number of rows passed to ``partial_fit`` (``"vb"`` only). The first call sets the dimension, evidences,
        dispersions and trace; later calls keep them. ``components_std_`` then covers the posterior of the loadings
        alone.

    See Also
    --------
    EPCA : with a number of components that you give.
    BEPCA : the full posterior by sampling.
    PLNPCA : for counts with an offset, as in R's PLNmodels.

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
        "n_components": [
            StrOptions({"auto"}),
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
        ],
        "inference": [StrOptions({"vb", "map", "hmc"}), ModeOptions, SamplerOptions],
        "sparsity": [StrOptions({"auto"}), NOT_NEGATIVE],
        "dispersion": [StrOptions({"auto", "shared", "feature"}), POSITIVE],
    }

    _takes_entry_weight: ClassVar[bool] = True
    _gives_family: ClassVar[bool] = True

    max_components: int | None = None
    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    n_components: str | float = "auto"
    family: Any = "auto"
    resolution: Any = None
    inference: str | ModeOptions | SamplerOptions = "vb"
    sparsity: str | float = 0.0
    dispersion: str | float = "auto"
    fit_intercept: bool = True
    coef_scale: float | None = 2.0
    max_iter: int = 500
    tol: float = 1e-4
    random_state: Any = 0

    partial_fit = partial_fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
        entry_weight: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the model and choose its dimension.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            As in `EPCA.fit`, with all that follows; NaN is a missing entry.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None
        offset : array-like of shape (n_samples,) or (n_samples, n_features) or None
        covariates : array-like of shape (n_samples, n_covariates) or None
        entry_weight : array-like of shape (n_samples, n_features) or None
        checkpoint : path-like, Checkpoint or None
            File for the progress of the fit, which resumes from it after an interruption.

        Returns
        -------
        self
        """
        companions = {"sample_weight": sample_weight, "entry_weight": entry_weight}
        companions |= {"offset": offset, "covariates": covariates}
        with self._rollback_on_error():
            result = self._fit_once(X, checkpoint, companions)
        if self.mode_options is None and self._gives_family and self.dispersion == "auto":
            self.dispersion_report_.warn_if_replaced(self.family_report_)
        self._warn_unless_converged(result)
        return self

    def _fit_once(self, X: Any, checkpoint: Any, companions: Mapping[str, Any]) -> Result[Any]:
        """Fit with the families that the values tell; how it ended, and the number of entries."""
        with self._open_fit(X, **companions, checkpoint=checkpoint) as session:
            self._check_options()
            family, report = settle_family(session)
            check_support(family, session)
            settings, path = self._choose_settings(session, family, X, companions)
            fit = self._fit(session, family, replace(settings, is_family_given=is_given(report)))
            self._store(fit)
            if self.warm_start and isinstance(fit, PosteriorFit):
                self._last_run = replace(fit.loadings, change=None)
            self.family_report_ = report_dropped(report, session.layout)
            self.sparsity_ = settings.sparsity
            if path:
                self.nu_path_ = path
            return fit.result

    @property
    def mode_options(self) -> ModeOptions | None:
        """Options of the joint mode; ``None`` for other kinds of inference."""
        if isinstance(self.inference, ModeOptions):
            return self.inference
        return ModeOptions() if self.inference == "map" else None

    @property
    def sampler_options(self) -> SamplerOptions | None:
        """Options of the sampler; ``None`` for other kinds of inference."""
        if isinstance(self.inference, SamplerOptions):
            return self.inference
        return SamplerOptions() if self.inference == "hmc" else None

    def _dropped(self, session: FitContext, choice: FamilyChoice | None) -> Mapping[int, Form]:
        """Constants, copies and combinations, which look like columns without noise; none in modes, as published."""
        is_known = self._fixed_dispersion() is not None
        if self.mode_options is not None or self._uses_offset or is_known or choice is None:
            return {}
        return find_redundant(session, choice)

    def _check_options(self) -> None:
        """Raise on options that have no meaning together."""
        is_sparse = isinstance(self.sparsity, str) or self.sparsity > 0
        if self.sampler_options is not None and is_sparse:
            raise ValueError(
                f"sparsity={self.sparsity!r} has no meaning for draws from a posterior, which are never zero; "
                "use inference='vb' or 'map', or sparsity=0."
            )
        if self.inference != "vb" and (self.warm_start or self.init is not None):
            raise ValueError(
                "warm_start and init are for inference='vb'; others start from more components than they end with. "
                "Leave both out."
            )
        mode, is_share = self.mode_options, isinstance(self.n_components, float)
        if mode is not None and is_share:
            raise ValueError(
                f"n_components={self.n_components!r} is a share, which joint modes cannot aim at; use 'auto' or an int."
            )
        if mode is not None and is_sparse and mode.penalty(self.max_components or 0) is not None:
            raise ValueError(
                f"loading_penalty={mode.loading_penalty!r} and sparsity={self.sparsity!r} are two penalties of the "
                "same loadings; leave one out."
            )

    def _rank(self, session: FitContext) -> int:
        """Number of components to start from; a table with k rows or columns cannot have k of them."""
        largest = min(session.data.n_samples, session.data.n_features) - 1
        if self._has_fixed_rank():
            wanted = int(self.n_components)
            if wanted > max(largest, 0):
                raise ValueError(
                    f"n_components={wanted} is more than a table with n_samples={session.data.n_samples} "
                    f"and n_features={session.data.n_features} can have; use at most {max(largest, 0)}."
                )
            return wanted
        wanted = _DEFAULT_COMPONENTS if self.max_components is None else self.max_components
        return max(min(wanted, largest), 0)

    def _has_fixed_rank(self) -> bool:
        """Whether the user gave the number of components."""
        return not isinstance(self.n_components, str | float)

    def _fixed_dispersion(self) -> float | None:
        """The dispersion that the user fixed, if any."""
        return None if isinstance(self.dispersion, str) else float(self.dispersion)

    def _zero_scale(self) -> float:
        """Squared loadings well below it count as zeros if there is a price of non-zeros."""
        mode = self.mode_options
        return float(AdaptiveL0.delta if mode is None else mode.delta)

    def _choose_settings(
        self, session: FitContext, family: Family, X: Any, companions: Mapping[str, Any]
    ) -> tuple[Settings | ModeSettings, dict[float, tuple[float, int]]]:
        """Settings of a fit, and how hidden entries chose the weight of the data, if they did."""
        mode, layout, path = self.mode_options, session.layout, dict[float, tuple[float, int]]()
        by_hidden = mode is not None and mode.chooses_by_hidden_entries
        if session.data.has_entry_weights and (by_hidden or isinstance(self.sparsity, str)):
            raise ValueError(
                "nu_criterion='held_out' and sparsity='auto' choose by hidden entries, which have no weights of their "
                "own. Leave out entry_weight=, or give numbers for nu and sparsity."
            )
        trial = self
        if layout.labels:  # trials get encoded labels, which look like plain numbers
            X, trial = encode(X, dict(layout.labels)), clone(self).set_params(family=layout.settled(family))
        weights: tuple[float, ...] = ()
        if mode is not None:
            weights = weights_to_try(mode, count_rows(session), session.data.n_features)
        if mode is not None and by_hidden:
            path = choose_weight(trial, X, weights, companions)
            weights = (max(path, key=lambda nu: path[nu][0]),)
            trial = clone(trial).set_params(inference=replace(mode, nu=weights[0], nu_path=None))
        sparsity = self.sparsity
        settings = Settings(
            self._rank(session),
            bool(self.fit_intercept),
            self._fixed_dispersion(),
            choose_sparsity(trial, X, companions) if isinstance(sparsity, str) else float(sparsity),
            self._zero_scale(),
            self.dispersion if isinstance(self.dispersion, str) else "auto",  # type: ignore[arg-type]
            self._has_fixed_rank(),
            self.n_components if isinstance(self.n_components, float) else None,
        )
        if mode is None:
            return settings, path
        criterion = "joint" if mode.nu_criterion == "joint" else "evidence"
        threshold = np.inf if settings.is_rank_fixed else mode.threshold
        penalty = mode.penalty(settings.max_components)
        return ModeSettings(
            **vars(settings),
            weights=weights,
            criterion=criterion,
            threshold=threshold,
            penalty=penalty,
            strength=float(mode.loading_strength),
        ), path

    def _fit(
        self, session: FitContext, family: Family, settings: Settings | ModeSettings
    ) -> ModeFit | PosteriorFit:
        """The fit by the chosen inference."""
        if isinstance(settings, ModeSettings):
            return fit_mode(replace(session, tol=_MODE_TOLERANCE * session.tol), family, settings)
        sampler = self.sampler_options
        if sampler is None:
            return fit_posterior(session, family, settings, find_start(self))
        return fit_draws(session, family, settings, sampler, progress=bool(self.verbose))

    @property
    def _has_sparse_loadings(self) -> bool:  # type: ignore[override]
        return self.__sklearn_is_fitted__() and self._has_penalty()

    def _has_penalty(self) -> bool:
        """Whether loadings may be exactly zero."""
        mode = self.mode_options
        return self.sparsity_ > 0 or (mode is not None and mode.penalty(self.max_components or 0) is not None)

    def _row_model(self) -> ModeRowModel | PosteriorRowModel:
        return self._rows

    def _report(
        self, family: Family, found: Coefficients, order: Ints, coef_std: Floats | None = None
    ) -> tuple[Reported, Floats]:
        """Set what the coefficients tell, components in an order; how rows see them, and their signs."""
        signs = fix_signs(found.loadings.T)[order]
        coefficients = replace(found, loadings=found.loadings[:, order] * signs)
        store_coefficients(self, coefficients, coef_std)
        self.explained_variance_ = np.ones(self.n_components_)
        return Reported(family, coefficients, self.explained_variance_, bool(self.fit_intercept)), signs

    @contextmanager
    def _with_warm_start(self, session: FitContext) -> Iterator[FitContext]:
        """Yield the session unchanged; only the first of the runs of a fit uses the warm start."""
        yield session

    def _store(self, fit: ModeFit | PosteriorFit) -> None:
        """Set the fitted attributes, components in order of the deviance they explain."""
        order = np.argsort(-fit.deviances.shares, kind="stable")
        self.family_ = fit.problem.family
        coef_std = None
        if self._n_covariates and isinstance(fit, PosteriorFit):
            coef_std = coefficient_deviations(fit.loadings.precision, self._n_covariates)
        reported, signs = self._report(self.family_, fit.coefficients, order, coef_std)
        self._rows: ModeRowModel | PosteriorRowModel = fit.row_model(reported, order, signs)
        self.components_std_, self.alpha_ = fit.loading_std.T[order], fit.alpha[order]
        self.evidence_, self.evidence_by_rank_ = fit.evidence, fit.evidence_by_rank
        self.pruning_path_ = fit.removals
        self.explained_deviance_ratio_: Floats = fit.deviances.shares[order]
        self.deviance_, self.null_deviance_ = fit.deviances.full, fit.deviances.null
        self._store_result(fit.result)
        if isinstance(fit, PosteriorFit):
            self.dispersion_report_, self.n_above_noise_ = fit.dispersion_report, fit.n_above_noise
            self.rank_probabilities_ = fit.rank_probabilities
        if isinstance(fit, ModeFit):
            self.nu_, self.nu_path_, self.joint_log_likelihood_ = fit.nu, fit.path, fit.joint
        if isinstance(fit, SampledFit):
            self.posterior_, self.r_hat_, self.ess_ = fit.summary
            if self._n_covariates:
                self._covariates.restore_units(self.posterior_.posterior)

    def _can_stream(self) -> bool:
        if self.inference != "vb":
            raise AttributeError(
                f"partial_fit needs a posterior of the loadings that blocks can be added to, which "
                f"inference={self.inference!r} does not have. Use inference='vb', or EPCA."
            )
        return True

    def _begin_stream(self) -> tuple[PosteriorRule, Loadings]:
        assert isinstance(self._rows, PosteriorRowModel)
        return PosteriorRule(self._rows.problem), self._rows.loadings

    def _store_stream(self, stream: Stream[Loadings]) -> None:
        assert isinstance(stream.rule, PosteriorRule)
        loadings, problem = stream.shared, stream.rule.problem
        told = report_stream(
            stream, float(self.explained_deviance_ratio_.sum()), fit_intercept=self.fit_intercept
        )
        reported, signs = self._report(problem.family, told.coefficients, told.order)
        self._rows = PosteriorRowModel(reported, problem, replace(loadings), told.order, signs)
        self.components_std_ = told.loading_std.T[told.order]
        self.alpha_, self.explained_deviance_ratio_ = (
            loadings.ard_precision[told.order],
            told.shares[told.order],
        )
