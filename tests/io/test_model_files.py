"""Model files: the same model comes back, and nothing else gets in."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.decomposition import PCA

import anypca
from anypca._arviz import join_groups, make_group, split_groups
from anypca.datasets import make_low_rank, make_low_rank_counts
from anypca.exceptions import ConvergenceWarning, ModelFileError
from anypca.families import families
from anypca.io import model_files
from anypca.io._plain import decode, encode, own_types
from anypca.models._base import LatentModel
from anypca.solvers import Status

ESTIMATORS = {
    name: getattr(anypca, name)
    for name in anypca.__all__
    if inspect.isclass(getattr(anypca, name)) and issubclass(getattr(anypca, name), LatentModel)
}


@dataclass(frozen=True)
class Spec:
    """How an estimator is fitted here: settings, each with a family of which a table is drawn."""

    settings: dict[str, Any] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    """Values of ``family``; none for an estimator without one."""
    variants: tuple[dict[str, Any], ...] = ({},)
    """Further settings, each fitted besides."""
    by_name: bool = False
    """The estimator takes names of families, not families."""
    draws: str = "gaussian"
    """Family of the table for estimators without ``family``."""
    rare: bool = False
    """Most families are left to ``make conformance``: how a family is stored does not depend on the estimator."""


ALL = (*families, "mixed", "auto")
SHORT = {"n_draws": 10, "n_tune": 10, "n_chains": 1}
SPECS = {
    "BEPCA": Spec({"n_components": 2, **SHORT}, ALL, rare=True),
    "ISFA": Spec(SHORT, ALL, ({}, {"mask": "loadings"}), rare=True),
    "Autoencoder": Spec({"n_components": 2, "max_iter": 5}, variants=({}, {"latent_activation": "relu"})),
    "EPCA": Spec({"n_components": 2, "max_iter": 5}, ALL),
    "GPCA": Spec({"n_components": 2, "max_iter": 5}, ("gaussian", "poisson", "bernoulli", "binomial")),
    "GSPPCA": Spec({"n_components": 2}),
    "KernelPCA": Spec(
        {"n_components": 2, "n_basis": 50},
        variants=(
            {},
            {"method": "nystroem"},
            {"method": "rff"},
            {"kernel": "polynomial"},
            {"fit_inverse_transform": True},
        ),
    ),
    "PLNPCA": Spec({"n_components": 2, "max_iter": 5}, draws="poisson"),
    "PPCA": Spec({"n_components": 2}, variants=({}, {"n_components": "mle"})),
    "PiecewisePCA": Spec(
        {"n_components": 1, "n_init": 1, "tol": 1.0, "max_iter": 5},
        ("gaussian", "poisson", "bernoulli", "negative_binomial"),
        by_name=True,
    ),
    "SPCA": Spec({"n_components": 2}, variants=({}, {"method": "eigen", "n_nonzero": 3})),
    "SPPCA": Spec({"max_components": 2, "max_iter": 5}, draws="poisson"),
    "SSPCA": Spec({"n_components": 2}, variants=({}, {"n_patterns": 2, "n_features_to_select": 3})),
    "SSPPCA": Spec({"max_components": 2, "max_iter": 5}, draws="poisson"),
    "SePCA": Spec({"max_components": 2, "max_iter": 5}, ALL),
    "VAE": Spec({"n_components": 2, "max_iter": 2, "score_draws": 5}, ALL, rare=True),
}
#: A fit that leaves its family to the data, and one with a family for each column, draw these.
MIXED = ["poisson", "bernoulli", "gaussian", "gamma", "poisson", "gaussian"]


def cases() -> list[Any]:
    """One parameter for each estimator, family and variant."""
    found = []
    for name in ESTIMATORS:
        spec = SPECS.get(name, Spec())
        for family in spec.families or (None,):
            for variant in spec.variants:
                label = [name, *([family] if family else []), *(f"{k}={v}" for k, v in variant.items())]
                is_rare = spec.rare and family not in ("gaussian", "bernoulli", "negative_binomial", "mixed")
                marks = [pytest.mark.conformance] if is_rare else []
                found.append(pytest.param(name, family, variant, id="-".join(map(str, label)), marks=marks))
    return found


def draw(family: str | None, spec: Spec) -> tuple[Any, np.ndarray]:
    """The family to fit with, and a table."""
    if family in ("mixed", "auto"):
        X = make_low_rank(40, 6, 2, family=MIXED, signal=0.5, random_state=0).X
        return (MIXED if family == "mixed" else "auto"), X
    chosen = families[family or spec.draws].examples()[0]
    return family if spec.by_name else chosen, make_low_rank(
        40, 6, 2, family=chosen, signal=0.5, random_state=0
    ).X


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.anypca"


@pytest.fixture
def fitted():
    return anypca.PPCA(2).fit(np.random.default_rng(0).normal(size=(30, 4)))


def sign(payload: bytes, version: int = model_files.FORMAT) -> bytes:
    """A file whose first line is right."""
    return f"anypca-model {version} sha256={hashlib.sha256(payload).hexdigest()}\n".encode() + payload


def pack(structure: str, leaves: tuple[Any, ...] = (), version: str = anypca.__version__) -> bytes:
    """A signed file of that structure."""
    return sign(skops.io.dumps({"version": version, "structure": structure, "leaves": list(leaves)}))


def test_every_estimator_has_a_spec():
    assert not set(ESTIMATORS) - set(SPECS), "say in SPECS how the new estimator is fitted"


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::anypca.exceptions.DataConversionWarning")
@pytest.mark.parametrize(("name", "family", "variant"), cases())
def test_round_trip_gives_the_same_bits(name, family, variant, path):
    spec = SPECS[name]
    chosen, X = draw(family, spec)
    model = ESTIMATORS[name](**(spec.settings | variant | ({"family": chosen} if family else {})))
    model.fit(pd.DataFrame(X, columns=list("abcdef")))
    anypca.save(model, path)
    again = anypca.load(path)
    assert type(again) is type(model)
    table = pd.DataFrame(X, columns=list("abcdef"))
    np.testing.assert_array_equal(again.transform(table), model.transform(table))
    assert model.n_components_ > 0 or name in {"SePCA", "ISFA"}
    if "return_std" in inspect.signature(model.transform).parameters:
        for ours, theirs in zip(
            again.transform(table, return_std=True), model.transform(table, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    assert list(again.feature_names_in_) == list("abcdef")
    assert repr(again) == repr(model)
    assert {key for key in vars(again) if key.endswith("_")} == {
        key for key in vars(model) if key.endswith("_")
    }
    written = path.read_bytes()
    anypca.save(again, path)
    assert path.read_bytes() == written


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["vb", "map"])
def test_everything_a_model_can_do_survives(inference, path):
    drawn = make_low_rank_counts(60, 8, 2, missing=0.1, random_state=0)
    offset = np.log(np.random.default_rng(1).uniform(1, 2, 60))
    model = anypca.SePCA(4, inference=inference, max_iter=50).fit(drawn.X, offset=offset)
    anypca.save(model, path)
    again = anypca.load(path)
    for method in ("score_samples", "impute", "transform"):
        np.testing.assert_array_equal(
            getattr(again, method)(drawn.X, offset=offset), getattr(model, method)(drawn.X, offset=offset)
        )
    assert again.family_ == model.family_
    assert str(again.family_report_) == str(model.family_report_)
    assert again.evidence_by_rank_ == model.evidence_by_rank_
    assert again.pruning_path_ == model.pruning_path_
    with pytest.raises(ValueError, match="fitted with an offset"):
        again.transform(drawn.X)
    # Saved again, the loaded model gives the same structure.
    assert encode(again)[0] == encode(model)[0]


def test_draws_of_a_sampler(path):
    pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    scores = {"scores": rng.normal(size=(2, 5, 4, 1))}
    groups = {
        "posterior": make_group(scores, {"row": list("abcd")}, {"scores": ["row", "component"]}),
        "sample_stats": make_group({"diverging": rng.random((2, 5)) < 0.5}, {}, {}),
    }
    model = anypca.SePCA(inference="hmc")
    model.posterior_ = join_groups(groups)
    anypca.save(model, path)
    again = split_groups(anypca.load(path).posterior_)
    assert list(again) == list(groups)
    for name, group in groups.items():
        assert again[name].identical(group)
        assert again[name].attrs == {}


@pytest.mark.parametrize("kind", [int, np.random.RandomState, np.random.default_rng])
def test_random_states(kind, path):
    state = kind(5)
    anypca.save(anypca.EPCA(random_state=state), path)
    again = anypca.load(path).random_state
    if kind is int:
        assert again == 5
    else:
        np.testing.assert_array_equal(again.normal(size=3), state.normal(size=3))


def test_values_come_back_as_they_were():
    base = np.arange(24.0).reshape(2, 3, 4)
    value = {
        "nan": [float("nan"), float("-inf"), 0.1, 10**30, True, None],
        7: (1, {2}, frozenset({3})),
        np.dtype("float32"): np.float32(0.1),
        "text": np.array(["a", "b\0"], dtype=object).reshape(2, 1),
        "arrays": [base, base.T, base[:, ::2, 1:3], np.asfortranarray(base[0]), np.array(3.0), base],
        "sparse": sparse.csr_array(np.eye(3)),
        "status": Status.CONVERGED,
    }
    again = decode(*encode(value))
    assert repr(again["nan"]) == repr(value["nan"])
    assert again[7] == value[7]
    assert type(again[np.dtype("float32")]) is np.float32
    assert again["text"].tolist() == [["a"], ["b\0"]]
    assert again["status"] is Status.CONVERGED
    for ours, theirs in zip(again["arrays"], value["arrays"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
        # The order of the axes in memory is the same.
        np.testing.assert_array_equal(np.argsort(ours.strides), np.argsort(theirs.strides))
    assert again["arrays"][0] is not again["arrays"][1]
    assert len(encode(value)[1]) == 7, "an array that occurs twice is stored once"


def test_one_flipped_bit_anywhere_is_refused(fitted, path):
    anypca.save(fitted, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    head = whole.index(b"\n") + 1
    for place in [*range(head), *rng.integers(head, len(whole), 100), len(whole) - 1]:
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(spoilt))
        with pytest.raises(ModelFileError, match=r"damaged|is in format"):
            anypca.load(path)


@pytest.mark.parametrize("cut", [0, 10, 90, -1])
def test_cut_and_longer_files_are_refused(cut, fitted, path):
    anypca.save(fitted, path)
    whole = path.read_bytes()
    for content in (whole[:cut], whole + b"\0"):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="damaged"):
            anypca.load(path)


class Trap:
    """Leaves a file behind when it is unpickled or built."""

    place = ""

    def __reduce__(self):
        return os.mkdir, (Trap.place,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("signed", [False, True], ids=["bare", "signed"])
def test_pickles_are_refused_and_not_run(protocol, signed, path, tmp_path, monkeypatch):
    monkeypatch.setattr(Trap, "place", str(tmp_path / "sprung"))
    content = pickle.dumps(Trap(), protocol)
    path.write_bytes(sign(content) if signed else content)
    with pytest.raises(ModelFileError, match="no model file of anypca"):
        anypca.load(path)
    assert not (tmp_path / "sprung").exists()
    if protocol >= 2 and not signed:
        with pytest.raises(ModelFileError, match="looks like a pickle"):
            anypca.load(path)


class Unknown:
    """A type that no model file has."""

    built = False

    def __setstate__(self, state):
        Unknown.built = True


@pytest.mark.parametrize(
    ("leaf", "name"),
    [
        (Unknown(), "Unknown"),
        (functools.partial(print, "x"), "print"),
        (os.path.join, "join"),
        (anypca.PPCA(2), "PPCA"),
    ],
    ids=["class", "partial", "function", "own class past the structure"],
)
def test_skops_files_with_other_types_are_refused(leaf, name, path):
    path.write_bytes(pack('{"kind": "leaf", "number": 0}', (leaf,)))
    with pytest.raises(ModelFileError, match=rf"holds types that no model file.*{name}"):
        anypca.load(path)
    assert not Unknown.built


def test_plain_skops_files_are_refused(path):
    skops.io.dump(PCA(2), path)
    with pytest.raises(ModelFileError, match="zip or plain skops"):
        anypca.load(path)
    path.write_bytes(sign(path.read_bytes()))
    with pytest.raises(ModelFileError, match="its parts are not version, structure, leaves"):
        anypca.load(path)


@pytest.mark.parametrize(
    ("structure", "complaint"),
    [
        ('{"kind": "object", "type": "os:system", "state": {}}', "no class of this version"),
        ('{"kind": "object", "type": "anypca.io.atomic:write_atomically", "state": {}}', "no class of"),
        ('{"kind": "object", "type": "anypca.io.tables:Path", "state": {}}', "no class of this version"),
        ('{"kind": "object", "type": "anypca.solvers._loop:Status", "state": {}}', "has no attributes"),
        ('{"kind": "enum", "type": "anypca.solvers._loop:Status", "name": "X"}', "no valid structure"),
        ('{"kind": "enum", "type": "anypca.families.poisson:Poisson", "name": "X"}', "no enumeration"),
        (
            '{"kind": "record", "type": "anypca.models._bilinear.start:Directions", "items": [1]}',
            "have 1 items",
        ),
        ('{"kind": "objects", "shape": [3], "items": [1]}', "do not fill"),
        ('{"kind": "leaf", "number": 5}', "no valid structure"),
        ('{"kind": "eval"}', "no valid structure"),
        ("[1]", "no valid structure"),
        ("not json", "no valid structure"),
        (
            '{"kind": "object", "type": "anypca.families.poisson:Poisson", "state": {}}',
            "Poisson, not a model",
        ),
        ("1", "holds int, not a model"),
    ],
)
def test_structures_that_save_never_writes(structure, complaint, path):
    path.write_bytes(pack(structure))
    with pytest.raises(ModelFileError, match=complaint):
        anypca.load(path)


def test_only_classes_of_the_models_are_known():
    for name, cls in own_types().items():
        assert isinstance(cls, type)
        assert name.startswith("anypca.")
        assert not name.startswith(("anypca.io", "anypca.cli"))
        assert name.startswith("anypca.engine.layout:") or not name.startswith("anypca.engine")


def test_other_versions(fitted, path):
    structure, leaves = encode(fitted)
    path.write_bytes(pack(structure, tuple(leaves), "0.0.1"))
    with pytest.warns(UserWarning, match=r"written by anypca 0\.0\.1"):
        assert isinstance(anypca.load(path), anypca.PPCA)
    path.write_bytes(sign(b"whatever", version=2))
    with pytest.raises(ModelFileError, match=r"is in format 2 .* reads format 1"):
        anypca.load(path)


def test_what_cannot_be_saved_leaves_the_earlier_file(fitted, path):
    anypca.save(fitted, path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"EPCA\.family is of type builtins\.function"):
        anypca.save(anypca.EPCA(family=lambda x: x), path)
    with pytest.raises(TypeError, match=r"save writes estimators of anypca; got PCA"):
        anypca.save(PCA(2), path)
    assert path.read_bytes() == before
    assert [place.name for place in path.parent.iterdir()] == [path.name]


def test_a_file_is_replaced_whole_or_not_at_all(fitted, path, monkeypatch):
    anypca.save(fitted, path)
    before = path.read_bytes()

    def fail(place, content):
        place.write_bytes(content[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(model_files, "_write", fail)
    with pytest.raises(KeyboardInterrupt):
        anypca.save(anypca.PPCA(1), path)
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


def test_without_skops_the_remedy_is_named(fitted, path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"pip install 'anypca\[io\]'"):
        anypca.save(fitted, path)


def test_convergence_warning_is_not_part_of_loading(path):
    model = anypca.EPCA(1, family="poisson", max_iter=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(make_low_rank_counts(30, 5, 1, random_state=0).X)
    anypca.save(model, path)
    assert not anypca.load(path).converged_
