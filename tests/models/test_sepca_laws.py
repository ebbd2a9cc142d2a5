"""Laws of SePCA: units, order, weights, copies, containers, blocks, and single cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from tests.draws import seed
from tests.models.sepca_tables import DISPERSION, draw, draw_mixed, fit, hide, orthogonal

from anypca import SPPCA, SePCA

#: Fits end where the scaled gradient is small; planes are then closer than 1e-3.
TIGHT: dict[str, Any] = {"tol": 1e-7, "max_iter": 3000}
TABLES = ["gaussian", "poisson", "bernoulli", "negative_binomial", "mixed"]
tables = pytest.mark.parametrize("name", TABLES)


def table(name: str, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    if name == "mixed":
        return draw_mixed(rng)
    return draw(name, rng, p=20 if name == "bernoulli" else 10), name


def tight(name: str) -> dict[str, Any]:
    """Settings of a fit to a table; dispersions of three families together take long to settle."""
    return TIGHT | ({"dispersion": DISPERSION} if name == "mixed" else {})


def planes(model: SePCA, columns: Any = slice(None)) -> np.ndarray:
    """Loadings in units of the noise."""
    return np.asarray(model.components_[:, columns].T / np.sqrt(model.dispersion_[columns])[:, None])


def assert_same(
    found: SePCA, expected: SePCA, columns: Any = slice(None), angle: float = 1e-3, nats: float | None = 1e-2
) -> None:
    assert found.n_components_ == expected.n_components_ >= 2
    assert subspace_angles(planes(found, columns), planes(expected)).max() < angle
    if nats is not None:
        assert found.evidence_ == pytest.approx(expected.evidence_, abs=nats)


# Order, seeds, weights


@tables
def test_order_seeds_threads_and_blocks_do_not_matter(name: str, rng: np.random.Generator) -> None:
    X, family = table(name, rng)
    settings = tight(name)
    n, p = X.shape
    rows, columns = rng.permutation(n), rng.permutation(p)
    families = family if isinstance(family, str) else [family[j] for j in columns]
    expected = fit(X, family, **settings)
    assert_same(fit(X[rows], family, **settings), expected)
    assert_same(fit(X[:, columns], families, **settings), expected, np.argsort(columns))
    assert_same(fit(X, family, **settings, random_state=seed(5), n_jobs=2), expected)
    assert_same(fit(da.from_array(X, chunks=(23, -1)), family, **settings), expected)


@tables
def test_rows_of_weight_two_are_rows_twice(name: str, rng: np.random.Generator) -> None:
    X, family = table(name, rng)
    settings = tight(name)
    weight = np.where(np.arange(len(X)) < 25, 2.0, 1.0)
    twice, weighted = (
        fit(np.vstack([X, X[:25]]), family, **settings),
        fit(X, family, 4, {"sample_weight": weight}, **settings),
    )
    assert_same(weighted, twice)
    np.testing.assert_allclose(weighted.components_std_, twice.components_std_, rtol=1e-3)


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_containers_agree(family: str, container: str, rng: np.random.Generator) -> None:
    X = draw(family, rng)
    expected, given = fit(X, family, **TIGHT), CONTAINERS[container](X)
    found = fit(given, family, **TIGHT)
    assert_same(found, expected)
    np.testing.assert_allclose(np.abs(found.transform(given)), np.abs(expected.transform(X)), atol=1e-4)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_single_precision_is_close_and_kept(family: str, rng: np.random.Generator) -> None:
    X = draw(family, rng, p=20)
    expected, single = fit(X, family), fit(X.astype(np.float32), family)
    assert_same(single, expected, angle=0.03, nats=0.5)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


# Units


@pytest.mark.parametrize("family", ["gaussian", "student_t", "gamma", "log_normal", "exponential"])
def test_units_change_nothing_but_the_density(family: str, rng: np.random.Generator) -> None:
    """The evidence is that of a recorded step: it stays with a step that scales along, and is a density with one."""
    X = draw(family, rng, p=10)
    n, p = X.shape
    factor = 10.0 ** rng.uniform(-3.0, 3.0, p)
    step = np.full(p, 1e-9)
    first = fit(X, family, resolution=step, **TIGHT)
    along, fixed = (fit(X * factor, family, resolution=s, **TIGHT) for s in (step * factor, step))
    for second, shift in ((along, 0.0), (fixed, -n * np.log(factor).sum())):
        assert first.n_components_ == second.n_components_ >= 2
        np.testing.assert_allclose(
            np.abs(second.transform(X * factor)), np.abs(first.transform(X)), atol=1e-3
        )
        assert second.evidence_ == pytest.approx(first.evidence_ + shift, abs=1e-3)


@pytest.mark.parametrize(
    ("family", "shift", "settings"),
    # Of numbers far from zero rounding leaves too little for tight fits.
    [("gaussian", 10.0, TIGHT), ("student_t", 10.0, TIGHT), ("gaussian", 1e5, {})],
    ids=["gaussian", "student_t", "far"],
)
def test_shifts_of_real_columns_change_nothing(
    family: str, shift: float, settings: dict[str, Any], rng: np.random.Generator
) -> None:
    X = draw(family, rng, p=10)
    moved = X + shift * rng.standard_normal(10)
    first, second = (fit(table, family, resolution=1e-9, **settings) for table in (X, moved))
    assert_same(second, first)
    np.testing.assert_allclose(second.transform(moved), first.transform(X), atol=2e-3)


# Columns that carry nothing of their own


def test_constants_copies_and_sums_change_nothing_at_all(rng: np.random.Generator) -> None:
    X = draw("gaussian", rng, p=8)
    extra = redundant(X)
    larger = np.column_stack([X[:, :3], extra[:, 0], X[:, 3:], extra[:, 1:]])
    kept, added = [0, 1, 2, *range(4, 9)], [3, 9, 10, 11, 12]
    first, second = fit(X, "gaussian"), fit(larger, "gaussian")
    used = np.flatnonzero(second.components_.any(axis=0))
    assert len(used) == 8
    assert 3 not in used
    assert not {9, 10, 11} & set(used)
    if set(used) == set(kept):  # of a sum and its parts any may be left out
        assert second.evidence_ == pytest.approx(first.evidence_, abs=1e-6)
        np.testing.assert_allclose(second.components_[:, kept], first.components_, atol=1e-9)
        np.testing.assert_allclose(second.transform(larger), first.transform(X), atol=1e-9)
    back = second.inverse_transform(second.transform(larger))
    np.testing.assert_allclose(back[:, added], redundant(back[:, kept]), rtol=1e-9, atol=1e-7)
    report = fit(larger, "auto").family_report_
    assert "7" in report[3].reason
    assert "x1" in report[9].reason


def redundant(X: np.ndarray) -> np.ndarray:
    """A constant, copies in three units, and a sum."""
    total = X[:, 3] - 2.0 * X[:, 4:6].sum(axis=1)
    return np.column_stack([np.full(len(X), 7.0), X[:, 1], 3.0 - 0.5 * X[:, 0], 1e4 * X[:, 2] + 1e6, total])


def test_copies_must_be_copies(rng: np.random.Generator) -> None:
    """Of amounts by a factor, in the same cells, and not of answers, which coincide by chance."""
    X = draw("gamma", rng, p=10)
    holes = X.copy()
    holes[4, 2] = np.nan
    for family, extra, is_copy in (
        ("gamma", 5.0 * X[:, 2], True),
        ("gamma", np.where(np.arange(len(X)) == 9, np.nan, X[:, 3]), False),
        ("gaussian", X[:, 2] + 1e-4 * rng.standard_normal(len(X)), False),
        ("gaussian", 2.0 * holes[:, 2], True),
    ):
        model = fit(np.column_stack([holes if np.isnan(extra[4]) else X, extra]), family, 3)
        assert bool(model.components_[:, -1].any()) != is_copy
    bits = draw("bernoulli", rng, p=20)
    model = fit(np.column_stack([bits, bits[:, 2], np.ones(len(bits))]), "bernoulli")
    assert model.components_[:, 20].any()
    assert not model.components_[:, 21].any()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5], ids=lambda value: f"{value:g}")
def test_a_column_of_noise_is_no_component(size: float, rng: np.random.Generator) -> None:
    X = draw("gaussian", rng, 150)
    first = fit(X, "gaussian", 2)
    second = fit(np.column_stack([X, size * rng.standard_normal(150)]), "gaussian", 2)
    assert first.n_components_ == second.n_components_ == 2
    assert np.degrees(subspace_angles(planes(first), planes(second, slice(12))).max()) < 5.0
    shares = second.components_**2 / second.dispersion_
    # That of chance: a hundredth of the information of a row.
    assert (shares[:, -1] < 0.1 * shares.sum(axis=1)).all()


# Cells


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial", "bernoulli"])
def test_cells_of_weight_zero_are_missing_and_ones_change_nothing(
    family: str, rng: np.random.Generator
) -> None:
    X = draw(family, rng, p=20)
    holes = hide(X, rng, 0.15)
    for plain, weight in ((X, np.ones(X.shape)), (holes, np.isfinite(holes).astype(float))):
        expected = fit(plain, family, **TIGHT)
        assert_same(fit(X, family, 4, {"entry_weight": weight}, **TIGHT), expected)


@pytest.mark.parametrize("inference", ["vb", "map"])
def test_a_count_of_weight_three_is_three_counts(inference: str, rng: np.random.Generator) -> None:
    """w (x eta - exp eta) is the log-likelihood of w x counts at w times the exposure, whatever w of each cell."""
    X = draw("poisson", rng)
    weight = rng.integers(0, 4, X.shape).astype(float)
    seen = weight > 0
    counts, exposure = np.where(seen, weight * X, np.nan), np.log(np.where(seen, weight, 1.0))
    settings = {**TIGHT, "inference": inference}
    settings |= {"dispersion": 1.0} if inference == "vb" else {}
    expected = fit(counts, "poisson", 3, {"offset": exposure}, **settings)
    found = fit(X, "poisson", 3, {"entry_weight": weight}, **settings)
    assert_same(found, expected, angle=1e-3, nats=None)
    np.testing.assert_allclose(
        np.abs(found.transform(X, entry_weight=weight)),
        np.abs(expected.transform(counts, offset=exposure)),
        atol=0.01,
    )


def test_known_errors_are_used(rng: np.random.Generator) -> None:
    """A tenth of the cells has ten times the error: weights by its inverse square halve what the fit misses."""
    truth = orthogonal(rng, 200, 2) @ orthogonal(rng, 12, 2).T
    error = np.where(rng.random(truth.shape) < 0.1, 5.0, 0.5)
    X = truth + error * rng.standard_normal(truth.shape)
    axes, missed = np.linalg.svd(truth)[2][:2].T, []
    for weight in (np.ones(X.shape), 0.25 / error**2):
        model = fit(X, "gaussian", 2, {"entry_weight": weight})
        missed.append(np.sin(subspace_angles(axes, model.components_.T).max()))
    assert missed[1] < 0.6 * missed[0]
    counts = rng.poisson(np.exp(1.0 + 0.5 * truth)).astype(float)
    ones = {"entry_weight": np.ones(X.shape)}
    again, plain = SPPCA(n_jobs=1).fit(counts, **ones), SPPCA(n_jobs=1).fit(counts)
    assert again.n_components_ == plain.n_components_
    with pytest.raises(ValueError, match="hidden entries"):
        fit(X, "gaussian", 2, ones, sparsity="auto")
