"""Loaders and generators."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from anypca import datasets
from anypca.datasets import make_low_rank
from anypca.families import families

#: Loader, shape, number of classes.
PACKAGED = {
    "barents": (89, 30, 0),
    "bibliometrics": (2230, 9, 0),
    "blood_cells": (600, 300, 10),
    "breast_cancer_original": (699, 9, 2),
    "digits_counts": (1797, 64, 10),
    "iris": (150, 4, 3),
    "mollusk": (163, 32, 0),
    "oaks": (116, 114, 0),
    "penguins": (344, 8, 0),
    "pitprops": (13, 13, 0),
    "sms_lexicon": (100, 55, 2),
    "trichoptera": (49, 17, 0),
    "wine": (178, 13, 3),
}
LARGE = {
    "golub": (38, 3051, 2),
    "mnist_5000": (5000, 784, 10),
    "mnist_sevens": (500, 784, 0),
    "newsgroups4": (3730, 10254, 4),
    "newsgroups20": (18774, 29360, 20),
    "pbmc_facs": (3774, 16791, 10),
    "scrna_mixology": (3918, 500, 5),
    "usps": (7291, 256, 10),
    "usps_012": (2930, 100, 3),
}


def check_loaded(name, n_rows, n_columns, n_classes):
    data, shape = getattr(datasets, f"load_{name}")(), (n_rows, n_columns)
    assert data.X.shape == shape, name
    assert isinstance(data.X, np.ndarray | sparse.csr_array)
    assert data.X.dtype == (object if name == "penguins" else np.float64)
    assert len(set(data.feature_names)) == shape[1]
    assert len(data.target_names) == n_classes
    if n_classes:
        assert data.target.shape == (shape[0],)
        assert set(np.unique(data.target)) <= set(range(n_classes))
    else:
        assert data.target is None
    assert all(len(values) == shape[0] for values in data.covariates.values())
    assert data.offset is None or (data.offset.shape == shape and np.isfinite(data.offset).all())
    assert any(word in data.description for word in ("CC", "GPL", "Apache", "licence"))
    return data


@pytest.mark.parametrize("name", PACKAGED)
def test_sets_in_the_package_need_no_folder(name, monkeypatch):
    monkeypatch.delenv("ANYPCA_DATA", raising=False)
    monkeypatch.delenv("ANYPCA_DATA_URL", raising=False)
    assert check_loaded(name, *PACKAGED[name]).to_frame().shape == PACKAGED[name][:2]


def test_every_loader_is_listed():
    public = {name for name in datasets.__all__ if name.startswith("load_")}
    assert public == {f"load_{name}" for name in PACKAGED | LARGE}


def test_details_that_are_known():
    cancer = datasets.load_breast_cancer_original()
    assert np.isnan(cancer.X).sum() == 16
    assert cancer.target.sum() == 241
    oaks = datasets.load_oaks()
    np.testing.assert_allclose(np.exp(oaks.offset), np.round(np.exp(oaks.offset)), rtol=1e-12)
    np.testing.assert_array_equal(np.bincount(datasets.load_blood_cells().target), 60)
    frame = datasets.load_penguins().to_frame()
    assert frame["species"].value_counts().to_dict() == {"Adelie": 152, "Gentoo": 124, "Chinstrap": 68}
    assert frame["body_mass_g"].mean() == pytest.approx(4201.754, abs=1e-3)


@pytest.mark.data
def test_larger_sets():
    for name, shape in LARGE.items():
        check_loaded(name, *shape)
    assert datasets.load_usps("test").X.shape == (2007, 256)
    news = datasets.load_newsgroups4()
    assert dict(zip(news.target_names, np.bincount(news.target), strict=True))["sci.med"] == 987
    assert datasets.load_pbmc_facs().X.nnz == 2702861
    assert datasets.fetch_reference("pbmc_facs")["U"].shape == (3000, 2)
    twos = datasets.load_usps_012()
    np.testing.assert_array_equal(np.bincount(twos.target), [1194, 1005, 731])
    assert (twos.X.min(), twos.X.max()) == (1, 16)


def test_references():
    arrays = datasets.fetch_reference("pitprops")
    assert arrays["spca_para"].shape == (6,)
    with pytest.raises(TypeError):
        arrays["spca_para"] = None


def test_unknown_references_are_refused():
    with pytest.raises(ValueError, match=r"'pitprops'.*got 'oaks'"):
        datasets.fetch_reference("oaks")


FOLDER = Path(os.environ.get("ANYPCA_DATA", ""))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A folder of data files behind an address of this machine; a cache of its own."""
    pytest.importorskip("pooch")
    (tmp_path / "files").mkdir()
    server = HTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=tmp_path / "files"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.delenv("ANYPCA_DATA", raising=False)
    monkeypatch.setenv("ANYPCA_DATA_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield tmp_path / "files"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.data
@pytest.mark.skipif(sys.platform != "linux", reason="the cache's folder is set for Linux")
def test_downloads_are_kept(served):
    name = "usps_012.npz"
    shutil.copy(FOLDER / name, served / name)
    first = datasets.load_usps_012().X
    (served / name).unlink()
    np.testing.assert_array_equal(datasets.load_usps_012().X, first)


@pytest.mark.skipif(sys.platform != "linux", reason="the cache's folder is set for Linux")
def test_a_wrong_download_is_refused(served):
    (served / "golub.npz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="hash"):
        datasets.load_golub()


def test_a_failed_download_names_the_remedy(served):
    with pytest.raises(FileNotFoundError, match=r"golub\.npz.*ANYPCA_DATA_URL"):
        datasets.load_golub()


def test_without_pooch_the_remedy_is_named(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'anypca\[datasets\]'"):
        datasets.load_golub()


def test_unknown_variants_are_refused():
    with pytest.raises(ValueError, match=r"must be one of 'train', 'test'.*got 'valid'"):
        datasets.load_usps("valid")


def test_without_the_folder_the_variable_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("ANYPCA_DATA", raising=False)
    monkeypatch.delenv("ANYPCA_DATA_URL", raising=False)
    with pytest.raises(FileNotFoundError, match=r"golub\.npz.*ANYPCA_DATA .*multtest"):
        datasets.load_golub()
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        datasets.load_golub()
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no file golub\.npz"):
        datasets.load_golub()


def test_reading_from_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    values = np.arange(6.0).reshape(2, 3)
    np.savez(tmp_path / "golub.npz", X=values, gene_id=["a", "b", "a"], y=[0, 1], class_names=["ALL", "AML"])
    data = datasets.load_golub()
    np.testing.assert_array_equal(data.X, values)
    assert data.feature_names == ("a", "b", "a#2")
    assert data.target_names == ("ALL", "AML")


@pytest.mark.parametrize("name", list(families))
def test_low_rank_tables_of_every_family(name):
    for family in families[name].examples():
        drawn = make_low_rank(60, 6, 2, family=family, signal=0.5, random_state=0)
        assert drawn.X.shape == (60, 6)
        assert family.in_support(drawn.X).all()
        np.testing.assert_allclose(drawn.eta, drawn.intercept + drawn.scores @ drawn.components)


def test_low_rank_truth_is_as_described():
    drawn = make_low_rank(
        20000, 30, 3, family="gaussian", signal=2.0, intercept=5.0, dispersion=0.25, random_state=1
    )
    np.testing.assert_allclose(drawn.components @ drawn.components.T, np.eye(3), atol=1e-12)
    assert np.all(drawn.components[range(3), np.abs(drawn.components).argmax(axis=1)] > 0)
    assert np.sqrt(np.mean((drawn.eta - 5.0) ** 2)) == pytest.approx(2.0, rel=0.02)
    assert np.var(drawn.X - drawn.eta) == pytest.approx(0.25, rel=0.02)
    deviations = drawn.scores.std(axis=0)
    assert deviations[2] / deviations[0] == pytest.approx(0.5, rel=0.03)


def test_low_rank_mixed_missing_and_seeded():
    family = ["poisson", "bernoulli", "gaussian", "gamma"]
    first, second = (make_low_rank(500, 4, 1, family=family, missing=0.3, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(first.X, second.X)
    assert np.isnan(first.X).mean() == pytest.approx(0.3, abs=0.05)
    assert set(np.unique(first.X[:, 1][~np.isnan(first.X[:, 1])])) == {0.0, 1.0}
