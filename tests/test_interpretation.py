"""Contributions and squared cosines: the textbook's for normal entries, shares of the deviance for all others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from anypca import EPCA, PPCA, KernelPCA, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank
from anypca.interpretation import contributions, cos2, supplementary_columns
from tests.draws import generator, seed

RNG = generator("interpretation")
X = RNG.normal(size=(60, 3)) @ RNG.normal(size=(3, 7)) + 0.5 * RNG.normal(size=(60, 7))
COUNTS = make_low_rank(60, 8, 2, family="poisson", random_state=seed()).X


def test_squared_cosines_of_classical_pca():
    model = PCA(3).fit(X)
    scores, centred = model.transform(X), X - X.mean(axis=0)
    found = cos2(model, X)
    np.testing.assert_allclose(found.rows, scores**2 / (centred**2).sum(axis=1, keepdims=True), atol=1e-12)
    correlations = np.corrcoef(X.T, scores.T)[:7, 7:]
    np.testing.assert_allclose(found.columns, correlations**2, atol=1e-12)


def test_contributions_of_classical_pca():
    model = PCA(3).fit(X)
    scores = model.transform(X)
    found = contributions(model, scores)
    np.testing.assert_allclose(found.rows, scores**2 / (scores**2).sum(axis=0))
    np.testing.assert_allclose(found.columns, model.components_.T**2)


@pytest.mark.parametrize(
    "model",
    [EPCA(2, family="poisson"), SePCA(3, family="poisson"), PPCA(2)],
    ids=lambda model: type(model).__name__,
)
def test_shares_of_any_model(model):
    model.fit(COUNTS)
    found, own = cos2(model, COUNTS), contributions(model, model.transform(COUNTS))
    for part in (*found, *own):
        assert (part >= 0).all()
    for part in found:
        assert (part.sum(axis=1) <= 1 + 1e-12).all()
        assert part.sum() > 0
    for part in own:
        np.testing.assert_allclose(part.sum(axis=0), 1.0)


def test_deviances_of_rows_add_up_to_the_share_of_the_model():
    # Rows weighted by their deviances without components are the whole table: one row holds everything.
    model = EPCA(2, family="poisson", tol=1e-8).fit(COUNTS)
    share = cos2(model, COUNTS).rows.sum(axis=1)
    mu, null = model.inverse_transform(model.transform(COUNTS)), COUNTS.mean(axis=0)

    def deviance(mean):
        logs = np.where(COUNTS > 0, COUNTS * np.log(np.maximum(COUNTS, 1) / mean), 0.0)
        return 2 * (logs - COUNTS + mean).sum(axis=1)

    np.testing.assert_allclose(share, np.maximum(1 - deviance(mu) / deviance(null), 0), atol=1e-6)


def test_offsets_and_missing_cells():
    table, offset = COUNTS.copy(), RNG.normal(size=60)
    table[3, 1] = np.nan
    model = EPCA(2, family="poisson").fit(table, offset=offset)
    found = cos2(model, table, offset=offset)
    assert np.isfinite(found.rows).all()
    assert found.rows.sum() > 0


def test_columns_left_out_have_no_part():
    table = np.column_stack([X, np.full(60, 3.0)])
    found = cos2(EPCA(2, family="gaussian").fit(table), table)
    assert found.columns.shape == (8, 2)
    assert not found.columns[7].any()
    assert found.columns[:7].all()


def test_a_rotation_explains_what_its_model_does():
    model = EPCA(2, family="poisson").fit(COUNTS)
    rotated = model.rotate()
    of_both = cos2(model, COUNTS), cos2(rotated, COUNTS)
    for one, other in zip(*of_both, strict=True):
        np.testing.assert_allclose(one.sum(axis=1), other.sum(axis=1), atol=1e-9)


def test_models_without_directions_or_a_way_back():
    model = KernelPCA(2).fit(X)
    assert contributions(model, model.transform(X)).columns is None
    with pytest.raises(
        ValueError, match=r"KernelPCA cannot turn scores into rows.*fit_inverse_transform=True"
    ):
        cos2(model, X)
    pieces = PiecewisePCA(2, n_init=1).fit(X)
    assert contributions(pieces, pieces.transform(X)).columns is None
    with pytest.raises(ValueError, match=r"scores must have shape \(n_samples, 2\).*got shape \(60, 7\)"):
        contributions(model, X)


def test_supplementary_columns():
    pandas = pytest.importorskip("pandas")
    scores = PCA(2).fit_transform(X)
    side = pandas.DataFrame({"size": scores[:, 0] * 2 + 1, "kind": np.where(scores[:, 1] > 0, "up", "down")})
    side.loc[0, "kind"] = None
    size, kind = supplementary_columns(scores, side)
    np.testing.assert_allclose(size.correlations, [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(size.strength, size.correlations**2)
    assert kind.groups.names == ("down", "up")
    assert kind.groups.counts.sum() == 59
    up = scores[side["kind"] == "up"]
    np.testing.assert_allclose(kind.groups.means[1], up.mean(axis=0))
    np.testing.assert_allclose(kind.groups.covariances[1], np.cov(up.T, bias=True))
    # Eta squared is the R squared of a regression on the groups.
    known = side["kind"].notna().to_numpy()
    within = sum(
        (scores[side["kind"] == name].var(axis=0)) * (side["kind"] == name).sum() for name in ("down", "up")
    )
    np.testing.assert_allclose(kind.strength, 1 - within / (scores[known].var(axis=0) * 59), atol=1e-12)
    with pytest.raises(ValueError, match="'age' must have 60 values"):
        supplementary_columns(scores, {"age": [1, 2]})
