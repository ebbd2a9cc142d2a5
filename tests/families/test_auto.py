"""The family inferred for each column, and the account of it."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.engine import check_data, executor_for, summarise
from anypca.families import Bernoulli, Gamma, Gaussian, Mixed, NegativeBinomial
from anypca.families.auto import infer_families

COLUMNS = {
    "zeros and ones": ([0, 1, 1, 0, 1, 0], "bernoulli", "only zeros (3) and ones (3)"),
    "all ones": ([1, 1, 1, 1, 1, 1], "bernoulli", "zeros (0) and ones (6)"),
    "all zeros": ([0, 0, 0, 0, 0, 0], "bernoulli", "zeros (6) and ones (0)"),
    "counts": ([0, 3, 1, 12, 5, 2], "negative_binomial", "whole numbers from 0 to 12"),
    "constant count": ([5, 5, 5, 5, 5, 5], "negative_binomial", "from 5 to 5"),
    "negative whole": ([-1, 3, 1, 12, 5, 2], "gaussian", "some negative"),
    "negative fractions": ([-0.5, 0.2, 0.1, 9.0, 0.3, 0.2], "gaussian", "from -0.5 to 9"),
    "skewed amounts": ([0.1, 0.2, 0.1, 0.3, 0.2, 9.5], "gamma", "skewness 1.79"),
    "even amounts": ([1.5, 2.5, 3.5, 4.5, 5.5, 6.5], "gaussian", "skewness 0"),
    "skewed with zeros": ([0, 0.2, 0.1, 0.3, 0.2, 9.5], "gaussian", "1 zeros"),
    "constant fraction": ([2.5, 2.5, 2.5, 2.5, 2.5, 2.5], "gaussian", "all the same"),
    "constant negative": ([-2, -2, -2, -2, -2, -2], "gaussian", "some negative"),
    "fractions below one": ([0.25, 0.5, 0.75, 0.5, 0.25, 0.75], "gaussian", "not whole"),
    "missing": ([np.nan, 1, 0, np.nan, 1, 1], "bernoulli", "zeros (1) and ones (3)"),
    "nothing": ([np.nan] * 6, "gaussian", "no observed value"),
}


def infer(X, feature_names=None):
    data = check_data(X)
    return infer_families(summarise(data, executor_for(data, 1)), feature_names)


@pytest.mark.parametrize(("values", "family", "reason"), COLUMNS.values(), ids=COLUMNS)
def test_rule_and_reason(values, family, reason):
    choice = infer(np.array(values, float)[:, None])
    (record,) = choice.report
    assert record.family == family
    assert reason in record.reason
    assert choice.family.name == family


def test_mixed_table_with_names():
    X = np.array([values for values, *_ in COLUMNS.values()], float).T
    choice = infer(X, list(COLUMNS))
    assert isinstance(choice.family, Mixed)
    assert set(choice.family.members) == {Bernoulli(), NegativeBinomial(), Gaussian(), Gamma()}
    chosen = [choice.family.members[number].name for number in choice.family.assignment]
    assert chosen == [family for _, family, _ in COLUMNS.values()]
    assert [record.column for record in choice.report] == list(COLUMNS)


def test_homogeneous_table_has_one_family():
    counts = np.random.default_rng(0).poisson(4.0, (50, 3)).astype(float)
    assert infer(counts).family == NegativeBinomial()


def test_report_prints_one_line_per_column():
    X = np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 12.0]])
    lines = str(infer(X, ["smokes", "visits"]).report).splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["column", "family", "reason"]
    assert lines[1].startswith("smokes  bernoulli")
    assert len({line.index(word) for line, word in zip(lines, ("family", "bern", "neg"), strict=True)}) == 1


def test_report_of_many_columns_is_grouped():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.poisson(4.0, (30, 100)), rng.integers(0, 2, (30, 2))]).astype(float)
    report = infer(X).report
    text = str(report)
    assert len(report) == 102
    assert len(text.splitlines()) == 3
    assert "0, 1, 2, ... (100 columns)" in text
    assert "100, 101" in text


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match="3 feature names but facts of 2 columns"):
        infer(np.ones((3, 2)), ["a", "b", "c"])
