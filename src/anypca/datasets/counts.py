"""Counts drawn from known models: hidden factors, classes, low-rank and sparse log rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.datasets.generators import LowRank, check_missing, check_rank
from anypca.families import NegativeBinomial, Poisson
from anypca.linalg import fix_signs

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
    """Counts and the hidden factors they are sums of.

    See Also
    --------
    make_sppca_order : draws it.
    make_sppca_loadings : draws a published table.
    """

    X: Floats
    """Counts (n_samples, n_features)."""
    factors: Floats
    """Values of the factors (n_samples, n_components)."""
    coefficients: Floats
    """Weights of the factors (n_components, n_features): X is ``factors @ coefficients`` plus error."""


@dataclass(frozen=True, eq=False)
class ClassedCounts:
    """Counts of several classes.

    See Also
    --------
    make_sppca_classes : draws it.
    """

    X: Floats
    """Counts (n_samples, n_features), rows in the order of their classes."""
    labels: Ints
    """The class of each row (n_samples,), counted from 0."""
    mean: Floats
    """The counts without error (n_samples, n_features)."""


@dataclass(frozen=True, eq=False)
class SparseCounts:
    """Counts with sparse loadings on the log scale.

    See Also
    --------
    make_sparse_counts : draws it.
    """

    X: Floats
    """Counts (n_samples, n_features)."""
    scores: Floats
    """Z (n_samples, n_components), standard normal."""
    components: Floats
    """W' (n_components, n_features), mostly zero."""
    support: Bools
    """Where the components are not zero (n_components, n_features)."""
    intercept: Floats
    """Log rates at zero scores (n_features,)."""


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
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : HiddenFactors
        The table, and what it was drawn from.

    Raises
    ------
    ValueError
        If the model is unknown or has more kinds of columns than there are columns.

    See Also
    --------
    make_sppca_loadings : the published tables.
    anypca.SPPCA : the model of it.

    Notes
    -----
    The factors are Poisson with rates 20, 30 and 50; the error is Poisson with rate 2 and a random sign. A
    negative sum, which is possible but of probability below 1e-4, becomes 0. The counts are under-dispersed and
    their noise does not grow with their mean. The last term of model (6), printed as a product, is read as a sum.

    References
    ----------
    L. Smallman, W. Underwood and A. Artemiou, Simple Poisson PCA, Computational Statistics (2019), sections 5.1, 5.2.

    Examples
    --------
    >>> from anypca.datasets import make_sppca_order
    >>> make_sppca_order(2, 100, 20, random_state=0).coefficients[:, 4]
    array([1., 3.])
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
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : HiddenFactors
        The table, and what it was drawn from.

    See Also
    --------
    make_sppca_order : the same model with other sizes.

    Examples
    --------
    >>> from anypca.datasets import make_sppca_loadings
    >>> make_sppca_loadings(random_state=0).coefficients
    array([[1., 1., 2., 2., 2., 2., 2., 2., 2., 2.]])
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
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : ClassedCounts
        The table, and what it was drawn from.

    Raises
    ------
    ValueError
        If a size makes no sense.

    See Also
    --------
    make_sppca_order : without classes.

    Notes
    -----
    With the factors and the error of `make_sppca_order`: the first two columns of a row are V2, 2 V3, V1 in the
    three classes, the others 3 V2, V3, V1, each plus an error of its own.

    References
    ----------
    L. Smallman, W. Underwood and A. Artemiou, Simple Poisson PCA, Computational Statistics (2019), section 5.3.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.datasets import make_sppca_classes
    >>> np.bincount(make_sppca_classes(3, random_state=0).labels)
    array([25, 25, 50])
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


def make_low_rank_counts(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    typical_mean: float = 1.6,
    size: float | None = None,
    strength: float = 0.7,
    spread: float = 0.5,
    missing: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> LowRank:
    """Draw counts whose log rates have low rank, with or without over-dispersion.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        Zero components give noise alone.
    typical_mean : float, default=1.6
        Median of the rates over the columns at zero scores.
    size : float or None, default=None
        Size r of the negative binomial, whose variance is ``mu + mu^2 / r``; ``None`` draws Poisson counts.
    strength : float, default=0.7
        Standard deviation of what one component adds to a log rate.
    spread : float, default=0.5
        Standard deviation of the log rates of the columns at zero scores.
    missing : float, default=0.0
        Share of cells set to NaN at random, in [0, 1).
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : LowRank
        Components are rotated to orthonormal rows in decreasing order of their strength.

    Raises
    ------
    ValueError
        If a number makes no sense.

    See Also
    --------
    make_low_rank : any family.

    Examples
    --------
    >>> from anypca.datasets import make_low_rank_counts
    >>> make_low_rank_counts(100, 50, 2, typical_mean=12, size=3, random_state=0).family
    NegativeBinomial(size=3.0)
    """
    check_rank(n_samples, n_features, n_components)
    check_missing(missing)
    _check_positive(typical_mean=typical_mean, size=1.0 if size is None else size)
    rng = np.random.default_rng(random_state)
    family = Poisson() if size is None else NegativeBinomial(size=float(size))
    intercept = np.log(typical_mean) + spread * rng.standard_normal(n_features)
    loadings = strength * rng.standard_normal((n_features, n_components))
    raw = rng.standard_normal((n_samples, n_components))
    eta = intercept + raw @ loadings.T
    X = family.sample(eta, family.known_dispersion(n_features), rng)
    X[rng.random(X.shape) < missing] = np.nan
    # The same product in canonical form: orthonormal loadings, and scores of decreasing size.
    left, values, right = np.linalg.svd(loadings, full_matrices=False)
    flip = fix_signs(left.T)
    return LowRank(X, raw @ right.T * (values * flip), (left * flip).T, intercept, eta, family)


def make_sparse_counts(
    n_samples: int = 300,
    n_features: int = 200,
    n_components: int = 3,
    *,
    n_nonzero: int = 15,
    strength: float = 1.0,
    typical_mean: float = 2.0,
    random_state: int | np.random.Generator | None = None,
) -> SparseCounts:
    """Draw Poisson counts whose log rates follow components of a few columns each.

    Parameters
    ----------
    n_samples, n_features, n_components : int, default=300, 200, 3
        Sizes of the table, and the number of components.
    n_nonzero : int, default=15
        Columns of each component; no column belongs to two.
    strength : float, default=1.0
        Largest loading. Loadings have random signs and sizes between 0.6 and 1 times this.
    typical_mean : float, default=2.0
        Rate at zero scores.
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : SparseCounts
        The table, and what it was drawn from.

    Raises
    ------
    ValueError
        If the components need more columns than there are, or a number is not positive.

    See Also
    --------
    anypca.SSPPCA : finds the zeros.

    Examples
    --------
    >>> from anypca.datasets import make_sparse_counts
    >>> make_sparse_counts(random_state=0).support.sum(axis=1)
    array([15, 15, 15])
    """
    if not 0 < n_components * n_nonzero <= n_features:
        raise ValueError(
            f"n_components * n_nonzero must be between 1 and n_features = {n_features}; "
            f"got {n_components} * {n_nonzero}."
        )
    _check_positive(strength=strength, typical_mean=typical_mean)
    rng = np.random.default_rng(random_state)
    columns = rng.permutation(n_features)[: n_components * n_nonzero].reshape(n_components, n_nonzero)
    components = np.zeros((n_components, n_features))
    sizes = strength * rng.uniform(0.6, 1.0, columns.shape)
    np.put_along_axis(components, columns, sizes * rng.choice([-1.0, 1.0], columns.shape), axis=1)
    scores = rng.standard_normal((n_samples, n_components))
    intercept = np.full(n_features, np.log(typical_mean))
    X = rng.poisson(np.exp(intercept + scores @ components)).astype(float)
    return SparseCounts(X, scores, components, components != 0, intercept)


def _add_error(values: Floats, rng: np.random.Generator) -> Floats:
    """Counts: the values plus a Poisson error of random sign, at least 0."""
    # As published: a Poisson size with a random sign, and no count below 0.
    error = rng.poisson(_ERROR_RATE, values.shape) * rng.choice([-1.0, 1.0], values.shape)
    return np.asarray(np.maximum(values + error, 0.0))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} must be above 0; got {value}.")
