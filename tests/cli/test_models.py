"""Every model and every family goes from a file to a folder, and new rows get the scores of the fit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.draws import generator

import anypca
from anypca.columns.forms import column_forms
from anypca.families import families

#: Further words of models that take long.
SHORT = {
    "bepca": {"n_draws": 60, "n_tune": 60, "family": "gaussian"},
    "isfa": {"n_draws": 60, "n_tune": 60, "family": "gaussian", "n_chains": 1},
    "piecewise": {"n_init": 2, "n_pieces": 2, "breakpoints": [0]},
    "spca": {"n_nonzero": 3},
    "vae": {"n_iter_no_change": 2},
    "autoencoder": {"tol": 0.1},
}
NAMES = {
    name.lower().removesuffix("pca") if name in ("KernelPCA", "PiecewisePCA") else name.lower(): name
    for name in anypca.__all__
    if hasattr(getattr(anypca, name), "fit_transform") and name not in ("Imputer", "MixtureOf", "PCA")
}


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"epca", "ppca", "sepca"}))
def test_every_model_fits_and_projects(counts, tmp_path, call, call_json, name):
    out = tmp_path / "out"
    settings = SHORT.get(name, {})
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    summary = call_json(
        "fit", counts, "--model", name, "-k", 2, "--seed", 7, "--threads", 2, "-o", out, *words
    )
    assert summary["model"] == NAMES[name]
    model = anypca.load(out / "model.anypca")
    parameters = model.get_params()
    assert type(model).__name__ == NAMES[name]
    assert 2 in {parameters.get(key) for key in ("n_components", "max_components", "max_factors")}
    assert parameters | settings == parameters
    for key, value in (("random_state", 7), ("n_jobs", 2)):
        assert parameters.get(key, value) == value
    assert {*summary["files"], "anypca-manifest.json"} == {path.name for path in out.iterdir()}
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["model"] == NAMES[name]
    assert call("transform", out, counts, "-o", tmp_path / "again.csv")[0] == 0
    assert (tmp_path / "again.csv").read_text() == (out / "scores.csv").read_text()


# Names on the command line of families that need a number: how many trials there are.
NUMBERED = {"binomial": "binomial(9)", "beta_binomial": "beta_binomial(9)"}


def draw(name, n=60):
    """A table of four columns of one family or form, along one component."""
    rng = generator("draw", name)
    predictors = 0.3 + np.outer(rng.normal(size=n), [0.8, -0.6, 0.5, 0.9])
    if name in families:
        return families[name].examples()[0].sample(predictors, 0.4, rng)
    form, columns = column_forms[name].examples()[0], []
    for eta in predictors.T:
        drawn = np.column_stack([part.sample(eta, 0.4, rng) for part in form.parts])
        columns.append(form.draw(drawn, np.full(drawn.shape, 0.5), rng))
    return np.column_stack(columns)


@pytest.mark.conformance
@pytest.mark.parametrize(
    "name", [*families, *(name for name in column_forms if column_forms[name].examples()[0].parts)]
)
def test_every_family_from_a_file_to_a_report_and_a_comparison(name, tmp_path, call):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    pd.DataFrame(draw(name), columns=list("abcd")).to_csv(path, index=False)
    words = [path, "--model", "epca", "-k", 1, "--family", NUMBERED.get(name, name)]
    code, _, err = call("fit", *words, "--out", out)
    assert code == 0, err
    assert (out / "report.html").stat().st_size > 0
    model = anypca.load(out / "model.anypca")
    assert np.isfinite(model.sample(5, random_state=0)).all()
    code, printed, err = call("compare", *words)
    assert code == 0, err
    assert "epca" in printed
