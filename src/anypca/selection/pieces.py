"""Choosing the number of pieces and of components of `PiecewisePCA`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.base import clone

from anypca.selection.select import RankSelection, select_rank


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


def select_pieces(
    model: Any,
    X: Any,
    *,
    n_pieces: Iterable[int],
    n_components: Iterable[int],
    criterion: str,
    **fit_params: Any,
) -> Selection:
    """`select_rank` for each number of pieces; the lowest criterion wins, the smaller model in a tie.

    Parameters
    ----------
    model : PiecewisePCA
        Left as it is.
    X : table of shape (n_samples, n_features)
    n_pieces, n_components : iterables of int
    criterion : {"bic", "aic"}
    **fit_params : dict
        Further arguments of ``fit``.

    Returns
    -------
    Selection
    """
    if criterion not in ("bic", "aic"):
        raise ValueError(f"criterion must be 'bic' or 'aic'; got {criterion!r}.")
    if not isinstance(model.breakpoints, str):
        raise ValueError(
            "select compares numbers of pieces, so breakpoints cannot be given as numbers. "
            "Use breakpoints='quantile' or 'fit'."
        )
    pieces, ranks = sorted(n_pieces), list(n_components)
    if not pieces or not ranks:
        raise ValueError(
            "select needs at least one number of pieces and one of components; got an empty grid."
        )
    sized = (clone(model).set_params(n_pieces=k) for k in pieces)
    found = [select_rank(each, X, ranks=ranks, criterion=criterion, **fit_params) for each in sized]
    trials = [trial for k, ranked in zip(pieces, found, strict=True) for trial in _trials(k, ranked)]
    best = min(found, key=lambda ranked: float(ranked.values.min()))
    return Selection(tuple(trials), best.best_estimator_, criterion)


def _trials(n_pieces: int, ranked: RankSelection) -> list[Trial]:
    names = ("rank", "log_likelihood", "n_parameters", "bic", "aic")
    return [Trial(n_pieces, *(row[name] for name in names)) for row in ranked.rows]
