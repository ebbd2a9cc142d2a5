"""Poisson log-normal PCA: from a checked table to a reported fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Data, Executor
from anypca.linalg import fix_signs
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.plnpca._criteria import Criteria
from anypca.models.plnpca._kernel import State
from anypca.models.plnpca._passes import CountPass
from anypca.models.plnpca._problem import PLNProblem, Shared, Stats
from anypca.models.plnpca._start import add_components, independent_features, null_coefficients
from anypca.solvers import Callback, Loop, Progress, Result, Status

# Sweeps before the first rotation of the latent space; each later one comes after twice as many.
_FIRST_ROUND = 5
# Sweeps after which the better of two starts is told.
_TRIAL = 20


@dataclass(frozen=True)
class Options:
    """Settings of a fit; see `anypca.PLNPCA`."""

    fit_intercept: bool
    max_iter: int
    tol: float


@dataclass(frozen=True, eq=False)
class Canonical:
    """How fits are reported: the singular value decomposition of ``M C'``."""

    components: Floats
    """Orthonormal rows, shape (k, n_features)."""
    matrix: Floats
    """T, shape (k, k): reported scores are ``M T``."""
    variance: Floats
    """Of the reported training scores, decreasing, shape (k,)."""


@dataclass(frozen=True, eq=False)
class PLNFit:
    """A fit."""

    problem: PLNProblem
    coefficients: Coefficients
    """In the coordinates of the latent normals, where posteriors are independent."""
    canonical: Canonical
    second_moment: Floats
    """``(M' M + diag(sum S)) / n``, shape (k, k)."""
    criteria: Criteria
    result: Result[Shared]


class PLNFitter:
    """Fits one table, at one rank or at several.

    Parameters
    ----------
    data : Data
    executor : Executor
    options : Options
    callback : callable or None
    """

    def __init__(
        self, data: Data, executor: Executor, options: Options, callback: Callback | None = None
    ) -> None:
        self.data = data
        self.executor = executor
        self.options = options
        self.callback = callback
        self.visit = CountPass(data, executor, options.fit_intercept)

    def fit(self, ranks: Sequence[int], rng: np.random.Generator) -> list[PLNFit]:
        """Fits of increasing rank, each started afresh or from the one before, whichever is better."""
        eps = float(np.finfo(self.data.dtype).eps)
        problem = PLNProblem(self.options.fit_intercept, independent_features(self.visit), eps=eps)
        null = coefficients = null_coefficients(self.visit, problem, tol=self.options.tol)
        problem = replace(problem, constant=self.visit.log_base())
        limits = self.visit.plug_in(null, None), self.visit.saturated()
        local: Sequence[Any] | None = None
        fits = []
        for rank in ranks:
            starts = [add_components(self.visit, null, None, problem.kept, rank, rng)]
            n_old = coefficients.loadings.shape[1]
            if n_old:
                # Neither start is better in general: a new direction may turn all others.
                starts.append(
                    add_components(self.visit, coefficients, local, problem.kept, rank - n_old, rng)
                )
            result, local, stats = self._run_best(problem, starts)
            coefficients = result.shared.coefficients
            fits.append(self._report(problem, result, local, stats, limits))
        return fits

    def _run_best(
        self, problem: PLNProblem, starts: Sequence[tuple[Coefficients, Sequence[Any]]]
    ) -> tuple[Result[Shared], Sequence[Any], Stats]:
        """Try each start for a few sweeps and go on with the best."""
        budget = self.options.max_iter
        if len(starts) == 1 or budget <= _TRIAL:
            return self._run(problem, Shared(starts[0][0]), starts[0][1], budget)
        trials = [self._run(problem, Shared(start), local, _TRIAL) for start, local in starts]
        first, local, stats = max(trials, key=lambda trial: float(trial[0].trace[-1]))
        if first.status is not Status.MAX_ITER:
            return first, local, stats
        rest, local, stats = self._run(problem, first.shared, local, budget - first.n_iter)
        trace = np.concatenate([first.trace, rest.trace])
        return Result(rest.shared, trace, rest.status, rest.criterion, len(trace)), local, stats

    def _run(
        self, problem: PLNProblem, shared: Shared, local: Sequence[Any], max_iter: int
    ) -> tuple[Result[Shared], Sequence[Any], Stats]:
        """Sweeps in rounds, with a rotation of the latent space between them as long as that helps.

        The bound depends on the rotation only because posteriors are kept independent: sweeps feel it weakly and
        would turn very slowly.
        """
        trace: list[float] = []
        sweeps, rotates = _FIRST_ROUND, shared.coefficients.loadings.shape[1] > 1
        while True:
            left = max_iter - len(trace)
            budget = min(sweeps, left) if rotates else left
            result, local, stats = self._loop(problem, budget, len(trace)).run(shared, local)
            trace += result.trace.tolist()
            shared = Shared(result.shared.coefficients)
            sweeps *= 2
            if result.status is not Status.MAX_ITER or len(trace) >= max_iter:
                break
            if rotates:
                turned = self._rotated(problem, shared.coefficients, local)
                rotates = turned[0].trace[0] > trace[-1]
                if rotates:
                    trace.append(float(turned[0].trace[0]))
                    shared, local, stats = Shared(turned[0].shared.coefficients), turned[1], turned[2]
                    if len(trace) >= max_iter:
                        break
        complete = Result(shared, np.array(trace), result.status, result.criterion, len(trace))
        return complete, local, stats

    def _rotated(
        self, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any]
    ) -> tuple[Result[Shared], Sequence[Any], Stats]:
        """One sweep in rotated coordinates."""
        rotation = self.visit.rotation(coefficients, local)
        turned = replace(coefficients, loadings=coefficients.loadings @ rotation)
        states = self.visit.rotate(coefficients, local, rotation)
        return Loop(problem, self.data, self.executor, max_iter=1, tol=0.0).run(Shared(turned), states)

    def _loop(self, problem: PLNProblem, budget: int, done: int) -> Loop[Shared, State, Stats]:
        callback, total = self.callback, self.options.max_iter

        def report(progress: Progress) -> None:
            if callback is not None:
                callback(progress._replace(iteration=progress.iteration + done, max_iter=total))

        tol = self.options.tol
        return Loop(problem, self.data, self.executor, max_iter=budget, tol=tol, callback=report)

    def _report(
        self,
        problem: PLNProblem,
        result: Result[Shared],
        local: Sequence[Any],
        stats: Stats,
        limits: tuple[float, float],
    ) -> PLNFit:
        coefficients = result.shared.coefficients
        k = coefficients.loadings.shape[1]
        criteria = Criteria(
            log_likelihood=float(result.trace[-1]),
            n_parameters=self.data.n_features * (int(problem.kept.sum()) + k) - k * (k - 1) // 2,
            n_rows=stats.weight,
            entropy=0.5 * (stats.weight * k * np.log(2.0 * np.pi * np.e) + stats.log_variance),
            r2=_share(self.visit.plug_in(coefficients, local), *limits),
        )
        moment = (stats.mean_gram + np.diag(stats.variance_sum)) / stats.weight
        canonical = _canonical(coefficients.loadings, stats, has_intercept=self.options.fit_intercept)
        return PLNFit(problem, coefficients, canonical, moment, criteria, result)


def _share(value: float, least: float, most: float) -> float:
    """Where a log-likelihood lies between those of the null and the saturated model."""
    return (value - least) / (most - least) if most > least else 0.0


def _canonical(loadings: Floats, stats: Stats, *, has_intercept: bool) -> Canonical:
    """Orthonormal components with uncorrelated scores, in order of decreasing variance."""
    gram = stats.mean_gram / stats.weight
    if has_intercept:
        mean = stats.feature_mean[0] / stats.weight
        gram = gram - np.outer(mean, mean)
    left, sizes, right = scipy.linalg.svd(loadings, full_matrices=False)
    to_basis = right.T * sizes
    variance, rotation = scipy.linalg.eigh(to_basis.T @ gram @ to_basis)
    rotation = rotation[:, ::-1]
    components = (left @ rotation).T
    signs = fix_signs(components)
    return Canonical(
        components * signs[:, None], to_basis @ (rotation * signs), np.maximum(variance[::-1], 0.0)
    )
