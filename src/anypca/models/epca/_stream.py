"""Exponential-family PCA from a stream of blocks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, first_outside
from anypca.linalg import packed_diagonal
from anypca.models._bilinear.conjugate import ConjugateProblem
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.stream import Stream, advance, begin, solve_block
from anypca.models._session import raise_outside
from anypca.models.epca._fit import EPCAFit, Settings, canonical_form, reported_score_prior


def _exact(problem: BilinearProblem) -> BilinearProblem:
    """The same problem with the columns' curvature in its sums, which averages are made of."""
    if not isinstance(problem, ConjugateProblem):
        return problem
    return BilinearProblem(**{part.name: getattr(problem, part.name) for part in fields(BilinearProblem)})


@dataclass(frozen=True, eq=False)
class EPCAStream:
    """Where the blocks so far have led; families and dispersions are those of the first one."""

    problem: BilinearProblem
    """In the coordinates of the stream."""
    settings: Settings
    first: EPCAFit
    stream: Stream
    n_samples: int

    @classmethod
    def after(cls, first: EPCAFit, settings: Settings, data: Data, executor: Executor) -> EPCAStream:
        """From a fit to the first block."""
        problem = replace(_exact(first.problem), score_prior=settings.score_prior)
        coefficients = first.result.shared.coefficients
        sums = executor.sum(lambda block, _: solve_block(problem, coefficients, block), data)
        return cls(problem, settings, first, begin(coefficients, sums), data.n_samples)

    def advanced(self, data: Data, executor: Executor) -> EPCAStream:
        """After the rows of a table.

        Raises
        ------
        ValueError
            If an entry is outside of the support of its column's family.
        """
        problem, coefficients = self.problem, self.stream.coefficients
        found = first_outside(data, executor, problem.family.in_support)
        if found is not None:
            raise_outside(problem.family, *found, data.feature_names)

        def visit(block: Block, _: None) -> object:
            return solve_block(problem, coefficients, block)

        stream = advance(problem, self.stream, executor.sum(visit, data))
        return replace(self, stream=stream, n_samples=self.n_samples + data.n_samples)

    def report(self) -> EPCAFit:
        """The fit in reporting coordinates."""
        stream = self.stream
        fitted = stream.coefficients.with_joint(self.problem.loading_prior.snap(stream.coefficients.joint))
        canonical = canonical_form(self.settings, fitted, stream.moments)
        return replace(
            self.first,
            problem=replace(self.problem, score_prior=reported_score_prior(self.settings, canonical)),
            coefficients=canonical.coefficients,
            score_variance=canonical.variance,
        )

    def shares(self) -> Floats:
        """Share of the deviance of each component: the share of all in the first rows, divided by information.

        In the latent coordinates that are reported scores are uncorrelated, hence what a component adds to the
        quadratic function is the sum over columns of squared loading times variance times the column's mean curvature.
        """
        fit, averages = self.report(), self.stream.averages
        k = fit.coefficients.loadings.shape[1]
        level = (
            averages.curvature[:, packed_diagonal(averages.moments.shape[0])[k]]
            if self.settings.fit_intercept
            else np.ones(len(averages.curvature))
        )
        parts = (fit.coefficients.loadings**2 * level[:, None]).sum(axis=0) * fit.score_variance
        total = float(self.first.deviances.shares.sum())
        return np.asarray(total * parts / parts.sum() if parts.sum() > 0 else parts)
