"""Sums of values, gradients and curvatures of a block, against sums written out entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from anypca.datasets import make_low_rank
from anypca.engine import Block, check_data
from anypca.families import Bernoulli, Family, Gaussian, NegativeBinomial, Poisson, combine, families
from anypca.linalg import unpack_symmetric
from anypca.models import _opened as opened_module
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._opened import open_block

N, P, K = 9, 6, 2

FAMILIES = [family for name in families for family in families[name].examples()]
MIXED = combine([(Poisson(), Bernoulli(), Gaussian(), NegativeBinomial())[column % 4] for column in range(P)])


def family_id(family: Family) -> str:
    return family.name if family is MIXED else repr(family).replace("=None", "")


def draw(family: Family, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    """A table of rank two, every row with an observed entry, shape (N, P)."""
    X = make_low_rank(N, P, 2, family=family, signal=0.7, dispersion=0.3, random_state=seed).X
    hide = np.random.default_rng(seed).random(X.shape) < missing
    hide[np.arange(N), np.arange(N) % P] = False
    X[hide] = np.nan
    return X


class Setting(NamedTuple):
    """What comes along with the table."""

    missing: float = 0.0
    offset: str | None = None
    n_covariates: int = 0
    weighted: bool = False
    fit_intercept: bool = True


SETTINGS = {
    "plain": Setting(),
    "no-intercept": Setting(fit_intercept=False),
    "weights": Setting(weighted=True),
    "missing": Setting(missing=0.3),
    "offset-row": Setting(offset="row", n_covariates=2),
    "offset-entry": Setting(offset="entry"),
    "everything": Setting(missing=0.3, offset="entry", n_covariates=2, weighted=True),
    "everything-complete": Setting(offset="row", n_covariates=1, weighted=True),
}


@dataclass(frozen=True)
class Case:
    """A block with everything that is needed to evaluate it by hand."""

    family: Family
    X: np.ndarray
    offset: np.ndarray
    features: np.ndarray
    weights: np.ndarray
    coefficients: Coefficients
    scores: np.ndarray
    block: Block
    fit_intercept: bool

    def eta(self, scores: np.ndarray, joint: np.ndarray) -> np.ndarray:
        return self.offset + np.hstack([scores, self.features]) @ joint.T

    def terms(self, scores: np.ndarray, joint: np.ndarray) -> np.ndarray:
        """Log-likelihood of each entry without constants, zero where missing, shape (n, p)."""
        seen = ~np.isnan(self.X)
        x = np.where(seen, self.X, 1.0)
        log_p = self.family.log_likelihood(x, self.eta(scores, joint), self.coefficients.dispersion)
        base = self.family.log_base(x, self.coefficients.dispersion)
        return np.where(seen, log_p - base, 0.0)

    def information(self) -> np.ndarray:
        """Expected information of each entry, from means and variances alone where these tell it, shape (n, p)."""
        eta, h, phi = self.eta(self.scores, self.coefficients.joint), 1e-5, self.coefficients.dispersion
        seen = ~np.isnan(self.X)
        x = np.where(seen, self.X, 1.0)
        mean = self.family.mean(eta, phi)
        variance = self.family.variance(mean, phi)
        is_standard = np.allclose(self.family.pearson(x, eta, phi), (x - mean) ** 2 / variance)
        if is_standard and self.family.has_information:
            slope = (self.family.mean(eta + h, phi) - self.family.mean(eta - h, phi)) / (2 * h)
            return np.where(seen, slope**2 / variance, 0.0)
        return np.where(seen, self.family.evaluate(x, eta, phi).curvature, 0.0)

    def evaluator(self, *, products: bool = False) -> BlockEvaluator:
        family = self.family if products else None
        rows = open_block(self.block, fit_intercept=self.fit_intercept, family=family)
        assert (rows.product is not None) == (products and self.family.is_linear)
        return BlockEvaluator(self.family, self.coefficients, rows)


def make_case(family: Family, setting: Setting, *, table: Any = None, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    X = draw(family, setting.missing, seed)
    shape = {None: (N, 1), "row": (N, 1), "entry": (N, P)}[setting.offset]
    offset = 0.3 * rng.standard_normal(shape) * (setting.offset is not None)
    given = None if setting.offset is None else (offset[:, 0] if setting.offset == "row" else offset)
    covariates = rng.standard_normal((N, setting.n_covariates))
    weights = rng.integers(0, 4, N).astype(float) if setting.weighted else np.ones(N)
    features = np.hstack([np.ones((N, int(setting.fit_intercept))), covariates])
    known = family.known_dispersion(P)
    dispersion = np.where(np.isnan(known), rng.uniform(0.3, 0.8, P), known)
    coefficients = Coefficients(
        0.5 * rng.standard_normal((P, K)), 0.3 * rng.standard_normal((P, features.shape[1])), dispersion
    )
    data = check_data(
        X if table is None else table(X),
        sample_weight=weights if setting.weighted else None,
        offset=given,
        covariates=covariates if setting.n_covariates else None,
    )
    scores = 0.5 * rng.standard_normal((N, K))
    return Case(
        family, X, offset, features, weights, coefficients, scores, data.blocks[0], setting.fit_intercept
    )


def central(function: Any, point: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Finite differences of an array-valued function in every entry of a matrix, last two axes."""
    parts = []
    for index in np.ndindex(*point.shape):
        move = np.zeros_like(point)
        move[index] = h
        parts.append((function(point + move) - function(point - move)) / (2 * h))
    return np.stack(parts, axis=-1).reshape(*parts[0].shape, *point.shape)


ALL = pytest.mark.parametrize("family", [*FAMILIES, MIXED], ids=family_id)
EVERY_SETTING = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())


@ALL
@EVERY_SETTING
def test_row_sums(family: Family, setting: Setting) -> None:
    case = make_case(family, setting)
    sums = case.evaluator().row_sums(case.scores)
    joint = case.coefficients.joint
    terms = case.terms(case.scores, joint)
    np.testing.assert_allclose(sums.value, terms.sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(case.evaluator().row_values(case.scores), sums.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.columns, case.weights @ terms, rtol=1e-12, atol=1e-12)
    slopes = central(lambda scores: case.terms(scores, joint).sum(axis=1), case.scores)
    expected = slopes[np.arange(N), np.arange(N)]
    np.testing.assert_allclose(sums.gradient, expected, rtol=1e-6, atol=1e-7)
    loadings = case.coefficients.loadings
    expected = np.einsum("ij,ja,jb->iab", case.information(), loadings, loadings)
    np.testing.assert_allclose(unpack_symmetric(sums.curvature, K), expected, rtol=1e-6, atol=1e-7)


@ALL
@EVERY_SETTING
def test_column_sums(family: Family, setting: Setting) -> None:
    case = make_case(family, setting)
    sums = case.evaluator().column_sums(case.scores)
    joint = case.coefficients.joint
    terms = case.terms(case.scores, joint)
    np.testing.assert_allclose(sums.rows, terms.sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.value, case.weights @ terms, rtol=1e-12, atol=1e-12)
    slopes = central(lambda k: case.weights @ case.terms(case.scores, k), joint)
    expected = slopes[np.arange(P), np.arange(P)]
    np.testing.assert_allclose(sums.gradient, expected, rtol=1e-6, atol=1e-6)
    design = np.hstack([case.scores, case.features])
    expected = np.einsum("i,ij,ia,ib->jab", case.weights, case.information(), design, design)
    found = unpack_symmetric(sums.curvature, design.shape[1])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.is_linear], ids=family_id)
def test_curvature_is_the_hessian_where_the_link_is_canonical(family: Family) -> None:
    case = make_case(family, SETTINGS["everything"])
    joint = case.coefficients.joint

    def gradient(scores: np.ndarray) -> np.ndarray:
        return case.evaluator().row_sums(scores).gradient

    hessian = central(gradient, case.scores)[np.arange(N), :, np.arange(N)]
    found = unpack_symmetric(case.evaluator().row_sums(case.scores).curvature, K)
    np.testing.assert_allclose(found, -hessian, rtol=1e-6, atol=1e-7)
    assert joint.shape == (P, K + 3)


# Products with the table in place of dense arithmetic

LINEAR = pytest.mark.parametrize("family", [f for f in FAMILIES if f.is_linear], ids=family_id)
COMPLETE = {name: s for name, s in SETTINGS.items() if not s.missing and s.offset != "entry"}
TABLES = {
    "dense": lambda X: X.astype(np.int64),
    "csr": lambda X: sp.csr_array(X.astype(np.int64)),
    "csr-matrix": lambda X: sp.csr_matrix(X.astype(np.int64)),
    "csc": lambda X: sp.csc_array(X.astype(np.int64)),
}


@LINEAR
@pytest.mark.parametrize("setting", COMPLETE.values(), ids=COMPLETE.keys())
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_products_equal_dense_sums(family: Family, setting: Setting, table: Any) -> None:
    dense = make_case(family, setting).evaluator()
    case = make_case(family, setting, table=table)
    evaluator = case.evaluator(products=True)
    rows, expected_rows = evaluator.row_sums(case.scores), dense.row_sums(case.scores)
    for name in ("value", "gradient", "curvature"):
        found, expected = getattr(rows, name), getattr(expected_rows, name)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)
    columns, expected_columns = evaluator.column_sums(case.scores), dense.column_sums(case.scores)
    for name in ("rows", "gradient", "curvature"):
        found, expected = getattr(columns, name), getattr(expected_columns, name)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)
    # Columns leave out ``x offset``, which all of them together hand back.
    total = columns.value.sum() + evaluator.rows.weights @ evaluator.rows.offset_values
    np.testing.assert_allclose(total, expected_columns.value.sum(), rtol=1e-10)
    np.testing.assert_allclose(evaluator.row_values(case.scores), expected_rows.value, rtol=1e-10, atol=1e-10)


@LINEAR
def test_columns_at_entry_and_their_linear_part_add_up(family: Family) -> None:
    # A repair compares the two, so they must be the same function of the coefficients.
    case = make_case(family, SETTINGS["everything-complete"], table=TABLES["csr"])
    evaluator = case.evaluator(products=True)
    sums = evaluator.column_sums(case.scores)
    linear = np.einsum("ja,ja->j", sums.linear, case.coefficients.joint)
    np.testing.assert_allclose(
        evaluator.row_sums(case.scores).columns + linear, sums.value, rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("family", FAMILIES, ids=family_id)
@pytest.mark.parametrize("table", [sp.csr_array, sp.csc_matrix], ids=["csr", "csc-matrix"])
def test_sparse_tables_equal_dense_ones(family: Family, table: Any) -> None:
    dense = make_case(family, SETTINGS["everything"])
    sparse = make_case(family, SETTINGS["everything"], table=table)
    for found, expected in zip(
        sparse.evaluator().column_sums(sparse.scores),
        dense.evaluator().column_sums(dense.scores),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# Tiles and parts


@ALL
@pytest.mark.parametrize("setting", ["plain", "everything"])
def test_tiles_do_not_matter(family: Family, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(family, SETTINGS[setting])
    whole = [*case.evaluator().row_sums(case.scores), *case.evaluator().column_sums(case.scores)]
    monkeypatch.setattr(opened_module, "_TILE_BYTES", 16 * N)
    monkeypatch.setattr(opened_module, "_MIN_TILE", 2)
    assert len(list(case.evaluator().rows.tiles())) == 3
    parts = [*case.evaluator().row_sums(case.scores), *case.evaluator().column_sums(case.scores)]
    for found, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("products", [False, True], ids=["dense", "products"])
def test_take_is_the_same_rows(products: bool) -> None:
    family = next(f for f in FAMILIES if f.name == "poisson")
    case = make_case(family, SETTINGS["everything-complete"], table=TABLES["csr"])
    evaluator = case.evaluator(products=products)
    index = np.array([1, 4, 8])
    found = evaluator.take(index).row_sums(case.scores[index])
    expected = evaluator.row_sums(case.scores)
    np.testing.assert_allclose(found.value, expected.value[index], rtol=1e-12)
    np.testing.assert_allclose(found.gradient, expected.gradient[index], rtol=1e-12, atol=1e-12)


@ALL
def test_single_precision_stays_single(family: Family) -> None:
    case = make_case(family, SETTINGS["everything"], table=lambda X: X.astype(np.float32))
    evaluator = case.evaluator()
    assert evaluator.predictor(case.scores, slice(0, 2)).dtype == np.float32
    exact = make_case(family, SETTINGS["everything"]).evaluator().row_sums(case.scores)
    found = evaluator.row_sums(case.scores)
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.gradient, exact.gradient, rtol=1e-3, atol=1e-3)
