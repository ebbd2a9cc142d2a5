"""scikit-learn's own checks of estimators: EPCA with every family.

The checks feed normal random numbers, which most families cannot have produced. Count families say so by their
tag (the checks then shift their numbers to be positive); for families with a bounded or an open support a subclass
maps the numbers into it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from anypca import EPCA
from anypca.engine import check_data
from anypca.engine._convert import as_matrix
from anypca.families import Family, families

# The numbers are scikit-learn's: count families get fractions, models are shown frames and arrays by turns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:family .* is for integers:sklearn.exceptions.DataConversionWarning"),
    pytest.mark.filterwarnings("ignore:.*feature names.*:UserWarning"),
]

#: Ways into the support, for the families that the checks' numbers are outside of.
MAPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    # Not the sign: some of the checks have two distant clusters, and answers would then be perfectly separable.
    "bernoulli": lambda x: (np.sin(20.0 * x) > 0).astype(x.dtype),
    "binomial(7)": lambda x: np.round(7.0 * expit(x)),
    "exponential": lambda x: np.logaddexp(0.0, x) + np.asarray(0.01, x.dtype),
    "gamma": lambda x: np.logaddexp(0.0, x) + np.asarray(0.01, x.dtype),
}


class MappedEPCA(EPCA):
    """EPCA that brings X into the support of its family first; infinities and gaps stay what they are."""

    def fit(self, X: Any, y: Any = None, **companions: Any) -> MappedEPCA:
        return super().fit(self._map(X), y, **companions)

    def transform(self, X: Any, **options: Any) -> Any:
        return super().transform(self._map(X), **options)

    def score_samples(self, X: Any, **companions: Any) -> Any:
        return super().score_samples(self._map(X), **companions)

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


def is_taken_as_it_is(family: Family) -> bool:
    """Whether a family takes the numbers of the checks, made positive if its tag asks for that."""
    numbers = np.array([0.0, 0.3, 2.6, 50.0])
    return bool(family.in_support(numbers).all())


def text(family: Family) -> str:
    n_trials = getattr(family, "n_trials", 1)
    return f"{family.name}({n_trials})" if n_trials != 1 else family.name


FAMILIES = [family for name in families for family in families[name].examples() if text(family) != "binomial"]
ESTIMATORS = [
    EPCA(family="auto", n_jobs=1),
    *(
        (EPCA if is_taken_as_it_is(family) else MappedEPCA)(family=text(family), n_jobs=1)
        for family in FAMILIES
    ),
    EPCA(family="poisson", score_penalty="l1", n_components=1, n_jobs=1),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_family_is_checked() -> None:
    checked = {estimator.family.split("(")[0] for estimator in ESTIMATORS} - {"auto"}
    assert checked == set(families)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("auto", False),
        ("gaussian", False),
        ("poisson", True),
        ("negative_binomial", True),
        ("gamma", True),
        ("exponential", True),
        ("bernoulli", True),
        ("binomial(3)", True),
        (families["poisson"](), True),
        (["poisson", "gaussian"], False),
        ("no such family", False),
    ],
    ids=str,
)
def test_tags_follow_the_family(family: Any, expected: bool) -> None:
    assert EPCA(family=family).__sklearn_tags__().input_tags.positive_only is expected
