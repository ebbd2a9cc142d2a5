"""Poisson log-normal PCA from a stream of blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.canonical import orthonormal
from anypca.models._bilinear.stream import BilinearRule
from anypca.models._block_view import BlockView
from anypca.models._stream import BlockSums, Stream
from anypca.models.plnpca._fit import PLNFit
from anypca.models.plnpca._problem import CountSums, Posterior


@dataclass(frozen=True, eq=False)
class CountRule(BilinearRule):
    """How blocks of counts are taken: with the variances of the rows' posteriors."""

    is_dense = True

    def spread(self, rows: BlockView, points: Floats, k: int) -> Floats:
        return np.asarray(rows.weights @ Posterior.of(points).variance)

    def sweep_sums(self, averages: BlockSums, gradient: Floats, weight: float) -> CountSums:
        k, moments = len(averages.spread), weight * averages.moments
        return CountSums(
            **vars(super().sweep_sums(averages, gradient, weight)),
            feature_gram=moments[k:, k:],
            feature_mean=moments[k:, :k],
            variance_sum=weight * averages.spread,
            log_variance=0.0,
        )


def report(fit: PLNFit, stream: Stream[Shared]) -> PLNFit:
    """The fit of the first block with the coefficients of the stream."""
    averages, coefficients = stream.averages, stream.shared.coefficients
    k, problem = len(averages.spread), fit.problem
    assert isinstance(stream.rule, CountRule)
    sums = stream.rule.sweep_sums(averages, np.zeros_like(averages.target), stream.weight)
    return replace(
        fit,
        coefficients=coefficients,
        canonical=orthonormal(coefficients, sums, fit_intercept=problem.fit_intercept),
        second_moment=averages.moments[:k, :k] + np.diag(averages.spread),
        coef_std=None,
    )
