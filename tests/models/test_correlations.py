"""Loadings as correlations: comparable across families and units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA as OrdinaryPCA
from tests.models.tables import draw_counts

from anypca import EPCA, PCA, PPCA, KernelPCA, SePCA
from anypca.datasets import make_low_rank

LOGISTIC = np.pi**2 / 3
# Noise variance on the scale of the predictor, from the column's mean and the dispersion.
NOISE = {
    "poisson": lambda mean, phi: np.log1p(1 / mean),
    "negative_binomial": lambda mean, phi: np.log1p(1 / mean + phi),
    "gamma": lambda mean, phi: np.log1p(phi),
    "exponential": lambda mean, phi: np.log(2) + 0 * mean,
    "log_normal": lambda mean, phi: phi + 0 * mean,
    "logit_normal": lambda mean, phi: phi + 0 * mean,
    "bernoulli": lambda mean, phi: LOGISTIC + 0 * mean,
    "gaussian": lambda mean, phi: phi + 0 * mean,
}


@pytest.mark.parametrize("family", NOISE)
def test_correlations_are_those_of_the_true_predictor(family, rng):
    drawn = make_low_rank(2000, 20, 2, family=family, dispersion=0.5, random_state=rng)
    model = SePCA(n_components=2, family=family).fit(drawn.X)
    signal = np.cov(drawn.eta.T)
    phi = 1.0 if family in ("poisson", "bernoulli", "exponential") else 0.5
    total = np.sqrt(np.diag(signal) + NOISE[family](drawn.X.mean(axis=0), phi))
    wanted = signal / np.outer(total, total)
    # Products over components do not change if these turn.
    error = model.correlations_.T @ model.correlations_ - wanted
    assert np.sqrt(np.mean(error**2)) < 0.05
    assert np.abs(model.correlations_).max() <= 1
    np.testing.assert_allclose(model.communalities_, (model.correlations_**2).sum(axis=0))


def test_complete_real_tables_have_the_correlations_of_columns_with_scores(rng):
    table = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 6)) + rng.normal(size=(80, 6))
    table *= 10.0 ** rng.uniform(-2, 2, size=6)
    scores = OrdinaryPCA(2).fit_transform(table)
    wanted = np.corrcoef(np.hstack([scores, table]).T)[:2, 2:]
    found = PPCA(2).fit(table).correlations_
    # Variances of scores are divided by n - 1, those of columns by n.
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), rtol=1 / 79, atol=1e-6)


def test_units_change_nothing(rng):
    table = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(200, 6))
    scaled = SePCA(n_components=2).fit(table * 10.0 ** rng.uniform(-3, 3, size=6))
    plain = SePCA(n_components=2).fit(table)
    np.testing.assert_allclose(np.abs(scaled.correlations_), np.abs(plain.correlations_), atol=1e-4)


def test_rotations_keep_communalities(rng):
    model = EPCA(2, family="poisson").fit(draw_counts(rng, 150, 12))
    for method in ("varimax", "oblimin"):
        rotated = model.rotate(method)
        np.testing.assert_allclose(rotated.communalities_, model.communalities_)
        assert np.abs(rotated.correlations_).max() <= 1
    np.testing.assert_allclose((model.rotate("varimax").correlations_ ** 2).sum(axis=0), model.communalities_)


def test_the_table_of_loadings_is_sorted_and_blank_where_small(rng):
    table = np.repeat(rng.normal(size=(300, 2)), 3, axis=1) + 0.5 * rng.normal(size=(300, 6))
    frame = pd.DataFrame(table, columns=list("abcxyz"))
    frame.insert(0, "constant", 1.0)
    found = PCA(2).fit(frame).loadings_table("varimax", cutoff=0.4)
    assert [set(found.index[:3]), set(found.index[3:6])] in (
        [set("abc"), set("xyz")],
        [set("xyz"), set("abc")],
    )
    assert ((found.iloc[:6, :2] == "").sum(axis=1) == 1).all()
    assert (found["communality"][:6] > 0.5).all()


def test_models_without_loadings_have_no_correlations(rng):
    assert not hasattr(KernelPCA(2).fit(rng.normal(size=(30, 4))), "correlations_")
