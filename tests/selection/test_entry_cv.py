"""Scores of held-out entries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from tests.draws import generator, seed

from anypca import EPCA, PLNPCA, PPCA, KernelPCA, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank
from anypca.selection import EntryKFold, EntryShuffleSplit, entry_cross_validate

RNG = generator("held-out entries")
REALS = RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) + RNG.normal(size=(50, 8))
COUNTS = make_low_rank(60, 9, 2, family="poisson", random_state=seed()).X
FOLDS = EntryKFold(3)


def same(first, second, rtol=1e-12):
    np.testing.assert_allclose(first.log_likelihood, second.log_likelihood, rtol=rtol)
    np.testing.assert_allclose(first.n_entries, second.n_entries, rtol=rtol)


@pytest.mark.parametrize("weight", [None, np.where(np.arange(50) < 20, 2.0, 1.0)], ids=["plain", "weighted"])
def test_by_hand(weight):
    """Hide, fit, fill in, and take normal densities times the steps of the columns at the hidden entries."""
    model = EPCA(2, family="gaussian", ridge=1.0, n_jobs=1)
    scores = entry_cross_validate(model, REALS, cv=FOLDS, sample_weight=weight)
    weight = np.ones(50) if weight is None else weight
    sums, sizes = [], []
    for rows, columns in FOLDS.split(REALS):
        hidden = REALS.copy()
        hidden[rows, columns] = np.nan
        model.fit(hidden, sample_weight=weight)
        filled = model.inverse_transform(model.transform(hidden))[rows, columns]
        terms = stats.norm.logpdf(REALS[rows, columns], filled, np.sqrt(model.dispersion_[columns]))
        sums.append(weight[rows] @ (terms + np.log(model.resolution_)[columns]))
        sizes.append(weight[rows].sum())
    np.testing.assert_allclose(scores.log_likelihood, sums, rtol=1e-6)
    np.testing.assert_allclose(scores.n_entries, sizes)
    assert scores.n_entries.sum() == weight.sum() * 8
    means = np.divide(sums, sizes)
    np.testing.assert_allclose(scores.fold_means, means, rtol=1e-6)
    assert scores.l_miss == pytest.approx(np.sum(sums) / np.sum(sizes), rel=1e-6)
    assert scores.standard_error == pytest.approx(np.std(means, ddof=1) / np.sqrt(3), rel=1e-4)


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
    named, numbered = (
        EPCA(1, family={"default": "poisson", key: "negative_binomial"}, n_jobs=1) for key in ("c3", 3)
    )
    same(entry_cross_validate(named, frame, cv=FOLDS), entry_cross_validate(numbered, COUNTS, cv=FOLDS))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_seed_gives_the_same_scores(n_jobs):
    model = PPCA(1, n_jobs=1)
    first = entry_cross_validate(model, REALS, cv=3)
    same(first, entry_cross_validate(model, REALS, cv=EntryKFold(3, random_state=0), n_jobs=n_jobs))
    assert not hasattr(model, "components_"), "the estimator is left as it is"
    other = entry_cross_validate(model, REALS, cv=EntryKFold(3, random_state=1))
    assert other.l_miss != first.l_miss


def test_missing_entries_are_not_scored(rng):
    table = REALS.copy()
    table[rng.random(table.shape) < 0.2] = np.nan
    scores = entry_cross_validate(PPCA(1, n_jobs=1), table, cv=FOLDS)
    assert scores.n_entries.sum() == np.isfinite(table).sum()


@pytest.mark.parametrize("kind", ["offset", "covariates"])
def test_companions_are_used(rng, kind):
    """What varies with a known quantity is predicted better with it than by one component."""
    known = rng.normal(size=(60, 6)) if kind == "offset" else rng.normal(size=(60, 2))
    eta = 2.0 * known if kind == "offset" else 2.0 * known @ rng.normal(size=(2, 6))
    table = rng.poisson(np.exp(np.clip(eta, -4, 4) + 1.0)).astype(float)
    model = EPCA(1 if kind == "offset" else 0, family="poisson", ridge=1.0, n_jobs=1)
    with_it = entry_cross_validate(model, table, cv=FOLDS, **{kind: eta if kind == "offset" else known})
    assert with_it.l_miss > entry_cross_validate(model, table, cv=FOLDS).l_miss


def test_auto_is_decided_by_the_whole_table(rng):
    """The only 2 of a column: the fit that does not see it would take the column for zeros and ones."""
    table = rng.binomial(1, 0.5, size=(30, 5)).astype(float)
    table[7, 3] = 2.0
    scores = entry_cross_validate(EPCA(1, n_jobs=1), table, cv=FOLDS)
    assert np.isfinite(scores.log_likelihood).all()


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KernelPCA(2), "KernelPCA.*held-out entries.*Use EPCA"),
        (EPCA, r"EPCA\(\)"),
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

    with pytest.raises(ValueError, match=r"X\[0, \d\] = .* is -inf"):
        entry_cross_validate(Certain(1), REALS, cv=FOLDS)
