"""The family inferred for each column, and the account of it."""

from __future__ import annotations

from dataclasses import replace

import dask.array as dask_array
import numpy as np
import pytest
from scipy.special import expit

from anypca import EPCA, SePCA
from anypca.engine import check_data, collect_columns, executor_for, summarise
from anypca.families import Bernoulli, Mixed, NegativeBinomial
from anypca.families.auto import infer_families

N = 150
RNG = np.random.default_rng(5)
SCORE = RNG.normal(size=N)


def columns(X, names=None):
    data = replace(check_data(X), feature_names=None if names is None else tuple(names))
    executor = executor_for(data, 1)
    return collect_columns(data, executor, summarise(data, executor))


def infer(X, names=None):
    return infer_families(columns(np.asarray(X, float), names))


def one(values, name="x"):
    """The record of a column; another one beside it keeps the table from being all labels."""
    beside = np.random.default_rng(9).normal(size=len(values))
    return infer(np.column_stack([values, beside]), [name, "beside"]).report[0]


COLUMNS = {
    "zeros and ones": (RNG.integers(0, 2, N), "bernoulli"),
    "ones and twos": (RNG.integers(1, 3, N), "bernoulli"),
    "poisson": (RNG.poisson(np.exp(1 + 0.8 * SCORE)), "negative_binomial"),
    "rare": (RNG.poisson(0.5, N), "negative_binomial"),
    "extra zeros": (np.where(RNG.random(N) < 0.4, 0, RNG.poisson(12, N)), "zero_inflated_negative_binomial"),
    "answers": (1 + (SCORE[:, None] + RNG.logistic(size=(N, 1)) > [-2, -0.7, 0.7, 2]).sum(1), "ordinal"),
    "real": (np.round(50 + 10 * RNG.normal(size=N), 1), "gaussian"),
    "ages": (RNG.integers(18, 80, N), "gaussian"),
    "negative": (RNG.normal(size=N), "gaussian"),
    "outliers": (RNG.standard_t(1.5, N), "student_t"),
    "prices": (np.round(np.exp(5 + RNG.normal(size=N)), 2), "log_normal"),
    "waiting": (np.round(RNG.gamma(1.5, 20, N) + 0.05, 1), "gamma"),
    "rain": (
        np.where(RNG.random(N) < 0.4, 0, np.round(np.exp(2 + RNG.normal(size=N)), 1)),
        "zero_inflated_log_normal",
    ),
    "shares": (np.round(expit(RNG.normal(size=N)), 3), "logit_normal"),
    "running numbers": (np.arange(1, N + 1), "excluded"),
    "labels in disorder": (100 + RNG.permutation(N), "excluded"),
    "times": (0.5 * np.arange(N), "excluded"),
    "years": (RNG.integers(1990, 2020, N), "gaussian"),
    "design": (np.repeat([1, 2, 3], 50), "excluded"),
}


@pytest.mark.parametrize(("values", "family"), COLUMNS.values(), ids=COLUMNS)
def test_family_of_a_column(values, family):
    record = one(values)
    assert record.family == family
    assert record.reason
    assert record.kind


@pytest.mark.parametrize(
    ("name", "family"),
    [("patient_id", "excluded"), ("region", "excluded"), ("month", "excluded"), ("answer", "ordinal")],
)
def test_names_tell_codes_from_answers(name, family):
    values = 1 + (SCORE[:, None] + np.random.default_rng(1).logistic(size=(N, 1)) > [-2, -0.7, 0.7, 2]).sum(1)
    assert one(values, name).family == family


def test_names_are_weak_evidence():
    """Counts that are never small may be measurements; a name decides, a clear distribution stays."""
    values = np.random.default_rng(0).poisson(30, N)
    assert one(values, "n_visits").family == "negative_binomial"
    assert one(values, "weight").family == "gaussian"
    assert one(COLUMNS["prices"][0], "n_visits").family == "log_normal"


def test_nearly_normal_measurements_are_no_amounts():
    """With a deviation of a fifth of the mean, the skewness of a sample says little; with a name even less."""
    rng = np.random.default_rng(3)
    slight = np.round(np.exp(4 + 0.18 * rng.normal(size=N)), 1)
    wide = np.round(np.exp(4 + 0.6 * rng.normal(size=N)), 1)
    assert one(slight).family == "gaussian"
    assert one(wide).kind == "amounts"
    skewed = np.round(20 + rng.gamma(2.0, 7.0, N))
    assert (one(skewed, "income").kind, one(skewed, "age").kind) == ("amounts", "real numbers")
    assert one(skewed, "log.income").kind == "real numbers"


def test_variance_equal_to_the_mean_speaks_for_counts():
    assert one(np.random.default_rng(8).poisson(8.0, 100)).family == "negative_binomial"


def test_small_counts_with_extra_zeros_are_no_ratings():
    rng = np.random.default_rng(6)
    values = np.where(rng.random(400) < 0.35, 0, rng.poisson(3.5, 400))
    assert len(np.unique(values)) <= 12
    assert one(values).kind == "counts"


def test_extra_zeros_of_most_columns_are_those_of_all():
    """A way of counting that leaves zeros leaves them in all columns; one column alone has to show them clearly."""
    rng = np.random.default_rng(1)
    mean = np.exp(rng.uniform(0.5, 2.0, 20))
    counts = np.where(rng.random((N, 20)) < 0.3, 0, rng.poisson(mean, (N, 20)))
    together = [record.family for record in infer(counts).report]
    alone = [one(column).family for column in counts.T]
    extra = "zero_inflated_negative_binomial"
    assert together.count(extra) >= alone.count(extra) + 4
    plain = infer(rng.poisson(mean, (N, 20))).report
    assert {record.family for record in plain} == {"negative_binomial"}


def test_few_values_are_levels_whatever_they_are():
    """Logarithms of a few numbers lie on no lattice, and populations of a few towns far apart."""
    rng = np.random.default_rng(2)
    choice = infer(np.column_stack([np.log([1, 2, 3, 5, 7])[rng.integers(0, 5, N)], rng.normal(size=N)]))
    assert (choice.report[0].family, len(choice.forms[0].levels)) == ("ordinal", 5)
    towns = np.array([2e3, 3.5e4, 7e5, 6e6])[rng.integers(0, 4, N)] + 11.0
    model = EPCA(1, family="auto").fit(np.column_stack([towns, rng.normal(size=(N, 2))]))
    assert model.family_report_[0].family == "ordinal"


def test_over_dispersion_is_not_decided_from_the_margin():
    """Poisson counts with a strong factor are far from Poisson in the margin, and counts all the same."""
    counts = np.random.default_rng(0).poisson(np.exp(0.5 + SCORE))
    assert one(counts).family == "negative_binomial"


def test_heaped_numbers_are_no_counts():
    values = 10 * np.random.default_rng(0).poisson(6, N) + (np.arange(N) % 10 == 0)
    assert one(values).kind != "counts"


@pytest.mark.parametrize("low", [0, 1])
def test_tables_of_one_kind_have_one_family(low):
    rng = np.random.default_rng(2)
    z, W = rng.normal(size=(N, 2)), 0.4 * rng.normal(size=(2, 25))
    answers = low + ((2 * z @ W + rng.logistic(size=(N, 25)))[..., None] > [-1.2, 0.3, 1.8]).sum(-1)
    assert {record.family for record in infer(answers).report} == {"ordinal"}
    counts = rng.poisson(np.exp(rng.uniform(-1, 2.5, 25) + z @ W))
    assert {record.kind for record in infer(counts).report} == {"counts"}
    assert infer(counts).family == NegativeBinomial()


def test_years_in_a_table_of_counts_stay_years():
    rng = np.random.default_rng(2)
    counts = rng.poisson(np.exp(rng.uniform(-1, 2.5, 12)), (N, 12))
    report = infer(np.column_stack([rng.integers(1990, 2020, N), counts])).report
    assert report[0].family == "gaussian"
    assert {record.kind for record in report[1:]} == {"counts"}


def test_unsure_columns_are_said_to_be():
    values = np.random.default_rng(0).binomial(10, 0.6, 40)
    record = one(values)
    assert record.lead < 3
    assert record.is_unsure
    assert record.runner_up
    assert "unsure" in record.reason
    assert infer(np.column_stack([values, values + 0.5])).report.unsure == ("0", "1")


@pytest.mark.parametrize("size", [7, 40, 1000])
def test_choices_do_not_depend_on_blocks(size):
    X = np.column_stack([values for values, _ in COLUMNS.values()]).astype(float)
    X[3, ::2] = np.nan
    whole = infer_families(columns(X)).report
    parts = infer_families(columns(dask_array.from_array(X, chunks=(size, X.shape[1])))).report
    assert [record[:2] for record in whole] == [record[:2] for record in parts]
    np.testing.assert_allclose([r.lead for r in whole], [r.lead for r in parts], rtol=1e-6)


def test_units_do_not_matter():
    """Scores are log-masses: a change of units moves none of the continuous families against another."""
    X = np.column_stack([COLUMNS[name][0] for name in ("real", "prices", "waiting", "rain")])
    first, second = infer(X).report, infer(2.54 * X).report
    assert [record.family for record in first] == [record.family for record in second]
    np.testing.assert_allclose([r.lead for r in first], [r.lead for r in second], rtol=1e-6)


def test_weights_count_rows():
    values = np.asarray(COLUMNS["poisson"][0], float)[:, None]
    data = check_data(values, sample_weight=np.full(N, 2.0))
    executor = executor_for(data, 1)
    (column,) = collect_columns(data, executor, summarise(data, executor))
    assert column.total == pytest.approx(2 * N)


def test_mixed_table():
    X = np.column_stack([COLUMNS["zeros and ones"][0], COLUMNS["poisson"][0]])
    family = infer(X).family
    assert isinstance(family, Mixed)
    assert family.members == (Bernoulli(), NegativeBinomial())


def test_report_prints_one_line_per_column():
    X = np.column_stack([COLUMNS["zeros and ones"][0], COLUMNS["poisson"][0]])
    lines = str(infer(X, ["smokes", "visits"]).report).splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["column", "family", "reason"]
    assert lines[1].startswith("smokes  bernoulli")
    assert len({line.index(word) for line, word in zip(lines, ("family", "bern", "neg"), strict=True)}) == 1


def test_report_of_many_columns_is_grouped():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.poisson(4.0, (30, 100)), -rng.poisson(60.0, (30, 2))]).astype(float)
    report = infer(X).report
    text = str(report)
    assert len(report) == 102
    assert len(text.splitlines()) == len(report.groups()) + 1 < 12
    assert "... (" in text


def test_columns_without_values_are_told():
    X = np.column_stack([np.full(20, np.nan), np.full(20, 3.0)])
    assert ["no observed value" in r.reason or "one value" in r.reason for r in infer(X).report] == [True] * 2


def test_labels_stay_in_the_table_and_out_of_the_model():
    X = np.column_stack(
        [np.arange(N), COLUMNS["real"][0], COLUMNS["negative"][0], 1 + COLUMNS["zeros and ones"][0]]
    )
    model = EPCA(1).fit(X)
    assert model.family_report_.excluded == ("0",)
    assert model.components_.shape == (1, 4)
    assert (model.components_[:, 0] == 0).all()
    assert model.inverse_transform(model.transform(X)).shape == X.shape
    insisted = EPCA(1, family={0: "gaussian"}).fit(X)
    assert insisted.family_report_.excluded == ()
    assert insisted.family_report_[0].reason == "given"
    assert insisted.family_report_[3].kind == "yes/no"
    assert (insisted.components_[:, 0] != 0).all()


def test_a_table_of_labels_only_is_kept():
    report = infer(np.arange(20.0)[:, None]).report
    assert report[0].family == "gaussian"
    assert "all numbers are kept" in report[0].reason


def test_a_fit_uses_the_choices():
    X = np.column_stack(
        [COLUMNS[name][0] for name in ("answers", "poisson", "real", "prices", "zeros and ones")]
    )
    model = EPCA(1).fit(X)
    assert [record.kind for record in model.family_report_] == [
        "ratings",
        "counts",
        "real numbers",
        "amounts",
        "yes/no",
    ]
    assert np.isfinite(model.score_samples(X)).all()


def test_levels_far_apart_enter_by_their_order():
    rng = np.random.default_rng(3)
    levels = np.array([50.0, 56.0, 58.0, 62.0, 70.0, 75.0, 80.0])
    X = np.column_stack([levels[rng.integers(0, 7, 60)], rng.normal(size=(60, 3))])
    model = EPCA(1).fit(X)
    assert model.family_report_[0].family == "ordinal"
    means = model.inverse_transform(model.transform(X))[:, 0]
    assert levels[0] <= means.min() < means.max() <= levels[-1]


def test_levels_between_whole_numbers_are_known_again():
    """Six steps of 0.2 are not quite 1.2."""
    X = np.column_stack([np.tile([0.0, 1.0, 1.2, 0.0], 6), np.random.default_rng(0).normal(size=24)])
    model = SePCA().fit(X)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
