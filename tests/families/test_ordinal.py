"""Ordered answers: levels and cut points of columns, alone, in mixed tables and in fits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca import EPCA, SePCA
from anypca.families import Gaussian, Mixed, Ordinal
from anypca.families._cuts import _cut_terms, best_cuts, margin_cuts
from anypca.io import load, save


def answers(eta, cuts, rng):
    """Answers from 1 on, with the same cut points in all columns."""
    latent = eta + rng.logistic(size=eta.shape)
    return 1.0 + (latent[..., None] > np.asarray(cuts)).sum(axis=-1)


@pytest.fixture(scope="module")
def questionnaire():
    rng = np.random.default_rng(4)
    loadings = np.kron(np.eye(2), np.ones((6, 1))) * 1.5
    return answers(rng.normal(size=(250, 2)) @ loadings.T, (-2.0, -0.5, 0.5, 2.0), rng)


def test_derivatives_in_the_cut_points():
    rng = np.random.default_rng(0)
    cuts, eta = np.array([-1.2, 0.1, 1.5]), np.linspace(-3, 3, 11)
    counts = rng.integers(0, 9, (4, 11)).astype(float)
    value, gradient, hessian = _cut_terms(cuts, counts, eta)
    step = 1e-5
    for a in range(3):
        high, low = (_cut_terms(cuts + sign * step * np.eye(3)[a], counts, eta) for sign in (1, -1))
        assert_allclose((high[0] - low[0]) / (2 * step), gradient[a], rtol=1e-7)
        assert_allclose((low[1] - high[1]) / (2 * step), hessian[a], rtol=1e-6, atol=1e-6)
    family = Ordinal(cuts=cuts)
    x = np.repeat(np.arange(4.0)[:, None], 11, axis=1)
    total = (counts * family.log_likelihood(x, np.broadcast_to(eta, x.shape))).sum()
    assert_allclose(value, total, rtol=1e-12)


def test_best_cuts_are_a_maximum_and_near_the_truth():
    rng = np.random.default_rng(1)
    truth, grid = np.array([-1.0, 0.0, 2.0]), np.linspace(-3, 3, 25)
    eta = rng.choice(grid, 20_000)
    x = answers(eta, truth, rng).astype(int) - 1
    counts = np.zeros((4, 25))
    np.add.at(counts, (x, np.searchsorted(grid, eta)), 1.0)
    found = best_cuts(np.array(margin_cuts(counts.sum(axis=1))), counts, grid)
    assert_allclose(found, truth, atol=0.06)
    # The margin alone has them too close, since predictors vary.
    assert np.ptp(margin_cuts(counts.sum(axis=1))) < np.ptp(found) - 0.3
    # Levels that nobody chose beside a used one: pseudo-observations keep the cut points apart and finite.
    rare = best_cuts(
        np.array([-1.0, 1.0]), np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 3.0]]), np.array([0.0, 1.0])
    )
    assert np.isfinite(rare).all()


def test_columns_have_levels_of_their_own():
    table = np.array([[1.0, 0.0], [2.0, 3.0], [3.0, 3.0], [1.0, 9.0], [2.0, 0.0], [3.0, 9.0]] * 5)
    model = EPCA(1, family="ordinal").fit(table)
    assert model.family_.levels == ((1.0, 2.0, 3.0), (0.0, 3.0, 9.0))
    with pytest.raises(ValueError, match="needs whole numbers"):
        model.transform(np.array([[4.0, 3.0]]))
    drawn = model.sample(50, random_state=0)
    drawn = drawn[0] if isinstance(drawn, tuple) else drawn
    assert set(np.unique(drawn[:, 1])) <= {0.0, 3.0, 9.0}


def test_a_family_of_columns_can_be_cut():
    family = Ordinal(cuts=((-1.0, 1.0), (0.0,), (-2.0, 0.0, 2.0)), levels=((1, 2, 3), (5, 7), (0, 1, 2, 3)))
    x, eta = np.array([[1.0, 7.0, 3.0], [3.0, 5.0, 0.0]]), np.array([[0.3, -0.2, 0.1], [1.0, 2.0, -3.0]])
    whole = family.log_likelihood(x, eta)
    assert_allclose(
        family.columns(slice(1, 3)).log_likelihood(x[:, 1:], eta[:, 1:]), whole[:, 1:], rtol=1e-14
    )
    picked = np.array([2, 0, 2])
    assert_allclose(
        family.take(picked).log_likelihood(x[:, picked], eta[:, picked]), whole[:, picked], rtol=1e-14
    )
    mixed = Mixed((family, Gaussian()), (0, 1, 0, 0))
    wide = np.insert(eta, 1, 0.5, axis=1)
    both = np.insert(x, 1, 0.0, axis=1)
    assert_allclose(mixed.log_likelihood(both, wide)[:, [0, 2, 3]], whole, rtol=1e-14)
    part = mixed.columns(slice(1, 3)).log_likelihood(both[:, 1:3], wide[:, 1:3])
    assert_allclose(part, mixed.log_likelihood(both, wide)[:, 1:3], rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cuts": (1.0, 0.0)}, "increasing cuts"),
        ({"cuts": (0.0, 1.0), "levels": (1, 2)}, "one more increasing level"),
        ({"levels": (1, 2)}, "together with cuts"),
    ],
)
def test_bad_cuts(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ordinal(**arguments)


def test_too_many_levels_are_not_levels():
    table = np.arange(120.0).reshape(40, 3)
    with pytest.raises(ValueError, match="at most 30 levels"):
        EPCA(1, family="ordinal").fit(table)
    with pytest.raises(ValueError, match="needs whole numbers"):
        EPCA(1, family="ordinal").fit(table + 0.5)


def test_a_questionnaire(questionnaire, tmp_path):
    model = SePCA(family="ordinal").fit(questionnaire)
    assert model.n_components_ == 2
    assert model.evidence_ > SePCA(family="gaussian").fit(questionnaire).evidence_
    # Cut points wider than those of the margin, near those that made the table.
    spread = np.mean([cuts[-1] - cuts[0] for cuts in model.family_.cuts])
    assert 3.2 < spread < 4.8
    fitted = model.inverse_transform(model.transform(questionnaire))
    assert fitted.min() >= 1
    assert fitted.max() <= 5
    save(model, tmp_path / "model.anypca")
    again = load(tmp_path / "model.anypca")
    assert again.family_ == model.family_
    assert_array_equal(again.transform(questionnaire), model.transform(questionnaire))


def test_missing_answers_are_filled_in_with_error_bars(questionnaire):
    table = questionnaire.copy()
    hidden = np.random.default_rng(0).random(table.shape) < 0.1
    table[hidden] = np.nan
    model = EPCA(2, family="ordinal").fit(table)
    filled, std = model.impute(table, return_std=True)
    gap = filled[hidden] - questionnaire[hidden]
    assert np.sqrt(np.mean(gap**2)) < 0.9 * np.sqrt(
        np.mean((np.nanmean(table, axis=0) - questionnaire)[hidden] ** 2)
    )
    assert_allclose(np.mean((gap / std[hidden]) ** 2), 1.0, atol=0.35)


def test_answers_beside_measurements(questionnaire):
    score = questionnaire[:, :6].mean(axis=1)
    table = np.column_stack([questionnaire, score + 0.3 * np.random.default_rng(1).normal(size=len(score))])
    model = SePCA(family={"default": "ordinal", 12: "gaussian"}).fit(table)
    assert model.n_components_ == 2
    assert model.family_.columns(slice(12, 13)) == Gaussian()
    assert len(model.family_.columns(slice(0, 12)).cuts) == 12


def test_columns_may_have_very_different_numbers_of_levels():
    family = Ordinal(cuts=((0.0,), (-2.0, -1.0, 0.0, 1.0)))
    eta = np.zeros((3, 2))
    found = family.evaluate(np.array([[0.0, 4.0], [1.0, 0.0], [1.0, 2.0]]), eta)
    np.testing.assert_allclose(found.curvature[:, 0], 0.25)
    assert np.isfinite(found.curvature).all()


def test_cut_points_cost_evidence():
    """Many cut points fit any counts; what made them has more evidence."""
    X = np.random.default_rng(1).poisson(3.0, size=(80, 8)).astype(float)
    counts, levels = (SePCA(2, family=name, dispersion="shared").fit(X) for name in ("poisson", "ordinal"))
    assert counts.evidence_ > levels.evidence_ + 30.0


def test_estimated_parameters_are_counted():
    """Cut points beyond the first of each column, unless they were given."""
    X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [2.0, 1.0]])
    family = SePCA(0, family="ordinal").fit(X).family_
    assert family.count_estimated(2) == 1
    assert Ordinal(cuts=(-1.0, 1.0)).count_estimated(2) == 0
    assert Mixed((family, Gaussian()), (0, 1, 0)).count_estimated(3) == 1


def test_missing_cells_of_levels_without_a_one():
    """What stands in the place of a missing cell need not be a level."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(10, 15, (60, 3)).astype(float), rng.normal(size=60)])
    model = EPCA(1, family=["ordinal"] * 3 + ["gaussian"]).fit(X)
    X[2, 1] = np.nan
    assert np.isfinite(model.transform(X)).all()
