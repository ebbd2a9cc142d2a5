"""Tables and settings that the tests of bilinear models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca.families import Bernoulli, Family, Gaussian, Mixed, NegativeBinomial, Poisson, combine, families

#: Every family of the registry, and columns of several.
FAMILIES: list[Family] = [family for name in families for family in families[name].examples()]


def family_id(family: Any) -> str:
    """A short name of a family for the ids of tests."""
    if isinstance(family, Mixed):
        return family.name
    return repr(family).replace("=None", "") if isinstance(family, Family) else str(family)


def mixed(n_features: int) -> Family:
    """Four families in turn, in interleaved columns."""
    members = [Poisson(), Bernoulli(), Gaussian(), NegativeBinomial()]
    return combine([members[column % 4] for column in range(n_features)])


def draw(
    family: Family, n: int, p: int, *, seed: int = 0, signal: float = 0.7, missing: float = 0.0, rank: int = 2
) -> np.ndarray:
    """A table of low rank from a family, every row and column with an observed entry, shape (n, p)."""
    rng = np.random.default_rng(seed)
    scores, loadings = rng.standard_normal((n, rank)), rng.standard_normal((p, rank))
    # A real share of the variance for each component, so that components are told apart.
    eta = signal * (scores * np.linspace(1.0, 0.5, rank)) @ loadings.T + 0.3 * rng.standard_normal(p)
    dispersion = np.where(np.isnan(family.known_dispersion(p)), 0.3, family.known_dispersion(p))
    X = np.asarray(family.sample(eta, dispersion, rng), dtype=float)
    hide = rng.random((n, p)) < missing
    hide[np.arange(n), np.arange(n) % p] = False
    X[hide] = np.nan
    return X


def align(scores: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Signs that bring columns of scores to those of a reference."""
    return scores * np.sign(np.einsum("ia,ia->a", scores, reference))
