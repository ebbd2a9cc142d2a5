"""PCA of AnnData objects, and new cells in the space of a reference."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist

import anypca
from anypca import EPCA, GSPPCA, SPCA, SePCA
from anypca.datasets import make_low_rank_counts
from anypca.scverse import pca, project
from tests.draws import seed

anndata = pytest.importorskip("anndata")

N_CELLS, N_GENES = 90, 30


@pytest.fixture(scope="module")
def counts():
    X = make_low_rank_counts(N_CELLS, N_GENES, 2, typical_mean=6.0, strength=0.5, random_state=seed()).X
    # No cell is empty, whatever was drawn.
    X[:, 1] += 1.0
    return X


@pytest.fixture
def adata(counts):
    """Counts in a layer, logarithms in X, twenty of thirty genes marked as variable."""
    made = anndata.AnnData(
        np.log1p(counts), layers={"counts": sparse.csr_matrix(counts), "other": np.zeros_like(counts)}
    )
    made.obs_names = [f"cell{i}" for i in range(N_CELLS)]
    made.var_names = [f"gene{j}" for j in range(N_GENES)]
    made.var["highly_variable"] = np.arange(N_GENES) % 3 > 0
    made.obs["depth"] = counts.sum(axis=1) / 100.0
    return made


def in_file(adata, X, folder, form="csr"):
    """The same object backed by a file whose X holds the counts."""
    forms = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "dense": np.asarray}
    stored = anndata.AnnData(forms[form](X), obs=adata.obs, var=adata.var)
    stored.write_h5ad(folder / "cells.h5ad")
    return anndata.read_h5ad(folder / "cells.h5ad", backed="r")


def test_written_as_scanpy_does(adata, counts):
    assert pca(adata, n_comps=2, tol=1e-9) is None
    used = adata.var["highly_variable"].to_numpy()
    offset = np.log(counts.sum(axis=1))
    model = EPCA(2, family="poisson", random_state=0, tol=1e-9).fit(counts[:, used], offset=offset)
    scores, std = model.transform(counts[:, used], offset=offset, return_std=True)
    # Squared distances are those of log rates, weighted by the rates of a cell of average size.
    rates = np.exp(model.intercept_ + offset.mean())
    expected = (scores @ model.components_) * np.sqrt(rates)
    np.testing.assert_allclose(pdist(adata.obsm["X_pca"]), pdist(expected), rtol=1e-4)
    np.testing.assert_allclose(
        adata.obsm["X_pca"] @ adata.varm["PCs"][used].T, scores @ model.components_, atol=1e-4
    )
    np.testing.assert_allclose(
        (adata.varm["PCs"][used].T * rates) @ adata.varm["PCs"][used], np.eye(2), atol=1e-4
    )
    assert not adata.varm["PCs"][~used].any()
    assert adata.obsm["X_pca_std"].shape == std.shape
    assert np.all(adata.obsm["X_pca_std"] > 0)
    stored = adata.uns["pca"]
    np.testing.assert_allclose(stored["variance"], adata.obsm["X_pca"].var(axis=0, ddof=1))
    assert stored["variance_ratio"].sum() == pytest.approx(model.explained_deviance_ratio_.sum())
    assert stored["params"] == {
        "layer": "counts",
        "mask_var": "highly_variable",
        "model": "EPCA",
        "n_comps": 2,
    }


def test_squared_distances_are_deviances_of_average_cells(adata, counts):
    """Of two cells that differ little: the difference of their log rates is small."""
    model = EPCA(2, family="poisson", random_state=0)
    pca(adata, model=model, mask_var=None)
    Z, W = adata.obsm["X_pca"], adata.varm["PCs"]
    small = 1e-3 * np.array([1.0, -2.0])
    eta = model.intercept_ + np.log(counts.sum(axis=1)).mean()
    moved = eta + W @ small
    deviance = 2 * np.sum(np.exp(eta) * (eta - moved) - np.exp(eta) + np.exp(moved))
    assert np.sum(small**2) == pytest.approx(deviance, rel=1e-2)
    assert np.all(np.diff(Z.var(axis=0)) < 0)


def test_the_number_of_components_is_chosen(adata):
    # Without size factors: dividing by totals would add a component to these rates.
    model = SePCA(family="poisson", random_state=0)
    pca(adata, mask_var=None, size_factors=False)
    k = model.fit(adata.layers["counts"]).n_components_
    assert adata.obsm["X_pca"].shape == (N_CELLS, k)
    assert adata.uns["pca"]["params"] == {"layer": "counts", "model": "SePCA", "n_comps": k}
    for name in ("variance", "variance_ratio"):
        assert np.all(np.diff(adata.uns["pca"][name]) < 0)
    assert adata.varm["PCs_std"].shape == (N_GENES, k)
    assert np.all(adata.obsm["X_pca_std"] > 0)


@pytest.mark.parametrize(
    "model", [SPCA(2, n_nonzero=5), GSPPCA(2, n_features_to_select=10)], ids=["SPCA", "GSPPCA"]
)
def test_sparse_loadings_are_not_turned(adata, model):
    pca(adata, layer=None, model=model, mask_var=None)
    np.testing.assert_allclose(adata.obsm["X_pca"], model.transform(adata.X))
    np.testing.assert_allclose(adata.varm["PCs"], model.components_.T)
    assert adata.uns["pca"]["params"]["model"] == type(model).__name__
    assert ("X_pca_std" in adata.obsm) == isinstance(model, GSPPCA)


def test_keys_and_copies(adata):
    before = adata.copy()
    returned = pca(adata, n_comps=1, key_added="latent", copy=True)
    assert list(adata.obsm) == list(before.obsm) == []
    assert set(returned.obsm) == {"latent", "latent_std"}
    assert "latent" in returned.varm
    assert returned.uns["latent"]["params"]["n_comps"] == 1


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_backed_cells_are_read_in_pieces(form, tmp_path):
    """More cells than are read at a time."""
    X = make_low_rank_counts(2500, 6, 1, typical_mean=5.0, random_state=seed()).X + 1.0
    whole = anndata.AnnData(X)
    backed = in_file(whole, X, tmp_path, form)
    mask = np.array([True, False, True, True, True, False])
    models = [EPCA(1, family="poisson", random_state=0, tol=1e-8) for _ in range(2)]
    pca(whole, layer=None, model=models[0], mask_var=mask)
    pca(backed, layer=None, model=models[1], mask_var=mask)
    np.testing.assert_allclose(models[1].intercept_, models[0].intercept_, atol=1e-6)
    np.testing.assert_allclose(backed.obsm["X_pca"], whole.obsm["X_pca"], atol=1e-4)


def test_size_factors(adata, counts):
    used = adata.var["highly_variable"].to_numpy()
    depth = np.log(adata.obs["depth"].to_numpy())
    expected = EPCA(1, family="poisson", random_state=0).fit(counts[:, used], offset=depth)
    for given in ("depth", adata.obs["depth"]):
        model = EPCA(1, family="poisson", random_state=0)
        pca(adata, size_factors=given, model=model)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)
    model = EPCA(1, family="poisson", random_state=0)
    pca(adata, size_factors=False, model=model)
    expected = EPCA(1, family="poisson", random_state=0).fit(counts[:, used])
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"layer": "raw"}, r"'raw'.*'counts', 'other'.*layer=None"),
        ({"mask_var": "variable"}, r"'variable'.*'highly_variable'"),
        ({"mask_var": np.ones(3, bool)}, r"30 genes.*\(3,\)"),
        ({"mask_var": np.zeros(N_GENES, bool)}, "no gene"),
        ({"size_factors": np.ones(3)}, r"\(90,\).*\(3,\)"),
        ({"size_factors": np.zeros(N_CELLS)}, r"size_factors\[0\]"),
        ({"model": EPCA(2), "n_comps": 3}, "belong to the model"),
    ],
)
def test_refusals(adata, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        pca(adata, **arguments)
    assert not adata.obsm


def test_empty_cells_and_repeated_names_are_named(adata, counts, tmp_path):
    adata.layers["counts"] = sparse.csr_matrix(counts * (np.arange(N_CELLS)[:, None] != 4))
    with pytest.raises(ValueError, match="cell 4"):
        pca(adata, n_comps=1)
    adata.var_names = ["gene"] * N_GENES
    with pytest.raises(ValueError, match=r"'gene'.*var_names_make_unique"):
        pca(adata, n_comps=1)
    adata.var_names = [f"gene{j}" for j in range(N_GENES)]
    with pytest.raises(ValueError, match=r"adata.to_memory\(\)"):
        pca(in_file(adata, counts, tmp_path), layer=None, copy=True)


def test_without_marked_genes_all_are_used(adata, caplog):
    del adata.var["highly_variable"]
    with caplog.at_level(logging.WARNING, logger="anypca"):
        pca(adata, n_comps=1)
    assert "'highly_variable'" in caplog.text
    assert np.all(adata.varm["PCs"] != 0)


@pytest.fixture
def reference(adata):
    model = EPCA(2, family="poisson", random_state=0)
    pca(adata, model=model)
    return model


def test_projected_training_cells_are_where_they_were(adata, reference, tmp_path):
    anypca.save(reference, tmp_path / "model")
    other = adata[::-1, ::-1].copy()
    del other.obsm["X_pca"]
    assert project(other, anypca.load(tmp_path / "model"), key_added="latent") is None
    np.testing.assert_allclose(other.obsm["latent"], adata.obsm["X_pca"][::-1], atol=1e-6)
    assert "latent_std" in other.obsm
    # A cell does not depend on the others.
    alone = project(adata[5:6].copy(), reference, copy=True)
    np.testing.assert_allclose(alone.obsm["X_pca"], adata.obsm["X_pca"][5:6], atol=1e-8)


@pytest.mark.parametrize("form", ["memory", "csr", "csc", "dense"])
def test_missing_genes_are_missing_entries(adata, counts, reference, form, tmp_path):
    kept = np.arange(N_GENES) != 4
    new, layer = adata[:, kept].copy(), "counts"
    if form != "memory":
        new, layer = in_file(new, counts[:, kept], tmp_path, form), None
    size = np.asarray(counts.sum(axis=1))
    with pytest.warns(UserWarning, match=r"1 of the model's 20 genes.*gene4"):
        project(new, reference, layer=layer, size_factors=size)
    used = adata.var["highly_variable"].to_numpy()
    gappy = counts[:, used].copy()
    gappy[:, list(adata.var_names[used]).index("gene4")] = np.nan
    predictors = reference.transform(gappy, offset=np.log(size)) @ reference.components_
    np.testing.assert_allclose(new.obsm["X_pca"] @ adata.varm["PCs"][used].T, predictors, atol=1e-5)


def test_project_refuses(adata, reference):
    other = adata.copy()
    other.var_names = [f"ENSG{j}" for j in range(N_GENES)]
    with pytest.raises(ValueError, match=r"20 genes.*'gene1'"):
        project(other, reference)
    with pytest.raises(ValueError, match="knows no genes"):
        project(adata, EPCA(1, family="poisson").fit(adata.layers["counts"].toarray()))
    with pytest.raises(anypca.exceptions.NotFittedError):
        project(adata, EPCA(1))
    with pytest.raises(ValueError, match="'raw'"):
        project(adata, reference, layer="raw")
