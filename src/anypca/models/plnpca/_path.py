"""The table of a path over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints

_CRITERIA = ("bic", "icl", "aic")
_COLUMNS = ("ranks", "log_likelihood", "n_parameters", *_CRITERIA, "r2")


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
    def of(cls, models: Sequence[Any]) -> RankPath:
        """Collect fits, by increasing rank."""
        table = [
            (m.n_components_, m.objective_trace_[-1], m.n_parameters_, m.bic_, m.icl_, m.aic_, m.pseudo_r2_)
            for m in models
        ]
        columns: dict[str, Any] = dict(zip(_COLUMNS, map(np.array, zip(*table, strict=True)), strict=True))
        return cls(**columns, models=tuple(models))

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
        return {name: getattr(self, name).tolist() for name in _COLUMNS}

    def _best(self, criterion: str) -> int:
        if criterion not in _CRITERIA:
            options = ", ".join(map(repr, _CRITERIA))
            raise ValueError(f"criterion must be one of {options}; got {criterion!r}.")
        return int(np.argmin(getattr(self, criterion)))
