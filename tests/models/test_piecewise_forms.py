"""Piecewise PCA: the same answer from all forms of a table, and its pictures."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

from anypca import PPCA, PiecewisePCA
from anypca.exceptions import NotFittedError
from anypca.plotting import plot_hinge, plot_latent_pieces, plot_predicted


def hinge(n=120, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, 2))
    return np.column_stack([w, np.abs(w[:, 0])]) + 0.1 * rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def fitted():
    return PiecewisePCA(n_init=2, n_jobs=1).fit(hinge())


def test_sparse_is_dense(fitted):
    again = PiecewisePCA(n_init=2, n_jobs=1).fit(sparse.csr_array(hinge()))
    assert again.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(again.components_, fitted.components_, atol=1e-4)


def test_single_precision_is_close(fitted):
    X = hinge().astype(np.float32)
    again = PiecewisePCA(n_init=2, n_jobs=1).fit(X)
    assert again.transform(X).dtype == np.float32
    assert again.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-2)


def test_dask_is_dense(fitted):
    da = pytest.importorskip("dask.array")
    table = da.from_array(hinge(), chunks=(50, 3))
    again = PiecewisePCA(n_init=2).fit(table)
    assert again.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-4)
    np.testing.assert_allclose(again.transform(table), again.transform(hinge()), atol=1e-8)


def test_same_seed_same_fit(fitted):
    again = PiecewisePCA(n_init=2, n_jobs=1).fit(hinge())
    np.testing.assert_array_equal(again.components_, fitted.components_)


def test_pickled_model_scores_alike(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.score_samples(hinge()), fitted.score_samples(hinge()))


def test_columns_in_another_order(fitted):
    again = PiecewisePCA(n_init=20, n_jobs=1).fit(hinge()[:, ::-1])
    assert again.log_likelihood_ == pytest.approx(
        PiecewisePCA(n_init=20, n_jobs=1).fit(hinge()).log_likelihood_, abs=1e-3
    )


def test_standard_deviations_come_with_scores(fitted):
    scores, std = fitted.transform(hinge(), return_std=True)
    assert scores.shape == std.shape == (120, 2)
    assert np.all(std > 0)


def test_hinge_is_drawn(fitted):
    ax = plot_hinge(fitted, hinge(), (0, 2))
    paths = [line for line in ax.lines if line.get_linewidth() == 2.0]
    assert len(paths) == 2
    # The two halves of a continuous path meet at the hinge.
    ends = np.array([paths[0].get_xydata()[-1], paths[1].get_xydata()[0]])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)
    assert ax.get_xlabel() == "x0"


def test_latent_space_is_drawn(fitted):
    ax = plot_latent_pieces(fitted, hinge())
    scores, piece = fitted.transform(hinge()), fitted.predict_piece(hinge())
    np.testing.assert_allclose(ax.lines[0].get_xdata(), scores[piece == 0, -1])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["piece 1", "piece 2"]


def test_generated_rows_are_drawn(fitted):
    for model in (fitted, PPCA(2).fit(hinge())):
        ax = plot_predicted(model, hinge(), (0, 2), n_samples=50)
        assert len(ax.lines[0].get_xdata()) == 120
        assert len(ax.lines[1].get_xdata()) == 50


def test_bad_pictures(fitted):
    with pytest.raises(ValueError, match="no column 'z'"):
        plot_hinge(fitted, hinge(), ("z", 0))
    with pytest.raises(ValueError, match="has 3 columns"):
        plot_hinge(fitted, hinge(), (0, 3))
    with pytest.raises(NotFittedError):
        plot_hinge(PiecewisePCA(), hinge())
