"""Tables drawn from a known low-rank model, and noisy copies of binary prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.columns import resolve_family
from anypca.families import Family
from anypca.families.mixed import known_dispersion
from anypca.linalg import fix_signs


@dataclass(frozen=True, eq=False)
class LowRank:
    """A drawn table and the truth behind it.

    See Also
    --------
    make_low_rank : draws it.
    """

    X: Floats
    """Values (n_samples, n_features), NaN where missing."""
    scores: Floats
    """Z (n_samples, n_components), columns in decreasing order of variance."""
    components: Floats
    """W' (n_components, n_features), orthonormal rows, the largest entry of each positive."""
    intercept: Floats
    """b (n_features,)."""
    eta: Floats
    """Linear predictor ``b + Z W'`` (n_samples, n_features)."""
    family: Family


def make_low_rank(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    family: Any = "poisson",
    signal: float = 1.0,
    intercept: Any = 0.0,
    dispersion: Any = 1.0,
    missing: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> LowRank:
    r"""Draw a table whose linear predictor has low rank, from any family.

    Parameters
    ----------
    n_samples, n_features, n_components : int
        Shape of the table and rank of the predictor, with n_components <= min(n_samples, n_features).
    family : str, Family, sequence or mapping, default="poisson"
        One for all columns, one per column, or a mapping from column index to one.
    signal : float, default=1.0
        Root mean square of the entries of ``Z W'`` in expectation.
    intercept : float or array-like of shape (n_features,), default=0.0
        Of the columns, on the scale of the linear predictor.
    dispersion : float or array-like of shape (n_features,), default=1.0
        For families with a free dispersion: variance (gaussian), 1/shape (gamma), 1/size (negative binomial).
    missing : float, default=0.0
        Share of cells set to NaN at random, in [0, 1).
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : LowRank
        X and the truth.

    Raises
    ------
    ValueError
        If the sizes, the family or the share of missing cells are invalid.

    See Also
    --------
    anypca.EPCA : fits this model.
    make_low_rank_counts : counts that vary more or less than Poisson counts.

    Notes
    -----
    Components are uniformly distributed orthonormal rows. The standard deviations of the scores fall linearly
    so that the last is half of the first, and components are identifiable.

    Examples
    --------
    >>> from anypca.datasets import make_low_rank
    >>> make_low_rank(100, 8, 2, family="bernoulli", random_state=0).X.shape
    (100, 8)
    """
    check_rank(n_samples, n_features, n_components)
    check_missing(missing)
    rng = np.random.default_rng(random_state)
    found = resolve_family(family, n_features)
    shift = np.broadcast_to(np.asarray(intercept, dtype=float), (n_features,)).copy()
    components = np.linalg.qr(rng.standard_normal((n_features, n_components)))[0].T
    components *= fix_signs(components)[:, None]
    scores = rng.standard_normal((n_samples, n_components)) * _deviations(n_features, n_components, signal)
    eta = shift + scores @ components
    known = known_dispersion(found, n_features)
    X = found.sample(eta, np.where(np.isnan(known), np.asarray(dispersion, dtype=float), known), rng)
    X[rng.random(X.shape) < missing] = np.nan
    return LowRank(X, scores, components, shift, eta, found)


def check_rank(n_samples: int, n_features: int, n_components: int) -> None:
    """Raise a ValueError unless a table of this size can have this rank."""
    if not 0 <= n_components <= min(n_samples, n_features):
        raise ValueError(
            f"n_components must be between 0 and min(n_samples, n_features) = {min(n_samples, n_features)}; "
            f"got {n_components}."
        )


def check_missing(missing: float) -> None:
    """Raise a ValueError unless this share of the cells can be missing."""
    if not 0.0 <= missing < 1.0:
        raise ValueError(f"missing must be a share in [0, 1); got {missing}.")


def _deviations(n_features: int, n_components: int, signal: float) -> Floats:
    """Standard deviations of the scores, shape (n_components,)."""
    if n_components == 0:
        return np.zeros(0)
    relative = np.linspace(1.0, 0.5, n_components)
    # An orthonormal row spreads a score over p entries: the squares of the deviations sum to p signal^2.
    stretch = float(np.sqrt(n_features / np.sum(relative**2)))
    return signal * stretch * relative


@dataclass(frozen=True, eq=False)
class PrototypeBits:
    """Noisy bits and the prototypes behind them.

    See Also
    --------
    make_prototype_bits : draws it.
    """

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
        Rows that are copies of each prototype.
    flip : float, default=0.1
        Probability that a bit is flipped, in [0, 0.5).
    missing : float, default=0.0
        Share of cells set to NaN at random, in [0, 1).
    prototypes : array-like of shape (n_prototypes, n_features), default=None
        Use these, for a second table from the same truth; ``None`` draws fair bits.
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : PrototypeBits
        The table, and what it was drawn from.

    Raises
    ------
    ValueError
        If a size or a share makes no sense.

    See Also
    --------
    anypca.SePCA : finds their number.

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
        # Prototypes that depend on each other would have fewer directions than their number says.
        signs = 2.0 * bits - 1.0
        ranks = np.linalg.matrix_rank(signs), np.linalg.matrix_rank(signs - signs.mean(axis=0))
        if ranks == (n_prototypes, n_prototypes - 1):
            return bits


def _check_bits(prototypes: Any) -> Floats:
    bits = np.asarray(prototypes, dtype=float)
    if bits.ndim != 2 or not np.isin(bits, (0.0, 1.0)).all():
        raise ValueError("prototypes must be a matrix of zeros and ones, one row for each prototype.")
    return bits
