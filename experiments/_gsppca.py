"""Data and scores that the experiments on globally sparse PCA share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca import GSPPCA
from anypca.datasets import GloballySparse, make_globally_sparse


@dataclass(frozen=True)
class Design:
    """Sizes of a simulated table; loadings are standard normal in the active columns."""

    n_samples: int
    n_features: int
    n_components: int
    n_active: int
    noise: float
    """Standard deviation."""


def simulate(design: Design, seed: int) -> GloballySparse:
    """A table of its own for every design and seed."""
    return make_globally_sparse(
        design.n_samples,
        design.n_features,
        design.n_components,
        n_active=design.n_active,
        noise=design.noise,
        random_state=np.random.default_rng(
            [seed, design.n_samples, design.n_features, round(1e4 * design.noise)]
        ),
    )


def f_score(found: np.ndarray, true: np.ndarray) -> float:
    """Harmonic mean of precision and recall of a mask."""
    return 2.0 * np.count_nonzero(found & true) / (np.count_nonzero(found) + np.count_nonzero(true))


def fit_once(design: Design, seed: int) -> float:
    """F-score of the selected columns of one simulated table, the latent dimension being known."""
    drawn = simulate(design, seed)
    return f_score(GSPPCA(design.n_components, n_jobs=1).fit(drawn.X).support_, drawn.support)
