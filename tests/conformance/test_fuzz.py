"""Small tables of every kind, most of them spoilt: a fit ends finite, or with a sentence that says why it cannot."""

from __future__ import annotations

import logging
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.draws import generator
from tests.models.estimators import NAMES, make

from anypca.exceptions import NonFiniteError
from anypca.families import families

pytestmark = pytest.mark.conformance

SECONDS = 60
Draw = Callable[[np.random.Generator, int, int], np.ndarray]

#: Tables by kind.
TABLES: dict[str, Draw] = {
    "reals": lambda rng, n, p: rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(n, p)),
    "counts": lambda rng, n, p: rng.poisson(np.exp(rng.normal(size=(n, 1)) + rng.normal(size=p))),
    "rare counts": lambda rng, n, p: rng.poisson(0.1, (n, p)),
    "bits": lambda rng, n, p: rng.integers(0, 2, (n, p)),
    "separable bits": lambda rng, n, p: np.arange(n)[:, None] * 2 // n == np.arange(p) % 2,
    "ratings": lambda rng, n, p: rng.integers(1, 6, (n, p)),
    "amounts": lambda rng, n, p: np.exp(rng.normal(size=(n, p)) * 2.0),
    "amounts with zeros": lambda rng, n, p: np.exp(rng.normal(size=(n, p))) * (rng.random((n, p)) < 0.6),
    "shares": lambda rng, n, p: rng.random((n, p)),
    "mixed": lambda rng, n, p: np.where(np.arange(p) % 2, rng.normal(size=(n, p)), rng.poisson(2.0, (n, p))),
    "zeros": lambda rng, n, p: np.zeros((n, p)),
    "one value": lambda rng, n, p: np.full((n, p), rng.choice([1.0, -2.5, 1e30])),
    "distinct numbers": lambda rng, n, p: rng.permuted(
        np.tile(np.arange(n)[:, None], (1, p)) + 1000.0, axis=0
    ),
    "one entry": lambda rng, n, p: np.eye(n, p) * (np.arange(n)[:, None] == 0),
}


def _set(X: np.ndarray, rng: np.random.Generator, value: float, axis: int | None = None) -> None:
    """Set one entry, or a few rows or columns, to a value."""
    if axis is None:
        X[rng.integers(X.shape[0]), rng.integers(X.shape[1])] = value
    else:
        X.swapaxes(0, axis)[rng.integers(X.shape[axis], size=1 + X.shape[axis] // 5)] = value


def _repeat(X: np.ndarray, rng: np.random.Generator, axis: int) -> None:
    """Replace half of the rows or columns by copies of the first."""
    X.swapaxes(0, axis)[X.shape[axis] // 2 :] = X.swapaxes(0, axis)[0].copy()


#: Rows and columns.
SHAPES = [
    (1, 1),
    (1, 5),
    (2, 2),
    (2, 5),
    (3, 20),
    (5, 3),
    (8, 12),
    (12, 4),
    (20, 5),
    (40, 8),
    (40, 8),
    (30, 1),
]
#: What may happen to a table of floats, in place.
DAMAGE: dict[str, Callable[[np.ndarray, np.random.Generator], Any]] = {
    "gaps": lambda X, rng: np.putmask(X, rng.random(X.shape) < 0.3, np.nan),
    "mostly gaps": lambda X, rng: np.putmask(X[1:], rng.random(X[1:].shape) < 0.9, np.nan),
    "rows missing": lambda X, rng: _set(X, rng, np.nan, 0),
    "columns missing": lambda X, rng: _set(X, rng, np.nan, 1),
    "columns of zeros": lambda X, rng: _set(X, rng, 0.0, 1),
    "constant columns": lambda X, rng: _set(X, rng, 3.0, 1),
    "copied rows": lambda X, rng: _repeat(X, rng, 0),
    "copied columns": lambda X, rng: _repeat(X, rng, 1),
    "an entry of 1e30": lambda X, rng: _set(X, rng, 1e30),
    "an entry of 1e300": lambda X, rng: _set(X, rng, 1e300),
    "an entry of -1e300": lambda X, rng: _set(X, rng, -1e300),
    "an entry of 1e-300": lambda X, rng: _set(X, rng, 1e-300),
    "a column times 1e30": lambda X, rng: np.multiply(X[:, 0], 1e30, out=X[:, 0], where=abs(X[:, 0]) < 1e200),
    "all times 1e-300": lambda X, rng: np.multiply(X, 1e-300, out=X),
    "all times 1e300": lambda X, rng: np.multiply(X, 1e300, out=X, where=abs(X) < 1e6),
    "all plus 1e8": lambda X, rng: np.add(X, 1e8, out=X),
}
CONTAINERS: list[Callable[[np.ndarray], Any]] = [
    lambda X: X,
    lambda X: X,
    lambda X: np.clip(X, -1e38, 1e38).astype(np.float32),
    sp.csr_array,
    np.asfortranarray,
]


def draw_table(rng: np.random.Generator) -> tuple[Any, str]:
    """Return a table and what it is."""
    kind, (n, p) = rng.choice(list(TABLES)), SHAPES[rng.integers(len(SHAPES))]
    X, words = TABLES[kind](rng, n, p), [f"{n} x {p} {kind}"]
    if rng.random() < 0.3:
        return X, words[0]
    X = X.astype(float)
    for damage in rng.choice(list(DAMAGE), rng.integers(3), replace=False):
        DAMAGE[damage](X, rng)
        words.append(damage)
    return CONTAINERS[rng.integers(len(CONTAINERS))](np.clip(X, -1e307, 1e307)), ", ".join(words)


def draw_settings(name: str, X: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return a family, mostly one that can have produced the table, and numbers that suit small tables."""
    known = make(name).get_params()
    p = X.shape[1]
    small = {
        "n_components": min(2, max(1, min(X.shape) - 1)),
        "n_features_to_select": max(1, p // 2),
        "n_pieces": 1,
    }
    settings = {key: value for key, value in small.items() if key in known}
    if "family" in known:
        examples = [example for family in families for example in families[family].examples()]
        values = np.append(X.data, 0.0) if sp.issparse(X) else X[~np.isnan(X)]
        able = [each for each in examples if each.in_support(values).all()] or examples
        drawn = able[rng.integers(len(able))] if rng.random() < 0.9 else examples[rng.integers(len(examples))]
        settings["family"] = "auto" if rng.random() < 0.4 else drawn
    return settings


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` inside after so many seconds of the processor."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def not_finite(value: Any, name: str) -> list[str]:
    """Return the names of numbers that are not finite."""
    if isinstance(value, dict):
        return [bad for key, each in value.items() for bad in not_finite(each, f"{name}[{key!r}]")]
    if isinstance(value, list | tuple):
        return [bad for key, each in enumerate(value) for bad in not_finite(each, f"{name}[{key}]")]
    if isinstance(value, float | np.ndarray | np.generic) and np.asarray(value).dtype.kind in "fc":
        return [] if np.isfinite(value).all() else [name]
    return []


def read(model: Any, X: Any) -> dict[str, Any]:
    """Return all that a fitted model exposes."""
    names = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    exposed = {name: getattr(model, name) for name in names}
    exposed.pop("family_report_", None)  # leads are infinite if there is no runner-up
    for method in ("transform", "score_samples", "score", "impute"):
        if hasattr(model, method):
            exposed[method] = getattr(model, method)(X)
    if getattr(model, "fit_inverse_transform", True):
        exposed["inverse_transform"] = model.inverse_transform(exposed["transform"])
    return exposed


def is_ours(error: Exception) -> bool:
    """Return whether this package or scikit-learn's validation raised an error on purpose."""
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    is_written = any(part in place for part in ("/anypca/", "/sklearn/utils/")) and " " in str(error)
    return is_written and not isinstance(error, np.linalg.LinAlgError)


@pytest.mark.parametrize("number", range(56))
@pytest.mark.parametrize("name", NAMES)
def test_fits_end_finite_or_with_a_sentence(name: str, number: int) -> None:
    rng = generator("fuzz", name, number)
    X, words = draw_table(rng)
    settings = draw_settings(name, X, rng)
    logging.getLogger(__name__).info("%s(%s) of %s", name, settings, words)  # shown if the test fails
    with warnings.catch_warnings(record=True) as caught, limited(SECONDS):
        warnings.simplefilter("always")
        try:
            model = make(name, **settings).fit(X)
        except (ValueError, TypeError, NonFiniteError) as error:
            if is_ours(error):
                return
            raise
        wrong = not_finite(read(model, X), "")
    wrong += [
        f"{w.filename}:{w.lineno}: {w.message}" for w in caught if issubclass(w.category, RuntimeWarning)
    ]
    assert not wrong
