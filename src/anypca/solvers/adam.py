"""Adam: steps along noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats

# The authors' constants: memories of the gradient and of its square, and what keeps a quotient finite.
_MEMORY, _MEMORY_OF_SQUARES, _SMALL = 0.9, 0.999, 1e-8


@dataclass(frozen=True, eq=False)
class Adam:
    """Moving averages of the previous gradients.

    References
    ----------
    Kingma and Ba (2015), Adam: a method for stochastic optimization, algorithm 1.
    """

    learning_rate: float
    mean: Floats
    """Of the gradients (m,)."""
    square: Floats
    """Of their squares (m,)."""
    n_steps: int = 0

    @classmethod
    def start(cls, learning_rate: float, size: int) -> Adam:
        """Before the first gradient of so many numbers."""
        return cls(learning_rate, np.zeros(size), np.zeros(size))

    def after(self, gradient: Floats) -> Adam:
        """The state after one more gradient (m,)."""
        mean = _MEMORY * self.mean + (1.0 - _MEMORY) * gradient
        square = _MEMORY_OF_SQUARES * self.square + (1.0 - _MEMORY_OF_SQUARES) * gradient**2
        return Adam(self.learning_rate, mean, square, self.n_steps + 1)

    @property
    def step(self) -> Floats:
        """Uphill, (m,); after at least one gradient."""
        mean = self.mean / (1.0 - _MEMORY**self.n_steps)
        square = self.square / (1.0 - _MEMORY_OF_SQUARES**self.n_steps)
        return np.asarray(self.learning_rate * mean / (np.sqrt(square) + _SMALL))
