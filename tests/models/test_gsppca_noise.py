"""The noise estimate of globally sparse PCA when the latent dimension is near the number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import GSPPCA
from anypca.datasets import make_globally_sparse


def test_active_columns_are_found_when_the_dimension_is_near_the_number_of_rows(rng):
    drawn = make_globally_sparse(38, 600, 30, n_active=50, noise=0.3, random_state=rng)
    model = GSPPCA(30).fit(drawn.X)
    found, active = set(model.get_support(indices=True)), set(np.flatnonzero(drawn.support))
    assert 2 * len(found & active) / (len(found) + len(active)) > 0.9
    assert 0.5 * 0.09 < model.noise_variance_ < 2.0 * 0.09


def test_a_fit_that_leaves_no_column_out_warns(rng):
    drawn = make_globally_sparse(38, 600, 30, n_active=50, noise=0.3, random_state=rng)
    X = drawn.X[:, drawn.support]
    with pytest.warns(UserWarning, match="n_features_to_select"):
        model = GSPPCA(30, noise="ml").fit(X)
    assert model.n_features_selected_ == X.shape[1]


@pytest.mark.parametrize(("n", "p", "d"), [(40, 80, 4), (30, 200, 20), (300, 40, 10)])
def test_the_noise_estimate_has_no_bias(n, p, d, rng):
    estimates = []
    for _ in range(10):
        X = rng.normal(size=(n, d)) @ rng.normal(size=(d, p)) + rng.normal(size=(n, p))
        estimates.append(GSPPCA(d, n_features_to_select=p, max_iter=2000, tol=1.0).fit(X).noise_variance_)
    # The standard deviation of the mean of ten estimates is below .01 in these designs.
    assert np.mean(estimates) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize(("n", "p"), [(200, 30), (40, 300)], ids=["tall", "wide"])
def test_unequal_noise_warns_and_equal_noise_does_not(n, p, rng):
    signal = rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) * (np.arange(p) < 10)
    noise = rng.normal(size=(n, p))
    GSPPCA(3).fit(signal + noise)
    with pytest.warns(UserWarning, match="noise of the columns is not equal"):
        GSPPCA(3).fit(signal + noise * np.linspace(0.3, 2.0, p))
