"""Scores of held-out entries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from anypca import EPCA, PLNPCA, PPCA, KernelPCA, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank
from anypca.selection import EntryKFold, EntryShuffleSplit, entry_cross_validate

RNG = np.random.default_rng(1)
REALS = RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) + RNG.normal(size=(50, 8))
COUNTS = make_low_rank(60, 9, 2, family="poisson", random_state=0).X
FOLDS = EntryKFold(3)


def same(first, second, rtol=1e-12):
    np.testing.assert_allclose(first.log_likelihood, second.log_likelihood, rtol=rtol)
    np.testing.assert_allclose(first.n_entries, second.n_entries, rtol=rtol)


def test_by_hand():
    """Hide, fit, fill in, and take normal densities times the steps of the columns at the hidden entries."""
    scores = entry_cross_validate(PPCA(2, n_jobs=1), REALS, cv=FOLDS)
    expected = []
    for rows, columns in FOLDS.split(REALS):
        hidden = REALS.copy()
        hidden[rows, columns] = np.nan
        model = PPCA(2, n_jobs=1).fit(hidden)
        filled = model.inverse_transform(model.transform(hidden))[rows, columns]
        terms = stats.norm.logpdf(REALS[rows, columns], filled, np.sqrt(model.noise_variance_))
        expected.append(terms + np.log(model.resolution_)[columns])
    np.testing.assert_allclose(scores.fold_means, [terms.mean() for terms in expected], rtol=1e-9)
    assert scores.l_miss == pytest.approx(np.concatenate(expected).mean(), rel=1e-9)
    assert scores.n_entries.sum() == REALS.size
    spread = np.std([terms.mean() for terms in expected], ddof=1)
    assert scores.standard_error == pytest.approx(spread / np.sqrt(3), rel=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        EPCA(1, family="poisson", n_jobs=1),
        SePCA(2, family="poisson", n_jobs=1),
        PLNPCA(1, n_jobs=1),
        PiecewisePCA(1, n_pieces=1, family="poisson", n_init=1, n_jobs=1),
    ],
    ids=["epca", "sepca", "plnpca", "piecewise"],
)
def test_every_model_of_counts_beats_rates_of_columns(model):
    """Scores of all models are on one scale, and above that of one rate per column."""
    cv = EntryShuffleSplit(fraction=0.2)
    ((rows, columns),) = cv.split(COUNTS)
    hidden = COUNTS.astype(float)
    hidden[rows, columns] = np.nan
    null = stats.poisson.logpmf(COUNTS[rows, columns], np.nanmean(hidden, axis=0)[columns]).mean()
    scores = entry_cross_validate(model, COUNTS, cv=cv)
    assert null < scores.l_miss < 0
    assert np.isnan(scores.standard_error)


def test_sparse_tables_hold_out_zeros_and_give_the_same():
    model = EPCA(1, family="poisson", n_jobs=1)
    dense = entry_cross_validate(model, COUNTS, cv=FOLDS)
    assert (COUNTS == 0).any()
    assert dense.n_entries.sum() == COUNTS.size, "zeros count"
    same(dense, entry_cross_validate(model, sparse.csr_array(COUNTS), cv=FOLDS), rtol=1e-9)


def test_frames_keep_families_by_name():
    frame = pd.DataFrame(COUNTS, columns=[f"c{j}" for j in range(9)])
    named = EPCA(1, family={"default": "poisson", "c3": "negative_binomial"}, n_jobs=1)
    numbered = EPCA(1, family={"default": "poisson", 3: "negative_binomial"}, n_jobs=1)
    same(entry_cross_validate(named, frame, cv=FOLDS), entry_cross_validate(numbered, COUNTS, cv=FOLDS))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_seed_gives_the_same_scores(n_jobs):
    model = PPCA(1, n_jobs=1)
    first = entry_cross_validate(model, REALS, cv=3)
    same(first, entry_cross_validate(model, REALS, cv=EntryKFold(3, random_state=0), n_jobs=n_jobs))
    assert not hasattr(model, "components_"), "the estimator is left as it is"
    other = entry_cross_validate(model, REALS, cv=EntryKFold(3, random_state=1))
    assert other.l_miss != first.l_miss


def test_missing_entries_are_not_scored():
    table = REALS.copy()
    table[RNG.random(table.shape) < 0.2] = np.nan
    scores = entry_cross_validate(PPCA(1, n_jobs=1), table, cv=FOLDS)
    assert scores.n_entries.sum() == np.isfinite(table).sum()


def test_companions_are_used():
    # Offsets of every cell, which one component cannot stand for.
    offset = 2.0 * RNG.normal(size=(60, 6))
    table = RNG.poisson(np.exp(offset + RNG.normal(size=6))).astype(float)
    model = EPCA(1, family="poisson", n_jobs=1)
    weight = np.where(np.arange(60) < 30, 2.0, 1.0)
    scores = entry_cross_validate(model, table, cv=FOLDS, offset=offset, sample_weight=weight)
    assert scores.n_entries.sum() == 540
    assert scores.l_miss > entry_cross_validate(model, table, cv=FOLDS, sample_weight=weight).l_miss
    covariates = offset[:, :1]
    assert np.isfinite(entry_cross_validate(model, table, cv=FOLDS, covariates=covariates).l_miss)


def test_auto_is_decided_by_the_whole_table():
    """The only 2 of a column: the fit that does not see it would take the column for zeros and ones."""
    table = RNG.binomial(1, 0.5, size=(30, 5)).astype(float)
    table[7, 3] = 2.0
    scores = entry_cross_validate(EPCA(1, n_jobs=1), table, cv=FOLDS)
    assert np.isfinite(scores.log_likelihood).all()


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KernelPCA(2), "KernelPCA cannot score held-out entries.*Use EPCA"),
        (EPCA, r"Write EPCA\(\)"),
        ("epca", "must be an estimator"),
    ],
    ids=["no-entries", "class", "name"],
)
def test_bad_estimators(estimator, message):
    with pytest.raises(TypeError, match=message):
        entry_cross_validate(estimator, REALS)


def test_impossible_entries_are_named():
    class Certain(PPCA):
        """A model that holds everything unseen impossible."""

        def entry_log_likelihood(self, X, rows, columns, values):
            return np.full(len(rows), -np.inf)

    with pytest.raises(ValueError, match=r"held-out X\[0, \d\] = .* is -inf"):
        entry_cross_validate(Certain(1), REALS, cv=FOLDS)
