"""Criteria of fits and the table of a path over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints

_CRITERIA = ("bic", "icl", "aic")


@dataclass(frozen=True)
class Criteria:
    """What tells fits of different rank apart; lower is better for bic, icl and aic."""

    log_likelihood: float
    """The bound."""
    n_parameters: int
    """``p (d + q) - q (q - 1) / 2``: rotations of the loadings are not counted."""
    n_rows: float
    """Sum of the sample weights."""
    entropy: float
    """Of the posteriors of all rows."""
    r2: float

    @property
    def bic(self) -> float:
        """Bayesian information criterion."""
        return float(-2.0 * self.log_likelihood + self.n_parameters * np.log(self.n_rows))

    @property
    def icl(self) -> float:
        """BIC penalised by the uncertainty of the posteriors (integrated completed likelihood)."""
        return self.bic + 2.0 * self.entropy

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return -2.0 * self.log_likelihood + 2.0 * self.n_parameters


@dataclass(frozen=True, eq=False)
class RankPath:
    """Fits over ranks, as `anypca.PLNPCA.path` returns them; arrays have shape (n_ranks,).

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PLNPCA
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.exp(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 2))
    >>> path = PLNPCA(n_jobs=1).path(counts, [1, 2, 3])
    >>> path.select_rank("bic")
    2
    """

    ranks: Ints
    log_likelihood: Floats
    """The bound."""
    n_parameters: Ints
    bic: Floats
    icl: Floats
    aic: Floats
    r2: Floats
    models: tuple[Any, ...]
    """The fitted estimators."""

    @classmethod
    def of(cls, ranks: Sequence[int], criteria: Sequence[Criteria], models: Sequence[Any]) -> RankPath:
        """Collect fits."""
        numbers = {
            name: np.array([getattr(c, name) for c in criteria])
            for name in ("log_likelihood", "n_parameters", "bic", "icl", "aic", "r2")
        }
        return cls(np.array(ranks), models=tuple(models), **numbers)

    def select_rank(self, criterion: str = "icl") -> int:
        """The rank with the lowest criterion.

        Parameters
        ----------
        criterion : {"icl", "bic", "aic"}

        Returns
        -------
        int
        """
        return int(self.ranks[self._best(criterion)])

    def best(self, criterion: str = "icl") -> Any:
        """The fitted model with the lowest criterion.

        Parameters
        ----------
        criterion : {"icl", "bic", "aic"}

        Returns
        -------
        PLNPCA
        """
        return self.models[self._best(criterion)]

    def as_dict(self) -> dict[str, list[float]]:
        """The table as plain columns, for ``pandas.DataFrame`` or JSON.

        Returns
        -------
        dict of str to list, each of length n_ranks
        """
        names = ("ranks", "log_likelihood", "n_parameters", "bic", "icl", "aic", "r2")
        return {name: getattr(self, name).tolist() for name in names}

    def _best(self, criterion: str) -> int:
        if criterion not in _CRITERIA:
            options = ", ".join(map(repr, _CRITERIA))
            raise ValueError(f"criterion must be one of {options}; got {criterion!r}.")
        return int(np.argmin(getattr(self, criterion)))
