"""Ordinary tables that SePCA's other designs do not have: twelve kinds, 40 runs each, the right dimension in 95 %.

Units, a loud column of noise, counts with sizes of their own, a copied column, a constant one, ratings, many
components, many rows: each kind was once answered wrongly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from anypca import SePCA
from anypca._typing import Floats
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, run_module

N_RUNS, LEAST = 40, 0.95


def _loadings(rng: np.random.Generator, p: int, rank: int, squared: float, growth: float) -> Floats:
    """Orthogonal loadings; the squared length of the weakest, and the ratio of one to the next."""
    basis = np.linalg.qr(rng.normal(size=(p, rank)))[0]
    return np.asarray(basis * np.sqrt(squared * growth ** np.arange(rank)))


def _real(rng: np.random.Generator, n: int, p: int, rank: int, m: float, growth: float = 1.3) -> Floats:
    """Real columns of unit noise; m is the strength of the weakest component in units of what can be detected."""
    loadings = _loadings(rng, p, rank, m * np.sqrt(p / n), growth)
    return np.asarray(rng.normal(size=(n, rank)) @ loadings.T + rng.normal(size=(n, p)))


def _rescaled(rng: np.random.Generator) -> Floats:
    return _real(rng, 150, 12, 3, 8.0) * 10.0 ** rng.uniform(-1.5, 1.5, 12)


def _many_rows(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Three components in columns whose noise has deviations from about a third to three."""
    signal = 0.7 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p))
    return np.asarray(signal + np.exp(0.5 * rng.normal(size=p)) * rng.normal(size=(n, p)))


def _loud(rng: np.random.Generator) -> Floats:
    factor = rng.normal(size=(200, 1)) @ rng.uniform(0.7, 1.3, (1, 5)) + 0.7 * rng.normal(size=(200, 5))
    return np.hstack([factor, 20.0 * rng.normal(size=(200, 1))])


def _counts(rng: np.random.Generator, n: int, p: int, rank: int) -> Floats:
    """Negative binomial counts; the logarithms of the columns' sizes have a standard deviation of 1.2."""
    size, intercept = 1.5 * np.exp(1.2 * rng.normal(size=p)), np.log(3.0) + 0.5 * rng.normal(size=p)
    information = float(np.mean(1.0 / (np.exp(-intercept) + 1.0 / size)))
    loadings = _loadings(rng, p, rank, 5.0 * np.sqrt(p / n) / information, 1.3)
    rate = np.exp(intercept + rng.normal(size=(n, rank)) @ loadings.T)
    return rng.poisson(rate * rng.gamma(size, 1.0 / size, size=(n, p))).astype(float)


def _copied(rng: np.random.Generator) -> Floats:
    X = _real(rng, 120, 10, 2, 8.0)
    return np.hstack([X, X[:, :1]])


def _summed(rng: np.random.Generator) -> Floats:
    X = _real(rng, 120, 10, 2, 8.0)
    return np.hstack([X, X[:, :1] + X[:, 1:2]])


def _with_constant(rng: np.random.Generator) -> Floats:
    return np.hstack([_real(rng, 120, 10, 2, 8.0), np.full((120, 1), 7.0)])


def _ratings(rng: np.random.Generator) -> Floats:
    """25 answers from 1 to 6, five to each of five scales."""
    scales = rng.normal(size=(1000, 5)).repeat(5, axis=1)
    answers = scales + rng.normal(size=(1000, 25))
    return np.digitize(answers, [-2.0, -1.0, 0.0, 1.0, 2.0]) + 1.0


#: Of each kind the truth, the family, and what draws a table.
KINDS: Mapping[str, tuple[int, str, Callable[[np.random.Generator], Floats]]] = {
    "real, rescaled columns": (3, "gaussian", _rescaled),
    "a loud column of noise": (1, "gaussian", _loud),
    "counts with own sizes, no component": (0, "auto", lambda rng: _counts(rng, 100, 30, 0)),
    "counts with own sizes": (3, "auto", lambda rng: _counts(rng, 150, 40, 3)),
    "a copied column": (2, "gaussian", _copied),
    "the sum of two columns": (2, "gaussian", _summed),
    "a constant column": (2, "gaussian", _with_constant),
    "ratings": (5, "auto", _ratings),
    "six equal components, m = 4": (6, "gaussian", lambda rng: _real(rng, 200, 60, 6, 4.0, 1.0)),
    "ten equal components, m = 6": (10, "gaussian", lambda rng: _real(rng, 200, 60, 10, 6.0, 1.0)),
    "3000 rows of 10 columns, own noise": (3, "gaussian", lambda rng: _many_rows(rng, 3000, 10)),
    "8000 rows of 12 columns, own noise": (3, "gaussian", lambda rng: _many_rows(rng, 8000, 12)),
}


def answer(kind: str, seed: int) -> int:
    """The dimension that is found in one table."""
    _, family, draw = KINDS[kind]
    X = draw(np.random.default_rng([seed, list(KINDS).index(kind), 16]))
    with warnings.catch_warnings():
        # A fit that stopped at its largest number of sweeps still has an answer, which counts.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return int(SePCA(family=family, n_jobs=1).fit(X).n_components_)


def run(options: Options) -> Outcome:
    """Share of right answers for each kind."""
    cells = Cells("truth_cases", options)
    kinds = (
        ["real, rescaled columns", "a copied column", "a constant column"] if options.quick else list(KINDS)
    )
    n_runs = 2 if options.quick else N_RUNS
    found = {kind: cells.get(answer, (kind,), n_runs) for kind in kinds}
    shares = {kind: float(np.mean(np.equal(answers, KINDS[kind][0]))) for kind, answers in found.items()}
    rows = [(kind, KINDS[kind][0], 100.0 * shares[kind], tally(answers)) for kind, answers in found.items()]
    head = ("table", "truth", f"right: % of {n_runs}", "answers")
    targets = [Target(f"right dimension, {kind}", share, ">=", LEAST) for kind, share in shares.items()]
    return Outcome([Table("Ordinary tables", head, rows)], targets, is_whole=True)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
