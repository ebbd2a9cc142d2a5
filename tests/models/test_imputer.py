"""Filling gaps: what is observed stays, draws and intervals follow the posterior predictive distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from tests.models.tables import punch

from anypca import EPCA, GPCA, PLNPCA, PPCA, Imputer, SePCA
from anypca.datasets import load_penguins, make_low_rank_counts


def correlated(rng, n=200, p=6, noise=0.5):
    table = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + noise * rng.normal(size=(n, p))
    return table, punch(table, 0.2, rng)


@pytest.mark.parametrize("make", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_frames_keep_their_cells_types_and_labels(make):
    frame = make(load_penguins().to_frame())
    filled = Imputer().fit_transform(frame)
    assert type(filled) is type(frame)
    assert list(filled.columns) == list(frame.columns)
    assert list(filled.dtypes) == list(frame.dtypes)
    before, after = (
        pd.DataFrame({name: list(each[name]) for name in each.columns}) for each in (frame, filled)
    )
    assert after.notna().all(axis=None)
    assert after.where(before.notna()).equals(before.where(before.notna()))
    assert set(after["sex"]) == {"female", "male"}


def test_whole_numbers_and_categories_stay_what_they_are(rng):
    size = rng.normal(size=120)
    frame = pd.DataFrame({"a": size + 0.1 * rng.normal(size=120), "b": size + 0.1 * rng.normal(size=120)})
    frame["grade"] = pd.array(np.digitize(size, [-0.5, 0.5]), dtype="Int64")
    frame["kind"] = pd.Categorical(np.where(size > 0, "high", "low"))
    frame.loc[:9, "grade"] = pd.NA
    frame.loc[10:19, "kind"] = np.nan
    filled = Imputer().fit_transform(frame)
    assert filled.dtypes.equals(frame.dtypes)
    assert filled.notna().all(axis=None)


def test_complete_tables_pass_unchanged(rng):
    table, _ = correlated(rng)
    np.testing.assert_array_equal(Imputer(PPCA(2)).fit_transform(table), table)


def test_empty_columns_are_dropped_or_kept_and_gaps_are_marked(rng):
    _, table = correlated(rng)
    table = np.insert(table, 2, np.nan, axis=1)
    assert Imputer(PPCA(2)).fit_transform(table).shape == (200, 6)
    kept = Imputer(PPCA(2), keep_empty_features=True, add_indicator=True).fit(table)
    filled = kept.transform(table)
    assert filled.shape == (200, 14)
    np.testing.assert_array_equal(filled[:, 7:], np.isnan(table))
    assert (filled[:, 2] == 0).all()
    assert list(kept.get_feature_names_out()[[2, 9]]) == ["x2", "missingindicator_x2"]


def test_draws_of_several_cells_have_the_conditional_covariance(rng):
    """Conditional normal distribution of the missing cells under the covariance of the fitted model."""
    complete, table = correlated(rng)
    row = complete[:1].copy()
    row[0, :3] = np.nan
    model = PPCA(2).fit(table)
    covariance = model.get_covariance()
    cross, seen = covariance[:3, 3:], np.linalg.inv(covariance[3:, 3:])
    mean = model.intercept_[:3] + cross @ seen @ (row[0, 3:] - model.intercept_[3:])
    wanted = covariance[:3, :3] - cross @ seen @ cross.T
    drawn = np.array(model.draw_missing(row, 20_000, random_state=int(rng.integers(2**31))))[:, 0, :3]
    deviation = np.sqrt(np.diag(wanted))
    assert np.abs((drawn.mean(axis=0) - mean) / deviation).max() < 6 / np.sqrt(20_000)
    error = (np.cov(drawn.T) - wanted) / np.outer(deviation, deviation)
    assert np.abs(error).max() < 8 / np.sqrt(20_000)


@pytest.mark.parametrize(
    "model",
    [PPCA(2), EPCA(2, family="gaussian"), SePCA(4, family="gaussian")],
    ids=lambda m: type(m).__name__,
)
def test_draws_have_the_standard_deviations_of_impute(model, rng):
    _, table = correlated(rng)
    _, std = model.fit(table).impute(table, return_std=True)
    drawn = np.array(model.draw_missing(table, 2000, random_state=0))
    missing = np.isnan(table)
    np.testing.assert_array_equal(
        drawn[:, ~missing], np.broadcast_to(table[~missing], (2000, (~missing).sum()))
    )
    # A variance of 2000 normal draws has a relative standard deviation of sqrt(2 / 2000).
    ratio = drawn.std(axis=0)[missing] / std[missing]
    assert np.abs(ratio - 1).max() < 7 * np.sqrt(0.5 / 2000)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_intervals_hold_nine_in_ten_hidden_cells(family, rng):
    eta = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 20)) * 0.6 + 1
    table = (
        rng.poisson(np.exp(eta)) if family == "poisson" else (rng.random(eta.shape) < 1 / (1 + np.exp(-eta)))
    )
    table = table.astype(float)
    hidden = punch(table, 0.2, rng)
    lower, upper = Imputer(EPCA(2, family=family)).fit(hidden).intervals(hidden)
    inside = ((lower <= table) & (table <= upper))[np.isnan(hidden)]
    # Intervals of whole numbers hold more than nine in ten; 1200 cells of dependent rows.
    assert inside.mean() > 0.85
    np.testing.assert_array_equal(lower[~np.isnan(hidden)], table[~np.isnan(hidden)])


def test_counts_are_drawn_as_counts(rng):
    X = make_low_rank_counts(60, 12, 1, typical_mean=12.0, missing=0.1, random_state=rng.integers(2**31)).X
    for table in Imputer(PLNPCA(1)).fit(X).draws(X, 3):
        assert (table >= 0).all()
        np.testing.assert_array_equal(table, np.rint(table))


def test_one_draw_differs_from_the_mean_of_many(rng):
    _, table = correlated(rng)
    missing = np.isnan(table)
    mean = Imputer(PPCA(2)).fit_transform(table)[missing]
    one, many = (Imputer(PPCA(2), n_draws=n).fit_transform(table)[missing] for n in (1, 400))
    assert np.abs(many - mean).mean() < 0.2 * np.abs(one - mean).mean()


def test_gaps_are_filled_in_front_of_a_classifier(rng):
    complete, table = correlated(rng)
    labels = complete[:, 0] > 0
    table[:, 0] = np.nan
    table[:50, 0] = complete[:50, 0]
    pipeline = make_pipeline(Imputer(PPCA(2)), LogisticRegression())
    assert np.isfinite(cross_val_score(pipeline, table, labels, cv=4, error_score="raise")).all()


def test_models_without_a_posterior_are_named(rng):
    counts = rng.poisson(3.0, size=(40, 5)).astype(float)
    imputer = Imputer(GPCA(1, family="poisson")).fit(counts)
    with pytest.raises(TypeError, match=r"GPCA.*Use SePCA"):
        imputer.intervals(counts)
