"""SePCA with weights of single entries: zeros are missing entries, whole numbers are repeated measurements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import SPPCA, SePCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.models._bayes.points import collect_rows
from anypca.models._session import open_session
from anypca.models.sepca._candidate import first_candidate
from anypca.models.sepca._density import JointDensity, Point
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._start import first_state
from anypca.models.sepca._sweeps import prune, residuals

N, P = 60, 8
# Loadings are known to some multiple of the scaled gradient at which fits end.
TIGHT: dict[str, Any] = {"tol": 1e-7, "max_iter": 3000, "n_jobs": 1}


def draw(family: str = "poisson") -> np.ndarray:
    X = make_low_rank(N, P, 2, family=family, signal=0.8, dispersion=0.4, random_state=0).X
    return np.asarray(X)


def assert_same(found: SePCA, expected: SePCA, tol: float = 1e-5) -> None:
    assert found.n_components_ == expected.n_components_
    assert_allclose(found.components_, expected.components_, rtol=0, atol=tol)
    assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=tol)
    assert_allclose(found.dispersion_, expected.dispersion_, rtol=tol)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial"])
def test_ones_change_nothing_and_zeros_are_missing(family: str) -> None:
    X = draw(family)
    hidden = np.random.default_rng(1).random(X.shape) < 0.15
    for plain, weight in ((X, np.ones(X.shape)), (np.where(hidden, np.nan, X), (~hidden).astype(float))):
        expected = SePCA(family=family, n_jobs=1).fit(plain)
        found = SePCA(family=family, n_jobs=1).fit(X, entry_weight=weight)
        # Complete counts enter through products, weighted ones cell by cell: sums of another order.
        assert_same(found, expected, tol=1e-3)
        assert found.evidence_ == pytest.approx(expected.evidence_, abs=1e-3)


@pytest.mark.parametrize("inference", ["vb", "map"])
def test_a_count_of_weight_three_is_three_counts(inference: str) -> None:
    """w (x eta - exp eta) is the log-likelihood of w x counts at w times the exposure, whatever w of each entry."""
    X, weight = draw(), np.random.default_rng(2).integers(0, 4, (N, P)).astype(float)
    seen = weight > 0
    counts, exposure = np.where(seen, weight * X, np.nan), np.log(np.where(seen, weight, 1.0))
    settings = {**TIGHT, "family": "poisson", "inference": inference, "max_components": 3}
    if inference == "vb":
        settings["dispersion"] = 1.0
    expected = SePCA(**settings).fit(counts, offset=exposure)
    found = SePCA(**settings).fit(X, entry_weight=weight)
    # Modes end where relevances stand still to a thousandth of their own, loadings in some proportion to them.
    assert_same(found, expected, tol=1e-5 if inference == "vb" else 1e-3)
    assert np.diff(found.objective_trace_).min(initial=0.0) >= -1e-9 * abs(found.objective_trace_[-1])
    assert_allclose(
        found.transform(X, entry_weight=weight), expected.transform(counts, offset=exposure), atol=1e-3
    )


def sums_of_noise(family: str, **weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """What dispersions of a grid are judged by: terms without eta, and the whole without components."""
    X = draw(family)
    with open_session(check_data(X, **weights), 1, max_iter=50, tol=1e-6) as session:
        candidate = first_candidate(session, resolve_family(family, P), Settings(0))
        state = prune(first_state(candidate, 0))
        member, columns = next(iter(candidate.open_members()))
        return candidate.bases, residuals(state)._values(member, columns)


def test_sizes_are_judged_by_weighted_entries() -> None:
    """Without components equal weights in a row are the weight of the row."""
    rows = np.random.default_rng(3).uniform(0.5, 2.0, N)
    by_row = sums_of_noise("negative_binomial", sample_weight=rows)
    by_entry = sums_of_noise("negative_binomial", entry_weight=np.repeat(rows[:, None], P, axis=1))
    for found, expected in zip(by_entry, by_row, strict=True):
        assert_allclose(found, expected, rtol=1e-6)


def test_the_density_of_draws_is_weighted() -> None:
    rng = np.random.default_rng(4)
    X, rows = draw(), rng.uniform(0.5, 2.0, N)
    point = Point(np.zeros((N, 1)), 0.3 * rng.normal(size=(P, 2)))
    found = []
    for weights in ({"sample_weight": rows}, {"entry_weight": np.repeat(rows[:, None], P, axis=1)}):
        with open_session(check_data(X, **weights), 1) as session:
            table = collect_rows(session, fit_intercept=True)
        density = JointDensity(resolve_family("poisson", P), table, np.ones(P), np.ones(1), np.zeros((P, 1)))
        found.append(density.evaluate(point))
    assert found[1][0] == pytest.approx(found[0][0])
    assert_allclose(found[1][1].joint, found[0][1].joint)


def test_known_errors_are_used() -> None:
    """A tenth of the entries has ten times the error: weights by its inverse square halve what the fit misses."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12))
    error = np.where(rng.random(truth.shape) < 0.1, 5.0, 0.5)
    X, axes, missed = truth + error * rng.normal(size=truth.shape), np.linalg.svd(truth)[2][:2], []
    for weight in (np.ones(X.shape), 0.25 / error**2):
        model = SePCA(family="gaussian", n_jobs=1).fit(X, entry_weight=weight)
        basis = np.linalg.qr(model.components_.T)[0]
        missed.append(np.linalg.norm(axes - axes @ basis @ basis.T))
    assert model.n_components_ == 2
    assert missed[1] < 0.5 * missed[0]


def test_configurations_take_them_and_choices_by_hidden_entries_do_not() -> None:
    X = draw()
    ones = np.ones(X.shape)
    assert_same(SPPCA(n_jobs=1).fit(X, entry_weight=ones), SPPCA(n_jobs=1).fit(X), tol=1e-3)
    with pytest.raises(ValueError, match="choose by hidden entries"):
        SePCA(family="poisson", sparsity="auto", n_jobs=1).fit(X, entry_weight=ones)
