"""PCA of AnnData objects."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist

import anypca
from anypca import EPCA, GSPPCA, SPCA, SePCA
from anypca.datasets import make_low_rank_counts
from anypca.scverse import _tables as tables
from anypca.scverse import pca, project
from anypca.scverse._axes import Axes

anndata = pytest.importorskip("anndata")

N_CELLS, N_GENES = 90, 30


@pytest.fixture(scope="module")
def counts():
    return make_low_rank_counts(N_CELLS, N_GENES, 2, typical_mean=6.0, strength=0.5, random_state=0).X


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
    assert pca(adata, n_comps=2) is None
    used = adata.var["highly_variable"].to_numpy()
    offset = np.log(counts.sum(axis=1))
    model = EPCA(2, family="poisson", random_state=0).fit(counts[:, used], offset=offset)
    scores, std = model.transform(counts[:, used], offset=offset, return_std=True)
    # Squared distances are those of log rates, weighted by the rates of a cell of average size.
    rates = np.exp(model.intercept_ + offset.mean())
    expected = (scores @ model.components_) * np.sqrt(rates)
    np.testing.assert_allclose(pdist(adata.obsm["X_pca"]), pdist(expected), rtol=1e-4)
    # Sparse and dense counts round otherwise on the way to a scaled gradient of 1e-5.
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


def test_squared_distances_are_deviances_of_average_cells(adata):
    """Of two cells that differ little."""
    model = EPCA(2, family="poisson", random_state=0)
    pca(adata, model=model, mask_var=None)
    axes, small = Axes.of(model), 1e-3 * np.array([[1.0, -2.0]])
    eta = model.intercept_ + model.mean_offset_
    moved = eta + (small @ model.components_)[0]
    deviance = 2 * np.sum(np.exp(eta) * (eta - moved) - np.exp(eta) + np.exp(moved))
    assert np.sum(axes.turn_scores(small) ** 2) == pytest.approx(deviance, rel=1e-2)


def test_the_number_of_components_is_chosen(adata):
    # Without size factors: dividing by totals would add a component to these rates.
    pca(adata, mask_var=None, size_factors=False)
    assert adata.obsm["X_pca"].shape == (N_CELLS, 2)
    assert adata.uns["pca"]["params"]["model"] == "SePCA"
    assert np.all(np.diff(adata.uns["pca"]["variance"]) < 0)
    assert np.all(np.diff(adata.uns["pca"]["variance_ratio"]) < 0)
    assert adata.varm["PCs_std"].shape == (N_GENES, 2)
    assert np.all(adata.obsm["X_pca_std"] > 0)


def test_deviations_of_axes_at_right_angles(adata):
    """Loadings at right angles are scaled only, and deviations with them."""
    model = SePCA(2, family="gaussian", dispersion=1.0).fit(np.random.default_rng(0).normal(size=(60, 8)))
    model.components_, model.n_components_ = np.eye(2, 8) * [[3.0], [2.0]], 2
    model.explained_variance_, model.explained_deviance_ratio_ = np.ones(2), np.full(2, 0.1)
    axes, deviations = Axes.of(model), np.array([[0.1, 0.2]])
    np.testing.assert_allclose(axes.turn_deviations(deviations), [[0.3, 0.4]])
    np.testing.assert_allclose(axes.turn_loading_deviations(deviations.T), [[0.1 / 3], [0.1]])
    np.testing.assert_allclose(axes.shares, [0.2 * 9 / 13, 0.2 * 4 / 13])


@pytest.mark.parametrize("attribute", ["sparsity_", "components_", "explained_variance_"])
def test_sparse_and_vanished_loadings_are_not_turned(attribute):
    model = SePCA(2, family="poisson").fit(make_low_rank_counts(60, 8, 2, random_state=0).X)
    assert not np.array_equal(Axes.of(model).map, np.eye(2))
    setattr(model, attribute, 0.1 if attribute == "sparsity_" else 0.0 * getattr(model, attribute))
    np.testing.assert_array_equal(Axes.of(model).map, np.eye(2))


def test_keys_and_copies(adata):
    before = adata.copy()
    returned = pca(adata, n_comps=1, key_added="latent", copy=True)
    assert list(adata.obsm) == list(before.obsm) == []
    assert set(returned.obsm) == {"latent", "latent_std"}
    assert "latent" in returned.varm
    assert returned.uns["latent"]["params"]["n_comps"] == 1


def test_results_survive_a_file(adata, tmp_path):
    pca(adata, n_comps=2, mask_var=None)
    adata.write_h5ad(tmp_path / "out.h5ad")
    again = anndata.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_array_equal(again.obsm["X_pca"], adata.obsm["X_pca"])
    assert "mask_var" not in again.uns["pca"]["params"]


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_backed_equals_memory(adata, counts, form, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_ROWS", 7)
    backed = in_file(adata, counts, tmp_path, form)
    pca(adata, n_comps=2)
    pca(backed, layer=None, n_comps=2)
    np.testing.assert_allclose(backed.obsm["X_pca"], adata.obsm["X_pca"], atol=1e-6)
    assert backed.isbacked


def test_backed_matrices_are_never_read_whole(adata, counts, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_ROWS", 7)
    backed = in_file(adata, counts, tmp_path)
    sizes = []

    class Spy:
        """Counts the rows that are read."""

        shape, format, dtype = backed.X.shape, "csr", backed.X.dtype

        def __getitem__(self, rows):
            sizes.append(rows.stop - rows.start)
            return backed.X[rows]

    genes = tables.Genes.chosen(np.array([3, 1]))
    with tables.open_table(Spy(), genes) as table:
        np.testing.assert_array_equal(table.X.toarray(), counts[:, [3, 1]])
        np.testing.assert_allclose(table.totals, counts.sum(axis=1))
        assert isinstance(table.X.data, np.memmap)
        assert isinstance(table.X.indices, np.memmap)
    assert max(sizes) == 7
    assert len(sizes) == -(-N_CELLS // 7)


def test_size_factors(adata, counts):
    used = adata.var["highly_variable"].to_numpy()
    expected = EPCA(1, family="poisson", random_state=0).fit(
        counts[:, used], offset=np.log(adata.obs["depth"].to_numpy())
    )
    for given in ("depth", adata.obs["depth"]):
        model = EPCA(1, family="poisson", random_state=0)
        pca(adata, size_factors=given, model=model)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)
    model = EPCA(1, family="poisson", random_state=0)
    pca(adata, size_factors=False, model=model)
    assert not model._uses_offset


def test_models_without_a_posterior_have_no_deviations(adata):
    pca(adata, model=SPCA(2))
    assert "X_pca_std" not in adata.obsm


def test_models_without_rates_get_no_offset(adata):
    model = GSPPCA(2)
    pca(adata, layer=None, model=model)
    assert adata.uns["pca"]["params"]["model"] == "GSPPCA"
    assert adata.obsm["X_pca_std"].shape == adata.obsm["X_pca"].shape
    pca(adata, layer=None, family="gaussian", n_comps=2)
    assert "layer" not in adata.uns["pca"]["params"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"layer": "raw"}, r"no layer 'raw'; its layers: 'counts', 'other'.*layer=None if adata.X"),
        ({"mask_var": "variable"}, r"adata.var has no column 'variable'; it has \['highly_variable'\]"),
        ({"mask_var": np.ones(3, bool)}, r"each of the 30 genes; got bool of shape \(3,\)"),
        ({"mask_var": np.zeros(N_GENES, bool)}, "leaves no gene"),
        ({"size_factors": "size"}, r"adata.obs has no column 'size'; it has \['depth'\]"),
        ({"size_factors": np.ones(3)}, r"shape \(90,\), one for each cell; got \(3,\)"),
        ({"size_factors": np.zeros(N_CELLS)}, r"size_factors\[0\] is not above 0"),
        ({"model": EPCA(2), "n_comps": 3}, "belong to the model"),
    ],
)
def test_refusals(adata, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        pca(adata, **arguments)
    assert not adata.obsm


def test_empty_cells_and_repeated_names_are_named(adata):
    adata.layers["counts"] = sparse.csr_matrix(
        adata.layers["counts"].multiply(np.arange(N_CELLS)[:, None] != 4)
    )
    with pytest.raises(ValueError, match="cell 4 has no counts"):
        pca(adata, n_comps=1)
    adata.var_names = ["gene"] * N_GENES
    with pytest.raises(ValueError, match=r"'gene' occurs twice.*var_names_make_unique"):
        pca(adata, n_comps=1)


def test_without_marked_genes_all_are_used(adata, caplog):
    del adata.var["highly_variable"]
    with caplog.at_level(logging.WARNING, logger="anypca"):
        pca(adata, n_comps=1)
    assert "no column 'highly_variable': all 30 genes are used" in caplog.text
    assert np.all(adata.varm["PCs"] != 0)


def test_copy_of_a_backed_object(adata, counts, tmp_path):
    with pytest.raises(ValueError, match=r"adata.to_memory\(\) first"):
        pca(in_file(adata, counts, tmp_path), layer=None, copy=True)


@pytest.fixture
def reference(adata):
    model = EPCA(2, family="poisson", random_state=0)
    pca(adata, model=model)
    return model


def test_projected_training_cells_are_where_they_were(adata, reference, tmp_path):
    anypca.save(reference, tmp_path / "model")
    other = adata[::-1, ::-1].copy()
    del other.obsm["X_pca"]
    other.obs["kept"] = 1.0
    assert project(other, anypca.load(tmp_path / "model"), key_added="latent") is None
    np.testing.assert_allclose(other.obsm["latent"], adata.obsm["X_pca"][::-1], atol=1e-6)
    assert "latent_std" in other.obsm


def test_a_cell_does_not_depend_on_the_others(adata, reference):
    alone = project(adata[5:6].copy(), reference, copy=True)
    np.testing.assert_allclose(alone.obsm["X_pca"], adata.obsm["X_pca"][5:6], atol=1e-8)


@pytest.mark.parametrize("form", ["memory", "csr", "csc", "dense"])
def test_missing_genes_are_missing_entries(adata, counts, reference, form, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_ROWS", 7)
    kept = np.arange(N_GENES) != 4
    new = adata[:, kept].copy()
    layer: str | None = "counts"
    if form != "memory":
        new, layer = in_file(new, counts[:, kept], tmp_path, form), None
    size = np.asarray(counts.sum(axis=1))
    with pytest.warns(UserWarning, match=r"1 of the model's 20 genes are not in adata: gene4\."):
        project(new, reference, layer=layer, size_factors=size)
    gappy = counts[:, adata.var["highly_variable"]].copy()
    gappy[:, list(reference.var_names_).index("gene4")] = np.nan
    expected = Axes.of(reference).turn_scores(reference.transform(gappy, offset=np.log(size)))
    np.testing.assert_allclose(new.obsm["X_pca"], expected, atol=1e-5)


def test_project_refuses(adata, reference):
    other = adata.copy()
    other.var_names = [f"ENSG{j}" for j in range(N_GENES)]
    with pytest.raises(ValueError, match=r"none of the model's 20 genes \(such as 'gene1'\)"):
        project(other, reference)
    with pytest.raises(ValueError, match="knows no genes"):
        project(adata, EPCA(1, family="poisson").fit(adata.layers["counts"].toarray()))
    with pytest.raises(anypca.exceptions.NotFittedError):
        project(adata, EPCA(1))
    with pytest.raises(ValueError, match="no layer 'raw'"):
        project(adata, reference, layer="raw")
