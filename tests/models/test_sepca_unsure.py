"""Families of columns whose values hardly tell them."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA


@pytest.fixture(scope="module")
def amounts():
    """Two components, and amounts of two families that hardly differ in their values."""
    rng = np.random.default_rng(100)
    n, p = 120, 8
    eta = 2.0 + rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) * 0.25
    made = ["log_normal", "gamma"] * (p // 2)
    columns = [
        np.exp(eta[:, j] + 0.25 * rng.normal(size=n))
        if made[j] == "log_normal"
        else rng.gamma(8.0, np.exp(eta[:, j]) / 8.0)
        for j in range(p)
    ]
    return np.round(np.column_stack(columns), 2), made


@pytest.fixture(scope="module")
def model(amounts):
    return SePCA().fit(amounts[0])


def test_evidence_decides_where_values_do_not(amounts, model):
    X, made = amounts
    by_values = SePCA()
    by_values._fit_once(X, None, {"sample_weight": None, "offset": None, "covariates": None})
    before, after = ([record.family for record in fit.family_report_] for fit in (by_values, model))
    assert by_values.family_report_.unsure
    assert model.evidence_ > by_values.evidence_
    assert sum(map(str.__eq__, after, made)) > sum(map(str.__eq__, before, made))
    for old, new in zip(by_values.family_report_, model.family_report_, strict=True):
        assert ("evidence of the fit" in new.reason) == old.is_unsure
        assert new.family in (old.family, old.runner_up)


def test_the_answer_is_that_of_the_named_families(amounts, model):
    X, _ = amounts
    named = SePCA(family=[record.family for record in model.family_report_]).fit(X)
    assert model.family == "auto"
    assert named.evidence_ == pytest.approx(model.evidence_, rel=1e-9)
    np.testing.assert_allclose(model.transform(X[:5]), named.transform(X[:5]), rtol=1e-6, atol=1e-8)


def test_an_interrupt_while_asking_leaves_the_estimator_as_it_was(amounts, monkeypatch):
    X, _ = amounts
    model = SePCA()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("anypca.models.sepca._estimator.take_better_families", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not hasattr(model, "components_")
