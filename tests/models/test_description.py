"""Every estimator says what it can do and what it found; models from elsewhere are read by their attributes."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA, FactorAnalysis

import anypca
from anypca import EPCA, GSPPCA, PLNPCA, PPCA, SPCA, SSPPCA, KernelPCA, PiecewisePCA, SePCA
from anypca.families import Family, Gaussian, Poisson
from anypca.models._description import Description, describe, project_rows

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(np.exp(RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 6)) + 1)).astype(float)
#: So few draws do not agree, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:ISFA. the chains disagree")
FEW_STARTS = {
    "ISFA": {"family": "gaussian", "n_draws": 30, "n_tune": 30, "n_chains": 1},
    "BEPCA": {"family": "gaussian", "n_draws": 100, "n_tune": 60},
    "Autoencoder": {"tol": 0.1},
    "VAE": {"n_iter_no_change": 2},
    "PiecewisePCA": {"n_init": 1},
    "SSPPCA": {"sparsity": 1.0},
}
ESTIMATORS = sorted(
    name
    for name in anypca.__all__
    if isinstance(getattr(anypca, name), type) and hasattr(getattr(anypca, name), "transform")
)


@pytest.fixture(scope="module")
def fits():
    made = {name: getattr(anypca, name)(**FEW_STARTS.get(name, {})) for name in ESTIMATORS}
    return {name: model.fit(COUNTS) for name, model in made.items()}


def takes(method, argument):
    return argument in inspect.signature(method).parameters


@pytest.mark.parametrize("name", ESTIMATORS)
def test_abilities_are_those_of_the_methods(fits, name):
    model = fits[name]
    found = describe(model)
    assert (found.takes_offset, found.takes_covariates) == (
        takes(model.fit, "offset"),
        takes(model.fit, "covariates"),
    )
    assert found.has_posterior == takes(model.transform, "return_std")
    assert found.has_entries == hasattr(model, "entry_log_likelihood")
    assert found.has_path == hasattr(model, "path")
    assert found.handles_missing == model.__sklearn_tags__().input_tags.allow_nan
    assert found.likelihood in {"marginal", "bound", "Laplace", "plug-in", "distance"}
    before = describe(getattr(anypca, name)())
    for ability in ("takes_offset", "takes_covariates", "handles_missing", "has_posterior", "has_entries"):
        assert getattr(before, ability) == getattr(found, ability)
    assert before.loadings is None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_states_its_family(fits, name):
    model, found = fits[name], describe(fits[name])
    assert found.family is model.family_
    families = found.column_families("abcdef")
    if name == "KernelPCA":
        assert found.family is None
        assert families == ()
        return
    assert isinstance(found.family, Family)
    assert [record.column for record in families] == list("abcdef")
    assert all(record.reason for record in families)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scores_come_with_deviations_where_there_is_a_posterior(fits, name):
    scores, deviations = project_rows(fits[name], COUNTS)
    np.testing.assert_array_equal(scores, fits[name].transform(COUNTS))
    assert (deviations is not None) == describe(fits[name]).has_posterior


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_dispersion_is_one_for_each_column(fits, name):
    found = describe(fits[name])
    # A globally sparse model estimates the noise of the columns it leaves out only.
    assert (found.dispersion is not None) == (found.has_entries and name != "GSPPCA")
    if found.dispersion is not None:
        assert found.dispersion.shape == (COUNTS.shape[1],)


def test_kinds_of_likelihood():
    def kind(model):
        return describe(model.fit(COUNTS)).likelihood

    assert kind(PPCA(1)) == "marginal"
    assert kind(EPCA(1, family="poisson")) == "Laplace"
    assert kind(PLNPCA(1)) == "bound"
    assert kind(SePCA(2, family="poisson", inference="map")) == "Laplace"
    assert kind(PiecewisePCA(1, n_init=1, family="poisson")) == "bound"
    assert kind(KernelPCA(1)) == kind(SPCA(1)) == "distance"


def test_what_was_found_is_told_under_the_same_names(fits):
    found = {name: describe(model) for name, model in fits.items()}
    assert found["GSPPCA"].chosen_rank == fits["GSPPCA"].latent_dimension_
    assert set(found["GSPPCA"].evidence_by_rank) == set(fits["GSPPCA"].n_components_grid_)
    assert dict(found["SePCA"].evidence_by_rank) == fits["SePCA"].evidence_by_rank_
    assert found["SePCA"].criteria["evidence"] == fits["SePCA"].evidence_
    assert set(found["PLNPCA"].criteria) == {"bic", "icl", "aic", "n_parameters", "entropy"}
    assert found["PiecewisePCA"].has_pieces
    assert found["PiecewisePCA"].piece_shares is not None
    assert [name for name in ESTIMATORS if found[name].support is not None] == ["GSPPCA", "SSPCA"]
    assert [name for name in ESTIMATORS if found[name].has_sparse_loadings] == [
        "GSPPCA",
        "SPCA",
        "SSPCA",
        "SSPPCA",
    ]


def test_why_a_family_was_taken():
    def reasons(model):
        return {record.reason for record in describe(model.fit(COUNTS)).column_families("abcdef")}

    assert reasons(EPCA(1, family="poisson")) == {"given"}
    assert reasons(anypca.GPCA(1)) == {"the whole table allows it"}
    assert reasons(SSPPCA(1, sparsity=1.0)) == {"the distribution that SSPPCA assumes"}


@pytest.mark.parametrize("model", [PCA(2), FactorAnalysis(2)], ids=lambda model: type(model).__name__)
def test_models_of_others_are_read_by_their_attributes(model):
    found = describe(model.fit(COUNTS))
    assert found.name == type(model).__name__
    assert isinstance(found.family, Gaussian)
    np.testing.assert_array_equal(found.loadings, model.components_)
    assert not found.has_posterior
    assert not found.takes_offset
    assert not found.handles_missing
    if isinstance(model, PCA):
        assert found.explained_quantity == "variance"
        np.testing.assert_array_equal(found.explained, model.explained_variance_ratio_)
        assert found.has_way_back
    scores, deviations = project_rows(model, COUNTS)
    assert deviations is None
    np.testing.assert_array_equal(scores, model.transform(COUNTS))


def test_a_posterior_of_others_is_seen_by_the_argument():
    class Posterior:
        def transform(self, X, return_std=False):
            return (X, 2 * X) if return_std else X

        def fit(self, X, offset=None):
            return self

    found = describe(Posterior())
    assert (found.has_posterior, found.takes_offset, found.takes_covariates) == (True, True, False)
    np.testing.assert_array_equal(project_rows(Posterior(), COUNTS)[1], 2 * COUNTS)


def test_a_bag_of_attributes_is_a_model():
    found = describe(SimpleNamespace(components_=np.eye(2), family_=Poisson(), evidence_by_rank_={1: 2}))
    assert found.family == Poisson()
    assert found.evidence_by_rank == {1: 2.0}


def test_a_globally_sparse_model_tells_its_support():
    model = GSPPCA(2).fit(COUNTS)
    np.testing.assert_array_equal(describe(model).support, model.support_)


def test_strengths_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1)) @ rng.normal(size=(1, 6)) + 0.5 * rng.normal(size=(80, 6))
    factor = np.array([1.0, 1000.0, 1.0, 0.01, 1.0, 1.0])
    first, second = (SePCA(2, family="gaussian", n_jobs=1).fit(x).describe() for x in (X, X * factor))
    np.testing.assert_allclose(second.strengths, first.strengths, rtol=1e-5)
    np.testing.assert_allclose(second.loadings, first.loadings * factor, rtol=1e-5)
    assert SPCA(1, penalty=0.1).fit(X).describe().strengths is not None


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ({2: 0.3, 3: 0.5, 4: 0.186, 5: 0.008, 6: 0.006}, "2: 30.0 %, 3: 50.0 %, 4: 18.6 %, more: 1.4 %"),
        ({2: 0.4, 3: 0.6, 4: 1e-5}, "2: 40.0 %, 3: 60.0 %"),
        ({}, "2, 3"),
    ],
    ids=["more", "no-more", "unknown"],
)
def test_the_compared_ranks_sum_to_one(shares, told):
    description = Description("SePCA", rank_probabilities=shares, evidence_by_rank={3: -1.0, 2: -2.0})
    assert description.compared_ranks == told
