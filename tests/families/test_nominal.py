"""Categories without an order."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import EPCA
from anypca.families import Nominal


def make_table(n=120):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=n)
    kinds = np.where(scores < -0.5, 3.0, np.where(scores < 0.5, 1.0, 8.0))
    return np.column_stack([np.outer(scores, [1.0, -1.0, 0.7]) + 0.2 * rng.normal(size=(n, 3)), kinds])


def fit(**options):
    kinds = {3: "nominal", "default": "gaussian"}
    return EPCA(1, family=kinds, **options).fit(make_table())


def test_categories_come_back_as_one_column():
    X, model = make_table(), fit()
    assert model.layout_.names == ("x0", "x1", "x2", "x3=1", "x3=3|rest")
    holes = X.copy()
    holes[::4, 3] = np.nan
    filled = model.impute(holes)[::4, 3]
    assert set(filled) <= {1.0, 3.0, 8.0}
    # The middle category is told by no direction; the others are at the ends.
    ends = X[::4, 3] != 1.0
    assert np.mean(filled[ends] == X[::4, 3][ends]) > 0.8
    assert set(model.sample(200, random_state=0)[:, 3]) == {1.0, 3.0, 8.0}


def test_probabilities_sum_to_one():
    X, model = make_table(), fit()
    found = model.class_probabilities(model.transform(X), 3)
    assert found.shape == (120, 3)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    with pytest.raises(ValueError, match="column 0 is not nominal"):
        model.class_probabilities(model.transform(X), 0)


def test_new_categories_and_too_many_are_named():
    X, model = make_table(), fit()
    X[2, 3] = 5.0
    with pytest.raises(ValueError, match="column 'x3' has the value 5, which it did not have in fit"):
        model.transform(X)
    X[:, 3] = np.arange(120.0)
    with pytest.raises(ValueError, match=r"column 'x3' has 120 categories .* at most 30.*excluded"):
        EPCA(1, family={3: "nominal", "default": "gaussian"}).fit(X)


def test_levels_increase():
    with pytest.raises(ValueError, match="increasing"):
        Nominal((2.0, 1.0))
