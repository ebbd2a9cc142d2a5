"""Tables of known rank for the truth table: families, misspecifications, and components of a stated strength.

The strength m of a component is its squared loadings times the mean information of a cell at the intercepts, over
sqrt(p / n): at m = 1 it begins to be detectable (Baik, Ben Arous and Péché 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from anypca._typing import Floats
from anypca.families import Binomial

#: Ratio of the squared lengths of one component and the next; those of many are equal, the hardest case.
_GROWTH, _STEEP = 1.3, 2.5
_TRIALS = 8
_CUTS = np.array([-1.5, -0.5, 0.5, 1.5])


class Makers(NamedTuple):
    """How a table of p columns is drawn from its predictors."""

    intercept: Floats
    information: Floats
    """Of a cell of each column at its intercept, (p,)."""
    observe: Callable[[Floats], Floats]
    in_units: bool = False
    """Loadings are in units of each column's noise."""


Draw = Callable[[np.random.Generator, int], Makers]


def _real(rng: np.random.Generator, p: int) -> Makers:
    return Makers(np.zeros(p), np.ones(p), lambda eta: eta + rng.normal(size=eta.shape))


def _own_noise(rng: np.random.Generator, p: int) -> Makers:
    variance = np.exp(rng.uniform(np.log(0.25), np.log(4.0), p))
    return Makers(
        np.zeros(p), 1.0 / variance, lambda eta: eta + np.sqrt(variance) * rng.normal(size=eta.shape)
    )


def _rescaled(rng: np.random.Generator, p: int) -> Makers:
    unit = 10.0 ** rng.uniform(-1.5, 1.5, p)
    return Makers(np.zeros(p), np.ones(p), lambda eta: unit * (eta + rng.normal(size=eta.shape)))


def _heavy(rng: np.random.Generator, p: int) -> Makers:
    """Noise of unit variance with five degrees of freedom."""
    return Makers(np.zeros(p), np.ones(p), lambda eta: eta + np.sqrt(0.6) * rng.standard_t(5, size=eta.shape))


def _rounded(rng: np.random.Generator, p: int) -> Makers:
    return Makers(
        np.zeros(p), np.ones(p), lambda eta: np.round(2.0 * (eta + rng.normal(size=eta.shape))) / 2.0
    )


def _poisson(rng: np.random.Generator, p: int) -> Makers:
    intercept = np.log(3.0) + 0.5 * rng.normal(size=p)
    return Makers(intercept, np.exp(intercept), lambda eta: rng.poisson(np.exp(eta)).astype(float))


def _extra_zeros(rng: np.random.Generator, p: int) -> Makers:
    """Poisson counts of which 15 in 100 are zero whatever their mean."""
    found = _poisson(rng, p)

    def observe(eta: Floats) -> Floats:
        return np.where(rng.random(eta.shape) < 0.15, 0.0, found.observe(eta))

    return found._replace(information=0.85 * found.information, observe=observe)


def _sized(sizes: Callable[[np.random.Generator, int], Floats]) -> Draw:
    def draw(rng: np.random.Generator, p: int) -> Makers:
        size, intercept = sizes(rng, p), np.log(3.0) + 0.5 * rng.normal(size=p)

        def observe(eta: Floats) -> Floats:
            return rng.poisson(np.exp(eta) * rng.gamma(size, 1.0 / size, size=eta.shape)).astype(float)

        return Makers(intercept, 1.0 / (np.exp(-intercept) + 1.0 / size), observe)

    return draw


def _answers(trials: int) -> Draw:
    def draw(rng: np.random.Generator, p: int) -> Makers:
        intercept = 0.5 * rng.normal(size=p)
        information = trials * expit(intercept) * expit(-intercept)
        return Makers(intercept, information, lambda eta: rng.binomial(trials, expit(eta)).astype(float))

    return draw


def _gamma(rng: np.random.Generator, p: int) -> Makers:
    intercept, shape = 0.5 * rng.normal(size=p), 2.0
    return Makers(
        intercept, np.full(p, shape), lambda eta: np.exp(eta) * rng.gamma(shape, 1.0 / shape, eta.shape)
    )


def _log_normal(rng: np.random.Generator, p: int) -> Makers:
    intercept = 0.5 * rng.normal(size=p)
    return Makers(intercept, np.full(p, 4.0), lambda eta: np.exp(eta + 0.5 * rng.normal(size=eta.shape)))


def _ordinal(rng: np.random.Generator, p: int) -> Makers:
    intercept = 0.5 * rng.normal(size=p)
    edges = np.r_[-np.inf, _CUTS, np.inf] - intercept[:, None]
    chance, slope = np.diff(expit(edges)), np.diff(expit(edges) * expit(-edges))

    def observe(eta: Floats) -> Floats:
        return np.digitize(eta + rng.logistic(size=eta.shape), _CUTS) + 1.0

    return Makers(intercept, (slope**2 / chance).sum(axis=1), observe)


def _mixed(rng: np.random.Generator, p: int) -> Makers:
    """A quarter each of real columns, counts, answers and amounts, with equal shares in the components."""
    parts = [_real, _sized(lambda r, q: np.full(q, 2.0)), _answers(1), _gamma]
    ends = np.linspace(0, p, len(parts) + 1).astype(int)
    made = [part(rng, int(b - a)) for part, a, b in zip(parts, ends[:-1], ends[1:], strict=True)]

    def observe(eta: Floats) -> Floats:
        return np.hstack([m.observe(eta[:, a:b]) for m, a, b in zip(made, ends[:-1], ends[1:], strict=True)])

    intercept, information = (
        np.concatenate(list(values)) for values in zip(*(m[:2] for m in made), strict=True)
    )
    return Makers(intercept, information, observe, in_units=True)


class Kind(NamedTuple):
    """A kind of table, and the family that it is fitted with."""

    draw: Draw
    family: Any = "auto"


_SHARED = _sized(lambda rng, p: np.full(p, 2.0))
FAMILIES: Mapping[str, Kind] = {
    "gaussian": Kind(_real),
    "gaussian, own noise": Kind(_own_noise),
    "gaussian, rescaled": Kind(_rescaled),
    "poisson": Kind(_poisson),
    "negative binomial": Kind(_SHARED),
    "negative binomial, own sizes": Kind(_sized(lambda rng, p: 1.5 * np.exp(1.2 * rng.normal(size=p)))),
    "bernoulli": Kind(_answers(1)),
    "binomial": Kind(_answers(_TRIALS), Binomial(_TRIALS)),
    "gamma": Kind(_gamma),
    "log-normal": Kind(_log_normal),
    "ordinal": Kind(_ordinal),
    "mixed": Kind(_mixed),
}
#: Counts whose rows have size factors are drawn as negative binomial counts.
WRONG: Mapping[str, Kind] = {
    "t noise as gaussian": Kind(_heavy, "gaussian"),
    "extra zeros": Kind(_extra_zeros),
    "rounded": Kind(_rounded),
    "size factors, offset": Kind(_SHARED, "negative_binomial"),
    "size factors": Kind(_SHARED),
}
KINDS: Mapping[str, Kind] = {**FAMILIES, **WRONG}


@dataclass(frozen=True)
class Cell:
    """A kind of table of one size, rank and strength."""

    kind: str
    n: int
    p: int
    rank: int
    m: float = 5.0
    loadings: str = "gaussian"

    @property
    def name(self) -> str:
        how = "" if self.loadings == "gaussian" else f", {self.loadings} loadings"
        return (
            f"{self.kind}, {self.n} x {self.p}, rank {self.rank}"
            + (f", m = {self.m:g}" * (self.rank > 0))
            + how
        )

    @property
    def truth(self) -> int:
        """The right answer: size factors that nobody is told of are a component."""
        return self.rank + (self.kind == "size factors")


class Drawn(NamedTuple):
    """A table with what a fit is given beside it."""

    X: Floats
    family: Any
    offset: Floats | None


def draw(cell: Cell, rng: np.random.Generator) -> Drawn:
    """A table of a cell."""
    kind = KINDS[cell.kind]
    made = kind.draw(rng, cell.p)
    eta = made.intercept + rng.normal(size=(cell.n, cell.rank)) @ _loadings(cell, made, rng).T
    offset = None
    if "size factors" in cell.kind:
        offset = 0.4 * rng.normal(size=cell.n)
        eta = eta + offset[:, None]
    return Drawn(made.observe(eta), kind.family, offset if "offset" in cell.kind else None)


def _loadings(cell: Cell, made: Makers, rng: np.random.Generator) -> Floats:
    """Orthogonal loadings (p, rank), the weakest of strength m."""
    directions = rng.normal(size=(cell.p, cell.rank))
    if cell.loadings == "sparse":
        # Each column belongs to one component, chance decides to which: orthogonal as they are.
        directions *= np.arange(cell.rank) == np.arange(cell.p)[:, None] % max(cell.rank, 1)
        basis = directions / np.linalg.norm(directions, axis=0)
    else:
        basis = np.linalg.qr(directions)[0]
    growth = {"sparse": _GROWTH, "unequal": _STEEP, "equal": 1.0, "gaussian": _GROWTH}[cell.loadings]
    size = cell.m * np.sqrt(cell.p / cell.n) * growth ** np.arange(cell.rank)
    if made.in_units:
        return np.asarray(basis * np.sqrt(size) / np.sqrt(made.information)[:, None])
    return np.asarray(basis * np.sqrt(size / made.information.mean()))
