"""Observed against fitted: entries, means, scales, samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

from anypca import EPCA, PLNPCA, PPCA, SePCA
from anypca.plotting import plot_fitted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)) @ RNG.normal(size=(2, 6)) + 0.3 * RNG.normal(size=(80, 6))
LOG_RATES = RNG.normal(size=(70, 2)) @ RNG.normal(size=(2, 9)) + 2
COUNTS = RNG.poisson(np.exp(LOG_RATES)).astype(float)


def cells(ax):
    return np.asarray(ax.collections[0].get_offsets())


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("model", [PPCA(2), PCA(2)], ids=["ours", "of scikit-learn"])
def test_every_entry_is_drawn_with_its_mean(model):
    model.fit(X)
    ax = plot_fitted(model, X)
    means = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(cells(ax), np.column_stack([means.ravel(), X.ravel()]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("fitted", "observed")
    assert legend(ax) == ["480 entries", "equal", "group means"]
    diagonal, groups = ax.lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    # Least squares: groups with like fitted values are right on average.
    np.testing.assert_allclose(groups.get_ydata(), groups.get_xdata(), atol=0.25)


def test_group_means_are_means():
    observed = np.repeat([[0.0, 1.0, 2.0, 3.0]], 100, axis=0) + RNG.normal(size=(100, 4))
    model = SimpleNamespace(
        n_components_=1,
        transform=lambda X: X[:, :1],
        inverse_transform=lambda scores: np.repeat([[0.0, 1.0, 2.0, 3.0]], len(scores), axis=0),
    )
    groups = plot_fitted(model, observed).lines[1]
    np.testing.assert_allclose(groups.get_xdata(), [0, 1, 2, 3])
    np.testing.assert_allclose(groups.get_ydata(), observed.mean(axis=0))


def test_missing_entries_are_not_drawn():
    holes = X.copy()
    holes[::7, 2] = np.nan
    holes[:, 5] = np.where(np.arange(80) < 3, np.nan, holes[:, 5])
    ax = plot_fitted(PPCA(2).fit(holes), holes)
    assert len(cells(ax)) == np.isfinite(holes).sum()
    np.testing.assert_allclose(np.sort(cells(ax)[:, 1]), np.sort(holes[np.isfinite(holes)]))


def test_counts_have_a_scale_that_shows_zeros():
    offset = RNG.normal(size=(70, 1)) * np.ones(9)
    model = EPCA(2, family="poisson").fit(COUNTS, offset=offset)
    ax = plot_fitted(model, COUNTS, offset=offset)
    assert ax.get_xlabel() == "fitted (log(1 + x) scale)"
    means = model.inverse_transform(model.transform(COUNTS, offset=offset), offset=offset)
    np.testing.assert_allclose(cells(ax), np.column_stack([means.ravel(), COUNTS.ravel()]))
    # 0 and 1 are as far apart as 1 and 3.
    places = ax.yaxis.get_transform().transform(np.array([0.0, 1.0, 3.0]))
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[:4] == ["0", "1", "3", "10"]
    assert ax.get_ylim()[0] < 0
    assert ax.get_ylim()[1] > COUNTS.max()
    ax.figure.draw_without_rendering()


def test_negative_fits_of_counts_are_shown():
    model = PPCA(2).fit(COUNTS)
    ax = plot_fitted(model, COUNTS)
    means = model.inverse_transform(model.transform(COUNTS))
    assert means.min() < -1
    assert ax.get_xlim()[0] < means.min()
    labels = [float(label.get_text().replace(",", "")) for label in ax.get_xticklabels()]
    assert min(labels) < 0 < max(labels)
    ax.figure.draw_without_rendering()


def test_sparse_tables_are_read():
    model = EPCA(2, family="poisson").fit(COUNTS)
    np.testing.assert_allclose(
        cells(plot_fitted(model, sparse.csr_array(COUNTS))), cells(plot_fitted(model, COUNTS)), rtol=1e-6
    )


def test_large_tables_are_sampled_and_say_so():
    big = RNG.normal(size=(3000, 20))
    model = PPCA(2).fit(big)
    seen = []
    model.transform = lambda X: seen.append(len(X)) or PPCA.transform(model, X)
    ax = plot_fitted(model, big, max_rows=500, max_cells=2000)
    assert seen == [500]
    assert legend(ax)[0] == "2,000 of 60,000 entries"
    assert len(cells(ax)) == 2000
    assert set(cells(ax)[:, 1]) <= set(big.ravel())
    np.testing.assert_array_equal(cells(plot_fitted(model, big, max_rows=500, max_cells=2000)), cells(ax))


def test_offsets_and_covariates_are_sampled_along():
    covariates, offset = RNG.normal(size=(120, 2)), 0.3 * RNG.normal(size=120)
    rates = np.exp(2 + offset[:, None] + 0.3 * covariates @ RNG.normal(size=(2, 5)))
    counts = RNG.poisson(rates * RNG.gamma(4.0, 0.25, size=(120, 1))).astype(float)
    model = PLNPCA(1, n_jobs=1).fit(counts, offset=offset, covariates=covariates)
    companions = {"offset": offset, "covariates": covariates}
    everything = {tuple(np.round(pair, 5)) for pair in cells(plot_fitted(model, counts, **companions))}
    some = cells(plot_fitted(model, counts, max_rows=40, **companions))
    assert len(some) == 200
    assert {tuple(np.round(pair, 5)) for pair in some} <= everything


def test_binary_entries_are_spread():
    answers = (RNG.normal(size=(60, 6)) + X[:60] > 0).astype(float)
    ax = plot_fitted(EPCA(2, family="bernoulli").fit(answers), answers)
    heights = cells(ax)[:, 1]
    assert len(np.unique(heights)) > 100
    np.testing.assert_array_equal(np.round(heights), answers.ravel())


def test_columns_of_several_families_are_standardised():
    mixed = np.column_stack([1000 * X[:, 0], COUNTS[:, 0].max() + np.arange(80), (X[:, 1] > 0)])
    model = SePCA(max_components=1, family="auto").fit(mixed)
    ax = plot_fitted(model, mixed)
    assert ax.get_xlabel() == "fitted (column sd from mean)"
    shown = cells(ax)[:, 1].reshape(80, 3)
    np.testing.assert_allclose(shown.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(shown.std(axis=0), 1)


def test_columns_are_chosen_by_name_or_position():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    ax = plot_fitted(PPCA(2).fit(frame), frame, features=["b", 3])
    np.testing.assert_array_equal(np.sort(cells(ax)[:, 1]), np.sort(X[:, [1, 3]].ravel()))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"scale": "cubic"}, "scale must be one of 'auto', 'linear', 'log', 'standardised'; got 'cubic'"),
        ({"features": [6]}, "has 6 columns, numbered from 0; got 6"),
        ({"features": ["q"]}, "no column 'q'; it was fitted without names"),
    ],
    ids=["scale", "position", "name"],
)
def test_bad_input(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        plot_fitted(PPCA(2).fit(X), X, **arguments)
