"""Model files: the same model comes back, and nothing else gets in."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import os
import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.decomposition import PCA
from tests.draws import generator, seed

import anypca
from anypca.datasets import make_low_rank
from anypca.exceptions import ConvergenceWarning, DataConversionWarning, ModelFileError
from anypca.families import families

ESTIMATORS = {
    name: getattr(anypca, name)
    for name in anypca.__all__
    if hasattr(getattr(anypca, name), "inverse_transform")
}
#: Settings under which a fit to 40 rows takes a moment.
SHORT = {
    "n_draws": 10,
    "n_tune": 10,
    "n_chains": 1,
    "max_iter": 5,
    "n_init": 1,
    "score_draws": 5,
    "n_basis": 30,
    "random_state": 0,
}
#: Further settings of a class, each a case of its own.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "Autoencoder": ({"latent_activation": "relu"},),
    "ISFA": ({"mask": "loadings"},),
    "KernelPCA": (
        {"method": "nystroem"},
        {"method": "rff"},
        {"kernel": "polynomial"},
        {"fit_inverse_transform": True},
    ),
    "PPCA": ({"n_components": "mle"},),
    "SPCA": ({"method": "eigen", "n_nonzero": 3},),
    "SSPCA": ({"n_patterns": 2, "n_features_to_select": 3},),
    "SePCA": ({"inference": "map"},),
}
#: A fit that leaves its family to the data, and one with a family for each column, draw these.
MIXED = ["poisson", "bernoulli", "gaussian", "gamma", "poisson", "gaussian"]


#: How a family is stored does not depend on the estimator: all of them in one, some in the others.
ANY_FAMILY = ("BEPCA", "EPCA", "ISFA", "SePCA", "VAE")
FAMILIES = {"GPCA": ("poisson", "bernoulli"), "PiecewisePCA": ("poisson", "bernoulli")}


def cases() -> list[Any]:
    found = []
    for name in ESTIMATORS:
        for variant in ({}, *VARIANTS.get(name, ())):
            found.append(
                pytest.param(name, "gaussian", variant, id="-".join([name, *map(str, variant.values())]))
            )
        for each in (*families, "auto", "mixed") if name in ANY_FAMILY else FAMILIES.get(name, ()):
            marks = [] if name in ("EPCA", *FAMILIES) or each == "mixed" else [pytest.mark.conformance]
            found.append(pytest.param(name, each, {}, id=f"{name}-{each}", marks=marks))
    return found


def draw(family: str) -> tuple[Any, pd.DataFrame]:
    """The family to fit with, and a table."""
    chosen: Any = MIXED if family in ("mixed", "auto") else families[family].examples()[0]
    X = make_low_rank(40, 6, 2, family=chosen, signal=0.5, random_state=seed()).X
    return ("auto" if family == "auto" else chosen), pd.DataFrame(X, columns=list("abcdef"))


def make(name: str, family: Any, variant: dict[str, Any]) -> Any:
    known = ESTIMATORS[name]().get_params()
    count = next(key for key in ("n_components", "max_components", "max_factors") if key in known)
    settings = {key: value for key, value in SHORT.items() if key in known} | {count: 2} | variant
    if name in (*ANY_FAMILY, *FAMILIES):
        settings["family"] = family if name in ANY_FAMILY else family.name
    return ESTIMATORS[name](**settings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.anypca"


@pytest.fixture(scope="module")
def fitted():
    return anypca.PPCA(2).fit(generator("table").normal(size=(30, 4)))


def again(model: Any, path: Any) -> Any:
    anypca.save(model, path)
    return anypca.load(path)


@pytest.mark.parametrize(("name", "family", "variant"), cases())
def test_round_trip_gives_the_same_bits(name, family, variant, path):
    chosen, table = draw("poisson" if name in ("PLNPCA", "SPPCA", "SSPPCA") else family)
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, DataConversionWarning):
            warnings.simplefilter("ignore", category)
        model = make(name, chosen, variant).fit(table)
    loaded = again(model, path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.transform(table), model.transform(table))
    if "return_std" in inspect.signature(model.transform).parameters:
        both = [each.transform(table, return_std=True) for each in (loaded, model)]
        for ours, theirs in zip(*both, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert list(loaded.feature_names_in_) == list("abcdef")
    assert repr(loaded) == repr(model)
    learned = [{key for key in vars(each) if key.endswith("_")} for each in (loaded, model)]
    assert learned[0] == learned[1]
    for key in learned[0]:
        ours, theirs = (getattr(each, key) for each in (loaded, model))
        if isinstance(theirs, float | np.ndarray | dict):
            np.testing.assert_equal(ours, theirs, err_msg=key)
    written = path.read_bytes()
    anypca.save(loaded, path)
    assert path.read_bytes() == written


def test_rotated_models_and_models_that_are_not_fitted(fitted, path):
    rotated = fitted.rotate("varimax")
    np.testing.assert_array_equal(again(rotated, path).components_, rotated.components_)
    assert (
        again(anypca.EPCA(3, family="gamma"), path).get_params()
        == anypca.EPCA(3, family="gamma").get_params()
    )


@pytest.mark.parametrize("kind", [int, np.random.RandomState, np.random.default_rng])
def test_random_states(kind, path):
    state = kind(seed(5))
    found = again(anypca.EPCA(random_state=state), path).random_state
    if kind is int:
        assert found == state
    else:
        np.testing.assert_array_equal(found.normal(size=3), state.normal(size=3))


#: Fits models and stores each in a folder.
PROGRAM = """
import pathlib, sys, warnings, numpy as np, anypca
warnings.simplefilter("ignore")
X = np.random.default_rng(0).poisson(3.0, (30, 4)).astype(float)
for name in ("EPCA", "KernelPCA"):
    state = {} if name == "KernelPCA" else {"random_state": np.random.RandomState(3)}
    anypca.save(getattr(anypca, name)(2, **state).fit(X), pathlib.Path(sys.argv[1], name))
"""


def test_equal_fits_of_different_processes_have_equal_files(tmp_path):
    written = []
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], check=True, env=environment)
        written.append({each.name: each.read_bytes() for each in tmp_path.iterdir()})
    assert set(written[0]) == {"EPCA", "KernelPCA"}
    assert written[0] == written[1]


def test_signed_files(fitted, path):
    anypca.save(fitted, path, key="secret")
    np.testing.assert_array_equal(anypca.load(path, key="secret").components_, fitted.components_)
    assert isinstance(anypca.load(path), anypca.PPCA)
    with pytest.raises(ModelFileError, match="key"):
        anypca.load(path, key="other")
    anypca.save(fitted, path)
    with pytest.raises(ModelFileError, match="not signed"):
        anypca.load(path, key="secret")
    with pytest.raises(ValueError, match="empty key"):
        anypca.save(fitted, path, key="")


def test_one_flipped_bit_anywhere_is_refused(fitted, path):
    anypca.save(fitted, path)
    whole, rng = path.read_bytes(), generator("bits")
    head = whole.index(b"\n") + 1
    for place in [*range(head), *rng.integers(head, len(whole), 100), len(whole) - 1]:
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(spoilt))
        with pytest.raises(ModelFileError):
            anypca.load(path)


@pytest.mark.parametrize("cut", [0, 10, 90, -1])
def test_cut_and_longer_files_are_refused(cut, fitted, path):
    anypca.save(fitted, path)
    whole = path.read_bytes()
    for content in (whole[:cut], whole + b"\0"):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="damaged"):
            anypca.load(path)


def put(path: Any, fitted: Any, payload: bytes) -> None:
    """A file whose first line fits what follows it."""
    anypca.save(fitted, path)
    head = path.read_bytes().split(b"\n", 1)[0]
    checksum = hashlib.sha256(payload).hexdigest().encode()
    path.write_bytes(re.sub(rb"(?<=sha256=)[0-9a-f]{64}", checksum, head) + b"\n" + payload)


class Trap:
    """Leaves a file behind when it is unpickled or built."""

    place = ""

    def __reduce__(self):
        return os.mkdir, (Trap.place,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("signed", [False, True], ids=["bare", "signed"])
def test_pickles_are_refused_and_not_run(protocol, signed, fitted, path, tmp_path, monkeypatch):
    monkeypatch.setattr(Trap, "place", str(tmp_path / "sprung"))
    content = pickle.dumps(Trap(), protocol)
    if signed:
        put(path, fitted, content)
    else:
        path.write_bytes(content)
    with pytest.raises(ModelFileError, match="pickle" if protocol >= 2 and not signed else "model file"):
        anypca.load(path)
    assert not (tmp_path / "sprung").exists()


class Unknown:
    """A type that no model file has."""

    built = False

    def __setstate__(self, state):
        Unknown.built = True


@pytest.mark.parametrize(
    "value",
    [Unknown(), functools.partial(print, "x"), os.path.join, anypca.PPCA(2), [1], {"version": "1"}, PCA(2)],
    ids=["class", "partial", "function", "own class", "list", "dict", "of another package"],
)
def test_archives_with_anything_else_are_refused(value, fitted, path):
    put(path, fitted, skops.io.dumps(value))
    with pytest.raises(ModelFileError):
        anypca.load(path)
    assert not Unknown.built
    path.write_bytes(skops.io.dumps(value))
    with pytest.raises(ModelFileError, match="skops"):
        anypca.load(path)


def test_other_versions(fitted, path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(anypca, "__version__", "0.0.1")
        anypca.save(fitted, path)
    with pytest.warns(UserWarning, match=r"0\.0\.1"):
        assert isinstance(anypca.load(path), anypca.PPCA)
    path.write_bytes(re.sub(rb"^anypca-model 1 ", b"anypca-model 99 ", path.read_bytes()))
    with pytest.raises(ModelFileError, match="format 99"):
        anypca.load(path)


@pytest.mark.parametrize("name", ["PPCA", "EPCA", "SePCA"])
def test_damaged_arrays_are_found_on_load(name, path):
    X = generator("table").normal(size=(30, 4))
    model = make(name, anypca.families.Gaussian(), {"max_iter": 100}).fit(X)
    anypca.save(model, path)
    arrays = dict(np.load(io.BytesIO(path.read_bytes().split(b"\n", 1)[1])))
    refused = []
    for damaged in (each for each, array in arrays.items() if array.dtype.kind == "f" and array.size):
        packed = io.BytesIO()
        np.savez(packed, **{**arrays, damaged: np.full_like(arrays[damaged], np.nan)})
        put(path, model, packed.getvalue())
        try:
            assert np.isfinite(anypca.load(path).transform(X)).all()
        except ModelFileError:
            refused.append(damaged)
    assert len(refused) >= 3


def test_what_cannot_be_saved_leaves_the_earlier_file(fitted, path):
    anypca.save(fitted, path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="family"):
        anypca.save(anypca.EPCA(family=lambda x: x), path)
    with pytest.raises(TypeError, match="PCA"):
        anypca.save(PCA(2), path)
    assert path.read_bytes() == before
    assert [place.name for place in path.parent.iterdir()] == [path.name]


def test_paths(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    anypca.save(fitted, "new/folder/model")
    assert isinstance(anypca.load("new/folder/model"), anypca.PPCA)
    with pytest.raises(FileNotFoundError):
        anypca.load("nowhere")
    with pytest.raises(IsADirectoryError):
        anypca.save(fitted, "new/folder")
