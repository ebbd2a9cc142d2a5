"""Orthogonal axes for the scores of models whose loadings are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.linalg import fix_signs
from anypca.models._bilinear.estimator import BilinearModel


@dataclass(frozen=True, eq=False)
class Axes:
    r"""A change of basis after which loadings are orthonormal and scores uncorrelated under the model.

    `EPCA` gives scores with their variances in front of orthonormal loadings, so that distances between scores are
    distances between predictors. `SePCA` gives scores of unit variance in front of loadings W of any length and angle;
    its axes are those of the singular value decomposition :math:`W' = A S B'`: loadings B, scores :math:`Z A S`. They
    depend on the model alone, so that cells projected later have the same ones.
    """

    map: Floats
    """Scores are multiplied by this from the right, (k, k)."""
    inverse: Floats
    """Loadings, one row each, are multiplied by this from the left, (k, k)."""
    shares: Floats | None
    """Share of the deviance that each axis explains (k,); None where unknown."""

    @classmethod
    def of(cls, model: Any) -> Axes:
        """The axes of a fitted model: its own, unless its dense loadings are not orthonormal.

        Parameters
        ----------
        model : estimator
        """
        k = int(model.n_components_)
        shares = getattr(model, "explained_deviance_ratio_", None)
        if not _is_oblique(model):
            return cls(np.eye(k), np.eye(k), shares)
        left, values, right = np.linalg.svd(model.components_, full_matrices=False)
        left = left * fix_signs(right)
        # What all components explain together is divided by the variances along the axes.
        shares = None if shares is None else np.sum(shares) * values**2 / np.sum(values**2)
        return cls(left * values, left.T / values[:, None], shares)

    def turn_scores(self, scores: Floats) -> Floats:
        """Scores (n, k) on the axes."""
        return np.asarray(scores @ self.map)

    def turn_deviations(self, deviations: Floats) -> Floats:
        """Standard deviations of scores (n, k) on the axes, posterior correlations left out."""
        return np.asarray(np.sqrt(deviations**2 @ self.map**2))

    def turn_loadings(self, loadings: Floats) -> Floats:
        """Loadings (k, p) of the axes."""
        return np.asarray(self.inverse @ loadings)

    def turn_loading_deviations(self, deviations: Floats) -> Floats:
        """Standard deviations of loadings (k, p) of the axes, posterior correlations left out."""
        return np.asarray(np.sqrt(self.inverse**2 @ deviations**2))


def _is_oblique(model: Any) -> bool:
    """Whether scores are coefficients of dense loadings that are not orthonormal; a turn would fill sparse ones."""
    if (
        not isinstance(model, BilinearModel)
        or float(getattr(model, "sparsity_", 0)) > 0
        or not model.n_components_
    ):
        return False
    products = model.components_ @ model.components_.T
    smallest = np.linalg.eigvalsh(products)[0]
    return bool(smallest > 0 and not np.allclose(products, np.eye(len(products)), atol=1e-6))
