"""Components that last, fade, or stand at the edge of noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca.linalg import pack_symmetric
from anypca.models.sepca._lasting import component_cost, falling_from, idle_component, is_fading
from anypca.models.sepca._posterior import Loadings


def loadings(ratio, p=10):
    """Loadings of unit variance with given signal ratios."""
    mean = np.tile(np.sqrt(np.asarray(ratio, dtype=float)), (p, 1))
    k = len(ratio)
    precision = np.tile(pack_symmetric(np.eye(k)), (p, 1))
    return Loadings(mean, precision, np.ones(k), np.ones(p), np.zeros((p, 0)))


def test_what_fades_has_fallen_far_below_what_lasts():
    # 90 rows to 10 columns: a component that lasts has a ratio of 3.
    here = loadings([0.04, 1.4, 1.4, 1.6])
    assert_array_equal(is_fading(here, 90.0, None), [True, False, False, False])
    before = np.array([0.04, 1.5, 1.45, 2.0])
    assert_array_equal(is_fading(here, 90.0, before), [True, True, False, False])


def test_a_slow_fall_counts_from_where_it_began():
    reference = None
    for ratio in ([5.0, 3.0], [4.9, 3.1], [4.8, 3.0]):
        reference = falling_from(reference, np.array(ratio))
    assert_array_equal(reference, [5.0, 3.1])


def test_only_weak_components_are_idle():
    assert idle_component(loadings([9.0, 5.0]), 90.0) == 1
    assert idle_component(loadings([9.0, 7.0]), 90.0) is None


@pytest.mark.parametrize(("n", "p"), [(300, 20), (40, 200)])
def test_cost_of_a_component_is_its_divergence(n, p):
    """At the fixed point of a table of unit noise, where scores and loadings of the component are known."""
    ratio = 1.7
    here = loadings([ratio], p)
    # Relevance 1 / E w^2, loadings of variance 1 / n in these units; scores with second moment 1.
    of_loadings = 0.5 * p * np.log(1.0 + ratio)
    of_scores = 0.5 * n * np.log(1.0 + (1.0 + ratio) * p / n)
    assert_allclose(component_cost(here, float(n), 0), of_loadings + of_scores)
