"""Axes for the scores of cells, along which a distance is what the counts tell of a difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.linalg import fix_signs
from anypca.models._bilinear.row_model import BilinearRowModel
from anypca.models._description import describe


@dataclass(frozen=True, eq=False)
class Axes:
    r"""A change of basis after which distances between scores are distances in the metric of the Fisher information.

    Models scale their scores Z differently: to unit variance, or to the variance of the predictor. In either case a
    difference of log rates has the same weight in genes with many and with few counts, where it is mostly noise. The
    information about the predictor :math:`\eta_j` in a count of gene j is its curvature :math:`h_j` (the rate, for
    Poisson counts), taken in a cell of average size at zero scores. With scores of variance :math:`D^2` and loadings W,
    the axes come from the singular value decomposition :math:`D W' H^{1/2} = A S B'`, and scores become
    :math:`Z D^{-1} A S`: their squared distance is, to second order, the deviance between two such cells. The axes
    depend on the model alone, so that cells projected later have the same ones.
    """

    map: Floats
    """Scores are multiplied by this from the right, (k, k)."""
    inverse: Floats
    """Loadings, one row each, are multiplied by this from the left, (k, k)."""
    shares: Floats
    """Share of the deviance that each axis explains (k,); empty where unknown."""

    @classmethod
    def of(cls, model: Any) -> Axes:
        """The axes of a model that `pca` fitted; the model's own ones where they should not or cannot be turned.

        Parameters
        ----------
        model : estimator
        """
        k = int(model.n_components_)
        found = describe(model)
        own = cls(np.eye(k), np.eye(k), found.explained)
        # Only scores that are coefficients of dense loadings are turned: zeros of sparse ones would be filled.
        if not isinstance(model._row_model(), BilinearRowModel) or k == 0 or found.has_sparse_loadings:
            return own
        deviation = np.sqrt(np.asarray(model.explained_variance_, dtype=float))
        weighted = deviation[:, None] * model.components_ * np.sqrt(_information(model))
        left, values, right = np.linalg.svd(weighted, full_matrices=False)
        if deviation.min() <= 0 or values[-1] <= 1e-10 * values[0]:
            return own  # a component that has vanished leaves no basis
        left = left * fix_signs(right)
        # What all components explain together is divided by the variances along the axes.
        shares = np.sum(model.explained_deviance_ratio_) * values**2 / np.sum(values**2)
        return cls(
            left / deviation[:, None] * values, (left * deviation[:, None]).T / values[:, None], shares
        )

    def turn_scores(self, scores: Floats) -> Floats:
        """Scores (n, k) on the axes."""
        return np.asarray(scores @ self.map)

    def turn_deviations(self, deviations: Floats) -> Floats:
        """Standard deviations of scores (n, k) on the axes, posterior correlations left out."""
        return np.asarray(np.sqrt(deviations**2 @ self.map**2))

    def turn_loadings(self, loadings: Floats) -> Floats:
        """Loadings (k, p) of the axes; the product of scores and loadings does not change."""
        return np.asarray(self.inverse @ loadings)

    def turn_loading_deviations(self, deviations: Floats) -> Floats:
        """Standard deviations of loadings (k, p) of the axes, posterior correlations left out."""
        return np.asarray(np.sqrt(self.inverse**2 @ deviations**2))


def _information(model: Any) -> Floats:
    """Fisher information about the predictor in one count of each gene, (n_genes,)."""
    layout, rows = model.layout_, model._row_model()
    # At the typical cell: one with the mean offset and scores of 0.
    eta = layout.pick(np.asarray(model.intercept_ + vars(model).get("mean_offset_", 0.0)))
    curvature = rows.family.evaluate(rows.family.mean(eta), eta, rows.dispersion).curvature
    return np.asarray(layout.pad(np.asarray(curvature)))
