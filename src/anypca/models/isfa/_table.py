"""The likelihood of a table, seen from the side that the mask belongs to.

The sampler masks rows. To mask the columns of a table it is given the table turned over; only this module knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Evaluation, Family
from anypca.models._bayes.augment import Augmentation, augment
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import mask_missing
from anypca.models._block_view import BlockView


class Quadratic(NamedTuple):
    """A log-likelihood as ``linear eta - weight eta^2 / 2`` in each entry; (rows, columns) of the sampler."""

    weight: Floats
    linear: Floats


@dataclass(frozen=True, eq=False)
class MaskedTable:
    """A table whose rows, or with ``is_turned`` columns, have masks. Arrays in and out are the sampler's."""

    family: Family
    rows: BlockView
    """The whole table, dense."""
    dispersion: Floats
    offset: Floats
    """Known part of the predictor of each column, shape (n_features,)."""
    is_turned: bool
    augmentation: Augmentation | None

    @classmethod
    def of(
        cls, family: Family, rows: BlockView, dispersion: Floats, offset: Floats, *, is_turned: bool
    ) -> MaskedTable:
        """A table with the augmentation of its family, if that has one."""
        found = augment(family, rows.x, dispersion, rows.observed)
        if found is not None:
            found = replace(found, shift=found.shift + offset)
        return cls(family, rows, dispersion, offset, is_turned, found)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the sampler."""
        n, p = self.rows.x.shape
        return (p, n) if self.is_turned else (n, p)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """Squared units of values, one for each row, and of loadings, one for each column."""
        units, ones = noise_units(self.family, self.dispersion), np.ones(self.rows.n_rows)
        return (units, ones) if self.is_turned else (ones, units)

    def turn(self, array: Floats) -> Floats:
        """From the sampler's side to the table's, and back."""
        return array.T if self.is_turned else array

    def evaluate(self, eta: Floats, order: int) -> Evaluation:
        """Terms of the log-likelihood, zero where entries are missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            at = self.turn(eta) + self.offset
            found = self.family.evaluate(self.rows.x, at, self.dispersion, order=order)
        if self.rows.observed is not None:
            found = mask_missing(found, self.rows.observed)
        return found.apply(self.turn)

    def row_value(self, row: int, eta: Floats) -> float:
        """Log-likelihood of one row of the sampler at its predictors."""
        if self.is_turned:
            family, phi = self.family.columns(slice(row, row + 1)), self.dispersion[row : row + 1]
            part, at = (slice(None), slice(row, row + 1)), eta[:, None] + self.offset[row]
        else:
            family, phi = self.family, self.dispersion
            part, at = (slice(row, row + 1), slice(None)), eta[None] + self.offset
        with np.errstate(over="ignore", invalid="ignore"):
            terms = family.evaluate(self.rows.x[part], at, phi, order=0).value
        observed = self.rows.observed
        return float(terms.sum() if observed is None else terms[observed[part]].sum())

    def draw_quadratic(self, eta: Floats, rng: np.random.Generator) -> Quadratic | None:
        """The likelihood given newly drawn weights; None if the family has none."""
        terms = self.augmentation
        if terms is None:
            return None
        weight = terms.draw_weights(self.turn(eta), rng)
        return Quadratic(self.turn(weight), self.turn(terms.kappa - weight * terms.shift))

    def expand(self, eta: Floats) -> Quadratic:
        """The likelihood near a predictor, to second order with the expected curvature."""
        _, gradient, curvature = self.evaluate(eta, 2)
        return Quadratic(curvature, gradient + curvature * eta)
