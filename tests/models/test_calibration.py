"""How far imputed entries are believed: the slope of hidden entries on their predictions, between 0 and 1."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.draws import generator
from tests.models.tables import punch

from anypca import EPCA, GPCA, PLNPCA, PPCA, PiecewisePCA
from anypca.datasets import make_low_rank

N, P = 60, 8
MODELS: dict[str, Any] = {
    "EPCA": lambda k=2: EPCA(k, family="poisson", n_jobs=1),
    "GPCA": lambda k=2: GPCA(k, family="poisson", n_jobs=1),
    "PLNPCA": lambda k=2: PLNPCA(k, n_jobs=1),
    "PPCA": lambda k=2: PPCA(k, n_jobs=1),
    "PiecewisePCA": lambda k=1: PiecewisePCA(k, n_jobs=1, max_iter=10),
}
pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")


@cache
def counts() -> np.ndarray:
    X = make_low_rank(N, P, 2, family="poisson", signal=0.8, random_state=generator("calibrated counts")).X
    return punch(X.astype(float), 0.1, generator("calibrated gaps"))


@pytest.mark.parametrize("name", MODELS)
def test_imputed_entries_are_shrunk_to_the_means(name: str) -> None:
    """A slope moves a prediction towards the mean of its column; offsets of zero turn calibration off."""
    X = counts()
    model = MODELS[name]().fit(X)
    slope, missing = model.calibration_slope_, np.isnan(X)
    assert slope.shape == (P,)
    assert np.all((slope >= 0) & (slope <= 1))
    deviation = (model.impute(X) - np.nanmean(X, axis=0))[missing]
    bold = (model.inverse_transform(model.transform(X)) - np.nanmean(X, axis=0))[missing]
    if name not in ("PLNPCA", "PiecewisePCA"):  # their expectations are no function of the mean of the scores
        inside = np.abs(bold) < 0.5 * np.nanstd(X, axis=0)[np.nonzero(missing)[1]]
        assert_allclose(
            deviation[inside], (slope[np.nonzero(missing)[1]] * bold)[inside], rtol=1e-6, atol=1e-9
        )
        assert np.all(np.abs(deviation) <= np.abs(bold) + 1e-9)


def test_noise_is_not_believed_and_structure_is() -> None:
    rng = generator("calibrated numbers")
    noise = punch(rng.normal(size=(150, 10)), 0.1, rng)
    structure = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 10)) + 0.05 * rng.normal(size=(150, 10))
    assert PPCA(3).fit(noise).calibration_slope_.max() < 0.5
    assert PPCA(2).fit(punch(structure, 0.1, rng)).calibration_slope_.min() > 0.9


def test_slopes_do_not_depend_on_order_units_or_form_of_weights(rng: np.random.Generator) -> None:
    X = counts()
    rows, columns, twice = rng.permutation(N), rng.permutation(P), np.arange(N) % 3 == 0

    def slopes(x: np.ndarray, make: Any = MODELS["EPCA"], **given: Any) -> np.ndarray:
        return np.asarray(make().fit(x, **given).calibration_slope_)

    plain = slopes(X)
    assert_allclose(slopes(X[rows]), plain, atol=0.02)
    assert_allclose(slopes(X[:, columns]), plain[columns], atol=0.02)
    weighted = slopes(X, sample_weight=np.where(twice, 2.0, 1.0))
    assert_allclose(slopes(np.vstack([X, X[twice]])), weighted, atol=0.02)
    by_weight = slopes(np.nan_to_num(X), entry_weight=np.where(np.isnan(X), 0.0, 1.0))
    assert_allclose(by_weight, plain, atol=0.02)
    assert_allclose(slopes(3.0 * X, MODELS["PPCA"]), slopes(X, MODELS["PPCA"]), atol=0.02)


def test_tables_that_are_not_calibrated() -> None:
    X = counts()
    assert PPCA(2).fit(np.nan_to_num(X)).calibration_slope_ is None
    assert EPCA(0, family="poisson").fit(X).calibration_slope_ is None
    assert MODELS["EPCA"]().fit(X, offset=np.zeros(N)).calibration_slope_ is None
    assert MODELS["EPCA"]().fit(X, covariates=np.arange(N)[:, None] / N).calibration_slope_ is None
