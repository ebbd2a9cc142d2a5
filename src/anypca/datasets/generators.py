"""Tables drawn from a known low-rank model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.families import Family, resolve_family
from anypca.linalg import fix_signs


@dataclass(frozen=True, eq=False)
class LowRank:
    """A drawn table and the truth behind it."""

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
    dispersion : float or array-like of shape (n_features,), default=1.0
        For families that leave theirs open: variance (gaussian), 1/shape (gamma), 1/size (negative binomial).
    missing : float, default=0.0
        Share of cells set to NaN at random, in [0, 1).
    random_state : int, Generator or None, default=None

    Returns
    -------
    drawn : LowRank
        X and the truth.

    Raises
    ------
    ValueError
        If the sizes, the family or the share of missing cells make no sense.

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
    X = found.sample(eta, _dispersion(found, dispersion, n_features), rng)
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


def _dispersion(family: Family, given: Any, n_features: int) -> Floats:
    """The family's own dispersion where it is fixed, else the given one, shape (n_features,)."""
    known = family.known_dispersion(n_features)
    return np.asarray(np.where(np.isnan(known), np.asarray(given, dtype=float), known))
