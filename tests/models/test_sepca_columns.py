"""The update of columns: the same for all at once as for runs of them, and what it knows of its end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import SePCA
from anypca.engine import alone, check_data
from anypca.engine.executors import ThreadExecutor
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.models.sepca import _problem
from anypca.models.sepca._columns import column_precision, step_columns
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._strides import damping

N, P, K = 30, 9, 3


def swept(stride=None, *, units=1.0, pace=1.0, k=K):
    """A problem, loadings and the sums of a sweep over rare answers."""
    rng = np.random.default_rng(3)
    X = (rng.random((N, P)) < 0.3).astype(float)
    problem = VariationalProblem(resolve_family("bernoulli", P), stride=stride, sharp=True)
    precision = np.outer(np.linspace(3.0, 6.0, P), pack_symmetric(np.eye(k + 1)))
    shared = Loadings(
        0.3 * rng.normal(size=(P, k + 1)),
        precision,
        np.full(k, 2.0),
        np.ones(P),
        np.zeros((P, 1)),
        units=units,
        pace=pace,
    )
    with ThreadExecutor(1) as executor:
        _, stats = executor.sweep(lambda block, rows: problem.step(block, shared, rows), check_data(X))
    return problem, shared, stats


@pytest.mark.parametrize("k", [0, K])
@pytest.mark.parametrize("stride", [None, 1.9])
@pytest.mark.parametrize("by_column", [False, True])
def test_runs_of_columns_are_updated_as_all_of_them(stride, by_column, k, monkeypatch):
    monkeypatch.setattr(_problem, "_WORTH_SHARING", 0)
    own = np.linspace(0.5, 1.0, P)
    problem, shared, stats = swept(
        stride, units=own if by_column else 1.0, pace=own if by_column else 1.0, k=k
    )
    whole = problem.update(shared, stats)
    for n_jobs in (1, 2, 5):
        found = problem.propose(shared, stats, None, ThreadExecutor(n_jobs).share)
        assert found.criterion == pytest.approx(whole.criterion, rel=1e-12)
        for name in ("mean", "precision", "alpha", "units", "pace", "packed_covariance", "log_determinant"):
            assert_allclose(
                getattr(found.shared, name), getattr(whole.shared, name), rtol=1e-9, atol=1e-12, err_msg=name
            )


def test_means_go_farther_and_precisions_less_far():
    _, shared, stats = swept()
    target, information = stats.target, stats.information
    best = step_columns(shared, target, information, None, is_damped=False).posterior
    far = np.array([2.0, 1.5, 1.0, 1.0])
    found = step_columns(shared, target, information, far, is_damped=True).posterior
    assert_allclose(found.mean - shared.mean, far * (best.mean - shared.mean))
    held = damping(shared, information)
    assert (held < 1.0).all()
    assert_allclose(found.precision - shared.precision, held * (best.precision - shared.precision))


def test_what_an_update_knows_belongs_to_it():
    problem, shared, stats = swept(1.9)
    found = problem.update(shared, stats).shared
    fresh = replace(found)
    assert {"packed_covariance", "log_determinant"} <= set(found.__dict__)
    assert_allclose(found.packed_covariance, fresh.packed_covariance, rtol=1e-9, atol=1e-12)
    assert_allclose(found.log_determinant, fresh.log_determinant, rtol=1e-12)


def test_the_criterion_is_the_length_of_the_steps():
    problem, shared, stats = swept()
    precision = unpack_symmetric(column_precision(shared, stats.information), K + 1)
    step = np.linalg.solve(precision, stats.target[:, :, None])[:, :, 0] - shared.mean
    squares = np.einsum("ja,jab,jb->", step, precision, step) + stats.row_decrement
    assert problem.update(shared, stats).criterion == pytest.approx(np.sqrt(squares / (N * P)))


@pytest.mark.parametrize("units", [1.0, np.linspace(0.5, 2.0, P)])
def test_inner_products_of_loadings(units):
    _, shared, _ = swept(units=units)
    covariance = unpack_symmetric(shared.packed_covariance, K + 1)[:, :K, :K]
    mean = shared.mean[:, :K]
    moments = (np.einsum("ja,jb->jab", mean, mean) + covariance) / np.reshape(units, (-1, 1, 1))
    assert_allclose(shared.gram, moments.sum(axis=0))
    assert_allclose(np.diag(shared.gram), shared.sizes)


def test_some_columns_and_all_again():
    _, shared, _ = swept(units=np.linspace(0.5, 2.0, P))
    parts = [shared.columns(part) for part in (slice(0, 4), slice(4, 5), slice(5, P))]
    assert not {"packed_covariance", "log_determinant"} & set(parts[0].__dict__)
    joined = Loadings.joined(parts)
    for name in (
        "mean",
        "precision",
        "units",
        "dispersion",
        "fixed_precision",
        "packed_covariance",
        "squares",
    ):
        assert_allclose(getattr(joined, name), getattr(shared, name), rtol=1e-12)
    # Where it is known of all columns it is not computed again.
    some = shared.columns(slice(2, 4))
    assert "packed_covariance" in some.__dict__
    assert_allclose(some.packed_covariance, replace(some).packed_covariance)


def test_threads_change_rounding_only(monkeypatch):
    """Whole fits whose columns are shared by threads."""
    shares = []

    def share(executor, function, n_items):
        shares.append(n_items)
        return original(executor, function, n_items)

    original = ThreadExecutor.share
    monkeypatch.setattr(_problem, "_WORTH_SHARING", 0)
    monkeypatch.setattr(ThreadExecutor, "share", share)
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(0.5 * rng.normal(size=(80, 2)) @ rng.normal(size=(2, 12)))).astype(float)
    one, two = (SePCA(family="poisson", n_jobs=n, random_state=0).fit(X) for n in (1, 2))
    assert shares
    assert one.n_components_ == two.n_components_
    assert two.evidence_ == pytest.approx(one.evidence_, abs=1e-6)
    assert_allclose(two.components_, one.components_, atol=1e-5)


def test_alone_is_one_run():
    assert alone(lambda run: run, 7) == [slice(0, 7)]


def test_sums_in_single_precision_make_posteriors_in_double():
    problem, shared, stats = swept()
    rough = replace(stats, information=stats.information.astype(np.float32))
    assert column_precision(shared, rough.information).dtype == np.float64
    found, wanted = problem.update(shared, rough).shared, problem.update(shared, stats).shared
    assert found.precision.dtype == found.mean.dtype == np.float64
    assert_allclose(found.precision, wanted.precision, rtol=1e-5, atol=1e-5)
