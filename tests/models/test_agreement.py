"""R-hat and effective sample sizes are those of ArviZ, which takes one quantity at a time."""

from __future__ import annotations

import numpy as np
import pytest

from anypca._arviz import import_arviz
from anypca.models._bayes.agreement import judge_draws

pytest.importorskip("arviz")


def chains(n_chains, n, memory, gap=0.0, seed=0):
    """Autoregressive chains of a few quantities, each chain a gap above the last."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n_chains, n, 6))
    for t in range(1, n):
        noise[:, t] += memory * noise[:, t - 1]
    return noise + gap * np.arange(n_chains)[:, None, None]


@pytest.mark.parametrize(
    ("n_chains", "n", "memory", "gap"),
    [(2, 100, 0.5, 0.0), (4, 51, 0.9, 0.3), (2, 10, 0.0, 0.0), (2, 5, 0.3, 1.0), (3, 40, -0.7, 0.0)],
)
def test_equal_to_arviz(n_chains, n, memory, gap):
    draws = chains(n_chains, n, memory, gap)
    draws[..., 0] = np.round(draws[..., 0])  # ties
    r_hat, size = judge_draws(draws)
    arviz = import_arviz()
    np.testing.assert_allclose(r_hat, [arviz.rhat(draws[..., j]) for j in range(6)], rtol=1e-12)
    np.testing.assert_allclose(size, [arviz.ess(draws[..., j]) for j in range(6)], rtol=1e-10)


def test_shapes_and_pieces_do_not_matter(monkeypatch):
    draws = chains(2, 20, 0.3)
    whole = judge_draws(draws.reshape(2, 20, 2, 3))
    monkeypatch.setattr("anypca.models._bayes.agreement._MOST_NUMBERS", 80)
    for ours, parts in zip(whole, judge_draws(draws), strict=True):
        assert ours.shape == (2, 3)
        np.testing.assert_array_equal(ours.ravel(), parts)


def test_quantities_that_stand_still_or_are_lost():
    draws = chains(2, 20, 0.0)
    draws[..., 0] = 3.0
    draws[..., 1] = np.array([1.0, 2.0])[:, None]
    draws[0, 0, 2] = np.nan
    r_hat, size = judge_draws(draws)
    assert np.isnan(r_hat[[0, 2]]).all()
    assert r_hat[1] > 1e6
    assert (size[0], np.isnan(size[2])) == (40.0, True)
    assert np.isfinite([*r_hat[3:], *size[3:]]).all()
    assert np.isnan(judge_draws(draws[:, :3])).all()
