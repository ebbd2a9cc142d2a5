"""Posterior of scores and loadings by the No-U-Turn sampler, with relevances from posterior expectations.

The variational fit gives the dispersion, the start and, with a few components more, the dimension to start from.
Rounds of short chains alternate with updates of the relevances (stochastic EM on equation (8) of the paper);
components whose loadings carry no signal against their posterior spread leave one at a time; one long run at the
final relevances is the answer. All draws are turned to common latent coordinates before anything is averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bayes.chains import (
    MAX_R_HAT,
    Mixing,
    SampledResult,
    Summary,
    check_memory,
    check_sampling,
    refuse_non_finite,
    summarise,
)
from anypca.models._bayes.points import Point, align, collect_rows, take_components
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._opened import open_block
from anypca.models._session import Session
from anypca.models.sepca._density import JointDensity, Whitened
from anypca.models.sepca._fit import PosteriorFit, fit_posterior
from anypca.models.sepca._lasting import PRUNE_RATIO
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._relevance import update_relevance
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._scores import Scores
from anypca.models.sepca._settings import SamplerSettings, Settings
from anypca.solvers import Progress
from anypca.solvers.nuts import Draws, NutsOptions, sample_nuts

# With its relevance at the optimum a component never lowers the evidence; to stay it must raise it twenty-fold, the
# usual mark of strong evidence.
_MIN_EVIDENCE = float(np.log(20.0))
# Components beyond those of the variational fit, so that the chains decide about them on their own.
_MARGIN = 2
# Change of the logarithms of the relevances at which they have settled: chains as short as those below tell the mean
# squares of loadings to some per cent.
_ALPHA_TOLERANCE = 0.1
# Chains between two updates of the relevances. They only have to tell the mean squares of loadings; 0.8 is the
# sampler's usual rate of acceptance.
_ROUND = NutsOptions(n_draws=60, n_tune=60, n_chains=2, target_accept=0.8)
# Rate of acceptance of a second long run: smaller steps, for densities that the first found hard to follow. It starts
# from one draw in twenty of the first, which are about independent.
_PATIENT_ACCEPT = 0.95
_START_STEP = 20
# For messages.
_WHO, _REMEDY = "inference='hmc'", "use inference='vb', which takes minutes"


@dataclass(frozen=True, eq=False)
class SampledFit(PosteriorFit):
    """The posterior at the chosen dimension, by draws.

    ``loadings`` are mean and precision of each column's aligned draws, with ``alpha = D / E||w_k||^2``; ``local`` is
    q(z) of the training rows under these. Draws give no evidence.
    """

    summary: Summary
    """Scores, loadings, intercept (and coef) over chains and draws, aligned."""


@dataclass(frozen=True, eq=False)
class _State:
    """Relevances, draws in their coordinates to start from, and the way that led there."""

    alpha: Floats
    draws: Point
    """Scores (s, n, k) and coefficients (s, p, m)."""
    trace: tuple[float, ...] = ()
    """Mean log density of each run."""
    removals: tuple[Removal, ...] = ()

    @property
    def mean(self) -> Point:
        return Point(self.draws.scores.mean(axis=0), self.draws.joint.mean(axis=0))


@dataclass(frozen=True, eq=False)
class _Run:
    """A long run, aligned and judged."""

    state: _State
    """The relevances of the run and its draws."""
    summary: Summary
    worst: float
    """Largest R-hat."""


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
    return np.asarray(0.5 * terms.sum(axis=0))


def fit_draws(session: Session, family: Family, settings: Settings, sampling: SamplerSettings) -> SampledFit:
    """Variational start, rounds of relevances, one long run.

    Parameters
    ----------
    session : Session
        Its table is held in memory as one dense array, with all draws: tables of up to about a million entries. Its
        callback is told of each sweep of the fit that the chains start from, and of each round.
    family : Family
    settings : Settings
        Of the fit that the chains start from.
    sampling : SamplerSettings

    Raises
    ------
    ImportError
        If nutpie or arviz is missing.
    ValueError
        If fewer draws are asked for than can be summarised.
    """
    check_sampling(session.data, sampling.n_draws, SamplerSettings.n_draws, _WHO, _REMEDY)
    start = fit_posterior(session, family, settings)
    start = replace(start, loadings=start.loadings.unitless())
    sampler = _Sampler(session, settings, sampling, _density(session, start))
    state = sampler.begin(start)
    while True:
        run = sampler.final_run(sampler.rounds(state))
        weakest = sampler.weakest(run.state, is_settled=True)
        if weakest is None:
            return sampler.conclude(start, run)
        state = sampler.next(run.state, weakest)


def _density(session: Session, start: PosteriorFit) -> JointDensity:
    """The density of a start; the family is that of its fit, which may have given counts a scale of their own."""
    loadings, problem = start.loadings, start.problem
    rows = collect_rows(session, fit_intercept=problem.fit_intercept)
    return JointDensity(problem.family, rows, loadings.dispersion, loadings.alpha, loadings.fixed_precision)


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Runs chains; its methods go from one state to the next."""

    session: Session
    settings: Settings
    sampling: SamplerSettings
    base: JointDensity
    """The density at the relevances of the start."""

    def begin(self, start: PosteriorFit) -> _State:
        """Draws from the variational posterior, with a few components more that are drawn from their prior."""
        loadings, rng = start.loadings, self.session.rng
        n, p = self.session.data.n_samples, self.session.data.n_features
        extra = max(min(_MARGIN, self.settings.max_components - loadings.n_components), 0)
        means = [scores.mean for scores in self.session.executor.gather(start.local)]
        centre = Point(np.concatenate(means).astype(float), loadings.mean)
        n_starts = 2 * _ROUND.n_chains
        size = centre.scores.size + centre.joint.size
        draws = Whitened.at(self.base, centre).restore(rng.standard_normal((n_starts, size)))
        alpha = self._new_relevance(centre)
        added = rng.standard_normal((n_starts, p, extra)) / np.sqrt(alpha)
        scores = np.concatenate([draws.scores, rng.standard_normal((n_starts, n, extra))], axis=2)
        joint = np.concatenate([draws.loadings, added, draws.fixed], axis=2)
        return _State(np.concatenate([loadings.alpha, np.full(extra, alpha)]), Point(scores, joint))

    def rounds(self, state: _State) -> _State:
        """Update the relevances until they stand still and every component has signal."""
        is_settled = False
        while len(state.alpha) and len(state.trace) < self.sampling.max_rounds:
            _, drawn = self._sample(state, _ROUND)
            weakest = self.weakest(drawn, is_settled=is_settled)
            after = self.next(drawn, weakest)
            change = np.inf
            if weakest is None:
                if is_settled:
                    return after
                change = float(np.abs(np.log(after.alpha / state.alpha)).max())
                is_settled = change <= _ALPHA_TOLERANCE
            limit = self.sampling.max_rounds
            self.session.callback(Progress(len(after.trace), limit, after.trace[-1], change))
            state = after
        return state

    def final_run(self, state: _State) -> _Run:
        """The long run at the final relevances, and a more patient one if its chains disagree."""
        dimension = state.draws.scores[0].size + state.draws.joint[0].size
        check_memory(dimension * self.sampling.n_chains * self.sampling.n_draws, _WHO, _REMEDY)
        chosen = self.sampling
        options = NutsOptions(chosen.n_draws, chosen.n_tune, chosen.n_chains, chosen.cores)
        run = self._run(state, options)
        if run.worst > MAX_R_HAT and chosen.max_attempts > 1:
            patient = replace(options, low_rank=True, target_accept=_PATIENT_ACCEPT, thin=2)
            draws = run.state.draws
            starts = Point(draws.scores[::_START_STEP], draws.joint[::_START_STEP])
            run = self._run(replace(run.state, draws=starts), patient)
        return run

    def weakest(self, state: _State, *, is_settled: bool) -> tuple[int, Removal] | None:
        """The component with the least signal, if that is too little for it to stay.

        The evidence is asked only when the relevances have settled: before, a component may still be growing.
        """
        loadings = self._summary(state.draws)
        ratio = loadings.signal_ratio
        if not ratio.size:
            return None
        weakest = int(ratio.argmin())
        if ratio[weakest] < PRUNE_RATIO:
            reason = "relevance"
        elif is_settled and evidence_gain(loadings)[weakest] < _MIN_EVIDENCE:
            reason = "evidence"
        else:
            return None
        alpha = float(loadings.alpha[weakest])
        return weakest, Removal(len(state.trace), len(ratio), alpha, float(ratio[weakest]), reason)

    def next(self, state: _State, weakest: tuple[int, Removal] | None) -> _State:
        """Relevances from the draws, without the weakest component if there is one."""
        draws, removals = state.draws, state.removals
        if weakest is not None:
            leaving, removal = weakest
            removals = (*removals, removal)
            draws = take_components(draws, np.delete(np.arange(draws.scores.shape[-1]), leaving))
        found = update_relevance(draws, centre=self.settings.fit_intercept)
        return replace(state, alpha=found.alpha, draws=found.apply(draws), removals=removals)

    def conclude(self, start: PosteriorFit, run: _Run) -> SampledFit:
        """The fit in the form of a variational one."""
        trace, loadings = run.state.trace, self._summary(run.state.draws)
        status = Mixing.CONVERGED if run.worst <= MAX_R_HAT else Mixing.DISAGREE
        local = self._solve_rows(start, loadings)
        return SampledFit(
            start.problem,
            loadings,
            local,
            SampledResult(loadings, np.array(trace), status, run.worst, len(trace)),
            run.state.removals,
            start.null,
            self._deviances(start, loadings, local),
            float("nan"),
            {},
            loadings.deviations,
            start.noise,
            start.n_above_noise,
            start.max_components,
            (),
            run.summary,
        )

    def _run(self, state: _State, options: NutsOptions) -> _Run:
        """A long run with its diagnostics."""
        found, drawn = self._sample(state, options, progress=self.sampling.progress)
        has_intercept = self.settings.fit_intercept
        summary = summarise(self.session.data, drawn.draws, found.stats, has_intercept=has_intercept)
        worst = max((float(values.max()) for values in summary.r_hat.values()), default=1.0)
        return _Run(drawn, summary, worst)

    def _sample(self, state: _State, options: NutsOptions, *, progress: bool = False) -> tuple[Draws, _State]:
        """A run at the state's relevances, and the state with its draws, aligned, chain after chain."""
        mean = state.mean
        whitened = Whitened.at(replace(self.base, alpha=state.alpha), mean)
        seed = int(self.session.rng.integers(2**31))
        found = sample_nuts(whitened, whitened.positions(state.draws), options, seed=seed, progress=progress)
        refuse_non_finite(found.log_density)
        flat = found.position.reshape(-1, found.position.shape[-1])
        trace = (*state.trace, float(found.log_density.mean()))
        return found, replace(state, draws=align(whitened.restore(flat), mean), trace=trace)

    def _new_relevance(self, centre: Point) -> float:
        r"""The relevance of a component at the limit of what can be told from noise.

        With h units of information in an entry, a direction is detectable from
        :math:`h \|w\|^2 = \sqrt{D / N}` on, that is :math:`\alpha = h \sqrt{N D}`.
        """
        rows = self.base.rows
        eta = self.base.predictor(centre)
        curvature = self.base.family.evaluate(rows.x, eta, self.base.dispersion, order=2).curvature
        information = float(curvature.mean() if rows.observed is None else curvature[rows.observed].mean())
        return information * float(np.sqrt(eta.size))

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
        return Loadings(mean, packed, len(mean) / sizes[:k], self.base.dispersion, self.base.fixed_precision)

    def _solve_rows(self, start: PosteriorFit, loadings: Loadings) -> Sequence[Any]:
        """q(z) of the training rows, as ``transform`` finds it."""
        problem = start.problem

        def visit(block: Block, _: Any) -> Scores:
            rows = open_block(block, fit_intercept=problem.fit_intercept)
            return problem.solve_rows(rows, loadings)[0]

        return self.session.map(visit)

    def _deviances(self, start: PosteriorFit, loadings: Loadings, local: Sequence[Any]) -> Deviances:
        """Deviances at the posterior means."""
        means = self.session.map(lambda _, scores: scores.mean, local)
        visit = Pass(self.session, self.settings.fit_intercept)
        return visit.deviances(start.problem.family, loadings.coefficients, means, start.null)
