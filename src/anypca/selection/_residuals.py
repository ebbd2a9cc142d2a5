"""Residuals of a model without components: counts, bits and amounts as methods for normal tables need them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families import Family


def deviance(family: Family, x: Floats, eta: Floats, dispersion: PerColumn) -> Floats:
    """Square roots of the deviances, with the signs of the scores."""
    slope = family.evaluate(x, eta, dispersion, order=1).gradient
    return np.sign(slope) * np.sqrt(family.deviance(x, eta, dispersion))


@dataclass(frozen=True, eq=False)
class NullFit:
    """A table under the model without components: intercepts, offsets and covariates."""

    family: Family
    x: Floats
    """Entries (n_samples, n_features), 1 where missing."""
    observed: Bools
    eta: Floats
    dispersion: Floats

    def residuals(self, *, is_scaled: bool = True) -> Floats:
        """Deviance residuals in columns of mean 0, and of variance 1 if ``is_scaled``, shape (n_samples, n_varying).

        They are 0 where missing; constant columns are left out. Unless ``is_scaled``, columns of one family share a
        unit, as in tables with equal noise.
        """
        dispersion = self.dispersion
        if not is_scaled:
            dispersion = dispersion.copy()
            for member, index in self.family.member_columns(len(dispersion)):
                if member.dispersion_kind == "scale":
                    dispersion[index] = dispersion[index].mean()
        return self._centred(deviance(self.family, self.x, self.eta, dispersion), is_scaled)

    def drawn(self, rng: np.random.Generator) -> Floats:
        """Residuals of a table drawn from the model, with the same missing entries."""
        x = self.family.sample(self.eta, self.dispersion, rng)
        return self._centred(deviance(self.family, x, self.eta, self.dispersion), is_scaled=True)

    def _centred(self, found: Floats, is_scaled: bool) -> Floats:
        count = np.maximum(self.observed.sum(axis=0), 1)
        found = np.where(self.observed, found, 0.0)
        found = np.where(self.observed, found - found.sum(axis=0) / count, 0.0)
        spread = np.sqrt((found**2).sum(axis=0) / count)
        # A residual of a constant column is rounding.
        varies = spread > np.sqrt(np.finfo(float).eps)
        return found[:, varies] / (spread[varies] if is_scaled else 1.0)
