"""Every family goes from a file to a folder with a report and a model, and is compared by held-out cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anypca
from anypca.families import families
from anypca.families.forms import column_forms

# Names on the command line of those that need a number: how many trials there are.
NUMBERED = {"binomial": "binomial(9)", "beta_binomial": "beta_binomial(9)"}
N = 60


def draw(name):
    """A table of four columns of one family or form, along one component."""
    rng = np.random.default_rng(0)
    predictors = 0.3 + np.outer(rng.normal(size=N), [0.8, -0.6, 0.5, 0.9])
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
def test_from_a_file_to_a_report_and_a_comparison(name, tmp_path, call):
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
