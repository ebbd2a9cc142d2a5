"""Families that fits choose for columns from their values, and the report of the choice."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
from scipy.special import expit

from anypca import EPCA
from anypca.exceptions import DataConversionWarning

N = 400


def report_of(X, **options):
    return EPCA(0, **options).fit(np.asarray(X, float)).family_report_


def answers(rng, score, cuts):
    """Draw ordered answers from 1 on with logistic noise."""
    return 1.0 + (score[..., None] + rng.logistic(size=(*score.shape, 1)) > np.asarray(cuts)).sum(axis=-1)


COLUMNS = {
    "zeros and ones": (lambda r: r.integers(0, 2, N), "bernoulli", "yes/no"),
    "ones and twos": (lambda r: r.integers(1, 3, N), "bernoulli", "yes/no"),
    "counts": (lambda r: r.poisson(np.exp(1 + 0.8 * r.normal(size=N))), "negative_binomial", "counts"),
    "rare counts": (lambda r: r.poisson(0.5, N), "negative_binomial", "counts"),
    "extra zeros": (
        lambda r: np.where(r.random(N) < 0.4, 0, r.poisson(12, N)),
        "zero_inflated_negative_binomial",
        "counts",
    ),
    "answers": (lambda r: answers(r, r.normal(size=N), [-2, -0.7, 0.7, 2]), "ordinal", "ratings"),
    "real": (lambda r: np.round(50 + 10 * r.normal(size=N), 1), "gaussian", "real numbers"),
    "negative": (lambda r: r.normal(size=N), "gaussian", "real numbers"),
    "outliers": (lambda r: r.standard_t(1.5, N), "student_t", "real numbers"),
    "prices": (lambda r: np.round(np.exp(5 + r.normal(size=N)), 2), "log_normal", "amounts"),
    "rain": (
        lambda r: np.where(r.random(N) < 0.4, 0, np.round(np.exp(2 + r.normal(size=N)), 2)),
        "zero_inflated_log_normal",
        "amounts",
    ),
    "shares": (lambda r: np.round(expit(1.2 * r.normal(size=N)), 4), "logit_normal", "shares"),
    "heaps": (lambda r: 10 * r.poisson(60, N) + (np.arange(N) % 10 == 0), "gaussian", "real numbers"),
}


@pytest.mark.parametrize(("draw", "family", "kind"), COLUMNS.values(), ids=COLUMNS)
def test_family_of_a_column(draw, family, kind, rng):
    # A second column of another kind, since tables of one kind share evidence.
    record, beside = report_of(np.column_stack([draw(rng), rng.normal(size=N)]))
    assert (record.family, record.kind) == (family, kind)
    assert beside.family == "gaussian"
    assert record.reason


def mixed_table(rng):
    return np.column_stack([draw(rng) for draw, _, _ in COLUMNS.values()]).astype(float)


def leads(report):
    return [record.lead for record in report]


def test_choices_do_not_depend_on_blocks_or_order(rng):
    X = mixed_table(rng)
    X[3, ::2] = np.nan
    whole = report_of(X)
    chunks = dask.array.from_array(X, chunks=(70, X.shape[1]))
    parts = EPCA(0).fit(chunks).family_report_
    assert [record[:2] for record in whole] == [record[:2] for record in parts]
    np.testing.assert_allclose(leads(whole), leads(parts), rtol=1e-6)
    order = rng.permutation(X.shape[1])
    shuffled = report_of(X[rng.permutation(N)][:, order])
    assert [record.family for record in shuffled] == [whole[j].family for j in order]
    np.testing.assert_allclose(leads(shuffled), np.array(leads(whole))[order], rtol=1e-6)


def test_units_do_not_matter(rng):
    """Scores are log-probabilities of recorded values, so families of real numbers compare alike in any unit."""
    X = np.column_stack([COLUMNS[name][0](rng) for name in ("real", "prices", "rain")])
    first, second = report_of(X), report_of(2.54 * X)
    assert [record.family for record in first] == [record.family for record in second]
    np.testing.assert_allclose(leads(first), leads(second), rtol=1e-5)


@pytest.mark.parametrize("low", [0, 1])
def test_tables_of_one_kind_have_one_family(low, rng):
    z, W = rng.normal(size=(N, 2)), 0.4 * rng.normal(size=(2, 25))
    ratings = report_of(answers(rng, 2 * z @ W, [-1.2, 0.3, 1.8]) - 1 + low)
    assert {record.family for record in ratings} == {"ordinal"}
    counts = report_of(rng.poisson(np.exp(rng.uniform(-1, 2.5, 25) + z @ W)))
    assert {record.kind for record in counts} == {"counts"}


def test_extra_zeros_need_evidence(rng):
    """Poisson counts have no extra zeros, whatever their mean; a table full of them has."""
    mean = np.exp(rng.uniform(0.5, 2.0, 20))
    plain = report_of(rng.poisson(mean, (N, 20)))
    assert {record.family for record in plain} == {"negative_binomial"}
    extra = report_of(np.where(rng.random((N, 20)) < 0.3, 0, rng.poisson(mean + 3, (N, 20))))
    assert {record.family for record in extra} == {"zero_inflated_negative_binomial"}


@pytest.mark.parametrize(
    "levels", [np.log([1, 2, 3, 5, 7]), [2e3, 3.5e4, 7e5, 6e6], [50.0, 56.0, 58.0, 62.0, 75.0]]
)
def test_few_values_are_levels_whatever_they_are(levels, rng):
    X = np.column_stack([np.asarray(levels)[rng.integers(0, len(levels), N)], rng.normal(size=(N, 2))])
    model = EPCA(1).fit(X)
    assert model.family_report_[0].family == "ordinal"
    means = model.inverse_transform(model.transform(X))[:, 0]
    assert min(levels) <= means.min() < means.max() <= max(levels)


def test_unsure_choices_say_so():
    # Nine values that eleven answers to ten questions share: as good a count as a rating.
    values = np.repeat([4.0, 5, 6, 7, 8], [5, 9, 12, 9, 5])
    report = report_of(np.column_stack([values, values + 0.5]))
    record = report[0]
    if record.is_unsure:
        assert record.runner_up in record.reason
        assert "unsure" in record.reason
    assert record.is_unsure == (record.lead < 3)
    assert report.unsure == tuple(each.column for each in report if each.is_unsure)


def test_a_family_that_is_given_wins(rng):
    """Identifiers are modelled, with one warning, unless the user excludes them; the other columns are inferred."""
    X = np.column_stack([rng.permutation(N), rng.normal(size=(N, 2)), rng.integers(1, 3, N)])
    with pytest.warns(DataConversionWarning, match="'0' looks like row identifiers") as caught:
        model = EPCA(1).fit(X)
    assert len(caught) == 1
    assert model.family_report_.excluded == ()
    assert (model.components_[:, 0] != 0).all()
    given = EPCA(1, family={0: "excluded"}).fit(X)
    assert given.family_report_.excluded == ("0",)
    assert given.family_report_[3].family == "bernoulli"
    assert given.components_.shape == (1, 4)
    assert (given.components_[:, 0] == 0).all()
    assert given.inverse_transform(given.transform(X)).shape == X.shape


def test_every_kind_of_column_in_one_fit(rng):
    X = mixed_table(rng)
    X[rng.random(X.shape) < 0.05] = np.nan
    model = EPCA(1, max_iter=1000).fit(X)
    assert len({record.kind for record in model.family_report_}) == 6
    assert np.isfinite(model.score_samples(X)).all()
    assert model.inverse_transform(model.transform(X)).shape == X.shape
