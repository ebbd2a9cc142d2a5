"""Another seed means other data: in the helpers that draw tables, and in what the experiments do with ``--seed``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments._gsppca import Design, simulate

import experiments
from experiments import (
    __main__ as everything,
)
from experiments import (
    kpca_scaling,
    sepca_analytic,
    sepca_coverage,
    sepca_nu,
    sepca_robust,
    sepca_synthetic,
    sppca_classes,
    sppca_loadings,
    sppca_order,
    ssppca_support,
)

FOLDER = Path(experiments.__file__).parent
#: Published tables, taken whole, without splits or hidden cells: there is nothing for a seed to draw.
FIXED = {"bibliometrics", "gsppca_digits", "gsppca_leukemia", "spca_pitprops", "truth_real"}
DRAWS = {
    "gsppca": lambda seed: simulate(Design(20, 10, 2, 4, 0.3), seed).X,
    "kpca_scaling": lambda seed: kpca_scaling.make_rows(30, seed),
    "sepca_analytic": lambda seed: sepca_analytic.make_spiked(seed)[0],
    "sepca_nu": lambda seed: sepca_nu.draw_bits(30, 0.1, seed),
    "sepca_robust": lambda seed: sepca_robust.draw(next(iter(sepca_coverage.CELLS.values())), seed).X,
    "sepca_synthetic": lambda seed: sepca_synthetic.draw_tables(seed)[0].X,
    "sppca_classes": lambda seed: sppca_classes.draw(2, seed).X,
    "sppca_loadings": lambda seed: sppca_loadings.draw(1, seed),
    "sppca_order": lambda seed: sppca_order.draw(sppca_order.Cell("as published", 20, 25, 1), seed),
    "ssppca_support": lambda seed: ssppca_support.draw(0, seed).X,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_another_seed_draws_another_table(draw):
    np.testing.assert_array_equal(draw(3), draw(3))
    assert not np.array_equal(draw(3), draw(103))


@pytest.mark.parametrize("name", sorted(set(everything.experiment_names()) - FIXED))
def test_experiment_uses_the_seed(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    # `Cells` hands the seed on to what it calls.
    assert "options.seed" in text or "Cells(" in text
