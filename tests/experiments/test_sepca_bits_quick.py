"""The quick forms of the experiments of SePCA on noisy bits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments import sepca_bits, sepca_inference, sepca_nu, sepca_synthetic, sepca_weight


@pytest.mark.parametrize(
    "experiment",
    [sepca_synthetic, sepca_inference, sepca_nu, sepca_bits, sepca_weight],
    ids=lambda module: module.__name__,
)
def test_quick_form(experiment, tmp_path, capsys):
    status = experiment.main(["--quick", "--out", str(tmp_path / "out.json")])
    assert status == 0, capsys.readouterr().out
    record = json.loads((tmp_path / "out.json").read_text())
    assert all(np.isfinite(target["ours"]) for target in record["targets"])


def test_pictures(tmp_path):
    answers = {("map", 3): [[3, -0.4, -0.3, 100, 0.5]], ("vb", 3): [[3, -0.4, -0.3, 10, 0.3]]}
    options = sepca_inference.Options(pictures=tmp_path)
    paths = {"map": [[0, 15], [20, 4], [60, 3]], "vb": [[0, 15], [9, 3]]}
    drawn = sepca_inference._draw(options, answers, [3], ["map", "vb"], paths)
    assert drawn == ["sepca_inference.png"]
    by_map = {(120, 0.1, weight): [[2, -500.0, -0.4]] for weight in (10, 35)}
    sepca_nu._draw(options, [(120, 0.1)], (10, 35), by_map, {(120, 0.1): [[3, -0.4]]})
    found = {(name, q): np.full((1, 4), -0.5) for name in sepca_synthetic.METHODS for q in (3, 15)}
    sepca_synthetic._draw_curves(options, found, (3, 15))
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"sepca_inference.png", "sepca_nu.png", "sepca_synthetic_curves.png"}


def test_weight_is_taken_where_the_joint_likelihood_is_largest():
    by_map = {
        (60, 0.1, 10): [[1, -9.0, 0.0], [2, -1.0, 0.0]],
        (60, 0.1, 20): [[3, -8.0, 0.0], [4, -2.0, 0.0]],
    }
    chosen = [sepca_nu._by_joint(by_map, 60, 0.1, (10, 20), run) for run in range(2)]
    assert chosen == [3, 2]


def test_tables_share_their_prototypes():
    train, test = sepca_synthetic.draw_tables(0)
    np.testing.assert_array_equal(train.prototypes, test.prototypes)
    assert (train.X != test.X).any()
    assert train.X.shape == test.X.shape == (120, 16)


@pytest.mark.parametrize("method", sepca_synthetic.METHODS)
def test_models_have_the_rank_asked_for(method):
    model = sepca_synthetic.make_model(method, 4, 120, 1.0)
    params = model.get_params()
    assert params.get("n_components", params.get("max_components")) == 4
