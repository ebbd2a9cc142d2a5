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
from anypca.datasets import LowRank, load_digits_counts, make_low_rank
from anypca.families import families

#: Loader, arguments, shape, number of classes.
PACKAGED = [
    ("load_barents", (), (89, 30), 0),
    ("load_bibliometrics", (), (2230, 9), 0),
    ("load_bibliometrics", ("standardized",), (2230, 16), 0),
    ("load_blood_cells", (), (600, 300), 10),
    ("load_breast_cancer_original", (), (699, 9), 2),
    ("load_digits_counts", (), (1797, 64), 10),
    ("load_iris", (), (150, 4), 3),
    ("load_mollusk", (), (163, 32), 0),
    ("load_oaks", (), (116, 114), 0),
    ("load_penguins", (), (344, 8), 0),
    ("load_pitprops", (), (13, 13), 0),
    ("load_sms_lexicon", (), (100, 55), 2),
    ("load_trichoptera", (), (49, 17), 0),
    ("load_wine", (), (178, 13), 3),
]
LARGE = [
    ("load_golub", (), (38, 3051), 2),
    ("load_mnist_5000", (), (5000, 784), 10),
    ("load_mnist_sevens", (), (500, 784), 0),
    ("load_mnist_sevens", ("back_image",), (500, 784), 0),
    ("load_newsgroups4", (), (3730, 10254), 4),
    ("load_newsgroups20", (), (18774, 29360), 20),
    ("load_pbmc_facs", (), (3774, 16791), 10),
    ("load_pbmc_facs", ("test",), (100, 16791), 10),
    ("load_scrna_mixology", (), (3918, 500), 5),
    ("load_usps", (), (7291, 256), 10),
    ("load_usps", ("test",), (2007, 256), 10),
    ("load_usps_012", (), (2930, 100), 3),
]


def check_loaded(name, arguments, shape, n_classes):
    data = getattr(datasets, name)(*arguments)
    assert data.X.shape == shape
    assert isinstance(data.X, np.ndarray | sparse.csr_array)
    assert data.X.dtype == (object if name == "load_penguins" else np.float64)
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


@pytest.mark.parametrize("row", PACKAGED, ids=lambda row: "-".join((row[0], *row[1])))
def test_sets_in_the_package_need_no_folder(row, monkeypatch):
    monkeypatch.delenv("ANYPCA_DATA", raising=False)
    monkeypatch.delenv("ANYPCA_DATA_URL", raising=False)
    frame = check_loaded(*row).to_frame()
    assert frame.shape == row[2]
    licence = getattr(datasets, row[0]).__doc__
    assert row[0] in ("load_digits_counts", "load_iris", "load_wine") or "Source and licence" in licence


@pytest.mark.data
@pytest.mark.parametrize("row", LARGE, ids=lambda row: "-".join((row[0], *row[1])))
def test_larger_sets(row):
    check_loaded(*row)


def test_every_loader_is_listed():
    public = {name for name in datasets.__all__ if name.startswith("load_")}
    assert public == {row[0] for row in PACKAGED + LARGE}


def test_details_that_are_known():
    cancer = datasets.load_breast_cancer_original()
    assert np.isnan(cancer.X).sum() == 16
    assert cancer.target.sum() == 241
    oaks = datasets.load_oaks()
    assert len(oaks.covariates) == 11
    assert oaks.covariates["tree"].dtype.kind == "U"
    np.testing.assert_allclose(np.exp(oaks.offset), np.round(np.exp(oaks.offset)), rtol=1e-12)
    cells = datasets.load_blood_cells()
    np.testing.assert_array_equal(np.bincount(cells.target), 60)
    assert (cells.covariates["total_counts"] >= cells.X.sum(axis=1)).all()
    frame = datasets.load_penguins().to_frame()
    assert frame["species"].value_counts().to_dict() == {"Adelie": 152, "Gentoo": 124, "Chinstrap": 68}
    assert frame["body_mass_g"].mean() == pytest.approx(4201.754, abs=1e-3)
    assert frame.isna().sum().sum() == 19


@pytest.mark.data
def test_details_of_larger_sets():
    news = datasets.load_newsgroups4()
    assert dict(zip(news.target_names, np.bincount(news.target), strict=True))["sci.med"] == 987
    assert np.abs(datasets.load_usps().X).max() == 1.0
    assert datasets.load_pbmc_facs().X.nnz == 2702861
    twos = datasets.load_usps_012()
    np.testing.assert_array_equal(np.bincount(twos.target), [1194, 1005, 731])
    assert (twos.X.min(), twos.X.max()) == (1, 16)


REFERENCES = [
    pytest.param("bibliometrics", "pc1_scores", (2230, 5), marks=pytest.mark.data),
    pytest.param("pbmc_facs", "U", (3000, 2), marks=pytest.mark.data),
    ("pitprops", "spca_para", (6,)),
]


@pytest.mark.parametrize(("name", "key", "shape"), REFERENCES)
def test_references(name, key, shape):
    arrays = datasets.fetch_reference(name)
    assert arrays[key].shape == shape
    with pytest.raises(TypeError):
        arrays[key] = None


def test_unknown_references_are_refused():
    with pytest.raises(ValueError, match=r"'pitprops'.*got 'oaks'"):
        datasets.fetch_reference("oaks")


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


FOLDER = os.environ.get("ANYPCA_DATA", "")


@pytest.mark.data
@pytest.mark.skipif(sys.platform != "linux", reason="the cache's folder is set for Linux")
def test_downloads_are_kept(served):
    name = "usps_012.npz"
    shutil.copy(Path(FOLDER) / name, served / name)
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


@pytest.mark.parametrize(
    ("name", "argument", "allowed"),
    [("load_usps", "valid", "'train', 'test'"), ("load_mnist_sevens", "x", "'basic', 'back_rand'")],
)
def test_unknown_variants_are_refused(name, argument, allowed):
    with pytest.raises(ValueError, match=f"must be one of {allowed}.*got {argument!r}"):
        getattr(datasets, name)(argument)


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


def test_digits_are_counts_with_pixel_names():
    data = load_digits_counts()
    assert data.X.min() == 0
    assert data.X.max() == 16
    assert data.feature_names[8 * 3 + 4] == "r3c4"


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
    assert isinstance(drawn, LowRank)
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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n_components": 5}, r"min\(n_samples, n_features\) = 4; got 5"),
        ({"n_components": -1}, "got -1"),
        ({"missing": 1.0}, r"share in \[0, 1\); got 1.0"),
        ({"family": "poison"}, "Did you mean 'poisson'"),
        ({"intercept": [1.0, 2.0]}, "broadcast"),
    ],
)
def test_low_rank_refuses(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_low_rank(**({"n_samples": 10, "n_features": 4, "n_components": 2} | arguments))
