"""Rows with normal scores under draws of the loadings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data
from anypca.families import Family
from anypca.linalg import unpack_symmetric
from anypca.models._bayes.rows import Cloud, DrawnRowModel, apply_entry_weights, normal_points
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.row_model import warn_unsolved
from anypca.models._block_view import BlockView, check_rows, open_block
from anypca.priors import Ridge


@dataclass(frozen=True, eq=False)
class NormalRowModel(DrawnRowModel):
    """Rows of ``eta = b + W z`` with standard normal z under each draw.

    Points are drawn from the normal distribution at the mode of z and weighted to the posterior (importance sampling).
    """

    family: Family
    dispersion: Floats
    loadings: Floats
    """W, shape (draws, n_features, k)."""
    intercept: Floats
    """b, shape (draws, n_features)."""
    forward: Floats
    """Reported scores are ``z forward + shift``, shape (draws, k, n_components)."""
    shift: Floats
    """(draws, n_components)."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        rows = open_block(block, fit_intercept=True)
        check_rows(self.family, rows, names)
        return rows

    def clouds(self, rows: BlockView) -> Iterator[Cloud]:
        k = self.loadings.shape[2]
        eps = float(np.finfo(rows.dtype).eps)
        problem = BilinearProblem(self.family, Ridge(np.ones(k)), Ridge(np.zeros(k + 1)), eps=eps)
        nodes = normal_points(k)
        for W, b, forward, shift in zip(self.loadings, self.intercept, self.forward, self.shift, strict=True):
            evaluator = problem.evaluator(Coefficients(W, b[:, None], self.dispersion), rows)
            found = problem.solve_rows(evaluator, evaluator.origin)
            warn_unsolved(found.converged, rows.numbers)
            factor = np.linalg.cholesky(unpack_symmetric(found.curvature, k) + np.eye(k))
            # z = mode + L^-T e has the precision L L' of the posterior at its mode.
            steps = np.linalg.solve(np.swapaxes(factor, 1, 2), nodes.T)
            points = found.points + steps.transpose(2, 0, 1)
            eta = points @ W.T + b
            log_weight = self.log_joint(rows, eta) - 0.5 * (points**2).sum(axis=-1)
            # Divided by the density of the proposal: that of e, and the determinant of L.
            log_weight += 0.5 * (nodes**2).sum(axis=1)[:, None]
            log_weight -= np.log(np.einsum("iaa->ia", factor)).sum(axis=1)
            yield apply_entry_weights(points @ forward + shift, eta, log_weight)

    def predictors(self, scores: Floats) -> Iterator[Floats]:
        for W, b, forward, shift in zip(self.loadings, self.intercept, self.forward, self.shift, strict=True):
            yield (scores - shift) @ np.linalg.pinv(forward) @ W.T + b

    def draw_predictors(self, data: Data, rng: np.random.Generator) -> Floats:
        index = rng.integers(len(self.loadings), size=data.n_samples)
        z = rng.standard_normal((data.n_samples, self.loadings.shape[2]))
        return np.asarray(np.einsum("ijk,ik->ij", self.loadings[index], z) + self.intercept[index])
