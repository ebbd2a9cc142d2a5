"""R-hat and effective sample sizes of chains are those of ArviZ."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.draws import seed

from anypca import BEPCA

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # versions before 1 announce it on import
    arviz = pytest.importorskip("arviz")


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n_chains", "n_draws"), [(2, 10), (4, 51)])
def test_equal_to_arviz(n_chains: int, n_draws: int, rng: np.random.Generator) -> None:
    X = (rng.random((20, 5)) < 0.4).astype(float)
    model = BEPCA(
        1,
        family="bernoulli",
        sampler="gibbs",
        n_chains=n_chains,
        n_draws=n_draws,
        n_tune=5,
        n_jobs=1,
        random_state=seed(),
    ).fit(X)
    draws = model.posterior_.posterior
    for name in ("expected", "loadings", "intercept"):
        values = np.asarray(draws[name]).reshape(n_chains, n_draws, -1)
        for found, function in ((model.r_hat_[name], arviz.rhat), (model.ess_[name], arviz.ess)):
            expected = [float(function(values[..., j])) for j in range(values.shape[2])]
            np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-8)
