"""Laws of SePCA that hold on every table: units, order, repetition, and columns that are noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from anypca import SePCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.engine import data as engine_data
from anypca.models._session import open_session
from anypca.models.sepca._combinations import find_combinations

N = 80
FAMILIES = ("gaussian", "student_t", "gamma", "log_normal", "exponential")


def draw(family, p=10, rank=2, seed=0):
    return make_low_rank(N, p, rank, family=family, signal=1.5, dispersion=0.3, random_state=seed).X


def mixed_table(seed=1):
    """Real columns, amounts, counts and answers of the same two components, and their families."""
    names = ["gaussian"] * 3 + ["gamma"] * 3 + ["negative_binomial"] * 3 + ["bernoulli"] * 3
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 12)) + 1.0
    amounts = np.exp(eta[:, 3:6]) * rng.gamma(5.0, 0.2, size=(N, 3))
    X = [eta[:, :3] + 0.5 * rng.normal(size=(N, 3)), amounts]
    X += [rng.poisson(np.exp(eta[:, 6:9])), rng.random((N, 3)) < 1.0 / (1.0 + np.exp(-2.0 * eta[:, 9:]))]
    return np.hstack(X).astype(float), names


def fit(X, family, sample_weight=None, **settings):
    return SePCA(4, **{"n_jobs": 1, "family": family, **settings}).fit(X, sample_weight=sample_weight)


def angle(first, second):
    """The largest angle between the planes of the loadings, in units of the noise."""
    scale = np.sqrt(first.dispersion_)[:, None]
    found: float = subspace_angles(first.components_.T / scale, second.components_.T / scale).max()
    return found


def assert_rescaled(X, family, factor, step):
    """The evidence is that of a recorded step: it stays with a step that scales along, and is a density with one.

    Rounding may change when sweeps leap ahead, so that fits agree to the tolerance only.
    """
    first = fit(X, family, resolution=step, tol=1e-8)
    scaled, dense = (fit(X * factor, family, resolution=steps, tol=1e-8) for steps in (step * factor, step))
    for second, shift in ((scaled, 0.0), (dense, -N * np.log(factor).sum())):
        assert first.n_components_ == second.n_components_ > 0
        assert np.abs(second.transform(X * factor) - first.transform(X)).max() < 1e-6
        assert second.evidence_ == pytest.approx(first.evidence_ + shift, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_units_change_nothing_but_the_density(family):
    X = draw(family)
    factor = 10.0 ** np.random.default_rng(2).uniform(-3.0, 3.0, X.shape[1])
    assert_rescaled(X, family, factor, np.full(X.shape[1], 1e-9))


def test_units_change_nothing_but_the_density_in_a_mixed_table():
    X, names = mixed_table()
    steps = np.r_[np.full(6, 1e-9), np.ones(6)]
    assert_rescaled(X, names, np.r_[1e3, 0.2, 7.0, 1e-4, 3.0, 1e2, np.ones(6)], steps)


@pytest.mark.parametrize("family", ["gaussian", "student_t"])
def test_shifts_of_real_columns_change_nothing(family):
    X = draw(family)
    first, second = fit(X, family, tol=1e-8), fit(X + 10.0 * np.arange(10.0), family, tol=1e-8)
    assert np.abs(second.transform(X + 10.0 * np.arange(10.0)) - first.transform(X)).max() < 1e-6
    assert second.evidence_ == pytest.approx(first.evidence_, abs=1e-5)


def test_shifts_far_beyond_the_noise_change_nothing():
    """Squares of such means would leave only rounding of the variances of predictors."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    first, second = (SePCA(family="gaussian").fit(table) for table in (X, X + 1e5))
    assert first.n_components_ == second.n_components_
    assert second.evidence_ == pytest.approx(first.evidence_, abs=1e-4)


@pytest.mark.parametrize("size", [1e-3, 1.0, 20.0, 1e5], ids=lambda value: f"{value:g}")
def test_a_column_of_noise_is_no_component(size):
    X = draw("gaussian", seed=1)
    noisy = np.column_stack([X, size * np.random.default_rng(7).normal(size=N)])
    first, second = fit(X, "gaussian"), fit(noisy, "gaussian")
    assert first.n_components_ == second.n_components_ == 2
    planes = (model.components_[:, :10].T / np.sqrt(first.dispersion_)[:, None] for model in (first, second))
    assert np.degrees(subspace_angles(*planes).max()) < 3.0
    # In units of noise the column takes no part: its share of a component's squares is that of chance.
    shares = second.components_**2 / second.dispersion_
    assert (shares[:, -1] < 0.05 * shares.sum(axis=1)).all()


TABLES = {
    "gaussian": (draw("gaussian"), "gaussian"),
    "negative_binomial": (draw("negative_binomial"), "negative_binomial"),
    "bernoulli": (draw("bernoulli", p=20), "bernoulli"),
    "mixed": mixed_table(),
}
# Where the fit ends is known to the tolerance in units of an entry's posterior; a plane is then far closer than 1e-4.
TIGHT = {"tol": 1e-8, "max_iter": 3000}


@pytest.fixture(scope="module", params=TABLES, ids=TABLES)
def fitted(request):
    X, family = TABLES[request.param]
    return X, family, fit(X, family, **TIGHT)


def assert_same(found, expected):
    assert found.n_components_ == expected.n_components_ > 0
    assert angle(found, expected) < 1e-4


def test_order_of_rows_does_not_matter(fitted):
    X, family, expected = fitted
    assert_same(fit(X[np.random.default_rng(3).permutation(N)], family, **TIGHT), expected)


def test_order_of_columns_does_not_matter(fitted):
    X, family, expected = fitted
    order = np.random.default_rng(4).permutation(X.shape[1])
    found = fit(X[:, order], family if isinstance(family, str) else [family[j] for j in order], **TIGHT)
    assert found.n_components_ == expected.n_components_
    scale = np.sqrt(expected.dispersion_)[:, None]
    back = found.components_[:, np.argsort(order)].T / scale
    assert subspace_angles(back, expected.components_.T / scale).max() < 1e-4


def test_rows_of_weight_two_are_rows_twice(fitted):
    X, family, _ = fitted
    twice, weighted = fit(np.vstack([X, X]), family, **TIGHT), fit(X, family, np.full(N, 2.0), **TIGHT)
    assert_same(weighted, twice)
    assert weighted.evidence_ == pytest.approx(twice.evidence_, abs=1e-3)
    assert weighted.n_above_noise_ == twice.n_above_noise_


def test_the_seed_does_not_matter(fitted):
    X, family, expected = fitted
    assert_same(fit(X, family, **TIGHT, random_state=5), expected)


def test_blocks_and_threads_do_not_matter(fitted, monkeypatch):
    X, family, expected = fitted
    monkeypatch.setattr(engine_data, "default_block_rows", lambda n_features, itemsize: 25)
    assert_same(fit(X, family, n_jobs=2, **TIGHT), expected)


def with_redundant(X):
    """The table with a constant, and with copies of its columns in other units, in the middle and at the end."""
    return np.column_stack(
        [X[:, :3], np.full(N, 7.0), X[:, 3:], X[:, 1], 3.0 - 0.5 * X[:, 0], 1e4 * X[:, 2] + 1e6]
    )


def test_constants_and_copies_change_nothing_at_all():
    X = draw("gaussian", seed=1)
    larger, kept = with_redundant(X), [0, 1, 2, *range(4, 11)]
    first, second = fit(X, "gaussian"), fit(larger, "gaussian")
    assert set(second.layout_.left_out) == {3, 11, 12, 13}
    assert second.evidence_ == pytest.approx(first.evidence_, abs=1e-9)
    np.testing.assert_allclose(second.components_[:, kept], first.components_, atol=1e-12)
    assert (second.components_[:, [3, 11, 12, 13]] == 0.0).all()
    np.testing.assert_allclose(second.transform(larger), first.transform(X), atol=1e-10)
    back = second.inverse_transform(second.transform(larger))
    np.testing.assert_allclose(back[:, kept], first.inverse_transform(first.transform(X)), atol=1e-10)
    np.testing.assert_allclose(back[:, 12], 3.0 - 0.5 * back[:, 0], atol=1e-8)
    assert (back[:, 3] == 7.0).all()


def test_what_is_left_out_says_why():
    X = with_redundant(draw("gaussian", seed=1))
    reasons = {j: form.reason for j, form in fit(X, "gaussian").layout_.left_out.items()}
    assert reasons == {
        3: "every entry is 7",
        11: "a copy of x1 in another unit",
        12: "a copy of x0 in another unit",
        13: "a copy of x2 in another unit",
    }


def test_copies_of_copies_have_the_first_column_as_their_source():
    X = draw("gaussian", seed=1)
    found = fit(np.column_stack([X, 2.0 * X[:, 3], X[:, 3] + 1.0, -X[:, 3]]), "gaussian").layout_.left_out
    assert {column: form.source for column, form in found.items()} == {10: 3, 11: 3, 12: 3}


def test_the_account_of_families_says_what_is_left_out():
    report = fit(with_redundant(draw("gaussian", seed=1)), "auto").family_report_
    assert [record.family for record in report if record.family != "gaussian"] == ["constant", *["copy"] * 3]
    assert report[3].reason == "every entry is 7"


def test_missing_entries_must_agree_for_a_copy():
    X = draw("gaussian", seed=1)
    X[4, 2] = np.nan
    larger = np.column_stack([X, 2.0 * X[:, 2], np.where(np.arange(N) == 9, np.nan, X[:, 3])])
    assert set(fit(larger, "gaussian").layout_.left_out) == {10}


def test_amounts_are_copies_by_multiples_and_combinations_of_any_kind():
    X = draw("gamma", seed=1)
    found = fit(np.column_stack([X, 5.0 * X[:, 2], X[:, 3] + 1.0, X[:, :2].sum(axis=1)]), "gamma")
    kinds = {j: form.name for j, form in found.layout_.left_out.items()}
    assert kinds == {10: "copy", 11: "combination", 12: "combination"}


def test_sums_change_nothing_at_all():
    X = draw("gaussian", seed=1)
    sums = [X[:, 0] + X[:, 1], 100.0 - 2.0 * X[:, 2:6].sum(axis=1)]
    larger, kept = np.column_stack([sums[0], X, sums[1]]), slice(1, 11)
    first, second = fit(X, "gaussian"), fit(larger, "gaussian")
    assert [form.reason for form in second.layout_.left_out.values()] == [
        "a linear combination of x1, x2",
        "a linear combination of x3, x4, x5, x6",
    ]
    assert second.evidence_ == pytest.approx(first.evidence_, abs=1e-9)
    np.testing.assert_allclose(second.components_[:, kept], first.components_, atol=1e-12)
    back = second.inverse_transform(second.transform(larger))
    np.testing.assert_allclose(back[:, 0], back[:, 1] + back[:, 2], atol=1e-9)
    np.testing.assert_allclose(back[:, 11], 100.0 - 2.0 * back[:, 3:7].sum(axis=1), atol=1e-9)


def combinations(X, weights=None):
    """The columns that are left out of a table of real columns as combinations of others."""
    with open_session(check_data(X, sample_weight=weights), 1) as session:
        return sorted(find_combinations(session, np.arange(X.shape[1])))


def test_order_and_units_do_not_decide_which_column_of_a_relation_is_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) @ (np.eye(8) + 0.3 * rng.normal(size=(8, 8)))
    X[:, 3] = X[:, 0] - 2.0 * X[:, 1] + X[:, 2]
    X[:, 6] = X[:, 3] + X[:, 4] + X[:, 5]
    expected = combinations(X)
    assert len(expected) == 2
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(8)
        found = combinations((X * 10.0 ** rng.uniform(-3.0, 3.0, 8) + 5.0)[:, order])
        assert sorted(order[found]) == expected


def test_what_is_no_relation_stays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    total = X[:, :2].sum(axis=1)
    for noise, n_found in ((1e-4, 0), (1e-9, 1)):
        assert len(combinations(np.column_stack([X, total + noise * rng.normal(size=60)]))) == n_found
    # Rows that repeat others, or do not count, are no evidence of a relation.
    assert combinations(np.vstack([X[:7]] * 4)) == []
    assert combinations(X, np.r_[np.ones(7), np.zeros(53)]) == []
    X[3, 0] = np.nan
    assert combinations(np.column_stack([X, total])) == []


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_discrete_columns_that_coincide_stay(family):
    X = draw(family, seed=1)
    assert not fit(np.column_stack([X, X[:, 2]]), family).layout_.left_out
    assert set(fit(np.column_stack([X, np.ones(N)]), family).layout_.left_out) == {10}


@pytest.mark.parametrize(
    ("family", "rivals"),
    [
        ("gamma", ("gaussian", "log_normal")),
        ("log_normal", ("gaussian", "gamma")),
        ("negative_binomial", ("gaussian", "poisson")),
        ("bernoulli", ("gaussian", "poisson")),
    ],
)
def test_the_family_that_made_a_table_has_the_most_evidence(family, rivals):
    X = draw(family, seed=3)
    evidence = {name: fit(X, name).evidence_ for name in (family, *rivals)}
    assert max(evidence, key=evidence.get) == family
