"""Tables near bent or rolled surfaces, and near sparse subspaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class BentSheet:
    """Points near a sheet that bends where the last coordinate of the latent points crosses a corner.

    See Also
    --------
    make_hinge : draws one in three columns.
    """

    X: Floats
    """Points with noise (n_samples, n_features)."""
    latent: Floats
    """Points on the sheet before it was bent (n_samples, n_components)."""
    surface: Floats
    """Points on the bent sheet, without noise (n_samples, n_features)."""
    pieces: Ints
    """The side of each point (n_samples,): 0 before the corner, 1 after it."""


@dataclass(frozen=True, eq=False)
class SwissRoll:
    """A rectangle wound up in space.

    See Also
    --------
    make_swiss_roll : draws it.
    """

    X: Floats
    """Points on the roll (n_samples, 3)."""
    flat: Floats
    """The same points before the rectangle was wound up (n_samples, 2)."""


@dataclass(frozen=True, eq=False)
class GloballySparse:
    """A table near a subspace that only some columns take part in.

    See Also
    --------
    make_globally_sparse : draws it.
    """

    X: Floats
    """Values (n_samples, n_features)."""
    support: Bools
    """The columns that take part (n_features,)."""
    scores: Floats
    """Standard normal (n_samples, n_components)."""
    components: Floats
    """W' (n_components, n_features), standard normal in the active columns, 0 elsewhere."""


def make_hinge(
    n_samples: int = 500,
    *,
    corner: float = 0.0,
    jump: float = 0.0,
    noise: Any = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> BentSheet:
    """Draw points (x, y, z) with ``z = |x - corner|``: a sheet bent along a line.

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows.
    corner : float, default=0.0
        Where the sheet bends.
    jump : float, default=0.0
        By how much the part right of the corner is lifted.
    noise : float or array-like of shape (3,), default=0.1
        Standard deviation of the noise, the same or one for each coordinate; the thesis has noise on the last alone.
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : BentSheet
        ``latent`` holds (x, y), standard normal; the sheet bends along x.

    See Also
    --------
    anypca.PiecewisePCA : the model of it.
    make_swiss_roll : another surface.

    References
    ----------
    M. Adams, Probabilistic piecewise principal component analysis (2022), section 3.11.1.

    Examples
    --------
    >>> from anypca.datasets import make_hinge
    >>> make_hinge(random_state=0).X.shape
    (500, 3)
    """
    rng = np.random.default_rng(random_state)
    latent = rng.standard_normal((n_samples, 2))
    right = latent[:, 0] > corner
    surface = np.column_stack([latent, np.abs(latent[:, 0] - corner) + jump * right])
    X = surface + np.asarray(noise, dtype=float) * rng.standard_normal((n_samples, 3))
    return BentSheet(X, latent, surface, right.astype(np.int64))


def make_swiss_roll(
    n_samples: int = 1000, *, random_state: int | np.random.Generator | None = None
) -> SwissRoll:
    """Draw points on a roll of one and a half turns, and where they lie on the unrolled rectangle.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : SwissRoll
        The table, and what it was drawn from.

    See Also
    --------
    anypca.KernelPCA : components that bend; its kernels bend with the roll, but do not unroll it.

    Notes
    -----
    The points are scikit-learn's, on the spiral r = angle; its length from 0 is
    ``(angle sqrt(1 + angle^2) + arcsinh(angle)) / 2``.

    Examples
    --------
    >>> from anypca.datasets import make_swiss_roll
    >>> make_swiss_roll(random_state=0).flat.shape
    (1000, 2)
    """
    from sklearn.datasets import make_swiss_roll as draw

    # scikit-learn knows only the older kind of generator.
    seed = random_state
    if isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31))
    X, angle = draw(n_samples, random_state=seed)
    # The length of the spiral up to an angle: the flat sheet has the distances of the roll.
    length = 0.5 * (angle * np.sqrt(1 + angle**2) + np.arcsinh(angle))
    return SwissRoll(X, np.column_stack([length, X[:, 1]]))


def make_globally_sparse(
    n_samples: int = 50,
    n_features: int = 30,
    n_components: int = 5,
    *,
    n_active: int = 10,
    noise: float = 0.3,
    random_state: int | np.random.Generator | None = None,
) -> GloballySparse:
    """Draw a Gaussian table in which only some columns take part in any component.

    Parameters
    ----------
    n_samples, n_features, n_components : int, default=50, 30, 5
        The defaults are the paper's introductory example.
    n_active : int, default=10
        Number of columns that take part.
    noise : float, default=0.3
        Standard deviation of the noise in all columns.
    random_state : int, Generator or None, default=None
        Seed, or generator, of the draws.

    Returns
    -------
    drawn : GloballySparse
        The table, and what it was drawn from.

    Raises
    ------
    ValueError
        If more columns are active than there are.

    See Also
    --------
    anypca.GSPPCA : the model of it.

    References
    ----------
    P.-A. Mattei, C. Bouveyron and P. Latouche, Globally sparse probabilistic PCA, AISTATS 2016, section 3.

    Examples
    --------
    >>> from anypca.datasets import make_globally_sparse
    >>> int(make_globally_sparse(random_state=0).support.sum())
    10
    """
    if not 0 <= n_active <= n_features:
        raise ValueError(f"n_active must be between 0 and n_features = {n_features}; got {n_active}.")
    rng = np.random.default_rng(random_state)
    active = np.zeros(n_features, dtype=bool)
    active[rng.choice(n_features, n_active, replace=False)] = True
    loadings = rng.normal(size=(n_features, n_components)) * active[:, None]
    scores = rng.normal(size=(n_samples, n_components))
    X = scores @ loadings.T + noise * rng.normal(size=(n_samples, n_features))
    return GloballySparse(X, active, scores, loadings.T)
