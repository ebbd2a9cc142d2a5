"""Tables for the tests of SePCA: components that stand far above the noise, of unequal sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca import SePCA
from anypca.columns import resolve_family

#: Sizes of the linear predictor that make two components plain to see, by family; others have 1.
SIGNAL = {"bernoulli": 3.0, "binomial(8)": 1.5}
#: What dispersions are where a family leaves them open.
DISPERSION = 0.2


def orthogonal(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Draw k orthogonal columns of mean square 1."""
    return np.linalg.qr(rng.standard_normal((n, k)))[0] * np.sqrt(n)


def draw_eta(rng: np.random.Generator, n: int, p: int, rank: int, signal: float = 1.0) -> np.ndarray:
    """Draw linear predictors with mean 1 of components whose sizes fall by a quarter."""
    sizes = signal * 0.75 ** np.arange(rank)
    return 1.0 + orthogonal(rng, n, rank) * sizes @ orthogonal(rng, p, rank).T


def draw(family: str, rng: np.random.Generator, n: int = 80, p: int = 12, rank: int = 2) -> np.ndarray:
    """Draw a table of a family."""
    eta = draw_eta(rng, n, p, rank, SIGNAL.get(family, 0.8))
    eta -= 1.0 if family.startswith(("bernoulli", "binomial")) else 0.0
    return np.asarray(resolve_family(family, p).sample(eta, np.full(p, DISPERSION), rng), float)


def draw_mixed(rng: np.random.Generator, n: int = 80) -> tuple[np.ndarray, list[str]]:
    """Draw real columns, amounts, counts and answers of the same two components, and name their families."""
    eta = draw_eta(rng, n, 16, 2)
    families = ["gaussian", "gamma", "negative_binomial", "bernoulli"]
    eta[:, 12:] = 2.0 * (eta[:, 12:] - 1.0)
    parts = [
        resolve_family(name, 4).sample(eta[:, 4 * i : 4 * i + 4], np.full(4, DISPERSION), rng)
        for i, name in enumerate(families)
    ]
    return np.hstack(parts).astype(float), [name for name in families for _ in range(4)]


def hide(X: np.ndarray, rng: np.random.Generator, share: float = 0.2) -> np.ndarray:
    """Return a copy in which a share of the cells is missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


def fit(X: Any, family: Any, k: int | None = 4, companions: Any = (), **settings: Any) -> SePCA:
    """Fit SePCA with at most four components in one thread."""
    return SePCA(k, **{"family": family, "n_jobs": 1, **settings}).fit(X, **dict(companions))
