"""Covariates: units, text, names, and levels in which a column has no events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anypca import EPCA, PLNPCA, SPPCA, SSPPCA, PiecewisePCA, SePCA
from anypca.datasets import load_barents, load_mollusk, load_oaks, load_trichoptera
from anypca.exceptions import DataConversionWarning

N, P = 80, 6
MODELS: dict[str, Any] = {
    "EPCA": EPCA(1, family="poisson", tol=1e-7, max_iter=2000, n_jobs=1),
    "EPCA of amounts": EPCA(1, family="gaussian", ridge=1.0, tol=1e-8, max_iter=2000, n_jobs=1),
    "EPCA without intercept": EPCA(
        1, family="poisson", fit_intercept=False, tol=1e-7, max_iter=2000, n_jobs=1
    ),
    "PLNPCA": PLNPCA(1, tol=1e-7, n_jobs=1),
    "PiecewisePCA": PiecewisePCA(1, n_pieces=1, family="poisson", tol=1e-7, n_jobs=1),
    "SePCA": SePCA(2, family="poisson", dispersion=1.0, tol=1e-7, n_jobs=1),
    "SPPCA": SPPCA(2, dispersion="poisson", tol=1e-7, n_jobs=1),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, a number and a treatment of each row."""
    number, treated = rng.normal(size=N), np.arange(N) % 2
    eta = 1.5 + rng.normal(size=(N, 1)) @ rng.normal(size=(1, P)) + 0.3 * np.outer(number, np.ones(P))
    return rng.poisson(np.exp(np.minimum(eta, 5.0))).astype(float), number, treated


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_units_and_origins_change_coefficients_alone(model: Any, rng: np.random.Generator) -> None:
    X, number, treated = draw(rng)
    origin = 0.0 if not getattr(model, "fit_intercept", True) else np.array([300.0, -20.0])
    units, plain = np.array([1e4, 1e-3]), np.column_stack([number, treated])
    first = model.fit(X, covariates=plain)
    scores, coef, intercept = first.transform(X, covariates=plain), first.coef_, first.intercept_
    moved = plain * units + origin
    second = model.fit(X, covariates=moved)
    scale = np.abs(scores).max()
    np.testing.assert_allclose(second.transform(X, covariates=moved), scores, atol=1e-4 * scale)
    np.testing.assert_allclose(second.coef_ * units, coef, atol=1e-4)
    np.testing.assert_allclose(
        second.intercept_ + second.coef_ @ np.broadcast_to(origin, 2), intercept, atol=1e-3
    )


@pytest.mark.parametrize("name", ["EPCA", "PLNPCA", "SePCA"])
def test_the_predictor_has_reported_coefficients(name: str, rng: np.random.Generator) -> None:
    X, number, _ = draw(rng)
    model = MODELS[name].fit(X, covariates=number)
    new = rng.normal(10.0, 1.0, size=(5, 1))
    scores = rng.normal(size=(5, model.n_components_))
    eta = model.intercept_ + new @ model.coef_.T + scores @ model.components_
    np.testing.assert_allclose(model.inverse_transform(scores, covariates=new), np.exp(eta), rtol=1e-8)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_separated_level_has_a_finite_coefficient_and_a_warning(
    model: Any, rng: np.random.Generator
) -> None:
    X, number, treated = draw(rng)
    X[:, 3] = np.where(treated == 1, 0.0, 1.0 + rng.poisson(5.0, N))
    table = pd.DataFrame(X, columns=[*"abcdef"])
    covariates = pd.DataFrame({"age": number, "arm": np.where(treated == 1, "drug", "control")})
    is_real = model is MODELS["EPCA of amounts"]
    with (
        pytest.warns(UserWarning, match=r"separate columns: 'd' \(arm=drug\)")
        if not is_real
        else _no_warning()
    ):
        model.fit(table, covariates=covariates)
    assert model.covariate_names_ == ["age", "arm=drug"]
    assert np.isfinite(model.coef_).all()
    # Half of the rows differ: the standardised coefficient is half of this one.
    assert np.abs(model.coef_[:, 1]).max() < 40.0
    if not is_real and getattr(model, "fit_intercept", True):
        assert model.coef_[3, 1] < -4.0


def test_answers_with_a_covariate_of_two_levels(rng: np.random.Generator) -> None:
    answers = np.clip(np.round(3 + rng.normal(size=(N, 5))), 1, 5)
    treated = np.arange(N) % 2
    answers[treated == 1, 0] = 1.0
    with pytest.warns(UserWarning, match=r"separate columns: 0 "):
        model = EPCA(1, family="ordinal").fit(answers, covariates=treated[:, None])
    assert np.isfinite(model.coef_).all()


class _no_warning:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> None: ...


def test_text_is_numbers_of_its_levels(rng: np.random.Generator) -> None:
    """The first level is the reference: the first in the alphabet, or of the declared categories."""
    X, number, _ = draw(rng)
    X += 1.0  # no level without counts
    text = np.array([*"bca"])[np.arange(N) % 3]
    indicators = np.column_stack([number, text == "b", text == "c"]).astype(float)
    expected = MODELS["EPCA"].fit(X, covariates=indicators).coef_
    frames = [
        {"age": number, "site": text},
        pd.DataFrame({"age": number, "site": text}),
        pd.DataFrame({"age": number, "site": pd.Categorical(text)}),
    ]
    for frame in frames:
        model = MODELS["EPCA"].fit(X, covariates=frame)
        np.testing.assert_allclose(model.coef_, expected)
        assert model.covariate_names_ == ["age", "site=b", "site=c"]
    declared = pd.DataFrame({"site": pd.Categorical(text, categories=[*"cab"])})
    assert MODELS["EPCA"].fit(X, covariates=declared).covariate_names_ == ["site=a", "site=b"]
    with pytest.raises(ValueError, match="row 0 of column 'site' is 'z'"):
        MODELS["EPCA"].transform(X, covariates=pd.DataFrame({"site": ["z"] * N}))
    with pytest.raises(ValueError, match="'site' is missing"):
        MODELS["EPCA"].transform(X, covariates=pd.DataFrame({"age": number}))


def test_text_that_names_rows_is_left_out(rng: np.random.Generator) -> None:
    X, number, _ = draw(rng)
    table = {"sample": [f"s{i}" for i in range(N)], "age": number}
    with pytest.warns(DataConversionWarning, match="'sample'"):
        model = EPCA(1, family="poisson", n_jobs=1).fit(X, covariates=table)
    assert model.covariate_names_ == ["age"]
    assert np.isfinite(model.transform(X[:3], covariates={"age": number[:3]})).all()


@pytest.mark.parametrize("name", ["EPCA", "PLNPCA", "SePCA"])
def test_standard_deviations_are_of_generalised_linear_models(name: str, rng: np.random.Generator) -> None:
    """Without signal in the rows they are the inverse of the information of a Poisson regression."""
    X, number = rng.poisson(20.0, size=(2000, 3)).astype(float), rng.normal(2.0, 0.1, 2000)
    models = {
        "EPCA": EPCA(0, family="poisson", n_jobs=1),
        "PLNPCA": PLNPCA(1, n_jobs=1),
        "SePCA": SePCA(max_components=1, family="poisson", n_jobs=1),
    }
    model = models[name].fit(X, covariates=number)
    expected = 1.0 / np.sqrt(20.0 * 2000 * number.var())
    np.testing.assert_allclose(model.coef_std_, expected, rtol=0.05)
    assert np.abs(model.coef_ / model.coef_std_).max() < 6.0


@pytest.mark.parametrize("none", [None, 0, np.inf])
def test_without_a_prior_amounts_have_least_squares(none: Any, rng: np.random.Generator) -> None:
    X, c = rng.normal(size=(60, 4)), rng.normal(3.0, 2.0, size=(60, 2))
    model = EPCA(0, family="gaussian", coef_scale=none, tol=1e-9, n_jobs=1).fit(X, covariates=c)
    expected = np.linalg.lstsq(np.column_stack([np.ones(60), c]), X, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, expected[1:].T, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, expected[0], atol=1e-6)


def test_a_wide_prior_changes_nothing(rng: np.random.Generator) -> None:
    X, number, _ = draw(rng)
    for model in (EPCA(1, family="poisson", n_jobs=1), PLNPCA(1, tol=1e-6, n_jobs=1)):
        free = model.set_params(coef_scale=None).fit(X, covariates=number).coef_
        wide = model.set_params(coef_scale=1e5).fit(X, covariates=number).coef_
        np.testing.assert_allclose(wide, free, atol=1e-4)


STORED = {
    "trichoptera": load_trichoptera,
    "oaks": load_oaks,
    "barents": load_barents,
    "mollusk": load_mollusk,
}


@pytest.mark.filterwarnings("ignore:covariates")
@pytest.mark.parametrize("load", STORED.values(), ids=STORED)
@pytest.mark.parametrize(
    "model",
    [
        EPCA(2, n_jobs=1),
        EPCA(2, family="poisson", n_jobs=1),
        PLNPCA(2, n_jobs=1),
        PiecewisePCA(1, n_pieces=1, family="poisson", max_iter=50, n_jobs=1),
        SPPCA(5, n_jobs=1),
        SSPPCA(2, sparsity=1.0, n_jobs=1),
    ],
    ids=["EPCA", "EPCA-poisson", "PLNPCA", "PiecewisePCA", "SPPCA", "SSPPCA"],
)
def test_stored_tables_fit_with_all_their_covariates(model: Any, load: Any) -> None:
    data = load()
    given = {"covariates": dict(data.covariates)} | ({} if data.offset is None else {"offset": data.offset})
    model.fit(data.X, **given)
    encoded = np.hstack([_numbers(values) for name, values in data.covariates.items() if name != "Sample"])
    assert np.abs(model.coef_ * encoded.std(axis=0)).max() < 20.0


def _numbers(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "U":
        return values[:, None].astype(float)
    return (values[:, None] == np.unique(values)[1:]).astype(float)
