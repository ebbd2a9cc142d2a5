r"""Likelihoods that are normal in the predictor once a weight is drawn for each entry.

With :math:`\psi = \eta + c` the likelihood of an entry is :math:`\exp(\kappa \psi - \omega \psi^2 / 2)` up to a factor.
For logit likelihoods :math:`\omega` is drawn from a Polya-Gamma distribution (Polson, Scott and Windle 2013); for
gaussian entries it is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from anypca._optional import optional
from anypca._typing import Bools, Floats
from anypca.families import Bernoulli, Binomial, Family, Gaussian, NegativeBinomial
from anypca.linalg import packed_products, unpack_symmetric

# Sizes of negative binomials beyond which one cannot tell them from Poisson counts below 100, and where shape and
# kappa of the augmentation, both about half of the size, lose the digits of their difference.
_LARGEST_SIZE = 1e4


class Terms(NamedTuple):
    """What the augmentation of one family says of its entries; arrays that broadcast to their shape."""

    shape: Floats
    """Of the Polya-Gamma distribution; 0 where the weight is known."""
    weight: Floats
    """Where it is known, else 0."""
    kappa: Floats
    shift: Floats
    """c."""


@singledispatch
def terms_of(family: Family, x: Floats, dispersion: Floats) -> Terms | None:
    """The augmentation of entries x with dispersions that broadcast to them; None where there is none."""
    return None


@terms_of.register(Bernoulli)
@terms_of.register(Binomial)
def _logistic_terms(family: Any, x: Floats, dispersion: Floats) -> Terms | None:
    trials = float(family.trials)
    return Terms(np.array(trials), np.zeros(()), x - 0.5 * trials, np.zeros(()))


@terms_of.register(NegativeBinomial)
def _count_terms(family: NegativeBinomial, x: Floats, dispersion: Floats) -> Terms | None:
    if np.any(dispersion * _LARGEST_SIZE < 1.0):
        return None
    size = 1.0 / dispersion
    # With psi = eta + log(phi) the likelihood is exp(psi)^x / (1 + exp(psi))^(x + size), as in a logit model.
    return Terms(x + size, np.zeros(()), 0.5 * (x - size), np.log(dispersion))


@terms_of.register(Gaussian)
def _normal_terms(family: Gaussian, x: Floats, dispersion: Floats) -> Terms | None:
    # Quadratic in the predictor, whichever scale x is normal on.
    found = family.evaluate(x, np.zeros(x.shape), dispersion, order=2)
    return Terms(np.zeros(()), found.curvature, found.gradient, np.zeros(()))


@dataclass(frozen=True, eq=False)
class Augmentation:
    """Entries whose likelihood is normal in the predictor given weights, arrays of shape (rows, n_features)."""

    shape: Floats
    weight: Floats
    kappa: Floats
    """0 at missing entries."""
    shift: Floats
    """(n_features,)."""
    is_drawn: Bools
    """Columns whose weights are drawn, (n_features,)."""
    observed: Bools | None = None

    def times(self, factor: Floats) -> Augmentation:
        """The same with each entry counted ``factor`` times, shape (rows, 1) or (rows, n_features)."""
        kappa, weight = self.kappa * factor, self.weight * factor
        return replace(self, shape=self.shape * factor, weight=weight, kappa=kappa)

    def draw_weights(self, eta: Floats, rng: np.random.Generator) -> Floats:
        """Weights given predictors (..., rows, n_features), 0 at missing entries."""
        weights = np.broadcast_to(self.weight, eta.shape)
        if self.is_drawn.any():
            weights, psi = weights.copy(), eta + self.shift
            drawn = self.is_drawn
            weights[..., drawn] = _polyagamma()(self.shape[:, drawn], psi[..., drawn], random_state=rng)
        return weights if self.observed is None else np.where(self.observed, weights, 0.0)


def augment(
    family: Family, x: Floats, dispersion: Floats, observed: Bools | None = None
) -> Augmentation | None:
    """The augmentation of a table.

    Parameters
    ----------
    family : Family
    x : ndarray of shape (rows, n_features)
        Anything where entries are missing.
    dispersion : ndarray of shape (n_features,)
    observed : ndarray of bool of shape (rows, n_features) or None

    Returns
    -------
    Augmentation or None
        None if the family of some column has none.
    """
    shape, weight, kappa = (np.zeros(x.shape) for _ in range(3))
    shift = np.zeros(len(dispersion))
    for member, columns in family.member_columns(len(dispersion)):
        found = terms_of(member, x[:, columns], dispersion[columns])
        if found is None:
            return None
        for array, values in zip((shape, weight, kappa), found, strict=False):
            array[:, columns] = values
        shift[columns] = found.shift
    is_drawn = np.asarray((shape > 0).any(axis=0))
    if observed is not None:
        kappa = np.where(observed, kappa, 0.0)
    return Augmentation(shape, weight, kappa, shift, is_drawn, observed)


def _polyagamma() -> Any:
    """The sampler of the Polya-Gamma distribution."""
    with optional("drawing from the posterior of a logit model", "polyagamma", "mcmc"):
        from polyagamma import random_polyagamma
    return random_polyagamma


def draw_normal(precision: Floats, linear: Floats, rng: np.random.Generator) -> Floats:
    """Draws from ``N(P^-1 b, P^-1)``: precisions (..., k, k) and linear terms b (..., k)."""
    # Mean P^-1 l and precision P from one factor: L' y = L^-1 l + e.
    factor = np.linalg.cholesky(precision)
    whitened = np.linalg.solve(factor, linear[..., None]) + rng.standard_normal((*linear.shape, 1))
    return np.asarray(np.linalg.solve(np.swapaxes(factor, -1, -2), whitened)[..., 0])


def weighted_products(weights: Floats, vectors: Floats) -> Floats:
    """``sum_b w_ab u_b u_b'`` for weights (..., a, b) and vectors (..., b, k), shape (..., a, k, k)."""
    k = vectors.shape[-1]
    products = packed_products(vectors.reshape(-1, k)).reshape(*vectors.shape[:-1], -1)
    packed = weights @ products
    return unpack_symmetric(packed.reshape(-1, packed.shape[-1]), k).reshape(*packed.shape[:-1], k, k)
