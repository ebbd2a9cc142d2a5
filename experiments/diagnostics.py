"""Detectors of what makes false components: power where it does, false alarms where it does not.

Tables of known rank are fitted by SePCA, and `anypca.selection.diagnose` looks at the residuals. In clean designs each
of its four findings is a false alarm. In the others one assumption is broken, and the finding that belongs to it should
be there; which others are there too is told and not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca import SePCA
from anypca._typing import Floats
from anypca.datasets import make_low_rank
from anypca.selection import diagnose
from experiments._common import Options, Outcome, Table, Target, fit_quietly, repeat, run_module

NAMES = ("outlying rows", "neighbouring rows", "correlated noise", "uneven rows")
#: Tables of each clean and of each broken design.
N_CLEAN, N_BROKEN = 100, 20
#: The least share of broken tables that is to be found, and the largest of clean ones with a false alarm.
POWER, FALSE_ALARMS = 0.9, 0.05
RANK, MAX_COMPONENTS = 3, 15
#: Standard deviation of the entries' signal in units of noise, and of log rates; mean count at the intercept, exp(1.5).
SIGNAL, LOG_SIGNAL, LOG_MEAN = 1.0, 0.5, 1.5
#: How assumptions are broken: factor of the noise of one row in a hundred, correlation of neighbouring rows or columns,
#: standard deviation of the logarithms of the rows' noise, and that of the noise added to log rates.
OUTLIER, NEIGHBOUR, UNEVEN, LOG_NOISE = 6.0, 0.6, 0.5, 0.5


@dataclass(frozen=True)
class Design:
    """How tables are drawn, with which family they are fitted, and what should be found."""

    name: str
    draw: Callable[[np.random.Generator], Floats]
    family: str
    finding: str | None = None
    """``None`` for clean tables."""
    is_judged: bool = True


def _smooth(x: Floats, axis: int, rho: float = NEIGHBOUR) -> Floats:
    """Normal numbers that correlate along an axis, of the same variance."""
    x = np.moveaxis(x, axis, 0).copy()
    for i in range(1, len(x)):
        x[i] = rho * x[i - 1] + np.sqrt(1.0 - rho**2) * x[i]
    return np.moveaxis(x, 0, axis)


def _noise(kind: str | None, n: int, p: int, rng: np.random.Generator) -> Floats:
    """Noise of unit variance that is broken in one way, or not at all."""
    noise = rng.standard_normal((n, p))
    if kind == "outlying rows":
        noise[rng.choice(n, max(n // 100, 1), replace=False)] *= OUTLIER
    elif kind == "neighbouring rows":
        noise = _smooth(noise, 0)
    elif kind == "correlated noise":
        noise = _smooth(noise, 1)
    elif kind == "uneven rows":
        noise *= np.exp(UNEVEN * rng.standard_normal((n, 1)))
    return noise


def _real(kind: str | None, n: int, p: int, rank: int = RANK) -> Callable[[np.random.Generator], Floats]:
    def draw(rng: np.random.Generator) -> Floats:
        drawn = make_low_rank(n, p, rank, family="gaussian", signal=SIGNAL if rank else 0.0, random_state=rng)
        return drawn.eta + _noise(kind, n, p, rng)

    return draw


def _counts(kind: str, n: int, p: int) -> Callable[[np.random.Generator], Floats]:
    """Poisson counts whose log rates have noise that is broken."""

    def draw(rng: np.random.Generator) -> Floats:
        eta = make_low_rank(
            n, p, RANK, family="poisson", signal=LOG_SIGNAL, intercept=LOG_MEAN, random_state=rng
        ).eta
        return rng.poisson(np.exp(eta + LOG_NOISE * _noise(kind, n, p, rng))).astype(float)

    return draw


def _family(name: str, n: int, p: int, signal: float, intercept: float) -> Callable[..., Floats]:
    def draw(rng: np.random.Generator) -> Floats:
        return make_low_rank(
            n, p, RANK, family=name, signal=signal, intercept=intercept, dispersion=0.3, random_state=rng
        ).X

    return draw


def _odd_scores(kind: str) -> Callable[[np.random.Generator], Floats]:
    """Scores that are smooth along the rows or skewed: allowed, since only noise must be independent and even."""

    def draw(rng: np.random.Generator) -> Floats:
        z = rng.standard_normal((200, RANK))
        z = _smooth(z, 0, 0.95) if kind == "smooth" else rng.exponential(size=z.shape) - 1.0
        return z @ rng.standard_normal((RANK, 60)) / np.sqrt(RANK) + rng.standard_normal((200, 60))

    return draw


def _heavy(rng: np.random.Generator) -> Floats:
    eta = make_low_rank(200, 60, RANK, family="gaussian", signal=SIGNAL, random_state=rng).eta
    return eta + rng.standard_t(5.0, eta.shape) * np.sqrt(3.0 / 5.0)


def _designs() -> list[Design]:
    clean = [
        Design("gaussian 200 x 60", _real(None, 200, 60), "gaussian"),
        Design("gaussian 300 x 20", _real(None, 300, 20), "gaussian"),
        Design("gaussian 100 x 30, rank 0", _real(None, 100, 30, 0), "gaussian"),
        Design("poisson 200 x 30", _family("poisson", 200, 30, LOG_SIGNAL, LOG_MEAN), "poisson"),
        Design(
            "negative binomial 200 x 30",
            _family("negative_binomial", 200, 30, 0.7, LOG_MEAN),
            "negative_binomial",
        ),
        Design("bernoulli 300 x 20", _family("bernoulli", 300, 20, 1.5, 0.0), "bernoulli"),
        Design("gaussian 200 x 60, smooth scores", _odd_scores("smooth"), "gaussian"),
        Design("gaussian 200 x 60, skewed scores", _odd_scores("skewed"), "gaussian", is_judged=False),
        Design("t noise (5 df) 200 x 60 as gaussian", _heavy, "gaussian", is_judged=False),
    ]
    broken = [
        Design(f"{kind}: {family} {n} x {p}", make(kind, n, p), fitted, kind)
        for kind in NAMES
        for family, make, fitted, n, p in (
            ("gaussian", _real, "gaussian", 200, 60),
            ("gaussian", _real, "gaussian", 300, 20),
            ("poisson", _counts, "negative_binomial", 200, 40),
        )
    ]
    return [*clean, *broken]


DESIGNS = {design.name: design for design in _designs()}


def answer(name: str, seed: int, run: int) -> tuple[int, list[bool]]:
    """The dimension of one table, and which of the findings are there."""
    design = DESIGNS[name]
    rng = np.random.default_rng([seed, list(DESIGNS).index(name), run])
    X = design.draw(rng)
    model = fit_quietly(SePCA(MAX_COMPONENTS, family=design.family, n_jobs=1), X)
    return int(model.n_components_), [found.is_found for found in diagnose(model, X) if found.name in NAMES]


def run(options: Options) -> Outcome:
    """Shares of tables with each finding, and the mean dimension, for every design."""
    rows, targets = [], []
    for name in _names(options):
        design = DESIGNS[name]
        n_runs = 2 if options.quick else (N_BROKEN if design.finding else N_CLEAN)
        answers = repeat(answer, [(name, options.seed, run) for run in range(n_runs)], options)
        shares = np.mean([found for _, found in answers], axis=0)
        rows.append((name, n_runs, float(np.mean([k for k, _ in answers])), *shares.tolist()))
        targets += _targets(design, shares)
    head = ("design", "tables", "mean dimension", *NAMES)
    title = f"Share of tables with each finding; truth {RANK} unless told"
    return Outcome([Table(title, head, rows)], targets, _notes())


def _names(options: Options) -> list[str]:
    if not options.quick:
        return list(DESIGNS)
    return ["gaussian 300 x 20", *(f"{kind}: gaussian 300 x 20" for kind in NAMES)]


def _targets(design: Design, shares: Floats) -> list[Target]:
    if not design.is_judged:
        return []
    if design.finding is not None:
        share = float(shares[NAMES.index(design.finding)])
        return [Target(f"power, {design.name}", share, ">=", POWER)]
    return [
        Target(f"false alarms, most frequent finding, {design.name}", float(shares.max()), "<=", FALSE_ALARMS)
    ]


def _notes() -> list[str]:
    return [
        "Thresholds of the detectors come from the distribution of noise and were written before any run. After a "
        "quick run, and a test with gamma amounts, residuals became those of the deviance, columns are correlated over "
        "rows of unit length, and outlying rows are left out of the other findings. After the first full run, whose "
        "correlated noise was found in 15 % of clean negative binomial tables and in 65 % of broken ones of 300 x 20, "
        "columns are compared with those of twelve tables drawn from the fit; that was tried on other seeds.",
        f"One row in a hundred has {OUTLIER:g} times the noise; neighbouring rows or columns correlate by "
        f"{NEIGHBOUR:g}; logarithms of the rows' noise have a standard deviation of {UNEVEN:g}. In counts this noise, "
        f"of size {LOG_NOISE:g}, is that of log rates.",
        "Skewed scores and heavy tails of single entries are reported, not judged: a component of which a few rows "
        "make up much, and entries far out, are there.",
    ]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))
