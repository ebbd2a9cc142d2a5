r"""Joint mode of scores, loadings and relevance, as published, with the degenerate scale profiled out.

The objective is

.. math:: J = \nu \Big( \sum_{ij} \log p(x_{ij} | \eta_{ij}) - \tfrac12 \|Z\|^2 \Big)
              - \tfrac12 \sum_k \alpha_k \|w_k\|^2 + \tfrac D2 \sum_k \log \alpha_k - \kappa \#\{w_{jk} \ne 0\}

with the count of non-zeros in its adaptive form, or with another penalty of the loadings (`_loading_prior`). It grows
without bound as a component vanishes, so useful answers are local: components are removed one at a time when their
relevance passes a threshold, which is higher at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Bernoulli, Binomial, Family
from anypca.linalg import PackedCholesky, packed_diagonal, varimax
from anypca.models._bilinear.alternating import Gauge, Shared, SweepSums, intercept_shift
from anypca.models._bilinear.dispersion import estimate_dispersion, has_settled, updated_family
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.row_model import ModeRowModel, Reported
from anypca.models._bilinear.start import BilinearFitter, link_loadings, residual_loadings
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models.sepca._dispersion import ROUND_TOLERANCE
from anypca.models.sepca._noise import MAX_ROUNDS, count_rows, null_dispersion
from anypca.models.sepca._state import Removal
from anypca.models.sepca.map._loading_prior import NOTHING, LoadingPrior, relevance
from anypca.models.sepca.map._options import ModeSettings
from anypca.priors import AdaptiveL0, Ridge
from anypca.solvers import Result, Status

# The threshold on alpha is five times as high in the first ten rounds, to avoid early pruning: 500 and 100 in Smallman
# et al. (2020).
_EARLY_FACTOR, _EARLY_ROUNDS = 5.0, 10
# The threshold relative to the largest stable alpha: with information h in an entry, alpha is at most h D at a fixed
# point. An alpha a hundred times larger diverges.
_THRESHOLD = 100.0
# Binary entries contain the sign of eta but not its size, so that the start is too close to zero. The size of a
# component has two fixed points. The smaller is unstable: a valid component that starts below it would be pruned.
_REACH = 2.0
# Sweeps between two updates of the ARD precisions, and their tolerance relative to the tolerance of the rounds. Before
# convergence ARD would prune components that are still growing.
_SWEEPS_PER_ROUND = 20
_SWEEP_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class ModeFit:
    """The mode, in coordinates in which the scores have unit second moments."""

    problem: BilinearProblem
    """Scores new rows: its score prior is in reported coordinates."""
    coefficients: Coefficients
    local: Sequence[Any]
    """Scores of the training rows, block by block."""
    weight: float
    """Sum of the sample weights."""
    loading_std: Floats
    """From the curvature at the mode, shape (n_features, k)."""
    alpha: Floats
    deviances: Deviances
    result: Result[Shared]
    removals: tuple[Removal, ...]
    nu: float
    joint: float
    """``log p(X, Z, W | alpha)`` with weight 1: the published criterion."""
    evidence: float
    """The same less the log-determinants of Laplace's approximation; NaN with a loading penalty."""
    path: dict[float, tuple[float, int]] = field(default_factory=dict)
    """The criterion and the dimension of each weight that was tried."""
    evidence_by_rank: dict[int, float] = field(default_factory=dict)

    def row_model(self, reported: Reported, order: Ints, signs: Floats) -> ModeRowModel:
        """Inference for new rows, with reordered components and the signs of ``reported``."""
        prior = self.problem.score_prior
        assert isinstance(prior, Ridge)
        return ModeRowModel(
            reported, replace(self.problem, score_prior=Ridge(np.asarray(prior.precision)[order]))
        )


@dataclass(frozen=True, eq=False)
class _State:
    """Modes and relevance after a round; ``shared.gauge`` brings the scores to the coordinates of ``shared``."""

    shared: Shared
    local: Sequence[Any] | None
    alpha: Floats
    stats: SweepSums | None = None
    trace: tuple[float, ...] = ()
    """J after each round since the last removal."""
    removals: tuple[Removal, ...] = ()
    n_sweeps: int = 0

    @property
    def coefficients(self) -> Coefficients:
        return self.shared.coefficients

    @property
    def sums(self) -> SweepSums:
        """Statistics of the last sweep."""
        assert self.stats is not None
        return self.stats


def fit_mode(session: FitContext, family: Family, settings: ModeSettings) -> ModeFit:
    """The mode with the weight of the data at which the criterion is largest."""
    seed, fitter = int(session.rng.integers(2**31)), BilinearFitter(session, family, settings)
    tried = {nu: _fit_weight(fitter, nu, seed) for nu in settings.weights}
    path = {nu: (float(getattr(fit, settings.criterion)), len(fit.alpha)) for nu, fit in tried.items()}
    return replace(
        tried[max(path, key=lambda nu: path[nu][0])],
        path=path,
        evidence_by_rank={len(fit.alpha): fit.evidence for fit in tried.values()},
    )


def _fit_weight(fitter: BilinearFitter[ModeSettings], nu: float, seed: int) -> ModeFit:
    """Modes, each with the dispersion that the one before left, until it stands."""
    session, family, settings = fitter.session, fitter.family, fitter.settings
    start = dispersion = null_dispersion(fitter)
    is_open = settings.dispersion is None and bool(fitter.open_columns())
    if (settings.sparsity > 0 or settings.penalty is not None) and is_open:
        # With the dispersion of the model without components no loading is worth its price, and that would stay so:
        # the dispersion comes from a fit without a price.
        free = replace(fitter, settings=replace(settings, sparsity=0.0, penalty=None))
        other_seed = int(np.random.default_rng(seed).integers(2**31))
        dispersion = _fit_weight(free, nu, other_seed).coefficients.dispersion
    for _ in range(MAX_ROUNDS):
        fit = ModeFitter(session, family, settings, nu, dispersion).fit(seed)
        new = dispersion
        if is_open:
            new = estimate_dispersion(family, fit.coefficients, fitter.visit, fit.local, start, fit.weight)
        better = updated_family(family, fit.coefficients, fitter.visit, fit.local)
        if better is family and has_settled(family, new, dispersion, rtol=ROUND_TOLERANCE):
            break
        family, dispersion = better, new
    return fit


@dataclass(frozen=True, eq=False)
class ModeFitter(BilinearFitter[ModeSettings]):
    """Fits the mode of one weight and one dispersion."""

    nu: float
    dispersion: Floats

    @cached_property
    def constant(self) -> float:
        """Terms of the log-likelihood without the predictor."""
        return self.visit.log_base_measure(self.family, self.dispersion)

    @cached_property
    def loading_prior(self) -> LoadingPrior:
        """What holds the loadings."""
        unit = np.sqrt(len(self.dispersion) / (self.nu * count_rows(self.session)))
        return LoadingPrior(self.settings, self.nu, float(unit))

    @cached_property
    def without_components(self) -> Coefficients:
        """The model without components."""
        return self.null(self.dispersion, self.mean_fixed())

    def fit(self, seed: int) -> ModeFit:
        """Rounds from the start that a seed gives."""
        state, status = self._rounds(self._start(seed))
        trace = np.array(state.trace)
        criterion = abs(trace[-1] - trace[-2]) if len(trace) > 1 else 0.0
        result = Result(state.shared, trace, status, criterion, state.n_sweeps)
        return self._report(state, result)

    def _start(self, seed: int) -> _State:
        # Without an intercept the residuals at eta = 0 say little: the data themselves, on the scale of eta, do.
        find = residual_loadings if self.settings.fit_intercept else link_loadings
        null, rng = self.without_components, np.random.default_rng(seed)
        loadings = find(self.family, null, self.visit, self.settings.max_components, rng)
        for member, columns in self.family.member_columns(len(loadings)):
            if isinstance(member, Bernoulli | Binomial):
                loadings[columns] *= _REACH
        penalty = self.settings.penalty
        if penalty is not None and not penalty.is_isotropic:
            # Where the coordinates matter: few large loadings in each component.
            loadings = loadings @ varimax(loadings)
        shared = Shared(Coefficients(loadings, null.fixed, self.dispersion))
        return _State(shared, None, relevance(loadings))

    def _rounds(self, state: _State) -> tuple[_State, Status]:
        """Rounds of modes and relevance, removing components that pass the threshold."""
        last = self.session.max_iter - 1
        for number in count():
            state = self._profiled(self._sweeps(state))
            leaving = self._leaving(state, number)
            if leaving.size:
                # A removal is always followed by a round, even beyond the last one.
                state = self._without(state, leaving)
            elif _stands(state.trace, self.session.tol) and number >= min(_EARLY_ROUNDS, last - 1):
                return state, Status.CONVERGED
            elif number >= last:
                break
        return state, Status.MAX_ITER

    def _problem(self, alpha: Floats) -> BilinearProblem:
        settings = self.settings
        n_fixed = int(settings.fit_intercept) + self.session.data.n_covariates
        return BilinearProblem(
            self.family,
            Ridge(np.ones(len(alpha))),
            self.loading_prior.make(alpha, n_fixed),
            fit_intercept=settings.fit_intercept,
            constant=self.constant,
            eps=float(np.finfo(self.session.data.dtype).eps),
        )

    def _sweeps(self, state: _State) -> _State:
        """Towards the mode of scores and loadings under the relevance at hand."""
        loop = self.session.loop(
            self._problem(state.alpha), max_iter=_SWEEPS_PER_ROUND, tol=_SWEEP_TOLERANCE * self.session.tol
        )
        result, local, stats = loop.run(state.shared, state.local)
        n_sweeps = state.n_sweeps + result.n_iter
        return replace(state, shared=result.shared, local=local, stats=stats, n_sweeps=n_sweeps)

    def _profiled(self, state: _State) -> _State:
        """The best scale of each component and its relevance, ``alpha = D / ||w||^2``.

        The prediction is unchanged; the scores are rescaled when they are next visited.
        """
        loadings, stats = state.coefficients.loadings, state.sums
        size = np.diag(stats.score_gram)
        scale = self.loading_prior.scale(loadings, size, np.count_nonzero(self._snap(loadings), axis=0))
        shift = np.zeros((state.coefficients.fixed.shape[1], len(scale)))
        gauge = Gauge(shift, np.diag(scale), np.diag(1.0 / scale))
        shared = Shared(replace(state.coefficients, loadings=loadings / scale), gauge)
        alpha = relevance(shared.coefficients.loadings)
        profiled = replace(
            stats,
            score_penalty=0.5 * float((scale**2 * size).sum()),
            score_sum=stats.score_sum * scale,
            score_gram=stats.score_gram * np.outer(scale, scale),
        )
        trace = (*state.trace, self._objective(shared, profiled, alpha))
        return replace(state, shared=shared, alpha=alpha, stats=profiled, trace=trace)

    def _objective(self, shared: Shared, stats: SweepSums, alpha: Floats) -> float:
        """J from the problem's objective, which is J / nu without the relevance's own term."""
        is_finite = np.isfinite(alpha)
        weighted = self._problem(np.where(is_finite, alpha, 0.0)).objective(shared, stats)
        return self.nu * weighted + 0.5 * len(self.dispersion) * float(np.log(alpha[is_finite]).sum())

    def _snap(self, loadings: Floats) -> Floats:
        """The loadings, exactly zero where the price of non-zeros has left nothing."""
        if self.settings.sparsity == 0:
            return loadings
        k = loadings.shape[1]
        return AdaptiveL0(np.zeros(k), np.ones(k), self.settings.delta).snap(loadings)

    def _leaving(self, state: _State, number: int) -> Ints:
        """The least relevant component, if it passes the threshold, or all that have no loadings left."""
        empty = np.flatnonzero(~np.isfinite(state.alpha))
        if empty.size or len(state.alpha) == 0:
            return empty
        threshold = self.settings.threshold
        if threshold is None:
            diagonal = packed_diagonal(state.coefficients.joint.shape[1])
            # Largest mean information of a column's entries: their curvatures weighted by z^2, over the sum of z^2.
            curvature = state.sums.curvature[:, diagonal[: len(state.alpha)]].max(initial=0.0)
            information = curvature / max(float(np.diag(state.sums.score_gram).max()), np.finfo(float).tiny)
            threshold = _THRESHOLD * len(self.dispersion) * max(information, NOTHING)
        if number < _EARLY_ROUNDS:
            threshold *= _EARLY_FACTOR
        worst = np.array([np.argmax(state.alpha)])
        return np.asarray(worst[state.alpha[worst] >= threshold])

    def _without(self, state: _State, leaving: Ints) -> _State:
        """The state without some components; the objective starts anew."""
        k, old, gauge = len(state.alpha), state.coefficients, state.shared.gauge
        assert gauge is not None
        sizes = (old.loadings**2).sum(axis=0)
        removals = tuple(
            Removal(state.n_sweeps, k - number, float(state.alpha[c]), float(sizes[c]), "relevance")
            for number, c in enumerate(leaving)
        )
        keep = np.delete(np.arange(k), leaving)
        local = self.each(self.moved(state.local, gauge), lambda scores: scores[:, keep])
        shared = Shared(replace(old, loadings=old.loadings[:, keep]))
        return _State(
            shared, local, state.alpha[keep], removals=state.removals + removals, n_sweeps=state.n_sweeps
        )

    def _report(self, state: _State, result: Result[Shared]) -> ModeFit:
        """Scores of unit second moment, centred if there is an intercept to take their mean; exact zeros."""
        stats, old, alpha = state.sums, state.coefficients, state.alpha
        k, m = len(alpha), old.joint.shape[1]
        centre = stats.score_sum / stats.weight if self.settings.fit_intercept else np.zeros(k)
        moment = np.diag(stats.score_gram) / stats.weight - centre**2
        scale = np.sqrt(np.where(moment > 0, moment, 1.0))
        shift = intercept_shift(centre, old.fixed.shape[1])
        fixed = old.fixed + old.loadings @ shift.T
        coefficients = Coefficients(self._snap(old.loadings) * scale, fixed, old.dispersion)
        assert state.shared.gauge is not None
        local = self.moved(state.local, state.shared.gauge)
        local = self.moved(local, Gauge(shift, np.diag(1.0 / scale), np.diag(scale)))
        columns = self._column_precision(state, self.nu)
        rows = self._row_determinant(coefficients, local, scale)
        problem = replace(self._problem(alpha), score_prior=Ridge(scale**2), loading_prior=Ridge(np.zeros(m)))
        return ModeFit(
            problem,
            coefficients,
            local,
            stats.weight,
            np.sqrt(np.einsum("jaa->ja", columns.inverse()))[:, :k] * scale,
            alpha / scale**2,
            self.visit.deviances(self.family, coefficients, local, self.without_components),
            result,
            state.removals,
            self.nu,
            self._joint(state),
            self._evidence(state, rows),
        )

    def _evidence(self, state: _State, row_determinant: float) -> float:
        """Laplace's approximation at weight 1, as the joint log-likelihood; a penalty's constant is not known."""
        if self.settings.penalty is not None:
            return float("nan")
        columns = float(self._column_precision(state, 1.0).log_determinant().sum())
        return self._joint(state) + self.log_fixed_prior - 0.5 * (columns + row_determinant)

    def _column_precision(self, state: _State, nu: float) -> PackedCholesky:
        """Of each column's coefficients in units of the data's weight, from the curvature at the mode."""
        k, m = len(state.alpha), state.coefficients.joint.shape[1]
        precision = state.sums.curvature.copy()
        precision[:, packed_diagonal(m)[:k]] += state.alpha / nu
        return PackedCholesky(precision, m)

    def _joint(self, state: _State) -> float:
        """``log p(X, Z, W | alpha)`` up to the normal priors' powers of 2 pi, which Laplace's integral takes back."""
        stats, alpha = state.sums, state.alpha
        likelihood = float(stats.exit_columns.sum()) + stats.offset_value + self.constant
        loadings = state.coefficients.loadings
        size = (loadings**2).sum(axis=0)
        prior = 0.5 * float((alpha * size).sum() - len(self.dispersion) * np.log(alpha).sum())
        return likelihood - stats.score_penalty - prior - self.loading_prior.penalty(loadings)

    def _row_determinant(self, coefficients: Coefficients, local: Sequence[Any], scale: Floats) -> float:
        """Sum over rows of the log-determinant of the scores' precision, in the coordinates of the prior N(0, I)."""
        family, prior = self.family, Ridge(scale**2)
        units = 2.0 * float(np.log(scale).sum())

        def function(rows: BlockView, scores: Floats) -> Floats:
            sums = BlockEvaluator(family, coefficients, rows).row_sums(scores)
            logs = (
                PackedCholesky(sums.curvature + prior.curvature(scores), len(scale)).log_determinant() - units
            )
            return np.array([rows.weights @ logs])

        return float(self.visit.sum(function, local)[0]) if len(scale) else 0.0


def _stands(trace: Sequence[float], tol: float) -> bool:
    """Whether the objective changed by less than a fraction ``tol`` in the last round."""
    return len(trace) > 1 and abs(trace[-1] - trace[-2]) <= tol * abs(trace[-2])
