"""Simple exponential-family PCA: chooses its own dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from anypca._compat import Interval, StrOptions
from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.families.auto import FamilyChoice
from anypca.families.forms import Form
from anypca.linalg import fix_signs
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.row_model import BilinearModel, ModeRowModel, Reported
from anypca.models._description import Description
from anypca.models._manners import NOT_NEGATIVE, POSITIVE
from anypca.models._session import Session, choose_family
from anypca.models._stream import Stream, StreamingRows
from anypca.models.sepca._choice import choose_settings
from anypca.models.sepca._hmc import SampledFit, SamplerOptions, fit_draws
from anypca.models.sepca._noise import Settings
from anypca.models.sepca._options import check_options, loading_penalty
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._redundant import find_redundant, tell_left_out
from anypca.models.sepca._rows import PosteriorRowModel
from anypca.models.sepca._search import PosteriorFit, fit_posterior
from anypca.models.sepca._settings import ModeSettings
from anypca.models.sepca._stream import PosteriorRule, report_stream
from anypca.models.sepca.map._mode import ModeFit, fit_mode
from anypca.priors import Prior
from anypca.solvers import Result

# Components to start from unless the user says otherwise. Sweeps cost with their square; the tables of
# ``experiments/RESULTS.md`` have up to 15.
_DEFAULT_COMPONENTS = 20
# Tolerance of modes in units of ``tol``: rounds gain little each, so that a change of the objective by less than
# ``tol`` would stop them on their way.
_MODE_TOLERANCE = 0.01


@dataclass(eq=False, repr=False)
class SePCA(StreamingRows, BilinearModel):
    r"""Exponential-family PCA that chooses its number of components.

    The predictor is that of `EPCA`, with scores :math:`z_i \sim N(0, I)` and a separate prior precision
    :math:`\alpha_k` for the loadings of each component (automatic relevance determination). Components without
    signal lose their loadings and leave.

    Parameters
    ----------
    max_components : int or None, default=None
        Number of components to start from; None is 20, or what the table allows.
    family : str, Family, list or dict, default="auto"
        As in `EPCA`. Counts get the negative binomial under ``"auto"``, whose limit is Poisson: over-dispersion
        that is not modelled is taken for components. Where values hardly tell the family of a column, the evidence of
        whole fits decides between the best two, in tables of up to a million entries and with ``"vb"``.
    resolution : None, float, sequence or dict, default=None
        Step with which columns are recorded, such as 0.1 for one decimal: one for all, one per column, or a dict from
        column to step. None finds it from the values.
    inference : {"vb", "map", "hmc"}, default="vb"
        ``"vb"``: normal posteriors of scores and loadings; neighbouring dimensions are compared by the bound on the
        evidence. ``"map"``: the published algorithm, joint modes of scores and loadings; it needs the weight ``nu``.
        ``"hmc"``: draws from the posterior by the No-U-Turn sampler, for tables of up to about a million entries;
        needs the extra ``mcmc``.
    nu : {"auto", "scaled"} or float, default="auto"
        Weight of the data in ``"map"``, where the mode keeps noise as the number of rows n grows beyond the number of
        columns D. ``"scaled"``, which ``"auto"`` means too, is :math:`\nu^* = 4 D / (\sqrt n + \sqrt D)^2`.
    nu_path : sequence of float, "auto" or None, default=None
        Weights to try in ``"map"``, of which ``nu_criterion`` takes one; ``"auto"`` tries seven from :math:`\nu^*/2`
        to 1, beyond which an entry would count more than once.
    nu_criterion : {"held_out", "evidence", "joint"}, default="held_out"
        ``"held_out"`` takes the weight whose fits predict hidden entries best (four times a tenth of them),
        ``"evidence"`` the one with the largest Laplace evidence. ``"joint"``, the published criterion, takes the
        one with the largest joint log-likelihood, which is nearly always the largest or 1, with too many components.
    sparsity : {"auto"} or float, default=0.0
        Price of a non-zero loading (adaptive L0). Loadings then have exact zeros, except that below 1/2 ``"vb"`` only
        shrinks. ``"auto"`` takes the largest price whose fit predicts hidden entries within one standard error
        of the best and has components left. Not in ``"hmc"``.
    delta : float, default=1e-8
        Squared loadings well below it count as zeros where ``sparsity`` asks for a price.
    loading_penalty : str or Prior, default="ridge"
        ``"ridge"`` is the normal prior alone. ``"l1"``, ``"scad"`` and ``"group"`` stand beside it in ``"map"`` and
        apply to loadings as they belong to scores of about unit size: with the first two components have few columns,
        with the last columns leave all components at once. Also a `anypca.priors.Prior`. Between removals the
        objective, penalty included, never falls from round to round. Not in ``"vb"`` and ``"hmc"``.
    loading_strength : float, default=1.0
        Weight of that penalty against the log-likelihood. A loading is zero where the likelihood gains less per unit;
        noise alone gains about ``sqrt(n_samples)`` times the root of an entry's information, and all of it is gone at
        several times that.
    threshold : float or None, default=None
        In ``"map"``, components leave when their ``alpha`` exceeds it (five times it in the first ten rounds); None
        is 100 D times the largest mean curvature of a column, which does not depend on units.
    dispersion : {"auto", "shared", "feature"} or float, default="auto"
        ``"auto"`` estimates open dispersions between fits: one for the columns of a family (of real columns one share
        of their variance, so that units do not matter), and in ``"vb"`` one for each column where that has the
        larger evidence. Counts that vary less than Poisson counts (judged against a table drawn from the fit) become
        `ScaledPoisson`, steady exponential amounts `Gamma`; ``dispersion_report_`` says so, and a warning does where
        ``family`` was not ``"auto"``. ``"shared"`` keeps the family and has one for
        the columns of a family, for real columns one variance, whose unit must be one then. ``"feature"`` has one
        for each column, with `ScaledPoisson` for Poisson columns. A number fixes open dispersions.
    fit_intercept : bool, default=True
        Without it the model spends a component on the means.
    n_draws, n_tune, n_chains : int, default=500, 250, 4
        Of the sampler in ``"hmc"``.
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
        Start from the components and dispersions with which the last fit of this object ended, if the columns are as
        many, and look for fewer or more from there. In ``"vb"`` only.
    init : fitted estimator of this class or None, default=None
        Where to start otherwise: at the end of a fit that was made with ``warm_start=True`` or by ``partial_fit``.

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
    intercept_, coef_, dispersion_ : ndarray
        As in `EPCA`.
    evidence_ : float
        ``"vb"``: the variational bound of the log evidence and, in a normal approximation, what it loses by holding
        scores and loadings apart. It is the log-probability of the table as it is recorded, in steps of
        ``resolution_``: comparable across dimensions, families (counts with measurements too) and units, for fits to
        the same rows and columns with the same steps; not with fits to other rows, columns or steps. Cut points of
        ordinal columns and shares of extra zeros, which the table told, cost ``log(n) / 2`` each. It averages over
        scores and loadings: neither criteria of plugged-in scores (`EPCA`) nor ``score_samples`` compare with it.
        ``"map"``: Laplace's approximation, NaN with a loading penalty, whose prior has no known constant. NaN in
        ``"hmc"``, whose draws give none.
    evidence_by_rank_ : dict
        The same for the dimensions that were compared; bounds of dimensions that could not win are not driven to
        convergence.
    rank_probabilities_ : dict
        ``"vb"`` only: what these say of the dimensions, which are taken as equally likely beforehand. Larger ones are
        there too, by what the spectrum of the residuals says of components too weak for the fit to keep: where all
        that it kept are strong, others are not likely to be that weak.
    n_above_noise_ : int
        Directions of the residuals without components that lie above the edge of noise (99 % of the Tracy-Widom law),
        at most ``max_components``. Under a logarithmic link strong components bend the means into more directions
        than there are components. Not in ``"map"``.
    dispersion_report_ : DispersionReport
        Which dispersions were used, and by how many nats they are ahead of what they were compared with; not in
        ``"map"``.
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
        Which component left when, at what alpha, for what reason.
    explained_deviance_ratio_ : ndarray of shape (n_components_,)
    explained_variance_ : ndarray of shape (n_components_,)
        Ones: the prior variance of the scores, which ``sample`` draws from.
    family_, family_report_, resolution_, layout_, n_features_in_, n_iter_, objective_trace_, converged_, status_
        As in `EPCA`; the trace is that of the bound (or objective) in the final fit.
    n_samples_seen_ : int
        Rows that ``partial_fit`` was given (``"vb"`` only). It keeps the dimension that its first call has chosen;
        evidences, dispersions and the trace stay those of that call, and ``components_std_`` are those of the loadings'
        posterior alone.

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
        "inference": [StrOptions({"vb", "map", "hmc"})],
        "nu": [StrOptions({"auto", "scaled"}), POSITIVE],
        "nu_path": [None, StrOptions({"auto"}), "array-like"],
        "nu_criterion": [StrOptions({"held_out", "evidence", "joint"})],
        "sparsity": [StrOptions({"auto"}), NOT_NEGATIVE],
        "delta": [POSITIVE],
        "loading_penalty": "no_validation",
        "loading_strength": [POSITIVE],
        "threshold": [None, POSITIVE],
        "dispersion": [StrOptions({"auto", "shared", "feature"}), POSITIVE],
    }

    #: Whether ``family`` is what a user insists on.
    _takes_entry_weight: ClassVar[bool] = True
    _gives_family: ClassVar[bool] = True

    max_components: int | None = None
    _: KW_ONLY
    family: Any = "auto"
    resolution: Any = None
    inference: str = "vb"
    nu: str | float = "auto"
    nu_path: Sequence[float] | str | None = None
    nu_criterion: str = "held_out"
    sparsity: str | float = 0.0
    delta: float = 1e-8
    loading_penalty: str | Prior = "ridge"
    loading_strength: float = 1.0
    threshold: float | None = None
    dispersion: str | float = "auto"
    fit_intercept: bool = True
    n_draws: int = 500
    n_tune: int = 250
    n_chains: int = 4
    max_iter: int = 500
    tol: float = 1e-4
    random_state: Any = 0

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
            File for the progress of the fit, which goes on from there after a kill or an interrupt.

        Returns
        -------
        self
        """
        companions = {"sample_weight": sample_weight, "entry_weight": entry_weight}
        companions |= {"offset": offset, "covariates": covariates}
        with self._all_or_nothing():
            result = self._fit_once(X, checkpoint, companions)
        if self.inference != "map" and self._gives_family and self.dispersion == "auto":
            self.dispersion_report_.warn_if_replaced(self.family_report_)
        self._warn_unless_converged(result)
        return self

    def _fit_once(self, X: Any, checkpoint: Any, companions: Mapping[str, Any]) -> Result[Any]:
        """Fit with the families that the values tell; how it ended, and the number of entries."""
        with self._open_fit(X, **companions, checkpoint=checkpoint) as session:
            self._check_options()
            family, report = choose_family(self.family, session)
            settings, path = choose_settings(self, session, family, X, companions)
            fit = self._fit(session, family, settings)
            self._store(fit)
            if self.warm_start and isinstance(fit, PosteriorFit):
                self._last_run = replace(fit.loadings, change=None)  # type: ignore[misc]
            self.family_report_ = tell_left_out(report, session.layout)
            self.sparsity_ = settings.sparsity
            if path:
                self.nu_path_ = path
            return fit.result

    def _left_out(self, session: Session, choice: FamilyChoice | None) -> Mapping[int, Form]:
        """Constants, copies and combinations would pass for columns without noise; not in modes, as published."""
        is_known = self._fixed_dispersion() is not None
        if self.inference == "map" or self._uses_offset or is_known or choice is None:
            return {}
        return find_redundant(session, choice)

    def _check_options(self) -> None:
        """Raise on options that have no meaning together."""
        check_options(self)

    def _rank(self, session: Session) -> int:
        """Number of components to start from; a table with k rows or columns cannot have k of them."""
        largest = min(session.data.n_samples, session.data.n_features) - 1
        wanted = _DEFAULT_COMPONENTS if self.max_components is None else self.max_components
        return max(min(wanted, largest), 0)

    def _largest_alpha(self) -> float | None:
        """The relevance beyond which components leave a mode; ``None`` for one without units."""
        return self.threshold

    def _fixed_dispersion(self) -> float | None:
        """The dispersion that the user fixed, if any."""
        return None if isinstance(self.dispersion, str) else float(self.dispersion)

    def _fit(
        self, session: Session, family: Family, settings: Settings | ModeSettings
    ) -> ModeFit | PosteriorFit:
        """The fit by the chosen inference."""
        if isinstance(settings, ModeSettings):
            return fit_mode(replace(session, tol=_MODE_TOLERANCE * session.tol), family, settings)
        if self.inference == "vb":
            return fit_posterior(session, family, settings, self._start())
        options = SamplerOptions(self.n_draws, self.n_tune, self.n_chains)
        return fit_draws(session, family, settings, options, progress=bool(self.verbose))

    def describe(self) -> Description:
        is_sparse = self.__sklearn_is_fitted__() and (self.sparsity_ > 0 or loading_penalty(self) is not None)
        return replace(super().describe(), has_sparse_loadings=is_sparse)

    def _row_model(self) -> ModeRowModel | PosteriorRowModel:
        return self._rows

    def _report(self, family: Family, found: Coefficients, order: Ints) -> tuple[Reported, Floats]:
        """Set what the coefficients tell, components in an order; how rows see them, and their signs."""
        signs = fix_signs(found.loadings.T)[order]
        coefficients = replace(found, loadings=found.loadings[:, order] * signs)
        self._store_coefficients(coefficients)
        self.explained_variance_ = np.ones(self.n_components_)
        return Reported(family, coefficients, self.explained_variance_, bool(self.fit_intercept)), signs

    @contextmanager
    def _warmed(self, session: Session) -> Iterator[Session]:
        """The session as it is: a fit is many runs of several dimensions, of which the first gets the start."""
        yield session

    def _store(self, fit: ModeFit | PosteriorFit) -> None:
        """Set the fitted attributes, components in order of the deviance they explain."""
        order = np.argsort(-fit.deviances.without, kind="stable")
        self.family_ = fit.problem.family
        reported, signs = self._report(self.family_, fit.coefficients, order)
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
