"""Evidences and held-out figures are probabilities of tables as they are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.draws import generator

from anypca import EPCA, PPCA, SePCA


def measurements(decimals: int = 1, n: int = 60, p: int = 6) -> np.ndarray:
    rng = generator("measurements", decimals, p)
    signal = rng.normal(size=(n, 1)) @ rng.choice([-1.0, 1.0], (1, p))
    return np.round(20 + 3 * signal + rng.normal(size=(n, p)), decimals)


@pytest.mark.parametrize("family", ["gaussian", "log_normal", "gamma"])
def test_evidence_does_not_depend_on_units(family: str) -> None:
    X = np.maximum(measurements(), 0.1)
    model, other = (SePCA(2, family=family, tol=1e-6).fit(table) for table in (X, 2.54 * X))
    assert_allclose(other.resolution_, 2.54 * model.resolution_)
    assert other.n_components_ == model.n_components_
    assert other.evidence_ == pytest.approx(model.evidence_, abs=0.1)  # within tol per entry


def test_a_step_ten_times_as_wide_is_ten_times_as_probable() -> None:
    X = measurements()
    fine, coarse = (SePCA(2, family="gaussian", resolution=step).fit(X) for step in (0.1, 1.0))
    assert coarse.evidence_ - fine.evidence_ == pytest.approx(X.size * np.log(10.0), rel=1e-6)
    gain = coarse.plug_in_log_likelihood(X) - fine.plug_in_log_likelihood(X)
    assert_allclose(gain, X.shape[1] * np.log(10.0), rtol=1e-6)
    assert_allclose(coarse.score_samples(X), fine.score_samples(X), rtol=1e-6)


def test_rows_of_mixed_tables_are_probabilities(rng: np.random.Generator) -> None:
    """If families differ, log-likelihoods of rows do not depend on the units of the measurements."""
    X = np.column_stack([measurements(p=4), rng.poisson(3.0, (60, 3))])
    family, units = ["gaussian"] * 4 + ["poisson"] * 3, np.r_[np.full(4, 2.54), np.ones(3)]
    first, second = (EPCA(1, family=family, tol=1e-8).fit(table) for table in (X, X * units))
    assert_allclose(first.score_samples(X), second.score_samples(X * units), atol=1e-3)
    assert np.all(first.score_samples(X) < 0)


@pytest.mark.parametrize("truth", ["log_normal", "gaussian"])
def test_the_true_family_has_the_highest_evidence(truth: str, rng: np.random.Generator) -> None:
    eta, noise = 0.5 * rng.normal(size=(120, 1)) @ rng.normal(size=(1, 8)), rng.normal(size=(120, 8))
    X = np.round(np.exp(2 + eta + 0.8 * noise) + 0.01 if truth == "log_normal" else 20 + 3 * (eta + noise), 2)
    X = np.maximum(X, 0.01)
    evidence = {name: SePCA(1, family=name).fit(X).evidence_ for name in ("gaussian", "gamma", "log_normal")}
    assert max(evidence, key=evidence.get) == truth  # type: ignore[arg-type]


def test_a_reproduced_lattice_cannot_buy_evidence_without_bound(rng: np.random.Generator) -> None:
    """A table that two components reproduce except for rounding is no more probable than 1."""
    X = np.round(rng.integers(-9, 10, (40, 2)) @ rng.uniform(1.0, 9.0, (2, 6)))
    model = SePCA(3, family="gaussian").fit(X)
    assert model.evidence_ < 0
    assert np.all(model.dispersion_ >= model.resolution_**2 / (2 * np.pi) * (1 - 1e-12))


def test_steps_are_found_given_for_all_or_by_column() -> None:
    X = np.column_stack([measurements(p=2), measurements(2, p=1)])
    assert_allclose(EPCA(1, family="gaussian").fit(X).resolution_, [0.1, 0.1, 0.01])
    assert_allclose(EPCA(1, family="gaussian", resolution=0.5).fit(X).resolution_, 0.5)
    assert_allclose(EPCA(1, family="gaussian", resolution={2: 5.0}).fit(X).resolution_, [0.1, 0.1, 5.0])
    assert_allclose(PPCA(1).fit(X).resolution_, [0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("resolution", "words"),
    [
        (0.0, "> 0"),
        ([1.0, 2.0], "3 columns"),
        ({5: 1.0}, "0 to 2"),
        ({"a": 1.0}, "no column names"),
        ({0: "x"}, "'x'"),
    ],
    ids=str,
)
def test_wrong_steps_are_named(resolution: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EPCA(1, family="gaussian", resolution=resolution).fit(measurements(p=3))
