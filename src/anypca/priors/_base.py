"""What a prior (penalty) on scores or loadings must provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from anypca._registry import Registry
from anypca._typing import Floats

priors: Registry[Prior] = Registry("prior")


class NewtonStep(NamedTuple):
    """A step to the best point of a penalised quadratic model."""

    step: Floats
    """(n, m): the proposed change."""
    decrement: Floats
    """(n,): twice the gain that the model expects, >= 0; zero at a stationary point."""


class Prior(ABC):
    """Minus the log density of the rows of a matrix ``u`` (n, m), without its constant."""

    name: str

    @abstractmethod
    def value(self, u: Floats) -> Floats:
        """Penalty of each row, shape (n,)."""

    @abstractmethod
    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        """Maximise ``gradient' d - d' curvature d / 2 - value(u + d)`` over d, row by row.

        Parameters
        ----------
        u : ndarray of shape (n, m)
        gradient : ndarray of shape (n, m)
            Of the log-likelihood at u, without the penalty.
        curvature : ndarray of shape (n, m (m + 1) / 2)
            Positive semi-definite, packed (see `anypca.linalg.packed_products`).
        """
