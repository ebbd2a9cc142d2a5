"""Estimators for scikit-learn's checks, whose tables most families cannot have produced.

Families of amounts and counts declare it by their tag, and the checks then shift their tables to be positive. Tables
for families with a bounded or an open support are mapped into it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit

from anypca import BEPCA, EPCA, GPCA, ISFA, VAE, PiecewisePCA, SePCA
from anypca.engine import check_data
from anypca.families import Family, families

#: Examples of every family. One trial of a binomial is the Bernoulli.
FAMILIES = [
    family
    for name in families
    for family in families[name].examples()
    if str(family) != "Binomial(n_trials=1)"
]

Map = Callable[[np.ndarray], np.ndarray]


def _amounts(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x) + np.asarray(0.01, x.dtype)


def _shares(x: np.ndarray) -> np.ndarray:
    # Not monotone: some checks have numbers far from 0 or two distant clusters, and shares would then be perfectly
    # separable.
    return expit(3.0 * np.sin(20.0 * x))


def into_support(family: Family) -> Map:
    """Return the first of a few maps whose values lie in the support of the family."""
    numbers, whole = np.linspace(-50.0, 50.0, 1001), np.arange(1000.0)
    largest = float(whole[family.in_support(whole)].max(initial=1.0))
    maps: list[Map] = [_amounts, lambda x: np.round(largest * _shares(x)), _shares]
    return next(each for each in maps if family.in_support(each(numbers)).all())


class InSupport:
    """Maps X into the support of the family first, except infinite and missing entries."""

    def fit(self, X: Any, y: Any = None, **companions: Any) -> Any:
        return super().fit(self._map(X), y, **companions)  # type: ignore[misc]

    def transform(self, X: Any, **options: Any) -> Any:
        return super().transform(self._map(X), **options)  # type: ignore[misc]

    def score_samples(self, X: Any, **companions: Any) -> Any:
        return super().score_samples(self._map(X), **companions)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = False
        return tags

    def _map(self, X: Any) -> Any:
        check_data(X)  # refuses what is no table
        dense = np.asarray(X.toarray() if sp.issparse(X) else X)
        dense = dense.astype(np.float32 if dense.dtype == np.float32 else np.float64)
        mapped = into_support(self.family)(np.nan_to_num(dense))  # type: ignore[attr-defined]
        mapped = np.where(np.isfinite(dense), mapped, dense)
        return pd.DataFrame(mapped, columns=X.columns) if hasattr(X, "columns") else mapped


class StreamInSupport(InSupport):
    """The same with ``partial_fit``, whose first call fits and so maps twice."""

    def partial_fit(self, X: Any, y: Any = None, **companions: Any) -> Any:
        return super().partial_fit(self._map(X), y, **companions)  # type: ignore[misc]


class MappedEPCA(StreamInSupport, EPCA):
    """EPCA in the support of its family."""


class MappedSePCA(StreamInSupport, SePCA):
    """SePCA in the support of its family."""


class MappedGPCA(InSupport, GPCA):
    """GPCA in the support of its family."""


class MappedVAE(InSupport, VAE):
    """VAE in the support of its family."""


class MappedPiecewisePCA(InSupport, PiecewisePCA):
    """PiecewisePCA in the support of its family."""


class MappedBEPCA(InSupport, BEPCA):
    """BEPCA in the support of its family."""


class MappedISFA(InSupport, ISFA):
    """ISFA in the support of its family."""


_MAPPED: dict[type, type] = {
    EPCA: MappedEPCA,
    SePCA: MappedSePCA,
    GPCA: MappedGPCA,
    VAE: MappedVAE,
    PiecewisePCA: MappedPiecewisePCA,
    BEPCA: MappedBEPCA,
    ISFA: MappedISFA,
}


def of_family(kind: type, family: Family, **settings: Any) -> Any:
    """Return an estimator of a family, mapped unless the family takes the tables of the checks as they are."""
    takes_all = bool(family.in_support(np.array([0.0, 0.3, 2.6, 50.0])).all())
    return (kind if takes_all else _MAPPED[kind])(family=family, **settings)
