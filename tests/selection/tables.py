"""Tables with a number of components that every draw has."""

from __future__ import annotations

import numpy as np


def flat_noise(
    rng: np.random.Generator,
    rank: int,
    n: int = 60,
    p: int = 16,
    *,
    missing: float = 0.0,
    spread: float = 0.0,
    least: float = 4.0,
) -> np.ndarray:
    """Return a centred table with ``rank`` strong components and equal variance in all other directions.

    The weakest component has ``least`` times the standard deviation of the noise, the strongest of several 1.5 times as
    much. Drawn noise has larger first singular values, so no consistent method finds a component in this noise. With
    ``spread`` its standard deviations fall from ``1 + spread`` to ``1 - spread``.
    """
    left = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, p))]))[0][:, 1:]
    right = np.linalg.qr(rng.normal(size=(p, p)))[0]
    sizes = np.linspace(1.0 + spread, 1.0 - spread, p)
    sizes[:rank] = np.linspace(least, 1.5 * least, rank)[::-1]
    X = 5.0 + np.sqrt(n) * (left * sizes) @ right.T
    X[rng.random(X.shape) < missing] = np.nan
    return X
