"""What the spectrum of residuals says of components that a fit cannot keep."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.models.sepca._unseen import likelihood_gains, log_mean_exp, strength_weights


def spiked(rng, n, p, strengths):
    """Unit noise with orthogonal components; strengths are in units of what can be detected."""
    basis = np.linalg.qr(rng.normal(size=(p, len(strengths))))[0]
    loadings = basis * np.sqrt(np.array(strengths) * np.sqrt(p / n))
    return rng.normal(size=(n, len(strengths))) @ loadings.T + rng.normal(size=(n, p))


def squared(X):
    return np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2


def test_the_saddle_point_is_near_the_mean_over_directions():
    rng = np.random.default_rng(0)
    values, theta = np.array([3.0, 2.0, 1.5, 1.0, 0.5, 0.2]), np.array([0.1, 0.5, 2.0])
    v = rng.normal(size=(400_000, len(values)))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    exact = np.log(np.exp(np.outer(v**2 @ values, theta)).mean(axis=0))
    np.testing.assert_allclose(log_mean_exp(theta, values), exact, atol=0.1)


ANY = np.full(12, 1.0 / 12.0)


def gains(X, most=1):
    return list(likelihood_gains(squared(X), len(X) - 1.0, most, ANY))


def test_noise_gains_nothing_and_signal_more_with_its_strength():
    rng = np.random.default_rng(1)
    found = {m: [gains(spiked(rng, 150, 40, [m]))[0] for _ in range(10)] for m in (0.0, 2.0, 4.0)}
    assert max(found[0.0]) < 2.0
    # The weaker the signals that are averaged over, the less noise speaks against them: up to 2.5 it is -1.0.
    assert np.median(found[0.0]) < -0.75 < 0.0 < np.median(found[2.0]) < 15.0 < np.median(found[4.0])


def test_weak_components_do_not_hide_each_other():
    """Four equal components gain most together, and a fifth loses."""
    rng = np.random.default_rng(3)
    found = np.mean([gains(spiked(rng, 200, 60, [3.0] * 4), 6) for _ in range(10)], axis=0)
    assert np.argmax(found) == 3
    assert found[3] > found[0] > 0.0


def test_units_of_the_whole_table_do_not_matter():
    values = squared(spiked(np.random.default_rng(2), 100, 30, [3.0]))
    found, rescaled = (list(likelihood_gains(unit * values, 99.0, 3, ANY)) for unit in (1.0, 1e6))
    assert rescaled == pytest.approx(found, abs=1e-6)
    assert not list(likelihood_gains(np.zeros(5), 10.0, 3, ANY))


def test_weak_components_beside_strong_ones_are_possible():
    """Ten components of equal, small strength: some fade in the fit, and the residuals tell of more."""
    rng = np.random.default_rng(5)
    model = SePCA(family="gaussian", n_jobs=1).fit(spiked(rng, 200, 60, [3.0] * 10))
    k, probabilities = model.n_components_, model.rank_probabilities_
    assert k < 10
    assert max(probabilities.values()) == probabilities[k]
    assert probabilities[10] > 2.0 * probabilities[k] / np.sqrt(60.0)


def test_nothing_is_left_beside_strong_components():
    rng = np.random.default_rng(4)
    model = SePCA(family="gaussian", n_jobs=1).fit(spiked(rng, 150, 30, [12.0, 8.0]))
    probabilities = model.rank_probabilities_
    assert model.n_components_ == 2
    assert probabilities[2] > 0.9 > 0.1 > probabilities[3] > 0.0
    assert sum(probabilities.values()) == pytest.approx(1.0)


def test_components_that_were_not_found_are_like_the_weakest_that_was():
    """Strong ones leave little room for others at the edge of noise; without any all are possible."""
    strengths = np.geomspace(1.0, 2.25, 12)
    assert pytest.approx(np.full(12, 0.45 / 12.0)) == strength_weights(None)
    found = [strength_weights(weakest) for weakest in (0.5, 1.5, 2.0, 2.25, 5.0, 12.0)]
    typical = [float(weights @ strengths / weights.sum()) for weights in found]
    assert typical[0] == typical[1] == pytest.approx(1.6, abs=0.1)
    assert np.all(np.diff(typical[1:]) > 0)
    total = [float(weights.sum()) for weights in found]
    # Half of the chances of a component like one at the upper end are above it.
    assert 0.4 < total[3] < 0.5
    assert 0.05 < total[4] < 0.2
    assert total[5] < 0.01


def test_strong_components_leave_less_room_for_others():
    rng = np.random.default_rng(7)
    weak, strong = (
        SePCA(family="gaussian", n_jobs=1).fit(spiked(rng, 200, 40, [m, m])).rank_probabilities_[3]
        for m in (4.0, 40.0)
    )
    assert strong < 0.1 * weak
