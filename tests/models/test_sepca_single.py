"""Rough sweeps over large tables compute in single precision; what is reported does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anypca import SePCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.models._session import open_session
from anypca.models.sepca import _candidate
from anypca.models.sepca._candidate import first_candidate
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._settings import Settings


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "negative_binomial", "gaussian"])
def test_single_precision_changes_nothing_that_is_reported(family, monkeypatch):
    X = make_low_rank(150, 16, 2, family=family, random_state=1).X
    double = SePCA(5, family=family, n_jobs=1).fit(X)
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    mixed = SePCA(5, family=family, n_jobs=1).fit(X)
    assert mixed.n_components_ == double.n_components_
    assert mixed.evidence_ == pytest.approx(double.evidence_, abs=0.05)
    assert not mixed._rows.problem.single
    assert (np.diff(mixed.objective_trace_) >= 0).all()
    assert mixed.components_.dtype == double.components_.dtype


def test_a_sweep_in_single_precision_is_one(monkeypatch):
    seen: list[tuple[bool, Any]] = []
    step = VariationalProblem.step

    def spy(self: VariationalProblem, block: Any, shared: Any, local: Any) -> Any:
        found = step(self, block, shared, local)
        seen.append((self.single, found[1].exit_columns.sum()))
        return found

    monkeypatch.setattr(VariationalProblem, "step", spy)
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    X = make_low_rank(80, 8, 1, family="poisson", random_state=0).X
    SePCA(2, family="poisson", n_jobs=1).fit(X)
    kinds = [single for single, _ in seen]
    assert kinds[0]
    assert not all(kinds)
    assert any(np.float32(value) != value for _, value in seen)  # sums stay double


def test_numbers_that_single_precision_cannot_tell_stay_double(monkeypatch):
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 0)
    X = np.random.default_rng(0).normal(size=(30, 3))

    def is_large(table: Any, family: str) -> bool:
        with open_session(check_data(table), 1) as session:
            return first_candidate(session, resolve_family(family, 3), Settings(2)).is_large

    assert is_large(X, "gaussian")
    assert not is_large(X + 1e4, "gaussian")
    assert is_large(np.ceil(X**2), "poisson")
    assert not is_large(np.ceil(1e6 * X**2), "poisson")


@pytest.mark.parametrize(("share", "expected"), [(0.02, True), (0.3, False)])
def test_large_tables_of_rare_answers_use_close_expectations_from_the_start(share, expected, monkeypatch):
    monkeypatch.setattr(_candidate, "_MANY_ENTRIES", 1000)
    X = (np.random.default_rng(0).random((300, 6)) < share).astype(float)

    def has_rare_answers(n_rows: int) -> bool:
        with open_session(check_data(X[:n_rows]), 1) as session:
            return first_candidate(session, resolve_family("bernoulli", 6), Settings(2)).has_rare_answers

    assert has_rare_answers(300) == expected
    assert not has_rare_answers(100)
