"""Mixtures of models: a reference EM, planted groups, one group, lost groups, answers about rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from tests.draws import generator
from tests.models.tables import is_monotone, punch

from anypca import EPCA, PLNPCA, PPCA, KernelPCA, MixtureOf, PiecewisePCA
from anypca.exceptions import ConvergenceWarning

PLAIN = PPCA(1, n_jobs=1)


def planted(n: int = 160, p: int = 6, gap: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of two groups, each with a mean and a component, and their groups."""
    rng = generator("groups", n, p)
    groups = np.arange(n) % 2
    loadings, step = rng.normal(size=(2, p)), np.where(groups, gap, 0.0)[:, None]
    return step + rng.normal(size=(n, 1)) * loadings[groups] + 0.5 * rng.normal(size=(n, p)), groups


def reference_step(X: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, float]:
    """One EM step for one component in each group, with the divisors of PPCA: joint log densities, and their sum."""
    columns = []
    for weight in shares.T:
        total, mean = weight.sum(), weight @ X / weight.sum()
        covariance = ((X - mean) * weight[:, None]).T @ (X - mean) / (total - 1)
        values, vectors = np.linalg.eigh(covariance)
        noise = values[:-1].mean()
        model = (values[-1] - noise) * np.outer(vectors[:, -1], vectors[:, -1]) + noise * np.eye(X.shape[1])
        columns.append(np.log(total / len(X)) + multivariate_normal(mean, model).logpdf(X))
    joint = np.column_stack(columns)
    return joint, float(logsumexp(joint, axis=1).sum())


def test_gaussian_groups_are_those_of_a_reference_em() -> None:
    X, groups = planted(gap=1.5)
    model = MixtureOf(PLAIN, 2, tol=1e-10, max_iter=1000).fit(X)
    joint = np.log(model.predict_proba(X) + 1e-300)
    for _ in range(500):
        shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        joint, value = reference_step(X, shares)
    # The divisors of PPCA are not those of maximum likelihood: steps may end below the maximum, which the model keeps.
    assert model.objective_trace_[-1] == pytest.approx(value, rel=1e-6)
    assert model.objective_trace_[-1] > value - 1e-6
    assert model.score_samples(X).sum() == pytest.approx(value, rel=1e-6)
    assert_allclose(model.predict_proba(X), shares, atol=1e-2)
    assert is_monotone(model.objective_trace_, 0.0)
    assert adjusted_rand_score(groups, model.predict(X)) > 0.8


@pytest.mark.parametrize("estimator", [PLAIN, PiecewisePCA(1, n_pieces=1, n_jobs=1)], ids=["ppca", "pieces"])
@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "gaps"])
def test_one_group_is_the_plain_model(estimator: Any, share: float) -> None:
    X = punch(planted()[0], share, generator("gaps of groups"))
    model, plain = MixtureOf(estimator, 1).fit(X), clone(estimator).fit(X)
    for name in ("transform", "score_samples", "impute"):
        assert_allclose(getattr(model, name)(X), getattr(plain, name)(X), rtol=1e-10)
    assert_allclose(model.sample(3, random_state=0).shape, (3, 6))
    assert (model.weights_.tolist(), model.n_groups_, model.n_components_) == ([1.0], 1, 1)


@pytest.mark.parametrize(
    "estimator", [PLNPCA(1, n_jobs=1), EPCA(1, family="poisson", n_jobs=1)], ids=["plnpca", "epca"]
)
def test_groups_of_counts_are_found(estimator: Any) -> None:
    Z, groups = planted()
    X = generator("counts of groups").poisson(np.exp(0.3 * Z + 1)).astype(float)
    offset = np.full(len(X), 0.1)
    model = MixtureOf(estimator, 2, n_init=2).fit(X, offset=offset)
    assert adjusted_rand_score(groups, model.predict(X, offset=offset)) > 0.9
    assert_allclose(model.weights_, 0.5, atol=0.05)
    assert model.bic(X, offset=offset) == pytest.approx(model.bic_by_n_groups_[2], rel=1e-3)


def test_bic_chooses_the_number_of_groups() -> None:
    X, groups = planted()
    assert MixtureOf(PLAIN, "auto").fit(X).n_groups_ == 2
    assert MixtureOf(PLAIN, "auto").fit(X[groups == 0]).n_groups_ == 1


def test_answers_about_rows_are_averages_over_the_groups() -> None:
    X = punch(planted()[0], 0.2, generator("gaps of rows"))
    model = MixtureOf(PLAIN, 2).fit(X)
    shares, parts = model.predict_proba(X), model.estimators_
    assert_allclose(shares.sum(axis=1), 1.0)
    scores = np.hstack([shares[:, [g]] * part.transform(X) for g, part in enumerate(parts)])
    assert_allclose(model.transform(X), scores)
    assert model.get_feature_names_out().tolist() == ["mixtureof0", "mixtureof1"]
    filled = sum(shares[:, [g]] * part.impute(X) for g, part in enumerate(parts))
    assert_allclose(model.impute(X), filled)
    seen = ~np.isnan(X)
    assert_allclose(model.impute(X)[seen], X[seen])
    drawn = model.sample(4000, random_state=0)
    assert_allclose(drawn.mean(axis=0), np.nanmean(X, axis=0), atol=0.6)


def test_weights_repeat_rows() -> None:
    X, _ = planted()
    weight = generator("weights of groups").integers(1, 3, len(X))
    found = MixtureOf(PLAIN, 2).fit(X, sample_weight=weight)
    repeated = MixtureOf(PLAIN, 2).fit(np.repeat(X, weight, axis=0))
    assert found.objective_trace_[-1] == pytest.approx(repeated.objective_trace_[-1], abs=0.5)
    assert adjusted_rand_score(found.predict(X), repeated.predict(X)) > 0.95


def test_labels_and_gaps_of_a_frame() -> None:
    pd = pytest.importorskip("pandas")
    Z, groups = planted()
    frame = pd.DataFrame(
        {"a": Z[:, 0], "b": Z[:, 1], "c": np.where(Z[:, 2] > 2, "high", "low"), "d": Z[:, 3]}
    )
    frame.loc[:9, "c"] = None
    model = MixtureOf(EPCA(1, family="auto", n_jobs=1), 2, n_init=2).fit(frame)
    assert adjusted_rand_score(groups, model.predict(frame)) > 0.6
    filled, drawn = model.impute(frame), model.sample(4, random_state=0)
    assert set(filled["c"]) <= {"high", "low"}
    assert (filled["a"] == frame["a"]).all()
    assert len(drawn) == 4


def test_lost_groups_are_removed_and_reported() -> None:
    X = planted(40)[0]
    with pytest.warns(ConvergenceWarning, match="removed"):
        model = MixtureOf(PLAIN, 12).fit(X)
    assert 1 <= model.n_groups_ < 12
    assert np.isfinite(model.score_samples(X)).all()
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (MixtureOf(KernelPCA(2), 2), TypeError, "sample_weight"),
        (MixtureOf(PLAIN, 0), ValueError, "n_groups"),
        (MixtureOf(PLAIN, "many"), ValueError, "n_groups"),
    ],
    ids=["estimator", "none", "word"],
)
def test_bad_parameters_are_refused(model: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        model.fit(planted(20)[0])
