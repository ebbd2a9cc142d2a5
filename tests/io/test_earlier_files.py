"""Files of earlier versions are read; files that nobody should have written are refused with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from zipfile import ZIP_DEFLATED

import numpy as np
import pytest
import skops.io

import anypca
from anypca.exceptions import ModelFileError
from anypca.io import _schema, model_files
from anypca.io._plain import encode, own_types

EARLIER = Path(__file__).parent / "earlier"
COUNTS = {"epca", "sepca", "plnpca", "gpca", "sppca", "vae"}
#: What has changed so much that the model must be fitted again.
LOST = {"first-piecewise"}


@pytest.mark.filterwarnings("ignore:.*was written by anypca:UserWarning")
@pytest.mark.parametrize("path", sorted(EARLIER.glob("*.anypca")), ids=lambda path: path.stem)
def test_files_of_earlier_versions(path):
    if path.stem in LOST:
        with pytest.raises(ModelFileError, match=r"is not complete.*Fit the model again"):
            anypca.load(path)
        return
    kind = "counts" if path.stem.partition("-")[2] in COUNTS else "numbers"
    X = np.loadtxt(EARLIER / f"{kind}.csv", delimiter=",")
    scores = anypca.load(path).transform(X)
    expected = np.loadtxt(path.with_suffix(".csv"), ndmin=2).reshape(scores.shape)
    # Rows are solved to a scaled gradient of 1e-6 or better; other processors round otherwise.
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_every_class_that_moved_is_known():
    assert set(_schema.MOVED.values()) <= set(own_types())
    assert not set(_schema.MOVED) & set(own_types())


def write(path, model, change=lambda structure, leaves: None):
    """Write a model whose structure or arrays were changed, with a right checksum."""
    structure, leaves = encode(model)
    tree = json.loads(structure)
    change(tree, leaves)
    content = {"version": anypca.__version__, "structure": json.dumps(tree), "leaves": leaves}
    payload = skops.io.dumps(content, compression=ZIP_DEFLATED)
    digest = model_files.hashlib.sha256(payload).hexdigest()
    path.write_bytes(f"anypca-model {model_files.FORMAT} sha256={digest}\n".encode() + payload)


@pytest.fixture(scope="module")
def model():
    return anypca.PPCA(2).fit(np.random.default_rng(0).normal(size=(30, 4)))


def set_state(name, value):
    return lambda tree, leaves: tree["state"].__setitem__(name, value)


def drop(name):
    return lambda tree, leaves: tree["state"].pop(name)


def change_array(name, change):
    def apply(tree, leaves):
        number = tree["state"][name]["number"]
        leaves[number] = change(leaves[number])

    return apply


CASES = {
    "parameter": (set_state("n_components", -3), "parameter in the model file is not allowed"),
    "foreign": (set_state("evil", 1), "has evil besides"),
    "columns": (set_state("n_features_in_", "4"), "n_features_in_ .* whole number of 1 or more; it is '4'"),
    "components": (set_state("n_components_", 3), "components_ .* has the shape .*; expected"),
    "lacking": (drop("n_components_"), "n_components_ .* it is None"),
    "text": (set_state("components_", "x"), "components_ .* is no array of real numbers but str"),
    "shape": (change_array("intercept_", lambda x: x[:-1]), "has the shape"),
    "nan": (change_array("components_", lambda x: x * np.nan), "not finite"),
    "whole": (change_array("components_", lambda x: x.astype(int)), "no array of real numbers"),
}


@pytest.mark.parametrize("case", CASES)
def test_models_that_no_fit_makes_are_refused(case, model, tmp_path):
    change, complaint = CASES[case]
    write(tmp_path / "m", model, change)
    with pytest.raises(ModelFileError, match=complaint):
        anypca.load(tmp_path / "m")


def test_attributes_that_a_model_needs(model, tmp_path):
    write(tmp_path / "m", model, drop("_principal"))
    with pytest.raises(ModelFileError, match="PPCA in the model file is not complete"):
        anypca.load(tmp_path / "m")


def test_deep_structures_are_refused(tmp_path):
    payload = skops.io.dumps({"version": "x", "structure": "[" * 100_000, "leaves": []})
    digest = model_files.hashlib.sha256(payload).hexdigest()
    (tmp_path / "m").write_bytes(f"anypca-model 1 sha256={digest}\n".encode() + payload)
    with pytest.raises(ModelFileError, match="no valid structure"):
        anypca.load(tmp_path / "m")


def test_a_parameter_that_is_new_has_its_default(tmp_path):
    write(tmp_path / "m", anypca.EPCA(2), drop("ridge"))
    assert anypca.load(tmp_path / "m").ridge == anypca.EPCA(2).ridge


def test_migrations_are_applied(model, tmp_path, monkeypatch):
    name = "anypca.models.ppca._estimator:PPCA"

    def rename(state):
        return {("n_components" if key == "k" else key): value for key, value in state.items()}

    def earlier(tree, leaves):
        tree["state"]["k"] = tree["state"].pop("n_components")

    write(tmp_path / "m", model, earlier)
    with pytest.raises(ModelFileError, match="has k besides"):
        anypca.load(tmp_path / "m")
    monkeypatch.setitem(_schema.MIGRATIONS, name, rename)
    assert anypca.load(tmp_path / "m").n_components == 2


def test_archives_that_would_fill_the_memory(tmp_path, model, monkeypatch):
    monkeypatch.setattr(model_files, "_SMALL", 1000)
    write(tmp_path / "m", model, lambda tree, leaves: leaves.append(np.zeros(10_000_000, dtype=np.int8)))
    with pytest.raises(ModelFileError, match=r"would unpack to 0\.0 GB .* It was not opened"):
        anypca.load(tmp_path / "m")


def test_signatures(tmp_path, model):
    path = tmp_path / "m"
    anypca.save(model, path, key="secret")
    for key in ("secret", b"secret", None):
        anypca.load(path, key=key)
    with pytest.raises(ModelFileError, match="signed with another key"):
        anypca.load(path, key="other")
    shutil.copy(path, tmp_path / "copy")
    anypca.save(model, path)
    with pytest.raises(ModelFileError, match="is not signed"):
        anypca.load(path, key="secret")
    with pytest.raises(ValueError, match="an empty key signs nothing"):
        anypca.save(model, path, key="")
    # Another payload under the head of a signed file.
    head, _, _ = (tmp_path / "copy").read_bytes().partition(b"\n")
    other = path.read_bytes().partition(b"\n")[2] + b"\0"
    digest = model_files.hashlib.sha256(other).hexdigest().encode()
    (tmp_path / "copy").write_bytes(head[:22] + digest + head[86:] + b"\n" + other)
    with pytest.raises(ModelFileError, match="signed with another key"):
        anypca.load(tmp_path / "copy", key="secret")
