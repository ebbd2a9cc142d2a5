"""Noisy copies of binary prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.datasets.generators import check_missing


@dataclass(frozen=True, eq=False)
class PrototypeBits:
    """Noisy bits and the prototypes behind them."""

    X: Floats
    """Bits (n_samples, n_features), NaN where missing; rows in the order of their prototypes."""
    complete: Floats
    """The same without missing cells."""
    prototypes: Floats
    """Bits (n_prototypes, n_features) without noise."""
    labels: Ints
    """The prototype of each row (n_samples,)."""
    mean: Floats
    """Probability of a one (n_samples, n_features): ``flip`` or ``1 - flip``."""


def make_prototype_bits(
    n_prototypes: int = 3,
    *,
    n_features: int = 16,
    samples_per_prototype: int = 40,
    flip: float = 0.1,
    missing: float = 0.0,
    prototypes: Any = None,
    random_state: int | np.random.Generator | None = None,
) -> PrototypeBits:
    """Draw rows of bits, each a copy of one prototype with bits flipped at random.

    Parameters
    ----------
    n_prototypes : int, default=3
        Ignored when ``prototypes`` are given.
    n_features : int, default=16
        Ignored when ``prototypes`` are given.
    samples_per_prototype : int, default=40
    flip : float, default=0.1
        Probability that a bit is flipped, in [0, 0.5).
    missing : float, default=0.0
        Share of cells set to NaN at random, in [0, 1).
    prototypes : array-like of shape (n_prototypes, n_features), default=None
        Use these, for a second table from the same truth; ``None`` draws fair bits.
    random_state : int, Generator or None, default=None

    Returns
    -------
    drawn : PrototypeBits

    Raises
    ------
    ValueError
        If a size or a share makes no sense.

    Notes
    -----
    Without intercept the natural parameters of the rows have rank ``n_prototypes``; around their mean the rank
    is one less. Prototypes are drawn again in the rare case that their signs are linearly or affinely dependent,
    so that both are exact.

    References
    ----------
    J. Li and D. Tao, Simple exponential family PCA, IEEE TNNLS 24 (2013), section V-A.

    Examples
    --------
    >>> from anypca.datasets import make_prototype_bits
    >>> make_prototype_bits(random_state=0).X.shape
    (120, 16)
    """
    if not 0.0 <= flip < 0.5:
        raise ValueError(f"flip must be a probability in [0, 0.5); got {flip}.")
    check_missing(missing)
    rng = np.random.default_rng(random_state)
    known = _draw_prototypes(n_prototypes, n_features, rng) if prototypes is None else _check_bits(prototypes)
    labels = np.repeat(np.arange(len(known)), samples_per_prototype)
    mean = np.where(known[labels] == 1.0, 1.0 - flip, flip)
    complete = (rng.random(mean.shape) < mean).astype(float)
    X = np.where(rng.random(mean.shape) < missing, np.nan, complete)
    return PrototypeBits(X, complete, known, labels, mean)


def _draw_prototypes(n_prototypes: int, n_features: int, rng: np.random.Generator) -> Floats:
    if not 1 <= n_prototypes <= n_features:
        raise ValueError(f"n_prototypes must be between 1 and n_features = {n_features}; got {n_prototypes}.")
    while True:
        bits = rng.integers(0, 2, (n_prototypes, n_features)).astype(float)
        signs = 2.0 * bits - 1.0
        ranks = np.linalg.matrix_rank(signs), np.linalg.matrix_rank(signs - signs.mean(axis=0))
        if ranks == (n_prototypes, n_prototypes - 1):
            return bits


def _check_bits(prototypes: Any) -> Floats:
    bits = np.asarray(prototypes, dtype=float)
    if bits.ndim != 2 or not np.isin(bits, (0.0, 1.0)).all():
        raise ValueError("prototypes must be a matrix of zeros and ones, one row for each prototype.")
    return bits
