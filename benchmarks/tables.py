"""Tables of several benchmarks; nothing of anypca is needed, so that earlier versions can be compared on them."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def make_table(
    n_samples: int, n_features: int, k: int, seed: int = 0, *, size: float = 0.3
) -> sparse.csr_array:
    """Poisson counts of a rank-k log-linear model, with 10 loadings of that size about 90 % zeros, made in slices."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(k, n_features)) * size
    base = rng.normal(size=n_features) * 0.5 - 2.9
    parts = []
    for start in range(0, n_samples, 2000):
        rows = min(2000, n_samples - start)
        parts.append(sparse.csr_array(rng.poisson(np.exp(rng.normal(size=(rows, k)) @ loadings + base))))
    return sparse.vstack(parts, format="csr").astype(float)
