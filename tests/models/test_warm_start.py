"""Fits that start where another one ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from anypca import EPCA, GPCA, GSPPCA, PLNPCA, PPCA, SSPPCA, SePCA
from anypca.datasets import make_low_rank_counts

COUNTS = make_low_rank_counts(80, 10, 2, typical_mean=3.0, random_state=0).X.astype(float)
REALS = np.random.default_rng(0).normal(size=(80, 2)) @ np.random.default_rng(1).normal(size=(2, 10))
REALS = REALS + np.random.default_rng(2).normal(size=REALS.shape)
GAPS = np.where(np.random.default_rng(3).random(REALS.shape) < 0.1, np.nan, REALS)
MODELS = {
    "PPCA": (PPCA(2, n_jobs=1), GAPS),
    "EPCA": (EPCA(2, family="poisson", n_jobs=1), COUNTS),
    "GPCA": (GPCA(2, family="poisson", n_jobs=1), COUNTS),
    "GSPPCA": (GSPPCA(2, n_jobs=1), REALS),
    "PLNPCA": (PLNPCA(2, n_jobs=1), COUNTS),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["warm_start", "init"])
def test_starts_at_the_end(name: str, way: str) -> None:
    plain, table = MODELS[name]
    model = clone(plain).set_params(warm_start=True).fit(table)
    cold, end = model.n_iter_, model.objective_trace_[-1]
    again = model.fit(table) if way == "warm_start" else clone(plain).set_params(init=model).fit(table)
    assert again.n_iter_ <= max(2, cold // 2)
    # Both are stationary to tol; what is left to gain is its square.
    np.testing.assert_allclose(again.objective_trace_[-1], end, rtol=1e-7)
    np.testing.assert_allclose(again.objective_trace_[0], end, rtol=1e-6)


def test_another_number_of_components_starts_afresh() -> None:
    model = EPCA(2, family="poisson", warm_start=True, n_jobs=1).fit(COUNTS)
    plain = EPCA(3, family="poisson", n_jobs=1).fit(COUNTS)
    np.testing.assert_array_equal(model.set_params(n_components=3).fit(COUNTS).components_, plain.components_)


@pytest.mark.parametrize(
    ("init", "error"), [(PPCA(2), TypeError), (EPCA(2, family="poisson"), ValueError)], ids=["class", "cold"]
)
def test_other_starts_are_refused(init: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="init must be a"):
        EPCA(2, family="poisson", init=init).fit(COUNTS)


@pytest.mark.parametrize(
    "plain",
    [SePCA(4, family="poisson", n_jobs=1), SSPPCA(4, sparsity=2.0, n_jobs=1)],
    ids=["SePCA", "SSPPCA"],
)
def test_models_that_choose_their_dimension_start_near_the_end(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clone(plain).set_params(warm_start=True).fit(COUNTS)
    with monkeypatch.context() as patch:
        patch.setattr(
            "anypca.models.sepca._fit.first_state", None
        )  # a start from the residuals would call it
        again = clone(plain).set_params(init=model).fit(COUNTS)
    assert again.n_components_ == model.n_components_
    # Both have converged to tol, from starts that differ; what is left to gain is its square times the entries.
    np.testing.assert_allclose(again.evidence_, model.evidence_, rtol=1e-4)
    np.testing.assert_array_equal(again.components_ == 0, model.components_ == 0)
    larger = clone(plain).set_params(init=model).fit(np.hstack([COUNTS, COUNTS[:, :1]]))
    assert larger.components_.shape[1] == COUNTS.shape[1] + 1


def test_trials_start_afresh_and_modes_have_no_warm_start() -> None:
    model = EPCA(1, family="poisson", warm_start=True, n_jobs=1).fit(COUNTS)
    assert EPCA(1, family="poisson", ridge="cv", init=model, n_jobs=1).fit(COUNTS).ridge_trials_
    with pytest.raises(ValueError, match="inference='vb'"):
        SePCA(inference="map", warm_start=True).fit(COUNTS)
