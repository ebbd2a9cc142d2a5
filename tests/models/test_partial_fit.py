"""Streams: near the fit of the whole table after one epoch, whatever the container; checks of blocks."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest
from benchmarks import streaming
from scipy import sparse

from anypca import EPCA
from anypca.engine import check_data
from anypca.linalg import unpack_symmetric
from anypca.models._bilinear.stream import advance, begin, solve_block
from anypca.models._opened import open_block

TABLE = streaming.make_table("poisson", 1600, 20, 2, 0)


def _streamed(table: Any, **parameters: Any) -> EPCA:
    model = EPCA(2, **{"family": "poisson", "n_jobs": 1, **parameters})
    for block in streaming.blocks(table):
        model.partial_fit(block)
    return model


def test_near_the_optimum_after_one_epoch() -> None:
    report = streaming.run(("poisson",), 3000, 60, 3, range(1))
    assert streaming.missed(report, streaming.QUICK_SLACK) == []


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_other_families_come_near(family: str) -> None:
    eta = np.random.default_rng(0).normal(size=(2000, 2)) @ np.random.default_rng(1).normal(size=(2, 30))
    noise = np.random.default_rng(2)
    table = (
        eta + noise.normal(size=eta.shape)
        if family == "gaussian"
        else (noise.logistic(size=eta.shape) < eta) * 1.0
    )
    table[noise.random(table.shape) < 0.2] = np.nan
    model, batch = _streamed(table, family=family), EPCA(2, family=family, n_jobs=1).fit(table)
    # Seven blocks of 200 rows; yes/no answers tell less of the scores than numbers do.
    assert streaming.angle(model.components_, batch.components_) < (3.0 if family == "gaussian" else 10.0)
    # Held against each other on the rows themselves; gaussian dispersions of the stream are those of 600 rows.
    assert model.score(table) > batch.score(table) - 0.1


def test_sparse_dense_and_weighted_blocks_agree() -> None:
    dense = _streamed(TABLE)
    np.testing.assert_allclose(_streamed(sparse.csr_array(TABLE)).components_, dense.components_, atol=1e-8)
    weighted = EPCA(2, family="poisson", n_jobs=1)
    for block in streaming.blocks(TABLE):
        weighted.partial_fit(np.vstack([block, block]), sample_weight=np.full(2 * len(block), 0.5))
    np.testing.assert_allclose(weighted.components_, dense.components_, atol=1e-5)
    assert dense.n_samples_seen_ == len(TABLE)
    assert weighted.n_samples_seen_ == 2 * len(TABLE)


def test_offsets_and_covariates_come_along() -> None:
    rng = np.random.default_rng(0)
    offset, covariates = rng.normal(size=len(TABLE)) * 0.3, rng.normal(size=(len(TABLE), 1))
    batch = EPCA(2, family="poisson", n_jobs=1).fit(TABLE, offset=offset, covariates=covariates)
    model = EPCA(2, family="poisson", n_jobs=1)
    for part in np.split(np.arange(len(TABLE)), 4):
        model.partial_fit(TABLE[part], offset=offset[part], covariates=covariates[part])
    assert streaming.angle(model.components_, batch.components_) < 5.0
    np.testing.assert_allclose(model.coef_, batch.coef_, atol=0.05)
    with pytest.raises(ValueError, match="with an offset"):
        model.partial_fit(TABLE[:100], covariates=covariates[:100])


def test_many_components_and_columns_that_are_left_out() -> None:
    table = np.hstack([TABLE, np.full((len(TABLE), 1), 3.0)])
    model = EPCA(16, family="poisson", n_jobs=1, max_iter=20, tol=1e-2)
    for block in np.split(table, 4):
        model.partial_fit(block)
    assert model.components_.shape == (16, 21)
    assert np.isfinite(model.transform(table[:5])).all()
    null = EPCA(0, family="poisson", n_jobs=1).fit(table)
    assert model.plug_in_log_likelihood(table).sum() > null.plug_in_log_likelihood(table).sum()


def test_delayed_blocks() -> None:
    dask = pytest.importorskip("dask")
    model = dask.delayed(EPCA(2, family="poisson", n_jobs=1))
    for block in streaming.blocks(TABLE):
        model = dask.delayed(EPCA.partial_fit)(model, dask.delayed(np.array)(block))
    found = model.compute(scheduler="synchronous")
    np.testing.assert_array_equal(found.components_, _streamed(TABLE).components_)


def test_a_stream_can_be_stored_and_fit_starts_afresh() -> None:
    model = _streamed(TABLE)
    copy = pickle.loads(pickle.dumps(model))
    more = streaming.make_table("poisson", 200, 20, 2, 1)
    np.testing.assert_array_equal(copy.partial_fit(more).components_, model.partial_fit(more).components_)
    np.testing.assert_array_equal(
        model.fit(TABLE).components_, EPCA(2, family="poisson", n_jobs=1).fit(TABLE).components_
    )
    assert model.partial_fit(TABLE[:600]).n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (np.full((5, 20), -1.0), "needs values >= 0"),
        (np.ones((5, 19)), "19 features"),
        (np.full((5, 20), np.inf), "inf"),
    ],
    ids=["support", "columns", "infinite"],
)
def test_bad_blocks_change_nothing(block: Any, complaint: str) -> None:
    model = _streamed(TABLE[:800])
    before = model.components_.copy()
    with pytest.raises(ValueError, match=complaint):
        model.partial_fit(block)
    np.testing.assert_array_equal(model.components_, before)
    assert model.n_samples_seen_ == 800


@functools.cache
def _stream() -> Any:
    return _streamed(TABLE[:1000])._stream


def test_a_block_gives_the_quadratic_function_of_its_columns() -> None:
    """``B - A k`` is the gradient of the log-likelihood of the solved rows, by finite differences."""
    found, block = _stream(), check_data(TABLE[:50]).blocks[0]
    coefficients = found.stream.coefficients
    sums = solve_block(found.problem, coefficients, block)
    matrix = unpack_symmetric(sums.curvature, 3)
    gradient = sums.target - np.einsum("jab,jb->ja", matrix, coefficients.joint)
    rows = open_block(block, fit_intercept=True, family=found.problem.family)
    evaluator = found.problem.evaluator(coefficients, rows)
    points = found.problem.solve_rows(evaluator, evaluator.origin).points
    step = 1e-5
    for a in range(3):
        change = np.zeros_like(coefficients.joint)
        change[4, a] = step
        values = [
            found.problem.evaluator(coefficients.with_joint(coefficients.joint + sign * change), rows)
            .column_sums(points)
            .value[4]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose((values[0] - values[1]) / (2 * step), gradient[4, a], rtol=1e-5, atol=1e-4)


def test_the_gauge_leaves_the_predictor_and_the_averages_consistent() -> None:
    """Scores are centred and penalties balanced after each block; the averages are those of the same predictor."""
    found, block = _stream(), check_data(TABLE[:300]).blocks[0]
    problem = found.problem
    start = begin(found.stream.coefficients, solve_block(problem, found.stream.coefficients, block))
    after = advance(problem, start, solve_block(problem, start.coefficients, block))
    scores = after.moments
    # Scores are centred, and the penalties of scores and loadings balanced.
    np.testing.assert_allclose(scores.score_sum, 0.0, atol=1e-8 * after.weight)
    loadings = after.coefficients.loadings
    np.testing.assert_allclose(scores.score_gram, loadings.T @ loadings, rtol=1e-6, atol=1e-6 * after.weight)
    # The curvature of the intercepts does not depend on the coordinates.
    level = unpack_symmetric(after.averages.curvature, 3)[:, 2, 2]
    np.testing.assert_allclose(level, unpack_symmetric(start.averages.curvature, 3)[:, 2, 2], rtol=1e-10)
