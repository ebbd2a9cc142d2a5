"""Residuals and calibration mean what the report says of them."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA, PPCA, SPCA
from anypca.engine import check_data
from anypca.models._description import project_rows
from anypca.report._quality import assess
from anypca.report._subject import Subject, draw_sample, read_facts


@pytest.fixture(scope="module")
def subject():
    def make(model, X, **companions):
        names = [f"x{j}" for j in range(X.shape[1])]
        facts = read_facts(check_data(X), names)
        sample = draw_sample(X, X.shape, companions=companions, row_names=None, metadata=None)
        return Subject(
            model, "title", (), None, facts, sample, *project_rows(model, sample.table, **sample.companions)
        )

    return make


def low_rank(rng, n, p):
    return rng.normal(size=(n, 1)) @ rng.normal(size=(1, p))


@pytest.mark.parametrize("model", [PPCA(1), SPCA(1, penalty=0.0)], ids=["PPCA", "SPCA"])
def test_shares_of_gaussian_columns_are_r_squared(model, subject):
    rng = np.random.default_rng(0)
    X = 2.0 * low_rank(rng, 200, 5) + rng.normal(size=(200, 5)) + 1000.0
    model.fit(X)
    quality = assess(subject(model, X))
    residual = X - model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(quality.column_share, 1 - (residual**2).sum(0) / (200 * X.var(0)), atol=1e-6)


def test_shares_of_counts_agree_with_the_model_s_total(subject):
    rng = np.random.default_rng(1)
    offset = rng.normal(size=300) * 0.3
    X = rng.poisson(np.exp(0.8 * low_rank(rng, 300, 6) + 1.0 + offset[:, None])).astype(float)
    model = EPCA(1, family="poisson", ridge=1e-3).fit(X, offset=offset)
    quality = assess(subject(model, X, offset=offset))
    explained = 1 - quality.row_deviance.sum() * 6 / model.null_deviance_
    assert explained == pytest.approx(model.explained_deviance_ratio_.sum(), abs=2e-3)
    assert (quality.column_share > 0).all()
    # A rotation has the same predictors; its means are not taken for them.
    rotated = assess(subject(model.rotate(), X, offset=offset))
    np.testing.assert_allclose(rotated.column_share, quality.column_share, atol=1e-9)


def test_missing_entries_are_left_out(subject):
    rng = np.random.default_rng(2)
    X = low_rank(rng, 100, 4) + 0.1 * rng.normal(size=(100, 4))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0, 0] = np.nan
    quality = assess(subject(PPCA(1).fit(X), X))
    assert np.isfinite(quality.row_deviance).all()
    assert all(not np.isnan(X[cell.row, cell.column]) for cell in quality.worst)


def test_ranks_are_flat_when_the_family_is_right_and_high_at_the_ends_when_not(subject):
    rng = np.random.default_rng(3)
    mean = np.exp(0.5 * low_rank(rng, 400, 20) + 1.5)
    right = rng.poisson(mean).astype(float)
    wrong = rng.poisson(mean * rng.gamma(1.0, 1.0, size=mean.shape)).astype(float)
    flat, bowl = (assess(subject(EPCA(1, family="poisson").fit(X), X)) for X in (right, wrong))
    share = flat.ranks / flat.ranks.sum()
    assert np.abs(share - 0.05).max() < 0.012
    assert 0.85 < flat.spread < 1.1
    assert (bowl.ranks / bowl.ranks.sum())[[0, -1]].min() > 0.1
    assert bowl.spread > 1.5


def test_the_calibration_curve_lies_on_the_diagonal(subject):
    rng = np.random.default_rng(4)
    X = rng.poisson(np.exp(0.5 * low_rank(rng, 400, 20) + 1.0)).astype(float)
    (curve,) = assess(subject(EPCA(1, family="poisson").fit(X), X)).curves
    assert curve.family == "poisson"
    assert np.mean(np.abs(curve.observed - curve.fitted) <= 1.5 * curve.error) >= 0.8


def test_the_worst_cell_is_found(subject):
    rng = np.random.default_rng(5)
    X = rng.poisson(np.exp(0.5 * low_rank(rng, 200, 20) + 1.0)).astype(float)
    X[17, 3] = 30.0
    worst = assess(subject(EPCA(1, family="poisson").fit(X), X)).worst[0]
    assert (worst.row, worst.column, worst.observed) == (17, 3, 30.0)
    assert worst.residual > 5
    assert worst.fitted < 20


def test_constant_columns_have_no_share(subject):
    rng = np.random.default_rng(6)
    X = low_rank(rng, 50, 4)
    X[:, 1] = 7.0
    assert np.isnan(assess(subject(PPCA(1).fit(X), X)).column_share[1])
