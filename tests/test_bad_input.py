"""Every bad input to the public interface raises the right exception, which names the entry and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from anypca import EPCA, PPCA
from anypca.exceptions import NotFittedError
from anypca.families import Binomial, Gamma, Mixed, NegativeBinomial, Poisson

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, (8, 4)).astype(float)
REALS = RNG.normal(size=(8, 4))
BINARY = (REALS > 0).astype(float)
FRAME = pd.DataFrame(COUNTS, columns=["north", "east", "south", "west"])
NAN = np.nan


class Case(NamedTuple):
    """A call, the exception it must raise, and what the message must say of the entry and of the remedy."""

    call: Callable[[], Any]
    error: type[Exception]
    entry: str
    remedy: str


def put(table, value, row=2, column=1):
    """A copy of a table with one entry (or row, or column) replaced."""
    changed = np.array(table)
    changed[row, column] = value
    return changed


def epca(family="poisson", k=2, **others):
    return EPCA(k, family=family, **others)


@cache
def fitted(kind="plain"):
    """Small fitted models by what they were fitted with."""
    if kind == "ppca":
        return PPCA(2).fit(REALS)
    if kind == "ppca-frame":
        return PPCA(2).fit(FRAME)
    table = FRAME if kind == "frame" else COUNTS
    others = {"offset": {"offset": np.zeros(8)}, "covariates": {"covariates": np.arange(8.0)}}
    return epca().fit(table, **others.get(kind, {}))


def string_csr():
    matrix = sparse.csr_array(COUNTS)
    matrix.data = matrix.data.astype("U3")
    return matrix


def unknown_chunks():
    table = da.from_array(COUNTS, chunks=(4, 4))
    return table[table[:, 0] > 1]


LESS = "Use family='gaussian'"
DROP = "Drop these"
TABLE = "Pass a two-dimensional array"
RESHAPE = "Reshape your data"
FILL = "Fill the gap, or drop that row"
TEXT = "Convert numeric text .* encode categories"

VALUES = {
    "negative-count": Case(
        lambda: epca().fit(put(COUNTS, -2)), ValueError, r"'poisson' needs values >= 0; X\[2, 1\] is -2", LESS
    ),
    "negative-count-named": Case(
        lambda: epca().fit(FRAME.replace({"east": {COUNTS[2, 1]: -2}})),
        ValueError,
        r"column 'east'\) is -2",
        LESS,
    ),
    "negative-count-csr": Case(
        lambda: epca().fit(sparse.csr_array(put(COUNTS, -2))), ValueError, r"X\[2, 1\] is -2", LESS
    ),
    "negative-count-dask": Case(
        lambda: epca().fit(da.from_array(put(COUNTS, -2, 6), chunks=(4, 4))),
        ValueError,
        r"X\[6, 1\] is -2",
        LESS,
    ),
    "negative-count-of-nb": Case(
        lambda: epca("negative_binomial").fit(put(COUNTS, -1)), ValueError, r">= 0; X\[2, 1\] is -1", LESS
    ),
    "negative-count-in-transform": Case(
        lambda: fitted().transform(put(COUNTS, -1)), ValueError, r"X\[2, 1\] is -1", LESS
    ),
    "negative-count-in-score": Case(
        lambda: fitted("frame").score(FRAME - 99), ValueError, r"X\[0, 0\] \(column 'north'\) is -9\d", LESS
    ),
    "half-in-binary": Case(
        lambda: epca("bernoulli").fit(put(BINARY, 1.5)),
        ValueError,
        r"needs values 0 or 1; X\[2, 1\] is 1.5",
        r"Use family='binomial\(n\)'",
    ),
    "half-in-transform": Case(
        lambda: epca("bernoulli").fit(BINARY).transform(put(BINARY, 0.5)),
        ValueError,
        r"X\[2, 1\] is 0.5",
        "Use family=",
    ),
    "17-of-16": Case(
        lambda: epca("binomial(16)").fit(put(COUNTS, 17)),
        ValueError,
        r"values from 0 to 16; X\[2, 1\] is 17",
        "Set n_trials to the largest possible count",
    ),
    "zero-in-gamma": Case(
        lambda: epca("gamma").fit(put(COUNTS + 1, 0)),
        ValueError,
        r"'gamma' needs values > 0; X\[2, 1\] is 0",
        r"treat zeros as missing \(NaN\)",
    ),
    "negative-in-exponential": Case(
        lambda: epca("exponential").fit(put(COUNTS + 1, -1)),
        ValueError,
        r"'exponential' needs values > 0; X\[2, 1\] is -1",
        LESS,
    ),
    "wrong-column-of-a-mixture": Case(
        lambda: epca(["poisson", "bernoulli", "poisson", "gaussian"]).fit(
            put(put(COUNTS, 0, slice(None)), 2)
        ),
        ValueError,
        r"'bernoulli' needs values 0 or 1; X\[2, 1\] is 2",
        "Use family=",
    ),
    "nan-column": Case(
        lambda: epca().fit(put(COUNTS, NAN, slice(None))),
        ValueError,
        r"no observed entry in column\(s\) 1",
        f"{DROP} columns",
    ),
    "nan-column-named": Case(
        lambda: PPCA(2).fit(FRAME.assign(east=NAN)),
        ValueError,
        r"column\(s\) 1 \('east'\)",
        f"{DROP} columns",
    ),
    "all-nan": Case(
        lambda: PPCA(2).fit(np.full((4, 4), NAN)), ValueError, r"column\(s\) 0, 1, 2, 3", f"{DROP} columns"
    ),
    "inf": Case(
        lambda: epca("auto").fit(put(REALS, np.inf)), ValueError, r"X\[2, 1\] is inf", "Use NaN for missing"
    ),
    "minus-inf": Case(lambda: PPCA(2).fit(put(REALS, -np.inf)), ValueError, r"X\[2, 1\] is -inf", "Use NaN"),
    "inf-in-dask": Case(
        lambda: epca().fit(da.from_array(put(COUNTS, np.inf, 6), chunks=(4, 4))),
        ValueError,
        r"X\[6, 1\] is inf",
        "Use NaN",
    ),
    "inf-in-transform": Case(
        lambda: fitted().transform(put(COUNTS, np.inf)), ValueError, r"X\[2, 1\] is inf", "Use NaN"
    ),
    "inf-in-ppca-transform": Case(
        lambda: fitted("ppca").transform(put(REALS, np.inf)), ValueError, r"X\[2, 1\] is inf", "Use NaN"
    ),
    "too-large": Case(
        lambda: PPCA(2).fit(put(REALS, 1e200)), ValueError, r"too large .* column\(s\) 1", "Rescale"
    ),
}

TABLES = {
    "none": Case(lambda: epca().fit(None), TypeError, "X is a NoneType", TABLE),
    "path": Case(lambda: PPCA(2).fit("table.csv"), TypeError, "X is a str", TABLE),
    "dict": Case(lambda: epca().fit({"a": [1, 2]}), TypeError, "X is a dict", TABLE),
    "lazy-frame": Case(
        lambda: epca().fit(pl.LazyFrame({"a": ["u"]})),
        ValueError,
        "column 'a' holds 1 label",
        "Leave the column to family='auto'",
    ),
    "strings": Case(
        lambda: epca().fit([[1, 2], [3, "red"]]), ValueError, r"X\[1, 1\] is the string 'red'", TEXT
    ),
    "object-column": Case(
        lambda: epca().fit(pd.DataFrame({"a": [1, 2], "hue": [3, "red"]})),
        ValueError,
        r"X\[1, 1\] \(column 'hue'\) is the string 'red'",
        TEXT,
    ),
    "polars-text": Case(
        lambda: epca().fit(pl.DataFrame({"a": [1], "hue": ["red"]})),
        ValueError,
        r"column 'hue' holds 1 label \(red\), and family 'poisson' is for numbers",
        "Leave the column to family='auto'",
    ),
    "dates": Case(
        lambda: PPCA(1).fit(pd.DataFrame({"day": pd.to_datetime(["2024-01-01"] * 2)})),
        TypeError,
        "column 'day'",
        "Drop it or convert it",
    ),
    "no-rows": Case(
        lambda: epca().fit(COUNTS[:0]), ValueError, r"0 sample\(s\) \(shape=\(0, 4\)", "Check how X was"
    ),
    "no-columns": Case(
        lambda: PPCA(2).fit(REALS[:, :0]), ValueError, r"0 feature\(s\) \(shape=\(8, 0\)", "Check how"
    ),
    "one-row": Case(
        lambda: epca().fit(COUNTS[:1]),
        ValueError,
        r"n_components=2 .* table of shape \(1, 4\)",
        "Choose at most 1",
    ),
    "one-row-ppca": Case(
        lambda: PPCA(1).fit(REALS[:1]), ValueError, r"at least 2 rows; X has 1 sample", "Add rows"
    ),
    "1-d": Case(
        lambda: epca().fit(COUNTS[0]), ValueError, r"got 1D array instead: X has shape \(4,\)", RESHAPE
    ),
    "3-d": Case(lambda: PPCA(2).fit(REALS[None]), ValueError, "dim 3 for X", RESHAPE),
    "ragged": Case(
        lambda: epca().fit([[1, 2], [3]]), ValueError, "X is not a rectangular table", "use NaN for missing"
    ),
    "complex": Case(
        lambda: epca().fit(COUNTS + 1j), ValueError, "X has dtype complex128", "real and imaginary parts"
    ),
    "complex-csr": Case(
        lambda: PPCA(2).fit(sparse.csr_array(REALS + 1j)), ValueError, "X has dtype complex", "parts"
    ),
    "strings-in-csr": Case(lambda: epca().fit(string_csr()), ValueError, "X has dtype <U3: .* strings", TEXT),
    "duplicate-names": Case(
        lambda: epca().fit(FRAME.rename(columns={"east": "west"})),
        ValueError,
        "2 columns called 'west'",
        "Rename or drop",
    ),
    "mixed-names": Case(
        lambda: PPCA(2).fit(FRAME.rename(columns={"east": 7})),
        TypeError,
        r"\['int', 'str'\]",
        r"astype\(str\)",
    ),
    "dask-unknown-chunks": Case(
        lambda: epca().fit(unknown_chunks()),
        ValueError,
        r"X has chunks of unknown size",
        r"compute_chunk_sizes\(\)",
    ),
    "dask-strings": Case(
        lambda: epca().fit(da.from_array(np.array([["a", "b"]] * 4), chunks=2)),
        ValueError,
        "X has dtype <U1",
        TEXT,
    ),
    "dask-1-d": Case(
        lambda: PPCA(2).fit(da.from_array(REALS[0], chunks=2)), ValueError, "got 1D array", RESHAPE
    ),
}

NEW_ROWS = {
    "narrow": Case(
        lambda: fitted().transform(COUNTS[:, :3]),
        ValueError,
        "X has 3 features, .* expecting 4",
        "Pass the columns of fit",
    ),
    "narrow-ppca": Case(
        lambda: fitted("ppca").impute(REALS[:, :3]),
        ValueError,
        "X has 3 features, but PPCA",
        "Pass the columns of fit",
    ),
    "wide": Case(
        lambda: fitted().score_samples(np.hstack([COUNTS, COUNTS])),
        ValueError,
        "X has 8 features",
        "Pass the columns",
    ),
    "renamed": Case(
        lambda: fitted("frame").transform(FRAME.rename(columns={"east": "levant"})),
        ValueError,
        "unseen at fit time:\n- levant\n.*now missing:\n- east",
        r"X\[model.feature_names_in_\] selects them",
    ),
    "renamed-ppca": Case(
        lambda: fitted("ppca-frame").transform(FRAME.rename(columns={"east": "levant"})),
        ValueError,
        "- levant",
        "in the same order",
    ),
    "reordered": Case(
        lambda: fitted("frame").transform(FRAME[["east", "north", "south", "west"]]),
        ValueError,
        "must be in the same order",
        r"X\[model.feature_names_in_\] selects them",
    ),
    "column-left-out": Case(
        lambda: fitted("frame").transform(FRAME.drop(columns="west")),
        ValueError,
        "missing:\n- west",
        "columns of fit",
    ),
    "scores-wide": Case(
        lambda: fitted().inverse_transform(COUNTS[:, :3]),
        ValueError,
        r"EPCA.* shape \(n_samples, 2\).*; got \(8, 3\)",
        "Pass what transform returned",
    ),
    "scores-wide-ppca": Case(
        lambda: fitted("ppca").inverse_transform(REALS),
        ValueError,
        r"PPCA.*got \(8, 4\)",
        "Pass what transform returned",
    ),
    "scores-nan": Case(
        lambda: fitted().inverse_transform([[0, 1], [2, NAN]]), ValueError, r"scores\[1, 1\] is nan", FILL
    ),
    "scores-inf-ppca": Case(
        lambda: fitted("ppca").inverse_transform([[np.inf, 1]]), ValueError, r"scores\[0, 0\] is inf", FILL
    ),
    "scores-1-d": Case(
        lambda: fitted().inverse_transform([0, 1]), ValueError, r"scores has shape \(2,\)", RESHAPE
    ),
    "scores-text": Case(
        lambda: fitted("ppca").inverse_transform([["a", 1]]),
        ValueError,
        r"scores\[0, 0\] is the string 'a'",
        TEXT,
    ),
    "offset-missing": Case(
        lambda: fitted("offset").transform(COUNTS),
        ValueError,
        "fitted with an offset",
        "Pass offset= for new rows",
    ),
    "offset-missing-in-inverse": Case(
        lambda: fitted("offset").inverse_transform([[0, 1]]),
        ValueError,
        "fitted with an offset",
        "Pass offset=",
    ),
    "offset-missing-in-sample": Case(
        lambda: fitted("offset").sample(3), ValueError, "fitted with an offset", "Pass offset="
    ),
    "offset-not-in-fit": Case(
        lambda: fitted().transform(COUNTS, offset=np.zeros(8)),
        ValueError,
        "without an offset",
        "Leave out offset=",
    ),
    "offset-short-in-transform": Case(
        lambda: fitted("offset").transform(COUNTS, offset=[1, 2]),
        ValueError,
        r"got \(2,\)",
        r"must have shape \(8,\)",
    ),
    "covariates-missing": Case(
        lambda: fitted("covariates").transform(COUNTS),
        ValueError,
        "with 1 covariates; .* have 0",
        "Pass covariates=",
    ),
    "covariates-not-in-fit": Case(
        lambda: fitted().transform(COUNTS, covariates=np.ones(8)),
        ValueError,
        "with 0 covariates; .* have 1",
        "Leave out covariates=",
    ),
    "covariates-wide": Case(
        lambda: fitted("covariates").transform(COUNTS, covariates=np.ones((8, 2))),
        ValueError,
        "with 1 covariates; .* have 2",
        "same columns as in fit",
    ),
    "sample-none": Case(lambda: fitted().sample(0), ValueError, "n_samples .* got 0", "must be at least 1"),
    "sample-fraction": Case(
        lambda: fitted("ppca").sample(2.5), TypeError, "n_samples .* got 2.5", "must be an integer"
    ),
    "not-fitted": Case(lambda: EPCA().transform(COUNTS), NotFittedError, "This EPCA instance", "Call 'fit'"),
    "not-fitted-inverse": Case(
        lambda: EPCA().inverse_transform([[0, 1]]), NotFittedError, "EPCA", "Call 'fit'"
    ),
    "not-fitted-sample": Case(lambda: EPCA().sample(2), NotFittedError, "EPCA", "Call 'fit'"),
    "not-fitted-score": Case(lambda: PPCA().score(REALS), NotFittedError, "PPCA", "Call 'fit'"),
    "not-fitted-covariance": Case(lambda: PPCA().get_covariance(), NotFittedError, "PPCA", "Call 'fit'"),
    "not-fitted-names": Case(lambda: PPCA().get_feature_names_out(), NotFittedError, "PPCA", "Call 'fit'"),
}

COMPANIONS = {
    "offset-short": Case(
        lambda: epca().fit(COUNTS, offset=np.zeros(7)),
        ValueError,
        r"offset .* got \(7,\)",
        r"shape \(8,\).*\(8, 4\)",
    ),
    "offset-narrow": Case(
        lambda: epca().fit(COUNTS, offset=np.zeros((8, 3))),
        ValueError,
        r"offset .* got \(8, 3\)",
        r"shape \(8,\)",
    ),
    "offset-nan": Case(
        lambda: epca().fit(COUNTS, offset=[NAN] + [0] * 7), ValueError, r"offset\[0\] is nan", FILL
    ),
    "offset-inf": Case(
        lambda: epca().fit(COUNTS, offset=put(COUNTS, np.inf)), ValueError, r"offset\[2, 1\] is inf", FILL
    ),
    "offset-log-of-zero": Case(
        lambda: epca().fit(COUNTS, offset=[0, -np.inf] + [0] * 6),
        ValueError,
        r"offset\[1\] is -inf \(the logarithm of 0\?\)",
        FILL,
    ),
    "offset-text": Case(
        lambda: epca().fit(COUNTS, offset="log"), TypeError, "offset is a str", "Pass an array of numbers"
    ),
    "covariates-short": Case(
        lambda: epca().fit(COUNTS, covariates=np.ones((7, 1))),
        ValueError,
        r"covariates .* got \(7, 1\)",
        r"shape \(8, n_covariates\)",
    ),
    "covariates-nan": Case(
        lambda: epca().fit(COUNTS, covariates=put(COUNTS, NAN)),
        ValueError,
        r"covariates\[2, 1\] is nan",
        FILL,
    ),
    "covariates-text": Case(
        lambda: epca().fit(COUNTS, covariates=pd.DataFrame({"batch": list("aabbccdd")})),
        ValueError,
        r"covariates\[0, 0\] \(column 'batch'\) is the string 'a'",
        TEXT,
    ),
    "weight-negative": Case(
        lambda: epca().fit(COUNTS, sample_weight=[1, -2] + [1] * 6),
        ValueError,
        r"sample_weight\[1\] is -2",
        "Use 0",
    ),
    "weight-nan": Case(
        lambda: PPCA(2).fit(REALS, sample_weight=[NAN] + [1] * 7),
        ValueError,
        r"sample_weight\[0\] is nan",
        FILL,
    ),
    "weight-zero": Case(
        lambda: epca().fit(COUNTS, sample_weight=np.zeros(8)),
        ValueError,
        "sample_weight is zero for every row",
        "Give some rows a positive weight",
    ),
    "weight-one-row": Case(
        lambda: PPCA(1).fit(REALS, sample_weight=[1] + [0] * 7),
        ValueError,
        "1 sample.* of positive weight",
        "Add rows",
    ),
    "weight-short": Case(
        lambda: PPCA(2).fit(REALS, sample_weight=[1, 2]), ValueError, r"got \(2,\)", r"must have shape \(8,\)"
    ),
    "weight-text": Case(
        lambda: PPCA(2).fit(REALS, sample_weight="balanced"),
        TypeError,
        "sample_weight is a str",
        "Pass an array",
    ),
}

FAMILIES = {
    "unknown": Case(
        lambda: epca("poison").fit(COUNTS), ValueError, "unknown family 'poison'", "mean 'poisson'"
    ),
    "unknown-in-list": Case(
        lambda: epca(["poisson"] * 3 + ["poison"]).fit(COUNTS),
        ValueError,
        "column 3: .*'poison'",
        "mean 'poisson'",
    ),
    "unknown-in-dict": Case(
        lambda: epca({"default": "poisson", "east": "gausian"}).fit(FRAME),
        ValueError,
        "column 'east': unknown family 'gausian'",
        "mean 'gaussian'",
    ),
    "no-near-name": Case(
        lambda: epca("zzz").fit(COUNTS),
        ValueError,
        "unknown family 'zzz'",
        "Choose one of bernoulli, .*poisson",
    ),
    "list-short": Case(
        lambda: epca(["poisson"] * 3).fit(COUNTS),
        ValueError,
        "3 entries but X has 4 columns",
        "give one entry per column",
    ),
    "dict-unknown-column": Case(
        lambda: epca({"up": "poisson"}).fit(FRAME),
        ValueError,
        "column 'up', which X does not",
        "columns are 'north'",
    ),
    "dict-near-column": Case(
        lambda: epca({"nort": "poisson"}).fit(FRAME),
        ValueError,
        "column 'nort', which X does",
        "mean 'north'",
    ),
    "dict-index": Case(
        lambda: epca({9: "poisson"}).fit(COUNTS), ValueError, "family names column 9", "columns 0 to 3"
    ),
    "dict-name-without-names": Case(
        lambda: epca({"north": "poisson"}).fit(COUNTS),
        ValueError,
        "column 'north', but X has no",
        "use column indices",
    ),
    "dict-column-twice": Case(
        lambda: epca({"north": "poisson", 0: "gamma"}).fit(FRAME),
        ValueError,
        "column 0 twice",
        "Keep one of them",
    ),
    "dict-float-key": Case(
        lambda: epca({1.5: "poisson"}).fit(COUNTS),
        TypeError,
        "got 1.5 of type float",
        "are column names or indices",
    ),
    "no-trials": Case(
        lambda: epca("binomial").fit(COUNTS), ValueError, "needs the number of trials", r"binomial\(16\)"
    ),
    "half-trial": Case(
        lambda: Binomial(2.5),
        ValueError,
        "positive integer n_trials; got 2.5",
        r"Write Binomial\(n_trials=16\)",
    ),
    "trials-in-words": Case(
        lambda: epca("binomial(ten)").fit(COUNTS),
        ValueError,
        "'ten' in .* is not a number",
        r"such as binomial\(2\)",
    ),
    "number-for-poisson": Case(
        lambda: epca("poisson(3)").fit(COUNTS),
        ValueError,
        r"takes no number; got poisson\(3\)",
        "Write 'poisson'",
    ),
    "negative-size": Case(
        lambda: NegativeBinomial(-1), ValueError, "size=-1", "Leave it out to have it estimated"
    ),
    "nan-shape": Case(lambda: Gamma(NAN), ValueError, "shape=nan", "Leave it out"),
    "class": Case(lambda: epca(Poisson).fit(COUNTS), TypeError, "is the class Poisson", r"write Poisson\(\)"),
    "number": Case(
        lambda: epca(3).fit(COUNTS), TypeError, "got 3 of type int", "must be a name such as 'poisson'"
    ),
    "mixed-without-member": Case(
        lambda: Mixed((Poisson(), Binomial(2)), (0, 5)), ValueError, "holds the number 5", "use 0 to 1"
    ),
    "mixed-of-other-width": Case(
        lambda: epca(Mixed((Poisson(), Binomial(9)), (0, 1))).fit(COUNTS),
        ValueError,
        "describes 2 columns but X has 4",
        "one entry of assignment per column",
    ),
}


def parameter(name, value, expected, model=EPCA, hint=""):
    """A constructor parameter that breaks its constraint."""
    table = COUNTS if model is EPCA else REALS
    given = {"family": "poisson"} if model is EPCA else {}
    return Case(
        lambda: model(**{"n_components": 2, **given, name: value}).fit(table),
        ValueError,
        f"{name}.*{re.escape(str(value))}",
        expected + hint,
    )


PARAMETERS = {
    "components-too-many": parameter("n_components", 9, "Choose at most 4"),
    "components-too-many-ppca": parameter("n_components", 9, "Choose at most 4", PPCA),
    "components-0": parameter("n_components", 0, r"must be an int in the range \[1", PPCA),
    "components-negative": parameter("n_components", -1, r"must be an int in the range \[0"),
    "components-fraction": parameter("n_components", 2.5, "must be an int"),
    "components-fraction-ppca": parameter("n_components", 2.5, r"float in the range \(0.0, 1.0\)", PPCA),
    "components-in-words": parameter("n_components", "three", "must be an int"),
    "components-true": parameter("n_components", True, "must be a number"),
    "components-near-mle": parameter("n_components", "mlee", "Did you mean 'mle'", PPCA),
    "ridge-negative": parameter("ridge", -1, r"or a float in the range \[0.0, inf\)"),
    "ridge-nan": parameter("ridge", NAN, r"or a float in the range \[0.0, inf\)"),
    "ridge-text": parameter("ridge", "strong", r"must be a str among \{.*\} or a float"),
    "tol-0": parameter("tol", 0, r"must be a float in the range \(0.0, inf\)"),
    "tol-negative-ppca": parameter("tol", -1e-3, "must be a float in the range", PPCA),
    "max-iter-0": parameter("max_iter", 0, r"must be an int in the range \[1"),
    "penalty-lasso": parameter("score_penalty", "lasso", "Did you mean 'l1'"),
    "penalty-l2": parameter("score_penalty", "L2", "Did you mean 'ridge'"),
    "penalty-misspelt": parameter("score_penalty", "rigde", "Did you mean 'ridge'"),
    "l1-negative": parameter("l1_strength", -0.5, r"must be a float in the range \[0.0, inf\)"),
    "jobs-in-words": parameter("n_jobs", "many", "must be an instance of 'int' or None"),
    "jobs-0": parameter("n_jobs", 0, "Use 1 for one thread"),
    "intercept-in-words": parameter("fit_intercept", "no", "must be an instance of 'bool'"),
    "seed-in-words": parameter("random_state", "lucky", "must be an int"),
    "minka-with-few-rows": Case(
        lambda: PPCA("mle").fit(REALS[:2]),
        ValueError,
        "n_components='mle' .* 2 rows and 4",
        "Give a number or a share",
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "values": VALUES,
        "tables": TABLES,
        "new rows": NEW_ROWS,
        "companions": COMPANIONS,
        "families": FAMILIES,
        "parameters": PARAMETERS,
    }.items()
    for name, case in cases.items()
}


def check(case):
    """Run a case; the entry and the remedy must both be in the message."""
    with pytest.raises(case.error) as caught:
        case.call()
    message = str(caught.value)
    assert re.search(case.entry, message, re.DOTALL), message
    assert re.search(case.remedy, message, re.DOTALL), message


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bad_input_names_entry_and_remedy(case):
    check(case)


def test_table_is_long_enough():
    assert len(CASES) >= 60


@pytest.mark.parametrize("model", [epca(), PPCA(2)], ids=["epca", "ppca"])
def test_failed_fit_is_no_fit(model):
    with pytest.raises(ValueError, match="inf"):
        model.fit(put(COUNTS, np.inf))
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        model.transform(COUNTS)
