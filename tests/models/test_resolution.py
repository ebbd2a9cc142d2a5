"""Evidences and held-out figures are probabilities of tables as they are recorded."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA, PPCA, SePCA
from anypca.selection import entry_cross_validate


def measurements(seed=0, decimals=1, n=60, p=6):
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 1)) @ rng.normal(size=(1, p))
    return np.round(20 + 3 * signal + rng.normal(size=(n, p)), decimals)


@pytest.mark.parametrize("family", ["gaussian", "log_normal", "gamma"])
def test_evidence_does_not_depend_on_units(family):
    X = measurements()
    model = SePCA(2, family=family, tol=1e-6).fit(X)
    other = SePCA(2, family=family, tol=1e-6).fit(2.54 * X)
    np.testing.assert_allclose(other.resolution_, 2.54 * model.resolution_)
    assert other.n_components_ == model.n_components_
    # Both bounds have converged to within tol per entry.
    assert other.evidence_ == pytest.approx(model.evidence_, abs=0.1)


def test_evidence_of_coarser_records_is_higher():
    """A step ten times as wide is ten times as probable."""
    X = measurements()
    fine, coarse = (SePCA(2, family="gaussian", resolution=step).fit(X) for step in (0.1, 1.0))
    assert coarse.evidence_ - fine.evidence_ == pytest.approx(X.size * np.log(10.0), rel=1e-6)
    gain = coarse.plug_in_log_likelihood(X) - fine.plug_in_log_likelihood(X)
    np.testing.assert_allclose(gain, X.shape[1] * np.log(10.0), rtol=1e-6)
    np.testing.assert_allclose(coarse.score_samples(X), fine.score_samples(X), rtol=1e-6)


def test_rows_of_mixed_tables_are_probabilities():
    """Where families differ, the rows' log-likelihoods do not depend on the units of the measurements."""
    rng = np.random.default_rng(0)
    X = np.column_stack([measurements(p=4), rng.poisson(3.0, (60, 3))])
    family = ["gaussian"] * 4 + ["poisson"] * 3
    units = np.r_[np.full(4, 2.54), np.ones(3)]
    first, second = (EPCA(1, family=family, tol=1e-8).fit(table) for table in (X, X * units))
    np.testing.assert_allclose(first.score_samples(X), second.score_samples(X * units), atol=1e-3)
    assert (first.score_samples(X) < 0).all()


@pytest.mark.parametrize("truth", ["log_normal", "gaussian"])
def test_the_right_family_has_the_highest_evidence(truth):
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(100, 1)) @ rng.normal(size=(1, 8)) * 0.5
    noise = rng.normal(size=eta.shape)
    X = np.round(np.exp(2 + eta + 0.6 * noise) + 0.01 if truth == "log_normal" else 40 + eta + noise, 2)
    evidence = {name: SePCA(2, family=name).fit(X).evidence_ for name in ("gaussian", "gamma", "log_normal")}
    assert max(evidence, key=evidence.get) == truth or evidence[truth] > max(evidence.values()) - 3.0


def test_counts_and_measurements_are_comparable():
    """Counts are more probable as counts, also where a density of the same numbers would be higher."""
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(0.6 * rng.normal(size=(80, 1)) + rng.normal(size=8) * 0.3)).astype(float)
    evidence = {name: SePCA(2, family=name).fit(X).evidence_ for name in ("poisson", "gaussian")}
    assert evidence["poisson"] > evidence["gaussian"]
    figure = {name: entry_cross_validate(EPCA(1, family=name), X, cv=3).l_miss for name in evidence}
    assert figure["poisson"] > figure["gaussian"]
    assert max(figure.values()) < 0


def test_a_reproduced_lattice_cannot_buy_evidence_without_bound():
    """A table that two components reproduce but for rounding is no more probable than 1."""
    rng = np.random.default_rng(0)
    X = np.round(rng.integers(-9, 10, (40, 2)) @ rng.uniform(1.0, 9.0, (2, 6)))
    model = SePCA(3, family="gaussian").fit(X)
    assert model.evidence_ < 0
    floor = model.resolution_**2 / (2 * np.pi)
    assert (model.dispersion_ >= floor * (1 - 1e-12)).all()


def test_steps_are_found_given_for_all_or_by_column():
    X = np.column_stack([measurements(p=2), measurements(1, 2, p=1)])
    assert EPCA(1, family="gaussian").fit(X).resolution_ == pytest.approx([0.1, 0.1, 0.01])
    assert EPCA(1, family="gaussian", resolution=0.5).fit(X).resolution_ == pytest.approx([0.5] * 3)
    given = EPCA(1, family="gaussian", resolution={2: 5.0}).fit(X)
    assert given.resolution_ == pytest.approx([0.1, 0.1, 5.0])
    assert PPCA(1).fit(X).resolution_ == pytest.approx([0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("resolution", "words"),
    [
        (0.0, "number > 0"),
        ([1.0, 2.0], "X has 3 columns"),
        ({5: 1.0}, "columns 0 to 2"),
        ({"a": 1.0}, "no column names"),
        ({0: "fine"}, "got 'fine'"),
    ],
    ids=str,
)
def test_wrong_steps_are_named(resolution, words):
    with pytest.raises(ValueError, match=words):
        EPCA(1, family="gaussian", resolution=resolution).fit(measurements(p=3))


def test_held_out_figures_of_all_models_are_on_one_scale():
    """The same normal model gives the same figure, by whatever name."""
    X = measurements()
    rows, columns = np.arange(0, 60, 5), np.arange(0, 60, 5) % 6
    hidden = X.copy()
    hidden[rows, columns] = np.nan
    first = PPCA(1).fit(hidden).entry_log_likelihood(hidden, rows, columns, X[rows, columns])
    second = EPCA(1, family="gaussian", ridge=1e-3).fit(hidden)
    second = second.entry_log_likelihood(hidden, rows, columns, X[rows, columns])
    assert first.mean() == pytest.approx(second.mean(), abs=0.2)
    assert (first < 0).all()
