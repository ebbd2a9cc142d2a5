"""Posterior of scores and loadings by the No-U-Turn sampler, with relevances from posterior expectations.

The variational fit gives the dispersion, the start and, with a few components more, the dimension to start from.
Rounds of short chains alternate with updates of the relevances (stochastic EM on equation (8) of the paper);
components whose loadings carry no signal against their posterior spread leave one at a time; one long run at the
final relevances is the answer. All draws are turned to common latent coordinates before anything is averaged.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data
from anypca.exceptions import NonFiniteError
from anypca.families import Family
from anypca.models._bilinear.passes import Deviances
from anypca.models._opened import open_block
from anypca.models._session import Session
from anypca.models.sepca._align import align, take_components, update_relevance
from anypca.models.sepca._density import JointDensity, Point, Whitened, collect_rows
from anypca.models.sepca._fit import VariationalFit, VariationalFitter
from anypca.models.sepca._hmc_fit import MAX_R_HAT, HMCFit, HMCResult, Mixing
from anypca.models.sepca._inference_data import diagnose, to_inference_data
from anypca.models.sepca._posterior import Loadings, Scores
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._sweeps import VariationalOptions, signal_ratio
from anypca.models.sepca._variational import VariationalProblem
from anypca.solvers import Progress
from anypca.solvers.nuts import Draws, NutsOptions, import_sampler, sample_nuts

# As in the variational fit: loadings this small a fraction of their posterior variance are no signal.
_PRUNE_RATIO = 0.05
# With its relevance at the optimum a component never lowers the evidence; to stay it must raise it twenty-fold, the
# usual mark of strong evidence.
_MIN_EVIDENCE = float(np.log(20.0))
# Components beyond those of the variational fit, so that the chains decide about them on their own.
_MARGIN = 2
# Relevances have settled when none changes by more than this factor; chains as short as below leave a few per cent.
_ALPHA_TOLERANCE = 0.1
# Length of the chains between two updates of the relevances.
_ROUND = NutsOptions(n_draws=60, n_tune=60, n_chains=2, target_accept=0.8)
# Of the second long run: smaller steps, and one draw in so many of the first as its starts.
_PATIENT_ACCEPT = 0.95
_START_STEP = 20
# Fewer draws than this have no R-hat, nor a covariance of a column's coefficients.
_MIN_DRAWS = 10
_LARGE_TABLE = 1_000_000
_MAX_BYTES = 4 * 2**30


@dataclass(frozen=True)
class HMCOptions:
    """Settings of the sampler."""

    n_draws: int = 500
    """Draws of each chain in the final run."""
    n_tune: int = 250
    """Draws that tune each chain of the final run."""
    n_chains: int = 4
    cores: int = 1
    """Chains that run at once; Python's lock leaves little to gain on small tables."""
    max_rounds: int = 30
    """Largest number of updates of the relevances."""
    max_attempts: int = 2
    """2: where the chains of the final run disagree, a second one that learns correlations and is twice as long,
    of which every other draw is kept."""
    progress: bool = False
    """Show a progress bar of the final run."""


@dataclass(frozen=True, eq=False)
class _State:
    """Relevances, and draws in their coordinates to start from."""

    alpha: Floats
    draws: Point
    """Scores (s, n, k) and coefficients (s, p, m)."""

    @property
    def mean(self) -> Point:
        return Point(self.draws.scores.mean(axis=0), self.draws.joint.mean(axis=0))


@dataclass(frozen=True, eq=False)
class _Run:
    """A long run, aligned and judged."""

    draws: Point
    posterior: Any
    r_hat: dict[str, Floats]
    ess: dict[str, Floats]
    worst: float
    """Largest R-hat."""
    n_diverging: int


def evidence_gain(loadings: Loadings) -> Floats:
    r"""What each component adds to the log evidence, shape (k,).

    A component with loadings :math:`w_k = 0` has left the model, so the evidence without it over that with it is the
    posterior over the prior density of :math:`w_k` at zero (the Savage-Dickey ratio). With normal posteriors
    :math:`N(v_{jk}, c_{jk})` of the loadings the gain is
    :math:`\tfrac12 \sum_j [v_{jk}^2 / c_{jk} + \log(\alpha_k c_{jk})]`.
    """
    k = loadings.n_components
    variance = np.einsum("jaa->ja", loadings.covariance)[:, :k]
    terms = loadings.mean[:, :k] ** 2 / variance + np.log(loadings.alpha * variance)
    gain: Floats = 0.5 * terms.sum(axis=0)
    return gain


class HMCFitter:
    """Fits one table; see the module's first lines.

    Parameters
    ----------
    session : Session
        Its table is held in memory as one dense array, with all draws: tables of up to about a million entries. Its
        callback is told of each sweep of the fit that the chains start from, and of each round.
    family : Family
    settings : VariationalOptions
        Of the fit that the chains start from.
    sampling : HMCOptions

    Raises
    ------
    ImportError
        If nutpie or arviz is missing.
    ValueError
        If fewer draws are asked for than can be summarised.
    """

    def __init__(
        self,
        session: Session,
        family: Family,
        settings: VariationalOptions,
        sampling: HMCOptions | None = None,
    ) -> None:
        import_sampler()
        self.session = session
        self.family = family
        self.settings = settings
        self.sampling = HMCOptions() if sampling is None else sampling
        if self.sampling.n_draws < _MIN_DRAWS:
            raise ValueError(
                f"inference='hmc' needs n_draws of at least {_MIN_DRAWS}, to compare chains and to summarise them; "
                f"got n_draws={self.sampling.n_draws}. The default is {HMCOptions.n_draws}."
            )
        self.variational = VariationalFitter(session, family, settings)
        self.removals: list[Removal] = []
        self.trace: list[float] = []

    def fit(self, rng: np.random.Generator) -> HMCFit:
        """Variational start, rounds of relevances, one long run."""
        _check_size(self.session.data)
        start = self.variational.fit(rng)
        start = replace(start, loadings=start.loadings.unitless())
        self.family = start.problem.family  # the fit may have given counts a scale of their own
        self.removals, self.trace = [], []
        self._base = self._density(start)
        state = self._begin(start, rng)
        while True:
            state = self._rounds(state, rng)
            self._check_memory(state)
            run = self._final_run(state, rng)
            weakest = self._weakest(run.draws, settled=True)
            if weakest is None:
                return self._conclude(start, run)
            state = self._next(run.draws, weakest)

    def deviances(self, fit: HMCFit) -> Deviances:
        """Deviances at the posterior means."""
        return self.variational.deviances(fit)  # type: ignore[arg-type]  # what it reads is there

    def _final_run(self, state: _State, rng: np.random.Generator) -> _Run:
        """The long run at the final relevances, and a more patient one if its chains disagree."""
        chosen = self.sampling
        options = NutsOptions(chosen.n_draws, chosen.n_tune, chosen.n_chains, chosen.cores)
        run = self._run(state, options, rng)
        if run.worst > MAX_R_HAT and chosen.max_attempts > 1:
            patient = replace(options, low_rank=True, target_accept=_PATIENT_ACCEPT, thin=2)
            starts = Point(run.draws.scores[::_START_STEP], run.draws.joint[::_START_STEP])
            run = self._run(_State(state.alpha, starts), patient, rng)
        return run

    def _run(self, state: _State, options: NutsOptions, rng: np.random.Generator) -> _Run:
        found, draws = self._sample(state, options, rng, progress=self.sampling.progress)
        names = self.session.data.feature_names
        labels = np.arange(self.session.data.n_features) if names is None else np.asarray(names, dtype=object)
        posterior = to_inference_data(draws, found, labels, has_intercept=self.settings.fit_intercept)
        r_hat, ess = diagnose(posterior)
        worst = max((float(values.max()) for values in r_hat.values()), default=1.0)
        return _Run(draws, posterior, r_hat, ess, worst, int(found.diverging.sum()))

    def _density(self, start: VariationalFit) -> JointDensity:
        rows = collect_rows(
            self.session.data, self.session.executor, fit_intercept=self.settings.fit_intercept
        )
        loadings = start.loadings
        return JointDensity(self.family, rows, loadings.dispersion, loadings.alpha, loadings.fixed_precision)

    def _begin(self, start: VariationalFit, rng: np.random.Generator) -> _State:
        """Draws from the variational posterior, with a few components more that are drawn from their prior."""
        loadings, n, p = start.loadings, self.session.data.n_samples, self.session.data.n_features
        extra = max(min(_MARGIN, self.settings.max_components - loadings.n_components), 0)
        means = [scores.mean for scores in self.session.executor.gather(start.local)]
        centre = Point(np.concatenate(means).astype(float), loadings.mean)
        whitened = Whitened.at(self._base, centre)
        n_starts = 2 * _ROUND.n_chains
        size = centre.scores.size + centre.joint.size
        draws = whitened.restore(rng.standard_normal((n_starts, size)))
        alpha = self._new_relevance(centre)
        joint = [
            draws.loadings,
            rng.standard_normal((n_starts, p, extra)) / np.sqrt(alpha),
            draws.fixed,
        ]
        scores = np.concatenate([draws.scores, rng.standard_normal((n_starts, n, extra))], axis=2)
        return _State(
            np.concatenate([loadings.alpha, np.full(extra, alpha)]),
            Point(scores, np.concatenate(joint, axis=2)),
        )

    def _new_relevance(self, centre: Point) -> float:
        r"""Of a component at the limit of what can be told from noise.

        With h units of information in an entry, a direction is detectable from
        :math:`h \|w\|^2 = \sqrt{D / N}` on, that is :math:`\alpha = h \sqrt{N D}`.
        """
        rows = self._base.rows
        eta = self._base.predictor(centre)
        curvature = self.family.evaluate(rows.x, eta, self._base.dispersion, order=2).curvature
        assert curvature is not None
        information = float(curvature.mean() if rows.observed is None else curvature[rows.observed].mean())
        return information * float(np.sqrt(eta.size))

    def _rounds(self, state: _State, rng: np.random.Generator) -> _State:
        """Update the relevances until they stand still and every component has signal."""
        is_settled = False
        while len(state.alpha) and len(self.trace) < self.sampling.max_rounds:
            _, draws = self._sample(state, _ROUND, rng)
            weakest = self._weakest(draws, settled=is_settled)
            after = self._next(draws, weakest)
            if weakest is None:
                if is_settled:
                    return after
                change = float(np.abs(np.log(after.alpha / state.alpha)).max())
                is_settled = change <= _ALPHA_TOLERANCE
            self._report(change if weakest is None else np.inf)
            state = after
        return state

    def _sample(
        self, state: _State, options: NutsOptions, rng: np.random.Generator, *, progress: bool = False
    ) -> tuple[Draws, Point]:
        """A run at the state's relevances; its draws aligned, chain after chain."""
        mean, density = state.mean, replace(self._base, alpha=state.alpha)
        whitened = Whitened.at(density, mean)
        seed = int(rng.integers(2**31))
        found = sample_nuts(whitened, whitened.positions(state.draws), options, seed=seed, progress=progress)
        if not np.isfinite(found.log_density).all():
            raise NonFiniteError("a chain left the finite range. Look for extreme values in X.")
        self.trace.append(float(found.log_density.mean()))
        flat = found.position.reshape(-1, found.position.shape[-1])
        return found, align(whitened.restore(flat), mean)

    def _weakest(self, draws: Point, *, settled: bool) -> int | None:
        """The component with the least signal if that is too little; it is noted as removed.

        The evidence is asked only when the relevances have settled: before, a component may still be growing.
        """
        loadings = self._summary(draws)
        ratio = signal_ratio(loadings)
        if not ratio.size:
            return None
        weakest = int(ratio.argmin())
        if ratio[weakest] < _PRUNE_RATIO:
            reason = "relevance"
        elif settled and evidence_gain(loadings)[weakest] < _MIN_EVIDENCE:
            reason = "evidence"
        else:
            return None
        alpha = float(loadings.alpha[weakest])
        self.removals.append(Removal(len(self.trace), len(ratio), alpha, float(ratio[weakest]), reason))
        return weakest

    def _next(self, draws: Point, weakest: int | None) -> _State:
        """Relevances from the draws, without the weakest component if there is one."""
        if weakest is not None:
            draws = take_components(draws, np.delete(np.arange(draws.scores.shape[-1]), weakest))
        found = update_relevance(draws, centre=self.settings.fit_intercept)
        return _State(found.alpha, found.apply(draws))

    def _summary(self, draws: Point) -> Loadings:
        """Mean and precision of the columns' draws."""
        mean = draws.joint.mean(axis=0)
        m, k = mean.shape[1], draws.scores.shape[-1]
        centred = draws.joint - mean
        covariance = np.einsum("sja,sjb->jab", centred, centred) / max(len(centred) - 1, 1)
        precision = np.linalg.inv(covariance)
        upper = np.triu_indices(m)
        sizes = (draws.loadings**2).sum(axis=1).mean(axis=0)
        packed = precision[:, upper[0], upper[1]]
        dispersion, fixed_precision = self._base.dispersion, self._base.fixed_precision
        return Loadings(mean, packed, len(mean) / sizes[:k], dispersion, fixed_precision)

    def _conclude(self, start: VariationalFit, run: _Run) -> HMCFit:
        loadings = self._summary(run.draws)
        status = Mixing.CONVERGED if run.worst <= MAX_R_HAT else Mixing.DISAGREE
        return HMCFit(
            problem=start.problem,
            loadings=loadings,
            local=self._solve_rows(start.problem, loadings),
            result=HMCResult(loadings, np.array(self.trace), status, run.worst, len(self.trace)),
            removals=tuple(self.removals),
            posterior=run.posterior,
            r_hat=run.r_hat,
            ess=run.ess,
            start=replace(start, local=()),
            features=self._base.rows.features,
            offset=self._base.rows.offset,
            n_diverging=run.n_diverging,
        )

    def _solve_rows(self, problem: VariationalProblem, loadings: Loadings) -> Sequence[Any]:
        """q(z) of the training rows, as ``transform`` finds it."""
        fit_intercept = self.settings.fit_intercept

        def visit(block: Block, _: Any) -> Scores:
            rows = open_block(block, fit_intercept=fit_intercept)
            return problem.solve_rows(rows, loadings)[0]

        return self.session.map(visit)

    def _report(self, change: float) -> None:
        self.session.callback(Progress(len(self.trace), self.sampling.max_rounds, self.trace[-1], change))

    def _check_memory(self, state: _State) -> None:
        dimension = state.draws.scores[0].size + state.draws.joint[0].size
        needed = 8 * dimension * self.sampling.n_chains * self.sampling.n_draws
        if needed > _MAX_BYTES:
            raise ValueError(
                f"inference='hmc' keeps all draws in memory; {self.sampling.n_chains} chains of "
                f"{self.sampling.n_draws} draws of {dimension} scores and loadings take {needed / 2**30:.1f} GiB, more "
                f"than {_MAX_BYTES / 2**30:.0f}. Ask for fewer draws, or use inference='vb', which is for large tables."
            )


def _check_size(data: Data) -> None:
    entries = data.n_samples * data.n_features
    if entries > _LARGE_TABLE:
        warnings.warn(
            f"inference='hmc' is made for tables of up to about {_LARGE_TABLE:.0e} entries; this one has "
            f"{entries:.1e}. It may take hours; inference='vb' takes minutes.",
            UserWarning,
            stacklevel=5,
        )
