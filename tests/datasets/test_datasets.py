"""Loaders and generators."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from anypca import datasets
from anypca.datasets import LowRank, load_digits_counts, make_low_rank
from anypca.datasets._dataset import FILES, SPECS
from anypca.families import families

FOLDER = os.environ.get("ANYPCA_DATA", "")
needs_files = pytest.mark.skipif(
    not Path(FOLDER or "/nonexistent").is_dir(), reason="ANYPCA_DATA names no folder of data files"
)

#: Loader, arguments, shape, number of classes.
LOADERS = [
    ("load_barents", (), (89, 30), 0),
    ("load_bibliometrics", (), (2230, 9), 0),
    ("load_bibliometrics", ("standardized",), (2230, 16), 0),
    ("load_breast_cancer_original", (), (699, 9), 2),
    ("load_golub", (), (38, 3051), 2),
    ("load_iris", (), (150, 4), 3),
    ("load_mnist_5000", (), (5000, 784), 10),
    ("load_mnist_sevens", (), (500, 784), 0),
    ("load_mnist_sevens", ("back_image",), (500, 784), 0),
    ("load_mollusk", (), (163, 32), 0),
    ("load_newsgroups4", (), (3730, 10254), 4),
    ("load_newsgroups20", (), (18774, 29360), 20),
    ("load_oaks", (), (116, 114), 0),
    ("load_pbmc_facs", (), (3774, 16791), 10),
    ("load_pbmc_facs", ("test",), (100, 16791), 10),
    ("load_pitprops", (), (13, 13), 0),
    ("load_scrna_mixology", (), (3918, 500), 5),
    ("load_sms_lexicon", (), (100, 55), 2),
    ("load_trichoptera", (), (49, 17), 0),
    ("load_usps", (), (7291, 256), 10),
    ("load_usps", ("test",), (2007, 256), 10),
    ("load_usps_012", (), (2930, 100), 3),
    ("load_wine", (), (178, 13), 3),
    ("load_digits_counts", (), (1797, 64), 10),
]


@needs_files
@pytest.mark.parametrize(
    ("name", "arguments", "shape", "n_classes"), LOADERS, ids=["-".join((r[0], *r[1])) for r in LOADERS]
)
def test_loaders(name, arguments, shape, n_classes):
    data = getattr(datasets, name)(*arguments)
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert isinstance(data.X, np.ndarray | sparse.csr_array)
    assert len(set(data.feature_names)) == shape[1]
    assert len(data.target_names) == n_classes
    if n_classes:
        assert data.target.shape == (shape[0],)
        assert set(np.unique(data.target)) <= set(range(n_classes))
    else:
        assert data.target is None
    assert all(len(values) == shape[0] for values in data.covariates.values())
    assert data.offset is None or (data.offset.shape == shape and np.isfinite(data.offset).all())
    assert len(data.description) > 60


def test_every_loader_is_listed():
    public = {name for name in datasets.__all__ if name.startswith("load_")}
    assert public == {row[0] for row in LOADERS}


@needs_files
def test_details_that_are_known():
    cancer = datasets.load_breast_cancer_original()
    assert np.isnan(cancer.X).sum() == 16
    assert cancer.target.sum() == 241
    oaks = datasets.load_oaks()
    assert len(oaks.covariates) == 11
    assert oaks.covariates["tree"].dtype.kind == "U"
    np.testing.assert_allclose(np.exp(oaks.offset), np.round(np.exp(oaks.offset)), rtol=1e-12)
    news = datasets.load_newsgroups4()
    assert dict(zip(news.target_names, np.bincount(news.target), strict=True))["sci.med"] == 987
    assert np.abs(datasets.load_usps().X).max() == 1.0
    assert datasets.load_pbmc_facs().X.nnz == 2702861
    twos = datasets.load_usps_012()
    np.testing.assert_array_equal(np.bincount(twos.target), [1194, 1005, 731])
    assert (twos.X.min(), twos.X.max()) == (1, 16)


@needs_files
@pytest.mark.parametrize(
    ("name", "key", "shape"),
    [
        ("bibliometrics", "pc1_scores", (2230, 5)),
        ("pbmc_facs", "U", (3000, 2)),
        ("pitprops", "spca_para", (6,)),
    ],
)
def test_references(name, key, shape):
    arrays = datasets.fetch_reference(name)
    assert arrays[key].shape == shape
    with pytest.raises(TypeError):
        arrays[key] = None


def test_unknown_references_are_refused():
    with pytest.raises(ValueError, match="one of 'bibliometrics', 'pbmc_facs', 'pitprops'; got 'oaks'"):
        datasets.fetch_reference("oaks")


@needs_files
@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_those_that_the_checksums_are_of(name):
    assert hashlib.sha256((Path(FOLDER) / name).read_bytes()).hexdigest() == FILES[name].sha256


def test_every_file_of_a_loader_has_a_checksum():
    places = (
        place for spec in SPECS.values() for place in dataclasses.astuple(spec) if isinstance(place, str)
    )
    used = {place.partition(":")[0] for place in places if ".npz" in place or ".gz" in place}
    assert {name for name in used if " " not in name} <= set(FILES)


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Answers of an address instead of the network; a cache of its own."""
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("ANYPCA_DATA", raising=False)
    monkeypatch.setenv("ANYPCA_DATA_URL", "https://example.org/data/")
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    answers: dict[str, bytes] = {}
    asked: list[str] = []

    def download(self, url, output_file, pooch, check_only=False):
        asked.append(url)
        if url not in answers:
            raise OSError("404 Client Error: Not Found")
        Path(output_file).write_bytes(answers[url])

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    return answers, asked


def test_downloads_are_checked_and_kept(served, monkeypatch, tmp_path):
    answers, asked = served
    np.savez(tmp_path / "made.npz", counts=np.eye(3), taxa=["a", "b", "c"])
    content = (tmp_path / "made.npz").read_bytes()
    address = "https://example.org/data/mollusk.npz"
    answers[address] = content
    right = dataclasses.replace(FILES["mollusk.npz"], sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(FILES, "mollusk.npz", right)
    for _ in range(2):
        np.testing.assert_array_equal(datasets.load_mollusk().X, np.eye(3))
    assert asked == [address], "the second time the file is in the cache"


def test_a_wrong_download_is_refused(served):
    answers, _ = served
    answers["https://example.org/data/mollusk.npz"] = b"something else"
    with pytest.raises(ValueError, match="does not match the known hash"):
        datasets.load_mollusk()


def test_a_failed_download_says_what_to_do(served):
    with pytest.raises(
        FileNotFoundError, match=r"mollusk\.npz could not be downloaded: 404.*ANYPCA_DATA_URL"
    ):
        datasets.load_mollusk()


def test_without_pooch_the_remedy_is_named(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'anypca\[datasets\]'"):
        datasets.load_mollusk()


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
    with pytest.raises(
        FileNotFoundError, match=r"set the environment variable ANYPCA_DATA .*made from .*PLNmodels"
    ):
        datasets.load_oaks()
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="is no folder"):
        datasets.load_oaks()
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no file oaks\.npz in"):
        datasets.load_oaks()


def test_reading_from_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYPCA_DATA", str(tmp_path))
    counts = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.savez(
        tmp_path / "oaks.npz",
        counts=counts,
        taxa=["a", "b", "a"],
        offset=np.full((2, 3), 10),
        cov_tree=["x", "y"],
    )
    data = datasets.load_oaks()
    np.testing.assert_array_equal(data.X, counts)
    assert data.feature_names == ("a", "b", "a#2")
    np.testing.assert_allclose(data.offset, np.log(10.0))
    assert list(data.covariates) == ["tree"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.X = counts


def test_descriptions_name_source_and_licence():
    for name, spec in SPECS.items():
        words = ("CC", "GPL", "Apache", "licence")
        assert any(word in spec.description for word in words), name


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
