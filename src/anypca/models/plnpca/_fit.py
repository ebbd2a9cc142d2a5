"""Poisson log-normal PCA: from a checked table to a reported fit, and the table of fits of several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from anypca._typing import Floats, Ints
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.canonical import Canonical, orthonormal
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.row_model import coefficient_deviations
from anypca.models._bilinear.start import BilinearFitter
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.models._criteria import Likelihood
from anypca.models.plnpca._problem import CountSums, PLNProblem
from anypca.models.plnpca._rotation import find_rotation, rotate
from anypca.models.plnpca._start import add_components, independent_features, null_coefficients
from anypca.solvers import Loop, Progress, Result, Status

#: What a loop returns: its result, the points of the rows, and the sums of the last sweep.
Run = tuple[Result[Shared], Sequence[Any], CountSums]

# Sweeps before the first rotation of the latent space; by then the loadings roughly have their final directions. The
# number of sweeps doubles before each later rotation, so that rotations are few.
_FIRST_ROUND = 5
# Sweeps before two starts are compared: two rounds with their rotations, 5 + 10, and some more.
_TRIAL = 20


@dataclass(frozen=True)
class Settings:
    """Settings of a fit; see `anypca.PLNPCA`."""

    fit_intercept: bool
    ridge: float
    """Precision of the prior on loadings."""


@dataclass(frozen=True, eq=False)
class PLNFit:
    """A fit."""

    problem: PLNProblem
    coefficients: Coefficients
    """In the coordinates of the latent normals, where posteriors are independent."""
    canonical: Canonical
    """The singular value decomposition of ``M C'``; the matrix of its gauge turns means into reported scores."""
    second_moment: Floats
    """``(M' M + diag(sum S)) / n``, shape (k, k)."""
    likelihood: Likelihood
    """The bound; rotations of the loadings are not counted: ``p (d + q) - q (q - 1) / 2`` parameters."""
    entropy: float
    """Of the posteriors of all rows."""
    r2: float
    """Share of the deviance of the model without components that is explained at the means of the posteriors."""
    shares: Floats
    """``r2`` split by what each component adds to those before it, (k,)."""
    result: Result[Shared]
    coef_std: Floats | None = None
    """Standard deviations of the coefficients of covariates, (n_features, n_covariates)."""


class PLNFitter(BilinearFitter[Settings]):
    """Fits one table, at one rank or at several; see `BilinearFitter` for the parameters."""

    def fit(self, ranks: Sequence[int]) -> list[PLNFit]:
        """Fits of increasing rank, each started afresh or from the one before, whichever is better."""
        eps = float(np.finfo(self.session.data.dtype).eps)
        kept, precision = independent_features(self.visit), self.fixed_precision[0]
        settings = self.settings
        problem = PLNProblem(settings.fit_intercept, kept, settings.ridge, precision, eps=eps)
        null = coefficients = null_coefficients(self.visit, problem)
        problem = replace(problem, constant=self.visit.log_base_measure(self.family, null.dispersion))
        null_deviance = self.visit.deviance(self.family, null)
        local: Sequence[Any] | None = None
        fits = []
        for rank in ranks:
            problem = replace(problem, rank=rank)
            starts = [add_components(self.visit, problem, null, None, rank)]
            n_old = coefficients.loadings.shape[1]
            if n_old:
                # Neither start is better in general: a new direction may turn all others.
                starts.append(add_components(self.visit, problem, coefficients, local, rank - n_old))
            result, local, stats = self._run_best(problem, starts)
            coefficients = result.shared.coefficients
            fits.append(self._report(problem, result, local, stats, null_deviance))
        return fits

    def _run_best(self, problem: PLNProblem, starts: Sequence[tuple[Coefficients, Sequence[Any]]]) -> Run:
        """Run each start for a few sweeps and continue with the best."""
        budget = self.session.max_iter
        if len(starts) == 1 or budget <= _TRIAL:
            return self._run(problem, Shared(starts[0][0]), starts[0][1], budget)
        trials = [self._run(problem, Shared(start), local, _TRIAL) for start, local in starts]
        first, local, stats = max(trials, key=lambda trial: float(trial[0].trace[-1]))
        if first.status is not Status.MAX_ITER:
            return first, local, stats
        rest, local, stats = self._run(problem, first.shared, local, budget - first.n_iter)
        trace = np.concatenate([first.trace, rest.trace])
        return Result(rest.shared, trace, rest.status, rest.criterion, len(trace)), local, stats

    def _run(self, problem: PLNProblem, shared: Shared, local: Sequence[Any], max_iter: int) -> Run:
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
                # A rotation that gains nothing is the last: the axes have found the posteriors.
                rotates = turned[0].trace[0] > trace[-1]
                if rotates:
                    trace.append(float(turned[0].trace[0]))
                    shared, local, stats = Shared(turned[0].shared.coefficients), turned[1], turned[2]
                    if len(trace) >= max_iter:
                        break
        complete = Result(shared, np.array(trace), result.status, result.criterion, len(trace))
        return complete, local, stats

    def _rotated(self, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any]) -> Run:
        """One sweep in rotated coordinates."""
        rotation = find_rotation(self.visit, problem, coefficients, local)
        turned = replace(coefficients, loadings=coefficients.loadings @ rotation)
        points = rotate(self.visit, problem, coefficients, local, rotation)
        loop = self.session.loop(problem, max_iter=1, tol=0.0, is_reported=False)
        return loop.run(Shared(turned), points)

    def _loop(self, problem: PLNProblem, budget: int, done: int) -> Loop[Shared, Floats, CountSums]:
        session = self.session

        def report(progress: Progress) -> None:
            session.callback(
                progress._replace(iteration=progress.iteration + done, max_iter=session.max_iter)
            )

        return replace(session, callback=report).loop(problem, max_iter=budget)

    def _report(
        self,
        problem: PLNProblem,
        result: Result[Shared],
        local: Sequence[Any],
        stats: CountSums,
        null_deviance: float,
    ) -> PLNFit:
        coefficients = result.shared.coefficients
        n_features, k = coefficients.loadings.shape
        means = self.each(local, lambda points: points[:, :k])
        deviance = self.visit.deviance(self.family, coefficients, means)
        penalty = float(problem.loading_prior.value(coefficients.joint).sum())
        n_parameters = n_features * (int(problem.kept.sum()) + k) - k * (k - 1) // 2
        canonical = orthonormal(coefficients, stats, fit_intercept=self.settings.fit_intercept)
        gains = self._gains(canonical, means)
        r2 = 1.0 - deviance / null_deviance if null_deviance > 0 else 0.0
        return PLNFit(
            problem,
            coefficients,
            canonical,
            second_moment=(stats.score_gram + np.diag(stats.variance_sum)) / stats.weight,
            likelihood=Likelihood.integrated(float(result.trace[-1]) + penalty, n_parameters, stats.weight),
            entropy=0.5 * (stats.weight * k * np.log(2.0 * np.pi * np.e) + stats.log_variance),
            r2=r2,
            shares=max(r2, 0.0) * gains / max(float(gains.sum()), np.finfo(float).tiny),
            result=result,
            coef_std=self._coefficient_deviations(problem, coefficients, stats),
        )

    def _gains(self, canonical: Canonical, means: Sequence[Any]) -> Floats:
        """Gain in Poisson log-likelihood from each component, given those before it, at the means; (k,).

        Intercepts are refitted without the later components, because rates depend on the variance of scores.
        """
        known, k = canonical.coefficients, canonical.coefficients.loadings.shape[1]

        def sums(rows: BlockView, points: Floats) -> Floats:
            found = np.empty((k + 1, 3, rows.n_features))
            for a in range(k + 1):
                evaluator = BlockEvaluator(self.family, replace(known, loadings=known.loadings[:, :a]), rows)
                for tile in rows.tiles():
                    x = apply_entry_weights(rows, tile, np.asarray(rows.x[:, tile], dtype=float))
                    # Without a component that balances another one, predictors may overflow.
                    with np.errstate(over="ignore", invalid="ignore"):
                        rates = apply_entry_weights(rows, tile, evaluator.means(points[:, :a], tile))
                        terms = (x * evaluator.predictor(points[:, :a], tile), rates, x)
                        found[a, :, tile] = [rows.weights @ term for term in terms]
            return found

        linear, rates, counts = np.moveaxis(self.visit.sum(sums, self.moved(means, canonical.gauge)), 1, 0)
        with np.errstate(all="ignore"):
            refitted = linear + xlogy(counts, counts / rates) - counts
            value = refitted if self.settings.fit_intercept else linear - rates
            gains = np.diff(value.sum(axis=1))
        return np.where(np.isfinite(gains), np.maximum(gains, 0.0), 0.0)

    def _coefficient_deviations(
        self, problem: PLNProblem, fitted: Coefficients, stats: CountSums
    ) -> Floats | None:
        """Deviations of the coefficients of covariates, 0 for those that are set to 0."""
        n_covariates = self.session.data.n_covariates
        if not n_covariates:
            return None
        curvature = problem.column_slopes(stats)[1] + problem.loading_prior.curvature(fitted.joint)
        return coefficient_deviations(curvature, n_covariates) * problem.kept[-n_covariates:]


_CRITERIA = ("bic", "icl", "aic")
_COLUMNS = ("ranks", "log_likelihood", "n_parameters", *_CRITERIA, "r2")


@dataclass(frozen=True, eq=False)
class RankPath:
    """Fits over ranks, as `anypca.PLNPCA.path` returns them; arrays have shape (n_ranks,).

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PLNPCA
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.exp(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 2))
    >>> path = PLNPCA(n_jobs=1).path(counts, [1, 2, 3])
    >>> path.select_rank("bic")
    2
    """

    ranks: Ints
    log_likelihood: Floats
    """The bound."""
    n_parameters: Ints
    bic: Floats
    icl: Floats
    aic: Floats
    r2: Floats
    models: tuple[Any, ...]
    """The fitted estimators."""

    @classmethod
    def of(cls, models: Sequence[Any]) -> RankPath:
        """Collect fits, by increasing rank."""
        table = [
            (m.n_components_, m.objective_trace_[-1], m.n_parameters_, m.bic_, m.icl_, m.aic_, m.pseudo_r2_)
            for m in models
        ]
        columns: dict[str, Any] = dict(zip(_COLUMNS, map(np.array, zip(*table, strict=True)), strict=True))
        return cls(**columns, models=tuple(models))

    def select_rank(self, criterion: str = "icl") -> int:
        """The rank with the lowest criterion.

        Parameters
        ----------
        criterion : {"icl", "bic", "aic"}

        Returns
        -------
        int
        """
        return int(self.ranks[self._best(criterion)])

    def best(self, criterion: str = "icl") -> Any:
        """The fitted model with the lowest criterion.

        Parameters
        ----------
        criterion : {"icl", "bic", "aic"}

        Returns
        -------
        PLNPCA
        """
        return self.models[self._best(criterion)]

    def as_dict(self) -> dict[str, list[float]]:
        """The table as plain columns, for ``pandas.DataFrame`` or JSON.

        Returns
        -------
        dict of str to list, each of length n_ranks
        """
        return {name: getattr(self, name).tolist() for name in _COLUMNS}

    def _best(self, criterion: str) -> int:
        if criterion not in _CRITERIA:
            options = ", ".join(map(repr, _CRITERIA))
            raise ValueError(f"criterion must be one of {options}; got {criterion!r}.")
        return int(np.argmin(getattr(self, criterion)))
