"""EPCA with a share of the deviance in place of a number of components, and with white scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.models.epca._share import least_rank

COUNTS = make_low_rank(60, 8, 3, family="poisson", random_state=0).X
NORMAL = make_low_rank(60, 8, 3, random_state=0).X


@pytest.mark.parametrize(
    ("share", "rank"), [(0.05, 1), (0.1, 1), (0.11, 2), (0.65, 7), (0.8, 8), (0.81, 9), (1.0, 10)]
)
def test_the_least_rank(share, rank):
    asked = []

    def explained(k):
        asked.append(k)
        return min(k, 10) / 10

    assert least_rank(explained, share, 40) == rank
    assert len(asked) <= 8


def test_a_share_that_is_not_reached_is_told():
    with pytest.warns(
        UserWarning, match=r"4 components explained 50.0 % .* n_components=0.9 asks for 90.0 %"
    ):
        assert least_rank(lambda k: 0.5 if k > 1 else 0.3, 0.9, 100) == 4
    with pytest.warns(UserWarning, match=r"5 components explained 50.0 %"):
        assert least_rank(lambda k: k / 10, 0.9, 5) == 5


def test_as_many_components_as_scikit_learn_takes():
    exact = {"family": "gaussian", "ridge": 0.0, "tol": 1e-8}
    for share in (0.3, 0.7, 0.9):
        assert EPCA(share, **exact).fit(NORMAL).n_components_ == PCA(share).fit(NORMAL).n_components_


def test_a_share_is_the_fit_of_its_number():
    model = EPCA(0.6, family="poisson", tol=1e-10).fit(COUNTS)
    assert model.explained_deviance_ratio_.sum() >= 0.6
    again = EPCA(model.n_components_, family="poisson", ridge=1.0, tol=1e-10).fit(COUNTS)
    # Its start was drawn later; decrements of 1e-10 leave errors of their root.
    np.testing.assert_allclose(model.components_, again.components_, atol=1e-4)
    np.testing.assert_allclose(model.transform(COUNTS), again.transform(COUNTS), atol=1e-3)
    fewer = EPCA(model.n_components_ - 1, family="poisson").fit(COUNTS)
    assert fewer.explained_deviance_ratio_.sum() < 0.6


def test_the_ridge_is_that_of_the_fit_that_is_kept():
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8))
    model = EPCA(0.9, family="gaussian", ridge="cv").fit(X)
    assert model.n_components_ == 2
    assert model.ridge_ in model.ridge_trials_
    assert model.ridge_ == EPCA(2, family="gaussian", ridge="cv").fit(X).ridge_


@pytest.mark.parametrize("penalty", ["ridge", "l1"])
def test_white_scores(penalty):
    settings = {"family": "poisson", "score_penalty": penalty, "tol": 1e-9}
    plain, white = (EPCA(2, **settings, whiten=whiten).fit(COUNTS) for whiten in (False, True))
    scores, size = white.transform(COUNTS), np.sqrt(plain.explained_variance_)
    np.testing.assert_allclose((scores**2).mean(axis=0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(white.explained_variance_, 1.0)
    np.testing.assert_allclose(scores, plain.transform(COUNTS) / size, atol=1e-4)
    np.testing.assert_allclose(white.components_, plain.components_ * size[:, None])
    np.testing.assert_allclose(
        white.inverse_transform(scores), plain.inverse_transform(plain.transform(COUNTS)), rtol=1e-3
    )
    # What has no coordinates does not change.
    np.testing.assert_allclose(white.explained_deviance_ratio_, plain.explained_deviance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(white.score_samples(COUNTS), plain.score_samples(COUNTS), rtol=1e-4)
