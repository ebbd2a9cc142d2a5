"""Estimators for scikit-learn's checks, whose numbers most families cannot have produced.

Families of amounts and counts say so by their tag, and the checks then shift their numbers to be positive. Numbers for
families with a bounded or an open support are mapped into it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca.engine import check_data
from anypca.engine._convert import as_matrix
from anypca.families import Family, families

#: One family of each kind. One trial of a binomial is the Bernoulli.
FAMILIES = [
    family
    for name in families
    for family in families[name].examples()
    if str(family) != "Binomial(n_trials=1)"
]

#: Checks that put the same numbers into other containers, which no family notices.
CONTAINERS = (
    "check_dtype_object",
    "check_estimator_sparse_matrix",
    "check_f_contiguous_array_estimator",
    "check_transformer_data_not_an_array",
    "readonly_memmap",
)

Map = Callable[[np.ndarray], np.ndarray]


def _amounts(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x) + np.asarray(0.01, x.dtype)


def _shares(x: np.ndarray) -> np.ndarray:
    # Not monotone: some of the checks have numbers far from 0 or two distant clusters, and shares would then all be
    # at an end or perfectly separable.
    return expit(3.0 * np.sin(20.0 * x))


def _counts(largest: float) -> Map:
    return lambda x: np.round(largest * _shares(x))


def into_support(family: Family) -> Map:
    """The first of a few maps whose values the family can have produced."""
    numbers = np.linspace(-50.0, 50.0, 1001)
    whole = np.arange(1000.0)
    largest = float(whole[family.in_support(whole)].max(initial=1.0))
    maps: list[Map] = [_amounts, _counts(largest), _shares]
    return next(each for each in maps if family.in_support(each(numbers)).all())


def is_taken_as_it_is(family: Family) -> bool:
    """Whether a family takes the numbers of the checks, made positive if its tag asks for that."""
    return bool(family.in_support(np.array([0.0, 0.3, 2.6, 50.0])).all())


class InSupport:
    """Brings X into the support of the family first; infinities and gaps stay what they are."""

    def fit(self, X: Any, y: Any = None, **companions: Any) -> Any:
        return super().fit(self._map(X), y, **companions)  # type: ignore[misc]

    def _take(self, X: Any, companions: Any) -> Any:
        # Of partial_fit. Its first call fits, which maps once more; both are in the support.
        return super()._take(self._map(X), companions)  # type: ignore[misc]

    def transform(self, X: Any, **options: Any) -> Any:
        return super().transform(self._map(X), **options)  # type: ignore[misc]

    def score_samples(self, X: Any, **companions: Any) -> Any:
        return super().score_samples(self._map(X), **companions)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = False
        return tags

    def _map(self, X: Any) -> Any:
        check_data(X)  # what is no table is told so in the usual words
        values = as_matrix(X).values
        dense = np.asarray(values.toarray() if sp.issparse(values) else values)
        dense = dense.astype(np.float32 if dense.dtype == np.float32 else np.float64)
        mapped = into_support(self.family)(np.nan_to_num(dense))  # type: ignore[attr-defined]
        mapped = np.where(np.isfinite(dense), mapped, dense)
        return pd.DataFrame(mapped, columns=X.columns) if hasattr(X, "columns") else mapped


def parametrize_with_checks_of_values(estimators: Iterable[Any]) -> pytest.MarkDecorator:
    """As scikit-learn's ``parametrize_with_checks``, without the checks of `CONTAINERS`."""
    mark = parametrize_with_checks(list(estimators))
    names, pairs = mark.args
    name_of = mark.kwargs["ids"]
    kept = [pair for pair in pairs if not any(word in name_of(pair[1]) for word in CONTAINERS)]
    return pytest.mark.parametrize(names, kept, ids=name_of)
