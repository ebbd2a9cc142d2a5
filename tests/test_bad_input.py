"""Bad input to estimators raises an exception that names the entry, column or parameter, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from anypca import EPCA, GSPPCA, PPCA, SPCA, SSPCA, Autoencoder, KernelPCA
from anypca.exceptions import NotFittedError
from anypca.families import Binomial, Gamma, Mixed, Poisson
from tests.draws import generator

RNG, NAN, INF = generator("bad input"), np.nan, np.inf
COUNTS, REALS = RNG.poisson(3.0, (8, 4)).astype(float), RNG.normal(size=(8, 4))
COUNTS[0], COUNTS[:3, 1] = 1.0, [1, 2, 3]
FRAME = pd.DataFrame(COUNTS, columns=["north", "east", "south", "west"])

Call = Callable[[], Any]


def put(table: np.ndarray, value: Any, row: Any = 2, column: Any = 1) -> np.ndarray:
    """Return a copy of a table with one entry (or row, or column) replaced."""
    changed = np.array(table)
    changed[row, column] = value
    return changed


def epca(X: Any, family: Any = "poisson", **companions: Any) -> Call:
    return lambda: EPCA(2, family=family).fit(X, **companions)


def ppca(X: Any, k: Any = 2, **companions: Any) -> Call:
    return lambda: PPCA(k).fit(X, **companions)


@cache
def fitted(kind: str) -> Any:
    """Return small fitted models by what they were fitted with."""
    if kind == "ppca":
        return PPCA(2).fit(REALS)
    given: Any = {"offset": {"offset": np.zeros(8)}, "covariates": {"covariates": np.arange(8.0)}}
    return EPCA(2, family="poisson").fit(FRAME if kind == "frame" else COUNTS, **given.get(kind, {}))


def new(kind: str, method: str, *arguments: Any, **companions: Any) -> Call:
    return lambda: getattr(fitted(kind), method)(*arguments, **companions)


VALUES = {
    "negative, named": (epca(FRAME.assign(east=-2.0)), r"column 'east'\) is -2", "gaussian"),
    "in a mixture": (
        epca(put(COUNTS, 2, 0), ["poisson", "bernoulli", *["gaussian"] * 2]),
        r"'bernoulli' .* X\[0, 1\] is 2",
        "family=",
    ),
    **{
        f"missing in {kind.__name__}": (
            lambda kind=kind: kind(1).fit(FRAME.assign(east=put(COUNTS, NAN)[:, 1])),
            r"X\[2, 1\] .*'east'.* is NaN",
            "impute",
        )
        for kind in (SPCA, SSPCA, GSPPCA, KernelPCA, Autoencoder)
    },
    "new infinite": (new("ppca", "transform", put(REALS, INF)), r"X\[2, 1\] is inf", "NaN"),
}

TABLES = {
    "labels of counts": (epca(pl.LazyFrame({"hue": ["red"]})), "'hue' holds 1 label", "'auto'"),
    "object column": (epca(pd.DataFrame({"a": [1, 2], "hue": [3, "red"]})), "'hue'.*'red'", "encode"),
    "one row": (epca(COUNTS[:1]), r"n_components=2 .*\(1, 4\)", "at most 1"),
    "narrow": (new("plain", "transform", COUNTS[:, :3]), "3 features, .* expecting 4", "columns of fit"),
    "renamed": (
        new("frame", "transform", FRAME.rename(columns={"east": "levant"})),
        "- levant\n.*- east",
        "feature_names_in_",
    ),
    "reordered": (new("frame", "transform", FRAME[FRAME.columns[::-1]]), "same order", "feature_names_in_"),
    "wide scores": (new("plain", "inverse_transform", COUNTS[:, :3]), r"2\).*got \(8, 3\)", "transform"),
    "missing score": (new("plain", "inverse_transform", [[0, NAN]]), r"scores\[0, 1\] is nan", "Fill"),
    "one row of scores": (new("plain", "inverse_transform", [0, 1]), r"shape \(2,\)", "Reshape"),
    "no draws": (new("plain", "sample", 0), "n_samples .* got 0", "at least 1"),
}

COMPANIONS = {
    "log of zero": (epca(COUNTS, offset=[0, -INF] + [0] * 6), r"offset\[1\] is -inf .*logarithm", "Fill"),
    "no new offset": (new("offset", "transform", COUNTS), "fitted with an offset", "Pass offset="),
    "new offset": (new("plain", "transform", COUNTS, offset=[0.0] * 8), "without an offset", "Leave out"),
    "empty covariate": (
        epca(COUNTS, covariates={"batch": [*"aabbccd", None]}),
        "row 7 of column 'batch'",
        "leave",
    ),
    "one level": (
        epca(COUNTS, covariates={"batch": ["a"] * 8}),
        "column 'batch' have the value 'a'",
        "Leave it out",
    ),
    "no new covariates": (new("covariates", "transform", COUNTS), "with 1 cov.* have 0", "Pass cov"),
    "new covariates": (
        new("plain", "transform", COUNTS, covariates=np.ones(8)),
        "with 0 covariates; .* have 1",
        "Leave out",
    ),
    "one weight": (ppca(REALS, 1, sample_weight=[1] + [0] * 7), "1 sample.* positive weight", "Add rows"),
    "short entry weights": (epca(COUNTS, entry_weight=np.ones(8)), "entry_weight", r"shape \(8, 4\)"),
    "negative entry weight": (epca(COUNTS, entry_weight=put(COUNTS, -1)), "entry_weight", "negative"),
}

FAMILIES = {
    "unknown": (epca(COUNTS, "poison"), "'poison'", "mean 'poisson'"),
    "unknown in a dict": (
        epca(FRAME, {"default": "poisson", "east": "gausian"}),
        "column 'east': .*'gausian'",
        "mean 'gaussian'",
    ),
    "unknown column": (epca(FRAME, {"up": "poisson"}), "column 'up'", "columns are 'north'"),
    "missing shape": (lambda: Gamma(NAN), "shape=nan", "Leave it out"),
    "no such member": (lambda: Mixed((Poisson(), Binomial(2)), (0, 5)), "number 5", "use 0 to 1"),
}

TYPES = {
    "dates": (ppca(pd.DataFrame({"day": pd.to_datetime(["2024-01-01"] * 2)})), "'day'", "Drop"),
    "text offset": (epca(COUNTS, offset="log"), "offset is a str", "array"),
}

NOT_FITTED = {
    method: (
        lambda kind=kind, method=method, given=given: getattr(kind(), method)(*given),
        "instance",
        "Call",
    )
    for kind, method, given in [
        (EPCA, "transform", (COUNTS,)),
        (EPCA, "inverse_transform", ([[0, 1]],)),
        (EPCA, "sample", (2,)),
        (PPCA, "score", (REALS,)),
        (PPCA, "impute", (REALS,)),
        (PPCA, "get_covariance", ()),
        (PPCA, "get_feature_names_out", ()),
    ]
}


def with_parameter(kind: Any, name: str, value: Any) -> Call:
    table, given = (COUNTS, {"family": "poisson"}) if kind is EPCA else (REALS, {})
    return lambda: kind(**{"n_components": 2, **given, name: value}).fit(table)


PARAMETERS = {
    f"{name}={value!r} {kind.__name__}": (with_parameter(kind, name, value), name, remedy)
    for kind, name, value, remedy in [
        (EPCA, "n_components", 9, "9.*at most 4"),
        (PPCA, "n_components", 9, "9.*at most 4"),
        (PPCA, "n_components", 0, r"must be an int in the range \[1"),
        (PPCA, "n_components", 2.5, r"float in the range \(0.0, 1.0\)"),
        (EPCA, "n_components", True, "must be a number"),
        (PPCA, "n_components", "mlee", "mean 'mle'"),
        (EPCA, "ridge", "strong", "must be a str among"),
        (EPCA, "tol", 0, r"float in the range \(0.0, inf\)"),
        (EPCA, "max_iter", 0, r"must be an int in the range \[1"),
        (EPCA, "score_penalty", "L2", "mean 'ridge'"),
        (EPCA, "n_jobs", "many", "'int' or None"),
        (EPCA, "n_jobs", 0, "Use 1"),
        (EPCA, "random_state", "lucky", "must be an int"),
    ]
}

CASES = {
    f"{group}: {name}": (error, *case)
    for group, error, cases in [
        ("values", ValueError, VALUES),
        ("tables", ValueError, TABLES),
        ("companions", ValueError, COMPANIONS),
        ("families", ValueError, FAMILIES),
        ("types", TypeError, TYPES),
        ("not fitted", NotFittedError, NOT_FITTED),
        ("parameters", ValueError, PARAMETERS),
    ]
    for name, case in cases.items()
}


@pytest.mark.parametrize(("error", "call", "entry", "remedy"), CASES.values(), ids=CASES)
def test_bad_input_names_entry_and_remedy(error: Any, call: Call, entry: str, remedy: str) -> None:
    with pytest.raises(error) as caught:
        call()
    for words in (entry, remedy):
        assert re.search(words, str(caught.value), re.DOTALL), caught.value


@pytest.mark.parametrize("model", [EPCA(2, family="poisson"), PPCA(2)], ids=["EPCA", "PPCA"])
def test_failed_fit_is_no_fit(model: Any) -> None:
    with pytest.raises(ValueError, match="inf"):
        model.fit(put(COUNTS, INF))
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        model.transform(COUNTS)
