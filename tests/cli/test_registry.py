"""The models by name: what they are, what they refuse, and that each goes from a file to a folder."""

from __future__ import annotations

import json

import pytest

import anypca
from anypca.cli._models import MODELS, ModelRequest, Shape, build, check_companions, parse_settings

SHAPE = Shape(n_columns=12, is_counts=True)


def test_every_estimator_of_the_package_has_a_name():
    classes = {name for name in anypca.__all__ if hasattr(getattr(anypca, name), "transform")}
    assert {entry.class_name for entry in MODELS.values()} == classes


def test_names_are_those_that_are_documented():
    names = "auto ppca epca sepca bepca isfa sppca ssppca gpca gsppca spca sspca kernel plnpca piecewise"
    assert list(MODELS) == [*names.split(), "autoencoder", "vae"]


@pytest.mark.parametrize("name", MODELS)
def test_options_reach_the_estimator(name):
    model = build(ModelRequest(name, n_components=3, seed=7, threads=2), SHAPE, verbose=True)
    parameters = model.get_params()
    assert 3 in {parameters.get(name) for name in ("n_components", "max_components", "max_factors")}
    assert (parameters["random_state"], parameters["n_jobs"], parameters["verbose"]) == (7, 2, 1)


@pytest.mark.parametrize(
    ("name", "is_counts", "expected"),
    [("piecewise", True, "poisson"), ("piecewise", False, "gaussian"), ("epca", True, "auto")],
)
def test_family_follows_the_table(name, is_counts, expected):
    assert build(ModelRequest(name), Shape(5, is_counts)).family == expected


def test_settings_are_parsed_and_win():
    settings = parse_settings(["n_pieces=3", "coupling=free", "breakpoints=[-1, 1]"])
    assert settings == {"n_pieces": 3, "coupling": "free", "breakpoints": [-1, 1]}
    assert build(ModelRequest("piecewise", settings=settings), SHAPE).n_pieces == 3
    assert build(ModelRequest("spca"), SHAPE).n_nonzero == 3
    sparse = build(ModelRequest("spca", settings={"penalty": 0.5}), SHAPE)
    assert (sparse.n_nonzero, sparse.penalty) == (None, 0.5)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (ModelRequest("ppca", family="poisson"), "for real values.*--family poisson.*Use --model epca"),
        (ModelRequest("plnpca", family="gaussian"), "for counts.*--family gaussian"),
        (ModelRequest("epca", settings={"n_pices": 2}), "EPCA has no such parameter"),
        (ModelRequest("piecewise", settings={"n_pices": 2}), "Did you mean 'n_pieces'"),
        (ModelRequest("ecpa"), "'ecpa' is not one of auto, ppca.*Did you mean 'epca'"),
    ],
    ids=["real", "counts", "setting", "near-setting", "name"],
)
def test_what_a_model_cannot_honour(request_, complaint):
    with pytest.raises(ValueError, match=complaint):
        build(request_, SHAPE)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("ppca", "offset", "ppca takes no offset. Leave --offset out, or use --model auto or epca"),
        ("gpca", "covariates", "gpca takes no covariates. Leave --covariates out"),
        ("gsppca", "missing", "gsppca needs a complete table.*or use --model auto or ppca"),
    ],
)
def test_what_a_model_cannot_use(name, given, complaint):
    wishes = {"offset": False, "covariates": False, "missing": False, given: True}
    with pytest.raises(ValueError, match=complaint):
        check_companions(name, **wishes)


@pytest.mark.parametrize("pair", ["n_pieces", "=3", ""])
def test_settings_need_a_name_and_a_value(pair):
    with pytest.raises(ValueError, match="--set needs NAME=VALUE"):
        parse_settings([pair])


@pytest.mark.parametrize("name", [name for name in MODELS if name not in {"auto", "epca", "ppca"}])
def test_every_model_fits_and_projects(counts, tmp_path, call, name):
    out = tmp_path / "out"
    short = ["--set", "n_draws=60", "--set", "n_tune=60", "--set", "family=gaussian"]
    extra = {"piecewise": ["--set", "n_init=2"], "bepca": short, "isfa": [*short, "--set", "n_chains=1"]}.get(
        name, []
    )
    code, _, err = call("fit", counts, "--model", name, "-o", out, *extra)
    # A fit of more than ten seconds, as on a busy machine, tells of its progress.
    assert (code, [line for line in err.splitlines() if not line.startswith("fitting:")]) == (0, [])
    summary = json.loads((out / "summary.json").read_text())
    assert summary["model"] == MODELS[name].class_name
    assert {*summary["files"], "anypca-manifest.json"} == {path.name for path in out.iterdir()}
    assert call("transform", out, counts, "-o", tmp_path / "again.csv")[0] == 0
    assert (tmp_path / "again.csv").read_text() == (out / "scores.csv").read_text()
