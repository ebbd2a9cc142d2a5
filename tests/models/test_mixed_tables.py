"""Tables whose columns follow different families."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import EPCA, SePCA
from anypca.families import column_forms, families
from anypca.families.forms import Constant, Copy, Recoded

KINDS = ["poisson", "bernoulli", "gaussian", "gamma"]


def table(repeats, seed=0, n=300):
    """One component behind columns of every kind; gaussian noise variance 6.25, gamma dispersion 0.4."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    families = KINDS * repeats
    eta = np.outer(scores, rng.normal(size=len(families))) * 0.7 + 0.3
    draw = {
        "poisson": lambda e: rng.poisson(np.exp(e)),
        "bernoulli": lambda e: rng.random(n) < 1 / (1 + np.exp(-e)),
        "gaussian": lambda e: 5 * (e + 0.5 * rng.normal(size=n)),
        "gamma": lambda e: np.exp(e) * rng.gamma(2.5, 0.4, size=n),
    }
    columns = [draw[family](eta[:, j]) for j, family in enumerate(families)]
    return np.column_stack(columns).astype(float), families, scores


@pytest.mark.parametrize("model", [EPCA(1, ridge=1.0), SePCA(max_components=3)], ids=["epca", "sepca"])
def test_dispersions_and_scores_are_recovered(model):
    X, families, scores = table(4)
    model.set_params(family=families).fit(X)
    assert model.n_components_ == 1
    assert (model.dispersion_[0::4] == 1.0).all()
    assert (model.dispersion_[1::4] == 1.0).all()
    assert_allclose(model.dispersion_[2::4], 6.25, rtol=0.35)
    assert_allclose(model.dispersion_[3::4], 0.4, rtol=0.35)
    assert abs(np.corrcoef(model.transform(X)[:, 0], scores)[0, 1]) > 0.94


def test_a_score_does_not_copy_the_only_gaussian_column():
    X, families, scores = table(1)
    model = EPCA(1, family=families, ridge=1.0).fit(X)
    assert model.dispersion_[2] > 1.0
    assert model.explained_deviance_ratio_.sum() < 0.9
    assert abs(np.corrcoef(model.transform(X)[:, 0], scores)[0, 1]) > 0.9


def test_units_of_gaussian_columns_do_not_matter():
    X, families, _ = table(2)
    scaled = X.copy()
    scaled[:, 2] *= 1000.0
    first = EPCA(1, family=families, tol=1e-8).fit(X)
    second = EPCA(1, family=families, tol=1e-8).fit(scaled)
    assert_allclose(second.dispersion_[2], 1e6 * first.dispersion_[2], rtol=0.05)
    ours, theirs = first.transform(X)[:, 0], second.transform(scaled)[:, 0]
    assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.999


def test_l1_without_ridge_is_refused():
    X, families, _ = table(1)
    with pytest.raises(ValueError, match="needs ridge > 0"):
        EPCA(1, family=families, score_penalty="l1", ridge=0.0).fit(X)


def test_units_of_measurements_beside_counts_and_answers_do_not_matter():
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 18))
    X = np.hstack(
        [
            rng.poisson(np.exp(0.5 + 0.6 * eta[:, :6])),
            eta[:, 6:12] + 0.7 * rng.normal(size=(150, 6)),
            (rng.random((150, 6)) < 1.0 / (1.0 + np.exp(-1.5 * eta[:, 12:]))).astype(float),
        ]
    )
    family = ["negative_binomial"] * 6 + ["gaussian"] * 6 + ["bernoulli"] * 6
    units = np.repeat([1.0, 1000.0, 1.0], 6)
    plain, large = (SePCA(6, family=family, n_jobs=1).fit(table) for table in (X, X * units))
    assert plain.n_components_ == large.n_components_ == 2
    np.testing.assert_allclose(large.components_ / units, plain.components_, atol=2e-3)
    np.testing.assert_allclose(large.components_std_ / units, plain.components_std_, rtol=1e-2)


def every_family(n=80):
    """A table with a column of each family and of each form of the registries, and what they are."""
    rng = np.random.default_rng(1)
    scores, columns, kinds = rng.normal(size=n), [], []
    for name in families:
        family = families[name].examples()[0]
        columns.append(family.sample(0.3 + 0.8 * scores, 0.4, rng))
        kinds.append(family)
    for name in column_forms:
        form = column_forms[name].examples()[0]
        draws = [part.sample(0.3 + 0.8 * scores, 0.4, rng) for part in form.parts]
        means = np.full((n, len(form.parts)), 0.5)
        columns.append(form.draw(np.column_stack(draws), means, rng) if draws else np.arange(float(n)))
        kinds.append(form)
    columns += [np.full(n, 4.0), 2.0 * columns[0], np.where(scores > 0, 2.0, 1.0)]
    return np.column_stack(columns), [*kinds, Constant(4.0), Copy(0, 0.0, 2.0), Recoded((1.0, 2.0))], scores


def test_all_families_in_one_table():
    X, kinds, scores = every_family()
    X[::7, ::3] = np.nan
    model = SePCA(1, family=kinds, tol=1e-3).fit(X)
    trace = model.objective_trace_
    assert np.all(np.diff(trace) >= -1e-7 * np.abs(trace[1:]))
    assert model.n_components_ >= 1
    assert abs(np.corrcoef(model.transform(X)[:, 0], scores)[0, 1]) > 0.8
    for table in (
        model.impute(X),
        model.sample(5, random_state=0),
        model.inverse_transform(model.transform(X)),
    ):
        assert table.shape[1] == len(kinds)
        assert np.isfinite(table).all()
    assert np.isfinite(model.evidence_)
