"""Residuals of a model without components: what methods for normal tables see of counts, bits and amounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families import Family


@dataclass(frozen=True, eq=False)
class NullFit:
    """A table under the model without components: intercepts, offsets and covariates."""

    family: Family
    x: Floats
    """Entries (n_samples, n_features), 1 where missing."""
    observed: Bools
    eta: Floats
    dispersion: Floats

    def residuals(self, kind: str, rng: np.random.Generator, *, is_scaled: bool = True) -> Floats:
        """Residuals in columns of mean 0, and of variance 1 if ``is_scaled``, shape (n_samples, n_varying).

        They are 0 where missing; constant columns are left out. Unless ``is_scaled``, columns of one family share a
        unit, as in tables with equal noise.
        """
        dispersion = self.dispersion if is_scaled else self._shared_dispersion()
        return self._centred(RESIDUALS[kind](self.family, self.x, self.eta, dispersion, rng), is_scaled)

    def drawn(self, kind: str, rng: np.random.Generator) -> Floats:
        """The same of a table drawn from the model, with the same missing entries."""
        x = self.family.sample(self.eta, self.dispersion, rng)
        return self._centred(RESIDUALS[kind](self.family, x, self.eta, self.dispersion, rng), is_scaled=True)

    def _shared_dispersion(self) -> Floats:
        """The mean of the dispersions where these are units, the dispersions elsewhere, shape (n_features,)."""
        shared = self.dispersion.copy()
        for member, index in self.family.member_columns(len(shared)):
            if member.dispersion_kind == "scale":
                shared[index] = shared[index].mean()
        return shared

    def _centred(self, found: Floats, is_scaled: bool) -> Floats:
        count = np.maximum(self.observed.sum(axis=0), 1)
        found = np.where(self.observed, found, 0.0)
        found = np.where(self.observed, found - found.sum(axis=0) / count, 0.0)
        spread = np.sqrt((found**2).sum(axis=0) / count)
        # A residual of a constant column is rounding.
        varies = spread > np.sqrt(np.finfo(float).eps)
        return found[:, varies] / (spread[varies] if is_scaled else 1.0)


def pearson(
    family: Family, x: Floats, eta: Floats, dispersion: PerColumn, rng: np.random.Generator | None = None
) -> Floats:
    """Scores in units of their standard deviation, ``(x - mu) / sd`` in exponential dispersion families."""
    slope = family.evaluate(x, eta, dispersion, order=1).gradient
    return np.sign(slope) * np.sqrt(family.pearson(x, eta, dispersion))


def deviance(
    family: Family, x: Floats, eta: Floats, dispersion: PerColumn, rng: np.random.Generator | None = None
) -> Floats:
    """Square roots of the deviances, with the signs of the scores."""
    slope = family.evaluate(x, eta, dispersion, order=1).gradient
    return np.sign(slope) * np.sqrt(family.deviance(x, eta, dispersion))


#: Kinds of residuals by name.
RESIDUALS: dict[str, Callable[..., Floats]] = {
    "pearson": pearson,
    "deviance": deviance,
}


def leverages(fixed: Floats, scores: Floats, most: float) -> Floats:
    """Leverages of rows on themselves, ``most`` at most, and on the next one (0 for the last); shape (2, n_rows)."""
    features = np.hstack([fixed, scores])
    # Orthonormal columns of the same span; directions that repeat others are left out.
    left, size, _ = np.linalg.svd(features, full_matrices=False)
    left = left[:, size > np.sqrt(np.finfo(float).eps) * size[0]]
    following = np.append((left[:-1] * left[1:]).sum(axis=1), 0.0)
    return np.stack([np.minimum((left**2).sum(axis=1), most), following])
