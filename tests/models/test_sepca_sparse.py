"""SePCA with a price on non-zero loadings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from anypca import SePCA
from anypca.models.sepca import _sparsity

N, P = 120, 24


def sparse_table(family, seed=0, n=N):
    """Two components, each behind a third of the columns; the last third is noise."""
    rng = np.random.default_rng(seed)
    W = np.zeros((2, P))
    W[0, :8] = rng.uniform(0.6, 1.2, 8) * rng.choice([-1, 1], 8)
    W[1, 8:16] = rng.uniform(0.6, 1.2, 8) * rng.choice([-1, 1], 8)
    eta = rng.normal(size=(n, 2)) @ W
    draw = {
        "gaussian": lambda: eta + 0.7 * rng.normal(size=eta.shape),
        "poisson": lambda: rng.poisson(np.exp(eta + 1.0)).astype(float),
        "bernoulli": lambda: (rng.random(eta.shape) < 1 / (1 + np.exp(-3 * eta))).astype(float),
    }
    return draw[family](), W


def is_same_support(model, W):
    """Whether the supports are those of the truth, in either order."""
    found = {tuple(row) for row in model.components_ != 0}
    return found == {tuple(row) for row in W != 0}


@pytest.mark.parametrize("inference", ["vb", "map"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_zeros_are_exact_and_where_they_belong(family, inference):
    X, W = sparse_table(family)
    model = SePCA(4, family=family, inference=inference, sparsity=2.0).fit(X)
    assert model.n_components_ == 2
    assert is_same_support(model, W)
    assert model.sparsity_ == 2.0
    assert (model.components_[model.components_ != 0] ** 2).min() > 1e-3
    assert np.isfinite(model.components_std_).all()


def test_zeros_have_no_standard_deviation():
    X, _ = sparse_table("poisson")
    model = SePCA(3, family="poisson", sparsity=4.0).fit(X)
    is_zero = model.components_ == 0
    assert is_zero.any()
    assert (model.components_std_[is_zero] == 0).all()
    assert (model.components_std_[~is_zero] > 0).all()


def test_without_a_price_nothing_is_zero():
    X, _ = sparse_table("poisson")
    model = SePCA(3, family="poisson").fit(X)
    assert (model.components_ != 0).all()
    assert model.sparsity_ == 0.0


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_bound_with_the_price_never_decreases(family):
    X, _ = sparse_table(family)
    model = SePCA(3, family=family, sparsity=2.0, dispersion=0.5 if family == "gaussian" else "auto").fit(X)
    trace = model.objective_trace_
    assert len(trace) > 2
    assert np.diff(trace).min() >= -1e-10 * np.abs(trace).max()


def test_a_higher_price_leaves_no_more_loadings():
    X, _ = sparse_table("poisson")
    counts = [
        np.count_nonzero(SePCA(3, family="poisson", sparsity=price).fit(X).components_)
        for price in (0.5, 4.0, 30.0)
    ]
    assert counts[0] >= counts[1] >= counts[2]
    assert counts[0] > counts[2]


def test_components_without_loadings_leave():
    X, _ = sparse_table("poisson")
    model = SePCA(3, family="poisson", sparsity=1e4).fit(X)
    assert model.n_components_ == 0
    assert model.pruning_path_[-1].reason == "sparsity"
    assert model.transform(X).shape == (N, 0)


def test_price_is_chosen_by_hidden_entries():
    X, W = sparse_table("poisson", n=80)
    model = SePCA(3, family="poisson", sparsity="auto").fit(X)
    assert model.sparsity_ in _sparsity.PRICES
    assert model.n_components_ == 2
    assert (model.components_ == 0)[(W == 0)[[0, 1]].all(axis=0)[None].repeat(2, 0)].mean() > 0.8


def test_only_the_fit_that_is_kept_warns():
    X, _ = sparse_table("poisson", n=60)
    with pytest.warns(ConvergenceWarning) as caught:
        SePCA(2, family="poisson", sparsity="auto", max_iter=3).fit(X)
    assert len(caught) == 1


@pytest.mark.parametrize("sparsity", [1.0, "auto"], ids=str)
def test_draws_are_never_zero(sparsity):
    X, _ = sparse_table("poisson")
    with pytest.raises(ValueError, match="never zero"):
        SePCA(2, family="poisson", inference="hmc", sparsity=sparsity).fit(X)


@pytest.mark.parametrize("sparsity", [-1.0, "much"], ids=str)
def test_bad_prices(sparsity):
    with pytest.raises(ValueError, match="'sparsity' parameter"):
        SePCA(2, family="poisson", sparsity=sparsity).fit(np.ones((5, 4)))
