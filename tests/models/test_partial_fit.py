"""Streams: near the fit of the whole table after one epoch, whatever the container; checks of blocks."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest
from benchmarks import streaming
from scipy import sparse

from anypca import EPCA, PLNPCA, PPCA, SePCA
from anypca.engine import check_data
from anypca.linalg import unpack_symmetric
from anypca.models._opened import open_block
from anypca.models._stream import Stream

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
    # The fit to the first block ends at tol, from early sweeps whose rounding, in single precision, is another one.
    dense = _streamed(TABLE)
    np.testing.assert_allclose(_streamed(sparse.csr_array(TABLE)).components_, dense.components_, atol=1e-5)
    weighted = EPCA(2, family="poisson", n_jobs=1)
    for block in streaming.blocks(TABLE):
        weighted.partial_fit(np.vstack([block, block]), sample_weight=np.full(2 * len(block), 0.5))
    np.testing.assert_allclose(weighted.components_, dense.components_, atol=1e-5)
    assert dense.n_samples_seen_ == len(TABLE)
    assert weighted.n_samples_seen_ == 2 * len(TABLE)


def test_offsets_and_covariates_come_along() -> None:
    rng = np.random.default_rng(0)
    offset, covariates = rng.normal(size=len(TABLE)) * 0.3, rng.normal(size=(len(TABLE), 1))
    batch = EPCA(2, family="poisson", ridge=1.0, n_jobs=1).fit(TABLE, offset=offset, covariates=covariates)
    model = EPCA(2, family="poisson", ridge=1.0, n_jobs=1)
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


# Families of their tables, and how they are made.
MODELS = {
    "EPCA": ("poisson", lambda: EPCA(2, family="poisson", n_jobs=1)),
    "PPCA": ("gaussian", lambda: PPCA(2, n_jobs=1)),
    "PLNPCA": ("poisson", lambda: PLNPCA(2, n_jobs=1)),
    "SePCA": ("poisson", lambda: SePCA(4, family="poisson", n_jobs=1)),
}


def _table(family: str, n: int) -> Any:
    """Rows with two strong components: those of the benchmark are too weak to be found in few columns."""
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(n, 2)) @ (rng.normal(size=(20, 2)) * [0.8, 0.5]).T
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    return np.where(rng.random(eta.shape) < 0.3, np.nan, eta + 0.5 * rng.normal(size=eta.shape))


@functools.cache
def _whole(name: str) -> tuple[Any, Any, Any]:
    """A table, the model streamed and the model fitted to it at once."""
    family, make = MODELS[name]
    table, model = _table(family, 1600), make()
    for block in streaming.blocks(table):
        model.partial_fit(block)
    return table, model, make().fit(table)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_near_its_batch_fit(name: str) -> None:
    table, model, batch = _whole(name)
    assert (model.n_components_, model.n_samples_seen_) == (2, 1600)
    # Five blocks of 200 rows of 20 columns tell the loadings to a few degrees; without the gauge they miss by tens.
    assert streaming.angle(model.components_, batch.components_) < 5.0
    assert model.score(table) > batch.score(table) - 0.02
    np.testing.assert_allclose(model.explained_deviance_ratio_, batch.explained_deviance_ratio_, atol=0.02)


@pytest.mark.parametrize("name", ["PPCA", "PLNPCA", "SePCA"])
def test_containers_and_copies_of_every_model_agree(name: str) -> None:
    family, make = MODELS[name]
    table = np.nan_to_num(_table(family, 800))
    dense, other = make(), make()
    for block in streaming.blocks(table):
        dense.partial_fit(block)
        other = pickle.loads(pickle.dumps(other.partial_fit(sparse.csr_array(block))))
    np.testing.assert_allclose(other.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(other.transform(table[:5]), dense.transform(table[:5]), atol=1e-7)


@pytest.mark.parametrize("name", ["PPCA", "PLNPCA", "SePCA"])
def test_a_stream_is_a_start(name: str) -> None:
    table, model, batch = _whole(name)
    again = MODELS[name][1]().set_params(init=model).fit(table)
    np.testing.assert_allclose(again.score(table), batch.score(table), atol=1e-3)
    assert streaming.angle(again.components_, batch.components_) < 0.5


def test_a_noise_far_below_the_mean_is_found() -> None:
    rng = np.random.default_rng(0)
    table = 1e6 + rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 10)) + 0.1 * rng.normal(size=(1000, 10))
    model = PPCA(2, n_jobs=1)
    for block in np.split(table, 5):
        model.partial_fit(block)
    np.testing.assert_allclose(model.noise_variance_, 0.01, rtol=0.1)


def test_modes_and_draws_have_no_stream() -> None:
    assert not hasattr(SePCA(inference="map"), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        SePCA(inference="hmc").partial_fit(TABLE)
    assert "inference='vb'" in str(caught.value.__cause__)


@functools.cache
def _stream() -> Any:
    return _streamed(TABLE[:1000])._stream


def test_a_block_gives_the_quadratic_function_of_its_columns() -> None:
    """``B - A k`` is the gradient of the log-likelihood of the solved rows, by finite differences."""
    found, block = _stream(), check_data(TABLE[:50]).blocks[0]
    coefficients, problem = found.shared.coefficients, found.rule.problem
    sums = found.rule.solve(block, found.shared)
    gradient = sums.target - sums.times(coefficients.joint)
    rows = open_block(block, fit_intercept=True, family=problem.family)
    evaluator = problem.evaluator(coefficients, rows)
    points = problem.solve_rows(evaluator, evaluator.origin).points
    step = 1e-5
    for a in range(3):
        change = np.zeros_like(coefficients.joint)
        change[4, a] = step
        values = [
            problem.evaluator(coefficients.with_joint(coefficients.joint + sign * change), rows)
            .column_sums(points)
            .value[4]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose((values[0] - values[1]) / (2 * step), gradient[4, a], rtol=1e-5, atol=1e-4)


def test_the_gauge_leaves_the_predictor_and_the_averages_consistent() -> None:
    """Scores are centred and penalties balanced after each block; the averages are those of the same predictor."""
    found, data = _stream(), check_data(TABLE[:300])
    rule = found.rule
    sums = rule.solve(data.blocks[0], found.shared)
    start = Stream(rule, found.shared, sums * (1.0 / sums.weight), 1, sums.weight, 300)
    after = start.taken(rule.solve(data.blocks[0], start.shared))
    scores = rule.sweep_sums(after.averages, np.zeros(0), after.weight)
    # Scores are centred, and the penalties of scores and loadings balanced.
    np.testing.assert_allclose(scores.score_sum, 0.0, atol=1e-8 * after.weight)
    loadings = after.shared.coefficients.loadings
    np.testing.assert_allclose(scores.score_gram, loadings.T @ loadings, rtol=1e-6, atol=1e-6 * after.weight)
    # The curvature of the intercepts does not depend on the coordinates.
    level = unpack_symmetric(after.averages.curvature, 3)[:, 2, 2]
    np.testing.assert_allclose(level, unpack_symmetric(start.averages.curvature, 3)[:, 2, 2], rtol=1e-10)


@pytest.mark.parametrize("name", ["PPCA", "PLNPCA", "SePCA"])
def test_scores_are_white_after_every_block(name: str) -> None:
    """The gauge of the models with a standard normal prior: second moments of 1, no correlation with the intercept."""
    averages = _whole(name)[1]._stream.averages
    k = len(averages.spread)
    np.testing.assert_allclose(averages.moments[:k, k], 0.0, atol=1e-8)
    second = averages.moments[:k, :k] + np.diag(averages.spread)
    np.testing.assert_allclose(np.diag(second), 1.0, atol=1e-8)


def test_gaussian_sums_are_those_of_the_entries() -> None:
    """Squares and targets of a block do not depend on the parameters that it was solved under, where scores do not."""
    table, model, _ = _whole("PPCA")
    stream, block = model._stream, check_data(table[:100]).blocks[0]
    sums = stream.rule.solve(block, stream.shared)
    entries = table[:100] - stream.rule.origin
    np.testing.assert_allclose(sums.squares, np.nansum(entries**2), rtol=1e-10)
    np.testing.assert_allclose(sums.target[:, -1], np.nansum(entries, axis=0), atol=1e-8)
    assert sums.n_entries == np.isfinite(entries).sum()
