"""The experiments on ratings, amounts and hidden cells in their reduced forms."""

from __future__ import annotations

import numpy as np
import pytest
from experiments._common import Options

from experiments import families_amounts, families_hidden, families_ratings


@pytest.mark.parametrize(
    "experiment", [families_ratings, families_amounts, families_hidden], ids=lambda module: module.__name__
)
def test_quick_run_meets_its_targets(experiment):
    outcome = experiment.run(Options(quick=True))
    assert outcome.is_met, [target.as_text() for target in outcome.targets]


@pytest.mark.parametrize(
    ("values", "family"),
    [
        ([0, 1, 1], "bernoulli"),
        ([1, 2, 1], "negative_binomial"),
        ([0.5, 0.6, 0.4, np.nan], "gaussian"),
        ([0.1, 0.1, 0.2, 9.5], "gamma"),
        ([0.0, 0.1, 0.2, 9.5], "gaussian"),
        ([-1, 2, 3], "gaussian"),
    ],
)
def test_marginal_rules(values, family):
    assert families_hidden.marginal_rule(np.array(values, float)) == family


def test_no_hidden_value_is_the_only_one_of_a_level():
    X = np.column_stack([np.r_[np.ones(30), np.full(29, 2.0), 7.0], np.random.default_rng(0).normal(size=60)])
    for seed in range(5):
        masked = families_hidden.hide(X, seed)
        assert 7.0 not in masked.values[masked.columns == 0]
        assert np.isnan(masked.X[masked.rows, masked.columns]).all()
