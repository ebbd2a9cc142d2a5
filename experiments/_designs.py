"""Published designs of single experiments: counts of hidden factors, sheets and log rates that bend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from anypca._typing import Floats, Ints
from anypca.datasets import BentSheet

#: Rates of the hidden factors V1, V2, V3.
_FACTOR_RATES = (20.0, 30.0, 50.0)
#: Rate of the error's size.
_ERROR_RATE = 2.0

#: Coefficients of the factors by number of factors: those of the first columns, then that of all others.
_ORDERS: Mapping[int, tuple[tuple[float, ...], ...]] = MappingProxyType(
    {
        1: ((1,), (1,), (2,)),
        2: ((1, 0), (1, 0), (0, 1), (0, 1), (1, 3)),
        3: ((1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1), (3, 2, 2)),
    }
)
#: Of each class: its factor, the coefficient of the first two columns, that of all others.
_CLASSES = ((1, 1.0, 3.0), (2, 2.0, 1.0), (0, 1.0, 1.0))
#: Share of the rows in each class.
_SHARES: Mapping[int, tuple[float, ...]] = MappingProxyType({2: (0.5, 0.5), 3: (0.25, 0.25, 0.5)})


@dataclass(frozen=True, eq=False)
class HiddenFactors:
    """Counts and the hidden factors they are sums of."""

    X: Floats
    """Counts (n_samples, n_features)."""
    factors: Floats
    """Values of the factors (n_samples, n_components)."""
    coefficients: Floats
    """Weights of the factors (n_components, n_features): X is ``factors @ coefficients`` plus error."""


@dataclass(frozen=True, eq=False)
class ClassedCounts:
    """Counts of several classes."""

    X: Floats
    """Counts (n_samples, n_features), rows in the order of their classes."""
    labels: Ints
    """The class of each row (n_samples,), counted from 0."""
    mean: Floats
    """The counts without error (n_samples, n_features)."""


@dataclass(frozen=True, eq=False)
class BentCounts:
    """Counts whose log rates lie on a bent sheet."""

    X: Floats
    """Counts (n_samples, n_features)."""
    offset: Floats
    """Log exposures (n_samples,)."""
    latent: Floats
    """Latent points (n_samples, 2); the sheet bends where the second is 0."""
    maps: Floats
    """Two slopes and the mean of each column on both sides (2, n_features, 3)."""
    pieces: Ints
    """The side of each point (n_samples,)."""


def make_sppca_order(
    n_components: int,
    n_samples: int = 100,
    n_features: int = 20,
    *,
    random_state: int | np.random.Generator | None = None,
) -> HiddenFactors:
    """Draw counts that are sums of one, two or three hidden Poisson factors and an error.

    Parameters
    ----------
    n_components : {1, 2, 3}
        Number of factors: models (4), (5) and (6) of the paper.
    n_samples : int, default=100
        Number of rows.
    n_features : int, default=20
        At least 3, 5 and 7.
    random_state : int, Generator or None

    Raises
    ------
    ValueError
        If the model is unknown or has more kinds of columns than there are columns.

    Notes
    -----
    The factors are Poisson with rates 20, 30 and 50; the error is Poisson with rate 2 and a random sign. A
    negative sum, which is possible but of probability below 1e-4, becomes 0. The counts are under-dispersed and
    their noise does not grow with their mean. The last term of model (6), printed as a product, is read as a sum.

    References
    ----------
    L. Smallman, W. Underwood and A. Artemiou, Simple Poisson PCA, Computational Statistics (2019), sections 5.1, 5.2.
    """
    if n_components not in _ORDERS:
        raise ValueError(f"n_components must be 1, 2 or 3; got {n_components}.")
    rows = _ORDERS[n_components]
    if n_features < len(rows):
        raise ValueError(
            f"with n_components={n_components} n_features must be at least {len(rows)}; got {n_features}."
        )
    rng = np.random.default_rng(random_state)
    coefficients = np.array([*rows, *[rows[-1]] * (n_features - len(rows))], dtype=float).T
    factors = rng.poisson(_FACTOR_RATES[:n_components], (n_samples, n_components)).astype(float)
    return HiddenFactors(_add_error(factors @ coefficients, rng), factors, coefficients)


def make_sppca_loadings(
    n_components: int = 1, *, random_state: int | np.random.Generator | None = None
) -> HiddenFactors:
    """Draw the table X1D or X2D: 100 rows of 10 counts with one or two hidden factors.

    Parameters
    ----------
    n_components : {1, 2}, default=1
    random_state : int, Generator or None
    """
    if n_components not in (1, 2):
        raise ValueError(f"n_components must be 1 (X1D) or 2 (X2D); got {n_components}.")
    return make_sppca_order(n_components, 100, 10, random_state=random_state)


def make_sppca_classes(
    n_classes: int = 2,
    n_samples: int = 100,
    n_features: int = 10,
    *,
    random_state: int | np.random.Generator | None = None,
) -> ClassedCounts:
    """Draw counts of two or three classes, each with its own hidden factor: X2C and X3C.

    Parameters
    ----------
    n_classes : {2, 3}, default=2
        Two classes share the rows equally; of three, the last has half of the rows.
    n_samples : int, default=100
        A multiple of 4.
    n_features : int, default=10
        At least 3.
    random_state : int, Generator or None

    Raises
    ------
    ValueError
        If a size makes no sense.

    Notes
    -----
    With the factors and the error of `make_sppca_order`: the first two columns of a row are V2, 2 V3, V1 in the
    three classes, the others 3 V2, V3, V1, each plus an error of its own.

    References
    ----------
    L. Smallman, W. Underwood and A. Artemiou, Simple Poisson PCA, Computational Statistics (2019), section 5.3.
    """
    if n_classes not in _SHARES:
        raise ValueError(f"n_classes must be 2 or 3; got {n_classes}.")
    if n_samples < 4 or n_samples % 4 or n_features < 3:
        raise ValueError(
            f"n_samples must be a positive multiple of 4 and n_features at least 3; got {n_samples} and {n_features}."
        )
    rng = np.random.default_rng(random_state)
    sizes = [round(n_samples * share) for share in _SHARES[n_classes]]
    parts = []
    for size, (factor, first, other) in zip(sizes, _CLASSES, strict=False):
        weights = np.r_[first, first, np.full(n_features - 2, other)]
        parts.append(np.outer(rng.poisson(_FACTOR_RATES[factor], size), weights))
    mean = np.concatenate(parts)
    return ClassedCounts(_add_error(mean, rng), np.repeat(np.arange(n_classes), sizes), mean)


def make_wide_hinge(
    n_samples: int = 500,
    n_features: int = 8,
    n_components: int = 3,
    *,
    bend: float = 1.5,
    noise: float = 0.2,
    random_state: int | np.random.Generator | None = None,
) -> BentSheet:
    """Draw points near a sheet of any dimension, bent along its last coordinate and turned at random.

    Parameters
    ----------
    n_samples, n_features, n_components : int, default=500, 8, 3
        With n_components < n_features.
    bend : float, default=1.5
        Slope of the direction that the sheet bends into.
    noise : float, default=0.2
        Standard deviation.
    random_state : int, Generator or None

    Raises
    ------
    ValueError
        If the sheet does not fit into the columns.
    """
    if not 1 <= n_components < n_features:
        raise ValueError(
            f"n_components must be between 1 and n_features - 1 = {n_features - 1}; got {n_components}."
        )
    rng = np.random.default_rng(random_state)
    latent = rng.standard_normal((n_samples, n_components))
    # One direction more than components, for the bend.
    basis = np.linalg.qr(rng.standard_normal((n_features, n_components + 1)))[0]
    surface = np.column_stack([latent, bend * np.abs(latent[:, -1])]) @ basis.T
    X = surface + noise * rng.standard_normal((n_samples, n_features))
    return BentSheet(X, latent, surface, (latent[:, -1] > 0).astype(np.int64))


def make_bent_counts(
    n_samples: int = 400,
    n_features: int = 8,
    *,
    design_seed: int = 42,
    random_state: int | np.random.Generator | None = None,
) -> BentCounts:
    """Draw counts whose log rates bend, with exposures between 1 and 3.

    Parameters
    ----------
    n_samples, n_features : int, default=400, 8
        Size of the table.
    design_seed : int, default=42
        Seed of the slopes and means, apart from that of the rows, so that several tables share a truth.
    random_state : int, Generator or None

    References
    ----------
    M. Adams, Probabilistic piecewise principal component analysis (2022), section 3.6.
    """
    maps = _bent_maps(n_features, design_seed)
    rng = np.random.default_rng(random_state)
    offset = np.log(rng.uniform(1.0, 3.0, n_samples))
    latent = rng.standard_normal((n_samples, 2))
    pieces = (latent[:, 1] > 0).astype(np.int64)
    extended = np.column_stack([latent, np.ones(n_samples)])
    eta = np.where(pieces[:, None] == 1, extended @ maps[1].T, extended @ maps[0].T)
    counts = rng.poisson(np.exp(eta + offset[:, None])).astype(float)
    return BentCounts(counts, offset, latent, maps, pieces)


def _add_error(values: Floats, rng: np.random.Generator) -> Floats:
    """Counts: the values plus a Poisson error of random sign, at least 0."""
    # As published: a Poisson size with a random sign, and no count below 0.
    error = rng.poisson(_ERROR_RATE, values.shape) * rng.choice([-1.0, 1.0], values.shape)
    return np.asarray(np.maximum(values + error, 0.0))


def _bent_maps(n_features: int, seed: int) -> Floats:
    """Slopes and means (2, n_features, 3) of two pieces that meet where the second coordinate is 0."""
    rng = np.random.default_rng(seed)
    first = 0.6 * rng.standard_normal(n_features)
    slope, bend = 0.5 * rng.standard_normal(n_features), 1.2 * rng.standard_normal(n_features)
    mean = 1.0 + 0.3 * rng.standard_normal(n_features)
    return np.array([np.column_stack([first, slope + k * bend, mean]) for k in (0, 1)])
