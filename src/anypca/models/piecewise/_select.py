"""Choosing the number of pieces and of latent dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from sklearn.base import clone


class Trial(NamedTuple):
    """One fit of a selection."""

    n_pieces: int
    n_components: int
    log_likelihood: float
    n_parameters: int
    bic: float
    aic: float


@dataclass(frozen=True)
class Selection:
    """Fits over a grid of sizes."""

    trials: tuple[Trial, ...]
    best: Any
    """The fitted model with the lowest criterion."""
    criterion: str

    @property
    def n_pieces(self) -> int:
        """Of the best model."""
        return int(self.best.n_pieces)

    @property
    def n_components(self) -> int:
        """Of the best model."""
        return int(self.best.n_components)


def select_model(
    model: Any, X: Any, grid: tuple[Iterable[int], Iterable[int]], criterion: str, fit_params: dict[str, Any]
) -> Selection:
    """Fit a copy of a model for every pair of sizes; the lowest criterion wins, the smaller model in a tie."""
    trials, best, reached = [], None, float("inf")
    for n_pieces, n_components in product(*map(sorted, grid)):
        fitted = clone(model).set_params(n_pieces=n_pieces, n_components=n_components).fit(X, **fit_params)
        trials.append(
            Trial(
                n_pieces, n_components, fitted.log_likelihood_, fitted.n_parameters_, fitted.bic_, fitted.aic_
            )
        )
        value = getattr(trials[-1], criterion)
        if value < reached:
            best, reached = fitted, value
    if best is None:
        raise ValueError(
            "select needs at least one number of pieces and one of components; got an empty grid."
        )
    return Selection(tuple(trials), best, criterion)
