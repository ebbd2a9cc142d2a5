"""What every form of a column must satisfy; a new one in the registry is tested without a line here."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.draws import generator

import anypca
from anypca import EPCA, SePCA
from anypca.columns import Form, column_forms

FORMS = [example for name in column_forms for example in column_forms[name].examples()]
WHOLE = [form for form in FORMS if not form.is_dropped]
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
each_whole = pytest.mark.parametrize("form", WHOLE, ids=lambda form: form.name)
N, P = 60, 3


def draw_parts(form, n_rows=N, seed=0):
    """Draws of the parts of one column, their predictors, means and dispersions."""
    rng = generator("form", form.name, seed)
    width = len(form.parts)
    eta = 0.3 + np.outer(rng.normal(size=n_rows), 0.8 * (-1.0) ** np.arange(width))
    columns = [part.sample(eta[:, j], 0.4, rng) for j, part in enumerate(form.parts)]
    means = np.column_stack([part.mean(eta[:, j], 0.4) for j, part in enumerate(form.parts)])
    return np.column_stack(columns), means, rng


def draw_column(form, n_rows=N, seed=0):
    if form.is_dropped:
        return generator("form", form.name, seed).normal(size=n_rows)
    draws, means, rng = draw_parts(form, n_rows, seed)
    return form.draw(draws, means, rng)


def draw_table(form, n_rows=N):
    """A column of Gaussian numbers between columns of the form."""
    columns = [draw_column(form, n_rows, seed) for seed in range(P)]
    return np.column_stack([*columns, generator("numbers").normal(size=(n_rows, 2))])


def families_of(form):
    return [form] * P + ["gaussian"] * 2


@each_form
def test_forms_are_values(form):
    assert pickle.loads(pickle.dumps(form)) == form
    assert hash(form) == hash(pickle.loads(pickle.dumps(form)))
    assert isinstance(form, Form)


@each_form
def test_observed_entries_come_back(form):
    x = draw_column(form)
    x[3] = np.nan
    parts = form.split(x, "x")
    assert parts.shape == (N, len(form.parts))
    assert np.isnan(parts[3]).all()
    if not form.is_dropped:
        back = form.mean(np.where(np.isnan(parts), 1.0, parts))
        assert_allclose(np.delete(back, 3), np.delete(x, 3), rtol=1e-12)


@each_form
def test_parts_have_names_and_the_dtype_of_the_column(form):
    assert len(set(form.labels("rain"))) == len(form.parts)
    assert all("rain" in label for label in form.labels("rain"))
    assert form.split(draw_column(form).astype(np.float32), "x").dtype == np.float32


@each_whole
def test_parts_are_in_the_support_of_their_families(form):
    parts = form.split(draw_column(form), "x")
    for j, family in enumerate(form.parts):
        assert family.in_support(parts[~np.isnan(parts[:, j]), j]).all()


@pytest.mark.parametrize("kind", [EPCA, SePCA])
@each_form
def test_models_of_such_columns(form, kind, tmp_path):
    X = draw_table(form)
    holes = X.copy()
    holes[5, [0, 3]] = np.nan
    model = kind(2, family=families_of(form), tol=1e-3).fit(holes)
    layout = model.layout_
    assert model.components_.shape[1] == (P + 2 if layout.is_one_to_one else layout.n_columns)
    assert np.all(np.diff(model.objective_trace_) >= -1e-7 * np.abs(model.objective_trace_[1:]))
    means = model.inverse_transform(model.transform(holes))
    drawn, filled = model.sample(7, random_state=0), model.impute(holes)
    std = model.impute(holes, return_std=True)[1]
    assert means.shape == filled.shape == X.shape
    assert drawn.shape == (7, P + 2)
    assert all(np.isfinite(table).all() for table in (means, drawn, filled, std))
    seen = ~np.isnan(holes)
    assert_array_equal(filled[seen], X[seen])
    rows, columns = np.nonzero(np.ones_like(X))
    terms = model.entry_log_likelihood(X, rows, columns, X[rows, columns])
    assert terms.max() <= 1e-12
    assert np.isfinite(terms).all()
    anypca.save(model, tmp_path / "model")
    assert_array_equal(anypca.load(tmp_path / "model").transform(X), model.transform(X))
