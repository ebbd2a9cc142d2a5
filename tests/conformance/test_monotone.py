"""The objective never decreases and nothing becomes non-finite, for every family, on ordinary and on hard tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.draws import generator

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.exceptions import ConvergenceWarning
from anypca.families import Bernoulli, Family, Gamma, Gaussian, NegativeBinomial, Poisson, combine, families

N, P = 60, 12

MEMBERS = (Poisson(), Bernoulli(), Gaussian(), Gamma(), NegativeBinomial())
MIXED = combine([MEMBERS[column % len(MEMBERS)] for column in range(P)])
FAMILIES = [*(family for name in families for family in families[name].examples()), MIXED]


class Hard(NamedTuple):
    """A table, or ``None`` where the family cannot have produced it, and settings of the fit."""

    table: Callable[[Family], np.ndarray | None]
    options: Mapping[str, Any] = MappingProxyType({})
    #: The maximum of the likelihood may be at infinity: running out of sweeps is then right.
    may_diverge: bool = False


def random(family: Family) -> np.ndarray:
    return make_low_rank(
        N, P, 2, family=family, signal=0.8, dispersion=0.3, random_state=generator(str(family))
    ).X


def half_missing(family: Family) -> np.ndarray:
    X = random(family)
    hide = generator("missing").random(X.shape) < 0.5
    hide[np.arange(N), np.arange(N) % P] = False
    X[hide] = np.nan
    return X


def single(family: Family) -> np.ndarray:
    X = random(family).astype(np.float32)
    X[np.arange(N), np.arange(N) % P] = np.nan
    return X


def _zeroed(family: Family, rows: list[int], columns: list[int]) -> np.ndarray | None:
    X = random(family)
    X[rows], X[:, columns] = 0.0, 0.0
    return X if family.in_support(X).all() else None


def zero_columns(family: Family) -> np.ndarray | None:
    return _zeroed(family, [], [0, 1, 7])


def zero_rows(family: Family) -> np.ndarray | None:
    return _zeroed(family, [0, 30, 59], [])


def constant_columns(family: Family) -> np.ndarray:
    X = random(family)
    X[:, [2, 3, 11]] = X[0, [2, 3, 11]]
    return X


def separable(family: Family) -> np.ndarray | None:
    """Two groups of rows that answer opposite questions with yes."""
    X = np.zeros((N, P))
    X[: N // 2, : P // 2] = 1.0
    X[N // 2 :, P // 2 :] = 1.0
    return X if family.in_support(X).all() else None


def all_one(family: Family) -> np.ndarray:
    return np.ones((N, P))


def huge(family: Family) -> np.ndarray | None:
    """Counts from 1 to a million, without structure."""
    X = np.round(np.exp(generator("huge").uniform(0.0, np.log(1e6), (N, P))))
    return X if family.in_support(X).all() else None


CASES = {
    "random": Hard(random),
    "half-missing": Hard(half_missing),
    "float32": Hard(single),
    "zero-columns": Hard(zero_columns),
    "zero-rows": Hard(zero_rows),
    "constant-columns": Hard(constant_columns),
    "separable": Hard(separable),
    "all-one": Hard(all_one),
    "huge": Hard(huge),
    "l1": Hard(random, {"score_penalty": "l1", "max_iter": 5000}),
    "no-intercept": Hard(random, {"fit_intercept": False}),
    "ridge-0": Hard(random, {"ridge": 0.0, "max_iter": 15}, may_diverge=True),
    "ridge-0-half-missing": Hard(half_missing, {"ridge": 0.0, "max_iter": 15}, may_diverge=True),
    "ridge-0-zero-columns": Hard(zero_columns, {"ridge": 0.0, "max_iter": 15}, may_diverge=True),
    "ridge-0-separable": Hard(separable, {"ridge": 0.0, "max_iter": 15}, may_diverge=True),
}


def family_id(family: Family) -> str:
    return family.name if family is MIXED else repr(family).replace("=None", "")


def _is_quick(family: Family, name: str) -> bool:
    """Whether a case is an example of its kind, which `pytest` runs without ``-m conformance``."""
    return name == "random" or family in MEMBERS


POSSIBLE = [
    pytest.param(
        family,
        name,
        id=f"{family_id(family)}-{name}",
        marks=[] if _is_quick(family, name) else [pytest.mark.conformance],
    )
    for family in FAMILIES
    for name, case in CASES.items()
    if case.table(family) is not None
]


def fit(family: Family, name: str) -> EPCA:
    """Return a model of a table; zero offsets turn calibration off in one of the cases with missing entries."""
    case = CASES[name]
    with warnings.catch_warnings():
        if case.may_diverge:
            warnings.simplefilter("ignore", ConvergenceWarning)
        offset = np.zeros(N) if name == "float32" else None
        return EPCA(2, family=family, n_jobs=1, **case.options).fit(case.table(family), offset=offset)


@pytest.mark.parametrize(("family", "name"), POSSIBLE)
def test_fit_is_monotone_and_finite(family: Family, name: str) -> None:
    case, model = CASES[name], fit(family, name)
    trace = model.objective_trace_
    # In single precision the objective itself is rounded.
    slack = 5e-6 if case.table is single else 1e-9
    assert np.all(np.diff(trace) >= -slack * (1.0 + abs(trace[-1])))
    for attribute, value in vars(model).items():
        if attribute.endswith("_") and isinstance(value, np.ndarray | float):
            assert np.all(np.isfinite(value)), attribute
    if not case.may_diverge:
        assert model.converged_
    shares = model.explained_deviance_ratio_
    assert np.all(shares >= 0)
    assert shares.sum() <= 1.0 + 1e-12
    if not case.may_diverge:
        check_rows(model, case.table(family), {"offset": np.zeros(N)} if name == "float32" else {})


def check_rows(model: EPCA, X: Any, companions: Any) -> None:
    """Assert that scores, deviations and log-likelihoods of the rows of a table are finite."""
    scores, std = model.transform(X, return_std=True, **companions)
    values, means = model.score_samples(X, **companions), model.inverse_transform(scores, **companions)
    assert all(np.all(np.isfinite(found)) for found in (scores, std, values, means))
    assert np.all(std >= 0)
