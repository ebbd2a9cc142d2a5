"""The experiments on piecewise PCA run in their quick form and meet its targets."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest
from experiments._common import Options
from experiments._piecewise import true_log_density

from anypca.datasets import make_hinge
from anypca.datasets._dataset import FOLDER_VARIABLE
from anypca.engine import check_data
from anypca.families import Gaussian
from anypca.models._opened import open_block
from anypca.models.piecewise._pieces import Pieces
from anypca.models.piecewise._row_model import GaussianRowModel


@pytest.mark.parametrize(
    "name",
    [
        "pwpca_hinge",
        "pwpca_poisson",
        pytest.param("pwpca_families", marks=pytest.mark.conformance),
        "bibliometrics",
    ],
)
def test_quick_form_meets_its_targets(name, tmp_path):
    if name == "bibliometrics" and FOLDER_VARIABLE not in os.environ:
        pytest.skip(f"{FOLDER_VARIABLE} does not name a folder with the data")
    outcome = importlib.import_module(f"experiments.{name}").run(Options(quick=True, pictures=tmp_path))
    assert outcome.is_met, [target.as_text() for target in outcome.targets if not target.is_met]
    assert outcome.tables
    assert all((tmp_path / picture).stat().st_size > 10_000 for picture in outcome.pictures)


def test_true_density_of_the_hinge_is_that_of_the_package():
    """The quadrature of the experiment and the closed form of the package agree."""
    maps = np.array([[[0, 1, 0], [1, 0, 0], [0, s, -s * 0.4]] for s in (-1.0, 1.0)])
    X = make_hinge(40, corner=0.4, random_state=0).X
    (block,) = check_data(X).blocks
    model = GaussianRowModel(Pieces(maps, 0.01, np.array([0.4])), Gaussian(), np.full(3, 0.01))
    exact = model.log_likelihood(open_block(block))
    np.testing.assert_allclose(true_log_density(X, corner=0.4), exact, atol=1e-4)
