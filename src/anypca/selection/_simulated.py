"""Residuals of tables drawn from a fitted model and fitted again by one step: what chance does to a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from anypca._typing import Bools, Floats
from anypca.families import Family
from anypca.selection._residuals import deviance

#: Tables that are drawn; their mean and spread are known well enough for a test of one in a hundred.
N_DRAWS = 24


@dataclass(frozen=True, eq=False)
class FittedTable:
    """A fit as its residuals see it."""

    family: Family
    eta: Floats
    """(n_rows, n_columns)."""
    dispersion: Floats
    seen: Bools
    loadings: Floats
    """In units of the predictor, (n_columns, k)."""
    scores: Floats
    """(n_rows, k)."""
    fixed: Floats
    """Intercept and covariates, (n_rows, n_fixed)."""

    def drawn(self, seed: int = 0) -> Iterator[Floats]:
        """Residuals of tables drawn from the model, after a step of scores and one of loadings; 0 where missing."""
        rng = np.random.default_rng(seed)
        k = self.loadings.shape[1]
        design = np.hstack([self.scores, self.fixed])
        nothing = np.full(design.shape[1], np.sqrt(np.finfo(float).eps))
        for _ in range(N_DRAWS):
            x = np.where(self.seen, self.family.sample(self.eta, self.dispersion, rng), 1.0)
            # Scores have a normal prior of unit variance; loadings and what is fixed have none.
            slope, curvature = self._slopes(x, self.eta)
            step = _newton(slope @ self.loadings - self.scores, curvature, self.loadings, np.ones(k))
            eta = self.eta + step @ self.loadings.T
            slope, curvature = self._slopes(x, eta)
            eta = eta + design @ _newton(slope.T @ design, curvature.T, design, nothing).T
            yield np.where(self.seen, deviance(self.family, x, eta, self.dispersion), 0.0)

    def _slopes(self, x: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """Slopes and curvatures of the entries, 0 where missing."""
        terms = self.family.evaluate(x, eta, self.dispersion, order=2)
        return np.where(self.seen, terms.gradient, 0.0), np.where(self.seen, terms.curvature, 0.0)


def _newton(gradient: Floats, curvature: Floats, features: Floats, prior: Floats) -> Floats:
    """Newton's step of the coefficients of each row of ``curvature`` on features, under prior precisions."""
    hessian = np.einsum("ij,ja,jb->iab", curvature, features, features, optimize=True) + np.diag(prior)
    return np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0])


def is_beyond_chance(value: float, chance: Sequence[float], level: float) -> bool:
    """Whether a value exceeds the values of drawn tables, except for one table in 1 / level."""
    count = len(chance)
    wide = float(np.std(chance, ddof=1)) * np.sqrt(1.0 + 1.0 / count)
    return bool(value > np.mean(chance) + t.isf(level, count - 1) * wide)
