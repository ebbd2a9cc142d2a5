"""The spectrum of a blocked table is that of its covariance matrix."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.engine import check_data, check_values, executor_for, summarise
from anypca.exceptions import ConvergenceWarning
from anypca.solvers import closed_form
from anypca.solvers.closed_form import Centring, coarsen, covariance_spectrum

K = 4


def make_table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, K)) @ rng.standard_normal((K, p)) + rng.standard_normal((n, p)) + 3.0


def spectrum_of(X, *, block_rows=None, n_components=None, **kwargs):
    data = check_data(X, block_rows=block_rows, **kwargs)
    with executor_for(data, 2) as executor:
        summary = summarise(data, executor)
        data = check_values(summary, data)
        weight = kwargs.get("sample_weight")
        divisor = len(X) if weight is None else np.sum(weight)
        return covariance_spectrum(
            data, executor, Centring(summary.mean), divisor=divisor, n_components=n_components
        )


def reference(X, weight=None):
    values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0, aweights=weight))
    return values[::-1], vectors[:, ::-1]


def assert_same_axes(actual, expected, atol):
    np.testing.assert_allclose(np.abs(actual.T @ expected), np.eye(actual.shape[1]), atol=atol)


@pytest.mark.parametrize("block_rows", [None, 7], ids=["one block", "many blocks"])
@pytest.mark.parametrize(("n", "p"), [(60, 20), (20, 60)], ids=["tall", "wide"])
def test_dense_forms_equal_the_covariance(n, p, block_rows, monkeypatch):
    if block_rows:
        monkeypatch.setattr(closed_form, "_CHUNK_ROWS", 2 * block_rows)
        monkeypatch.setattr(closed_form, "_CHUNK_BYTES", 8 * p * 2 * block_rows)
    X = make_table(n, p)
    spectrum = spectrum_of(X, block_rows=block_rows)
    values, vectors = reference(X)
    assert spectrum.values.shape == (min(n, p),)
    np.testing.assert_allclose(spectrum.values, values[: min(n, p)], atol=1e-12 * values[0])
    np.testing.assert_allclose(spectrum.trace, values.sum(), rtol=1e-12)
    assert_same_axes(spectrum.vectors[:, :K], vectors[:, :K], atol=1e-10)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(min(n, p)), atol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(300, 200), (200, 300)], ids=["tall", "wide"])
def test_iterative_form_equals_the_covariance(n, p, monkeypatch):
    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 50)
    X = make_table(n, p)
    spectrum = spectrum_of(X, block_rows=64, n_components=K)
    values, vectors = reference(X)
    assert spectrum.values.shape == (K,)
    np.testing.assert_allclose(spectrum.values, values[:K], rtol=1e-12)
    np.testing.assert_allclose(spectrum.trace, values.sum(), rtol=1e-12)
    assert_same_axes(spectrum.vectors, vectors[:, :K], atol=1e-10)


def test_iterative_form_restarts_on_a_flat_spectrum(monkeypatch):
    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 50)
    X = np.random.default_rng(1).standard_normal((400, 200))
    spectrum = spectrum_of(X, n_components=3)
    values, vectors = reference(X)
    np.testing.assert_allclose(spectrum.values, values[:3], rtol=1e-12)
    assert_same_axes(spectrum.vectors, vectors[:, :3], atol=1e-9)


def test_iterative_form_warns_when_it_runs_out_of_sweeps(monkeypatch):
    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 50)
    monkeypatch.setattr(closed_form, "_MAX_SWEEPS", 2)
    with pytest.warns(ConvergenceWarning, match="not found to full precision"):
        spectrum_of(np.random.default_rng(1).standard_normal((400, 200)), n_components=3)


@pytest.mark.parametrize("limit", [4000, 10], ids=["dense", "iterative"])
def test_weights_enter_the_covariance(limit, monkeypatch):
    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", limit)
    X = make_table(300, 160)
    weight = np.random.default_rng(2).uniform(0, 3, len(X))
    spectrum = spectrum_of(X, sample_weight=weight, n_components=K, block_rows=50)
    values, vectors = reference(X, weight)
    np.testing.assert_allclose(spectrum.values[:K], values[:K], rtol=1e-12)
    assert_same_axes(spectrum.vectors[:, :K], vectors[:, :K], atol=1e-10)


def test_missing_entries_count_as_the_mean():
    X = make_table(40, 6)
    missing = np.random.default_rng(3).random(X.shape) < 0.2
    X[missing] = np.nan
    filled = np.where(missing, np.nanmean(X, axis=0), X)
    spectrum = spectrum_of(X, block_rows=9)
    np.testing.assert_allclose(spectrum.values, reference(filled)[0], atol=1e-12 * spectrum.values[0])


def test_null_directions_are_completed_to_a_basis():
    X = np.outer(np.arange(6.0), np.ones(9))
    spectrum = spectrum_of(X)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(spectrum.values[1:], 0.0, atol=1e-12 * spectrum.values[0])


def test_coarsen_keeps_rows_and_weights():
    X, weight = make_table(30, 5), np.arange(30.0)
    data = check_data(X, sample_weight=weight, block_rows=4)
    coarse = coarsen(data, 9)
    assert len(coarse.blocks) < len(data.blocks)
    assert max(block.n_rows for block in coarse.blocks) <= 9
    np.testing.assert_array_equal(np.concatenate([block.read().x for block in coarse.blocks]), X)
    np.testing.assert_array_equal(np.concatenate([block.weight for block in coarse.blocks]), weight)
