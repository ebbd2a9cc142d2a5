"""Two laws that are counted: the family that made a table has the most evidence, and a column of noise changes nothing.

Evidence: tables of eight families (`experiments._truth_designs`; real columns are moved away from zero, so that amounts
could be that too) are fitted with every family that their values allow. One that holds the true family as a limit is no
rival: it made the table as well. Noise: a column that belongs to nothing, of any size, is appended to tables of five
kinds; the dimension and the directions of the others should stay, and it should be no component of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import subspace_angles

from anypca import SePCA
from anypca._typing import Floats
from anypca.families import Binomial
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._truth_designs import Cell, draw

#: Tables of each kind: 64 for the order of evidences, 60 for columns of noise.
N_EVIDENCE, N_NOISE = 8, 12
LEAST, LARGEST_ANGLE = 0.95, 3.0
#: Real columns begin here in units of noise, and the noise that is appended has sizes 10^U(-3, 3).
_SHIFT, _SIZES = 10.0, 3.0
#: Of a component that is a column of its own this share of the squared loadings, in units of noise, is the column's.
_OWN_SHARE = 0.5
#: Levels that the ordinal family takes.
_MOST_LEVELS = 30
_POSITIVE = ("gaussian", "gamma", "log_normal")
_COUNTS = ("gaussian", "poisson", "negative_binomial")
#: Of each kind the family that made it, and those that its values allow.
RIVALS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gaussian": ("gaussian", _POSITIVE),
    "poisson": ("poisson", ("gaussian", "poisson", "ordinal")),
    "negative binomial": ("negative_binomial", _COUNTS),
    "bernoulli": ("bernoulli", (*_COUNTS, "bernoulli")),
    "binomial": ("binomial", (*_COUNTS, "binomial", "ordinal")),
    "gamma": ("gamma", _POSITIVE),
    "log-normal": ("log_normal", _POSITIVE),
    "ordinal": ("ordinal", (*_COUNTS, "gamma", "log_normal", "ordinal")),
}
#: Kinds that a column of noise is appended to, and the family of that column.
NOISE: Mapping[str, str] = {
    "gaussian": "gaussian",
    "negative binomial": "negative_binomial",
    "bernoulli": "bernoulli",
    "gamma": "gamma",
    "mixed": "gaussian",
}


def evidences(kind: str, seed: int) -> dict[str, float]:
    """Evidence of a table under each family that its values allow."""
    rng = np.random.default_rng([seed, list(RIVALS).index(kind), 161])
    X = draw(Cell(kind, 100, 20, 2), rng).X
    X = X + _SHIFT * (kind == "gaussian")
    found = {name: _evidence(name, X) for name in RIVALS[kind][1]}
    return {name: value for name, value in found.items() if value is not None}


def _evidence(name: str, X: Floats) -> float | None:
    """Of one family; a binomial one is told the number of trials. None where the values are not for it."""
    if name == "ordinal" and np.ptp(X, axis=0).max() >= _MOST_LEVELS:
        return None
    family: Any = Binomial(8) if name == "binomial" else name
    return float(fit_quietly(SePCA(family=family, dispersion=_noise_of(name), n_jobs=1), X).evidence_)


def _noise_of(name: str) -> str:
    """Poisson counts must stay what they are; all others choose their model of the noise."""
    return "shared" if name == "poisson" else "auto"


class Changed(NamedTuple):
    """What a column of noise has changed."""

    before: int
    after: int
    angle: float
    """Between the loadings of the other columns before and after, in degrees; NaN where the dimension changed."""
    is_own: bool
    """Whether some component is hardly more than the column."""


def change(kind: str, seed: int) -> Changed:
    """Fits of one table without and with a column of noise."""
    rng = np.random.default_rng([seed, list(NOISE).index(kind), 162])
    X = draw(Cell(kind, 200, 30, 3), rng).X
    families = _families(kind, X.shape[1])
    before = fit_quietly(SePCA(family=families, n_jobs=1), X)
    wider = np.hstack([X, _column(NOISE[kind], len(X), rng)[:, None]])
    after = fit_quietly(SePCA(family=[*families, NOISE[kind]], n_jobs=1), wider)
    angle = float("nan")
    if before.n_components_ == after.n_components_:
        pair = (before.components_.T, after.components_[:, :-1].T)
        angle = float(np.degrees(subspace_angles(*pair).max(initial=0.0)))
    is_real = np.array([*families, NOISE[kind]]) == "gaussian"
    # Loadings of real columns have units, those of their noise.
    squares = after.components_**2 / np.where(is_real, after.dispersion_, 1.0)
    is_own = bool((squares[:, -1] > _OWN_SHARE * squares.sum(axis=1)).any())
    return Changed(int(before.n_components_), int(after.n_components_), angle, is_own)


def _families(kind: str, p: int) -> list[str]:
    """Of the columns; a mixed table has four kinds in quarters."""
    if kind != "mixed":
        return [NOISE[kind]] * p
    ends = np.linspace(0, p, 5).astype(int)
    names = ("gaussian", "negative_binomial", "bernoulli", "gamma")
    return [name for name, width in zip(names, np.diff(ends), strict=True) for _ in range(width)]


def _column(family: str, n: int, rng: np.random.Generator) -> Floats:
    """Noise of one family, of any size."""
    size = 10.0 ** rng.uniform(-_SIZES, _SIZES)
    if family == "gaussian":
        return size * rng.normal(size=n)
    if family == "gamma":
        return size * rng.gamma(2.0, size=n)
    if family == "bernoulli":
        return (rng.random(n) < rng.uniform(0.05, 0.95)).astype(float)
    return rng.poisson(10.0 ** rng.uniform(0.0, 2.0) * rng.gamma(2.0, 0.5, size=n)).astype(float)


def _ordered(options: Options, kinds: Sequence[str], n_runs: int) -> tuple[Table, float]:
    """Which family has the most evidence in the tables of each kind, and how often it is the right one."""
    cells = Cells("truth_laws, evidence", options)
    rows, hits = [], []
    for kind in kinds:
        truth = RIVALS[kind][0]
        found = cells.get(evidences, (kind,), n_runs)
        best = [max(each, key=each.__getitem__) for each in found]
        others = [max(value for name, value in each.items() if name != truth) for each in found]
        gaps = [each[truth] - other for each, other in zip(found, others, strict=True)]
        wrong = ", ".join(sorted({name for name in best if name != truth}))
        hits += [name == truth for name in best]
        rows.append((kind, n_runs, sum(name == truth for name in best), min(gaps), wrong))
    head = ("tables of", "number", "true family first", "smallest lead in nats", "otherwise first")
    return Table("Order of evidences", head, rows), float(np.mean(hits))


def _noisy(options: Options, kinds: Sequence[str], n_runs: int) -> tuple[Table, list[Target]]:
    """What columns of noise do, and the targets."""
    cells = Cells("truth_laws, noise", options)
    found = {kind: [Changed(*each) for each in cells.get(change, (kind,), n_runs)] for kind in kinds}
    rows = [
        (
            kind,
            tally([each.before for each in runs]),
            tally([each.after for each in runs]),
            float(np.nanmax([each.angle for each in runs])),
            sum(each.is_own for each in runs),
        )
        for kind, runs in found.items()
    ]
    runs = [each for every in found.values() for each in every]
    angles = np.array([each.angle for each in runs])
    angles = angles[np.isfinite(angles)]
    same = float(np.mean([each.before == each.after for each in runs]))
    targets = [
        Target("a column of noise: same dimension, share of runs", same, ">=", LEAST),
        Target(
            "a column of noise: angle within 3 degrees, share",
            float(np.mean(angles <= LARGEST_ANGLE)),
            ">=",
            LEAST,
        ),
        Target(
            "a column of noise: components of its own", float(sum(each.is_own for each in runs)), "==", 0.0
        ),
    ]
    head = ("tables of", "dimensions before", "after", "largest angle", "components of its own")
    return Table("A column of noise appended", head, rows), targets


def run(options: Options) -> Outcome:
    """Both laws."""
    quick = options.quick
    evidence, right = _ordered(
        options, list(RIVALS)[::4] if quick else list(RIVALS), 1 if quick else N_EVIDENCE
    )
    noise, targets = _noisy(options, ["gaussian"] if quick else list(NOISE), 1 if quick else N_NOISE)
    first = Target("the true family has the most evidence, share of tables", right, ">=", LEAST)
    return Outcome([evidence, noise], [first, *targets], is_whole=True)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
