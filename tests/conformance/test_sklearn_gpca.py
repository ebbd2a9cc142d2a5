"""scikit-learn's estimator checks on GPCA, with every family that it can fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import GPCA
from anypca.engine import check_data
from anypca.engine._convert import as_matrix

# The checks feed fractions to count families, and show models frames and arrays by turns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
]

#: Ways into the support, for the families that the checks' numbers are outside of.
MAPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bernoulli": lambda x: (np.sin(20.0 * x) > 0).astype(x.dtype),
    "binomial(7)": lambda x: np.round(7.0 * expit(x)),
}


class MappedGPCA(GPCA):
    """GPCA that brings X into the support of its family first; infinities and gaps stay what they are."""

    def fit(self, X: Any, y: Any = None, **companions: Any) -> MappedGPCA:
        return super().fit(self._map(X), y, **companions)

    def transform(self, X: Any) -> Any:
        return super().transform(self._map(X))

    def score_samples(self, X: Any) -> Any:
        return super().score_samples(self._map(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags

    def _map(self, X: Any) -> Any:
        check_data(X)  # what is no table is told so in the usual words
        values = as_matrix(X).values
        dense = np.asarray(values.toarray() if sp.issparse(values) else values)
        dense = dense.astype(np.float32 if dense.dtype == np.float32 else np.float64)
        mapped = np.where(np.isfinite(dense), MAPS[str(self.family)](np.nan_to_num(dense)), dense)
        return pd.DataFrame(mapped, columns=X.columns) if hasattr(X, "columns") else mapped


ESTIMATORS = [
    *(GPCA(family=family, n_jobs=1) for family in ("auto", "gaussian", "poisson")),
    *(MappedGPCA(family=family, n_jobs=1) for family in MAPS),
    *(GPCA(family=family, penalty="l1", n_jobs=1) for family in ("gaussian", "poisson")),
    GPCA(family="gaussian", penalty="scad", n_jobs=1),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("family", "expected"),
    [("auto", False), ("gaussian", False), ("poisson", True), ("bernoulli", True), ("no such family", False)],
)
def test_tags_follow_the_family(family: str, expected: bool) -> None:
    assert GPCA(family=family).__sklearn_tags__().input_tags.positive_only is expected
