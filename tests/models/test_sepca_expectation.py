"""Sums of the expected log-likelihood: through products with the table as entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric
from anypca.models._opened import open_block
from anypca.models.sepca._expectation import Expectation, Factors
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._scores import Moments, Scores

N, P, K = 11, 7, 2


def draw(name: str, setting: str) -> tuple[Expectation, Expectation, Moments]:
    """A family under posteriors of both sides, on a block with an offset, a covariate and weights.

    Twice: through products, and entry by entry.
    """
    rng = np.random.default_rng(0)
    X = make_low_rank(N, P, K, family=name, signal=0.7, random_state=1).X
    X[rng.random((N, P)) < (0.3 if setting == "missing" else 0.0)] = np.nan
    offset = 0.3 * rng.normal(size=(N, P if setting == "wide offset" else 1))
    data = check_data(
        sparse.csr_array(X) if setting == "sparse" else X,
        offset=offset,
        covariates=rng.normal(size=(N, 1)),
        sample_weight=rng.uniform(0.5, 2.0, size=N),
    )
    family = resolve_family(name, P)
    m = K + 2
    spread = rng.uniform(2.0, 9.0, size=(P, 1)) * pack_symmetric(np.eye(m))
    mean = 0.5 * rng.normal(size=(P, m))
    loadings = Loadings(mean, spread, np.ones(K), np.ones(P), np.zeros((P, 2)))
    scores = Scores(rng.normal(size=(N, K)), rng.uniform(1.0, 5.0, size=(N, 1)) * pack_symmetric(np.eye(K)))
    block = data.blocks[0]
    fast = Expectation.of(family, loadings, open_block(block, fit_intercept=True, family=family))
    slow = Expectation.of(family, loadings, open_block(block, fit_intercept=True))
    return fast, slow, Moments.of(scores, fast.rows.features)


@pytest.mark.parametrize("setting", ["complete", "missing", "wide offset", "sparse"])
@pytest.mark.parametrize("name", ["poisson", "bernoulli", "binomial(4)"])
def test_products_give_the_sums_of_the_entries(name: str, setting: str) -> None:
    fast, slow, moments = draw(name, setting)
    assert fast.rows.product is not None
    assert slow.rows.product is None
    for side in ("row_sums", "column_sums"):
        found, expected = getattr(fast, side)(moments), getattr(slow, side)(moments)
        for part, same in zip(found, expected, strict=True):
            assert_allclose(part, same, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("setting", ["complete", "missing", "sparse"])
@pytest.mark.parametrize("changed", [[3], [0, 4, 9], list(range(8))])
def test_sums_after_some_rows_have_changed(changed: list[int], setting: str) -> None:
    """They are those of all rows anew, whether few rows changed or most of them."""
    fast, slow, before = draw("poisson", setting)
    index = np.array(changed)
    mean = before.scores.mean.copy()
    mean[index] += 0.7
    after = Moments.of(Scores(mean, before.scores.precision), fast.rows.features)
    for expectation in (fast, slow):
        found = expectation.resummed(expectation.column_sums(before), before, after, index)
        for part, same in zip(found, expectation.column_sums(after), strict=True):
            assert_allclose(part, same, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("distance", [30.0, 1e4])
def test_rows_that_went_far_leave_nothing_behind(distance: float) -> None:
    """Neither where their terms overflow nor where those of other rows are lost beside them."""
    fast, _, after = draw("poisson", "complete")
    mean = after.scores.mean.copy()
    mean[2] = distance
    far = Moments.of(Scores(mean, after.scores.precision), fast.rows.features)
    with np.errstate(over="ignore", invalid="ignore"):
        found = fast.resummed(fast.column_sums(far), far, after, np.array([2]))
    for part, same in zip(found, fast.column_sums(after), strict=True):
        assert_allclose(part, same, rtol=1e-11, atol=1e-11)


def test_what_blocks_multiply_with_is_made_once() -> None:
    """It stands beside the loadings: those that are sent or stored do not carry it."""
    fast, slow, _ = draw("poisson", "complete")
    assert fast.factors is slow.factors
    loadings = fast.loadings
    assert Factors.of(loadings, np.dtype("float32")).mean.dtype == np.float32
    assert Factors.of(loadings, np.dtype("float64")) is fast.factors
    assert not any(isinstance(value, Factors | dict) for value in vars(loadings).values())
