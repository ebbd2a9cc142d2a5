"""Exponential-family PCA from a stream of blocks."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.conjugate import ConjugateProblem
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.stream import BilinearRule
from anypca.models._stream import Stream
from anypca.models.epca._fit import EPCAFit, Settings, canonical_form, reported_score_prior


def rule_of(fit: EPCAFit, settings: Settings) -> BilinearRule:
    """How blocks are taken: with the columns' curvature in the sums, which averages are made of."""
    problem = fit.problem
    if isinstance(problem, ConjugateProblem):
        problem = BilinearProblem(
            **{part.name: getattr(problem, part.name) for part in fields(BilinearProblem)}
        )
    return BilinearRule(replace(problem, score_prior=settings.score_prior))


def report(fit: EPCAFit, settings: Settings, stream: Stream[Shared]) -> EPCAFit:
    """The fit of the first block, in reporting coordinates, with the coefficients of the stream."""
    assert isinstance(stream.rule, BilinearRule)
    problem, coefficients = stream.rule.problem, stream.shared.coefficients
    assert isinstance(problem, BilinearProblem)
    fitted = coefficients.with_joint(problem.loading_prior.snap(coefficients.joint))
    nothing = np.zeros_like(stream.averages.target)
    sums = stream.rule.sweep_sums(stream.averages, nothing, stream.weight)
    canonical = canonical_form(settings, problem.family, fitted, sums)
    return replace(
        fit,
        problem=replace(problem, score_prior=reported_score_prior(settings, canonical)),
        coefficients=canonical.coefficients,
        score_variance=canonical.variance,
        coef_std=None,
    )
