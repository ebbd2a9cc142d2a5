"""Counts drawn from known models: low-rank and sparse log rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.datasets.generators import LowRank, check_missing, check_rank
from anypca.families import NegativeBinomial, Poisson
from anypca.families.mixed import known_dispersion
from anypca.linalg import fix_signs


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
        Standard deviation of the contribution of one component to a log rate.
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
        If a number is out of range.

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
    X = family.sample(eta, known_dispersion(family, n_features), rng)
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
        The table and the true parameters.

    Raises
    ------
    ValueError
        If the components need more columns than there are, or a number is not positive.

    See Also
    --------
    anypca.SSPPCA : estimates sparse loadings.

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


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} must be above 0; got {value}.")
