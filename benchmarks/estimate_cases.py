"""Estimators and small seeded tables for `benchmarks.same_estimates`: every model with every family that it takes.

Tables are drawn here and not by `anypca.datasets`, and everything is imported from public places, so that the same file
runs on every commit. Their components have well separated variances: none comes near to another, whose place it could
take by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from anypca import (
    EPCA,
    GPCA,
    GSPPCA,
    PLNPCA,
    PPCA,
    SPCA,
    SPPCA,
    SSPPCA,
    KernelPCA,
    ModeOptions,
    PiecewisePCA,
    SePCA,
)
from anypca.columns import resolve_family
from anypca.families import families
from anypca.families.mixed import known_dispersion

N_FIT, N_NEW, N_FEATURES = 100, 20, 10
GPCA_FAMILIES = ("bernoulli", "binomial", "gaussian", "poisson")
COUNTS = ("poisson", "negative_binomial", "scaled_poisson")
#: What a table is called that is full of gaps, weights and companions, or not.
SHOWN = ("complete", "full")
#: One family per column; ``family="auto"`` gets the same table, and may choose others.
MIXED = ("gaussian", "poisson", "bernoulli", "gamma", "negative_binomial") * 2
#: For families that leave theirs open: far from the 0 and 1 at which they become other families.
DISPERSION = 0.3


@dataclass(frozen=True)
class Table:
    """Rows to fit, new rows after them, and what comes along."""

    X: np.ndarray
    """(rows, columns), NaN where hidden."""
    values: np.ndarray
    """The same with nothing hidden."""
    n_fit: int = N_FIT
    """The first rows, to which models are fitted; all rows are transformed."""
    weight: np.ndarray | None = None
    companions: dict[str, np.ndarray] = field(default_factory=dict)
    """Offsets and covariates."""

    def with_companions(self, *names: str) -> Table:
        """The table with only those of its companions that a model takes; drawn with all of them all the same."""
        kept = {name: value for name, value in self.companions.items() if name in names}
        return replace(self, companions=kept)


@dataclass(frozen=True)
class Case:
    """A model to fit, and a table for it."""

    estimator: str
    family: str
    model: Any
    table: Table
    shown: str = "complete"
    """What the table has: complete, or full of gaps, weights and companions."""
    tightest: float = 1e-12
    """Tolerance to try first: below 1e-10, at which flat directions are still off by more than 1e-6."""
    max_iter: int = 20000

    @property
    def name(self) -> str:
        """Different for all cases."""
        return f"{self.estimator}, {self.family}, {self.shown}"


def predictor(
    rng: np.random.Generator, n: int, p: int, deviations: tuple[float, ...], *, sparse: bool
) -> np.ndarray:
    """Intercepts and components with these standard deviations of scores, shape (n, p)."""
    loadings = np.linalg.qr(rng.standard_normal((p, len(deviations))))[0]
    if sparse:
        # Each component has its own columns; the last third has none.
        owner = np.arange(p) // max(1, 2 * p // (3 * len(deviations)))
        loadings = rng.uniform(0.4, 0.7, size=(p, 1)) * (owner[:, None] == np.arange(len(deviations)))
    scores = rng.standard_normal((n, len(deviations))) * deviations
    return np.linspace(-0.5, 1.0, p) + scores @ loadings.T


def draw(
    family: Any,
    *,
    full: bool = False,
    seed: int = 2,
    n_fit: int = N_FIT,
    p: int = N_FEATURES,
    deviations: tuple[float, ...] = (2.8, 1.6),
    sparse: bool = False,
) -> Table:
    """A table of two components; a full one has 6 % gaps, weights, an offset per row and two covariates."""
    rng = np.random.default_rng(seed)
    n = n_fit + N_NEW
    eta = predictor(rng, n, p, deviations, sparse=sparse)
    companions: dict[str, np.ndarray] = {}
    if full:
        companions = {"offset": 0.3 * rng.standard_normal(n), "covariates": rng.standard_normal((n, 2))}
        effects = rng.uniform(-0.4, 0.4, size=(2, p))
        eta += companions["offset"][:, None] + companions["covariates"] @ effects
    found = resolve_family(family, p)
    known = known_dispersion(found, p)
    values = found.sample(eta, np.where(np.isnan(known), DISPERSION, known), rng)
    return hide(values, n_fit, companions, rng, share=0.06 if full else 0.0)


def hide(
    values: np.ndarray,
    n_fit: int,
    companions: dict[str, np.ndarray],
    rng: np.random.Generator,
    *,
    share: float,
) -> Table:
    """The table with a share of its cells hidden, and with weights if there is one."""
    hidden = rng.random(values.shape) < share
    weight = rng.integers(1, 5, size=n_fit) / 2 if share else None
    return Table(np.where(hidden, np.nan, values), values, n_fit, weight, companions)


def bent(family: str, *, full: bool = False, seed: int = 0, n_fit: int = 80) -> Table:
    """Rows of 8 columns on a sheet that is bent once; a full one has 5 % gaps, weights, and an offset if counts."""
    rng = np.random.default_rng(seed)
    n, p = n_fit + N_NEW, 8
    w = rng.standard_normal((n, 2))
    sizes = rng.uniform(0.6, 1.2, size=(3, p)) * np.array([[0.35], [0.5], [0.45]])
    eta = 2.0 + np.column_stack([w, np.abs(w[:, 1])]) @ (rng.choice([-1.0, 1.0], size=(3, p)) * sizes)
    companions = {"offset": 0.3 * rng.standard_normal(n)} if full and family == "poisson" else {}
    eta += companions.get("offset", np.zeros(n))[:, None]
    values = rng.poisson(np.exp(eta)).astype(float) if family == "poisson" else rng.normal(eta, 0.3)
    return hide(values, n_fit, companions, rng, share=0.05 if full else 0.0)


def each_family() -> Iterator[tuple[str, Any, Any]]:
    """Name of a family, what to give to the model, and what to draw from."""
    for name in families:
        for family in families[name].examples():
            yield str(family), family, family
    yield "mixed", list(MIXED), list(MIXED)
    yield "auto", "auto", list(MIXED)


def both(
    estimator: str, family: str, model: Any, drawn_from: Any, takes: tuple[str, ...] = ()
) -> Iterator[Case]:
    """A model on a complete and on a full table."""
    for full in (False, True):
        table = draw(drawn_from, full=full).with_companions(*takes)
        yield Case(estimator, family, model, table, SHOWN[full], tightest_of(estimator))


def tightest_of(estimator: str) -> float:
    """Modes stop at a change of the objective and not at a gradient: theirs is the square of what others have."""
    return 1e-14 if "map" in estimator or "paper" in estimator else 1e-12


def strength_of(family: str) -> float:
    """Weight of absolute scores that decides the rotation well, and leaves scores to bits, which say less."""
    return 1.0 if family in ("Bernoulli()", "Binomial(n_trials=1)") else 6.0


def bilinear_cases() -> Iterator[Case]:
    """EPCA and SePCA with every family."""
    for name, given, drawn_from in each_family():
        models = {
            "EPCA": EPCA(2, family=given, ridge=1.0),
            "EPCA l1": EPCA(2, family=given, ridge=1.0, score_penalty="l1", l1_strength=strength_of(name)),
            "SePCA vb": SePCA(3, family=given),
            "SePCA map": SePCA(3, family=given, inference="map"),
        }
        for estimator, model in models.items():
            yield from both(estimator, name, model, drawn_from, ("offset", "covariates"))


def option_cases() -> Iterator[Case]:
    """Options of EPCA and SePCA that change the estimate, with the families that they matter for."""
    for name in ("gaussian", "poisson"):
        models = {
            "EPCA no intercept": EPCA(3, family=name, ridge=1.0, fit_intercept=False),
            "EPCA no penalty": EPCA(2, family=name, ridge=0.0),
            "EPCA rank 0": EPCA(0, family=name, ridge=1.0),
            "SePCA sparse": SePCA(3, family=name, sparsity=2.0),
            "SePCA map sparse": SePCA(3, family=name, sparsity=2.0, inference="map"),
            "SePCA no intercept": SePCA(3, family=name, fit_intercept=False),
            "SePCA map path": SePCA(3, family=name, inference=ModeOptions(nu_path=(0.15, 0.3))),
        }
        for estimator, model in models.items():
            table = draw(name, full=True, sparse="sparse" in estimator)
            yield Case(estimator, name, model, table, "full", tightest_of(estimator))
        yield Case("SePCA feature", name, SePCA(3, family=name, dispersion="feature"), draw(name))


def count_cases() -> Iterator[Case]:
    """SPPCA, SSPPCA and PLNPCA with counts."""
    models = {
        "SPPCA": SPPCA(3),
        "SPPCA poisson": SPPCA(3, dispersion="poisson"),
        "SPPCA paper": SPPCA(method="paper"),
        "SSPPCA": SSPPCA(3, sparsity=2.0),
        "SSPPCA paper": SSPPCA(method="paper", sparsity=2.0),
        "PLNPCA": PLNPCA(2),
    }
    for estimator, model in models.items():
        # The published algorithm keeps noise, and long, where rows outnumber columns by far.
        n_fit, p = (40, 12) if "paper" in estimator else (N_FIT, N_FEATURES)
        for name, full in product(COUNTS, (False, True)):
            table = draw(name, full=full, sparse=estimator.startswith("SS"), n_fit=n_fit, p=p)
            yield Case(estimator, name, model, table, SHOWN[full], tightest_of(estimator))
    yield Case("SSPPCA auto", "poisson", SSPPCA(2), draw("poisson", sparse=True))


def gpca_cases() -> Iterator[Case]:
    """GPCA with and without penalties."""
    for penalty in (None, "l1", "scad"):
        for name in GPCA_FAMILIES:
            for family in families[name].examples():
                model = GPCA(2, family=family, bound=4.0, penalty=penalty, alpha=0.005)
                yield from both(f"GPCA {penalty or ''}".strip(), str(family), model, family)
    yield Case("GPCA cv", "bernoulli", GPCA(2, bound="cv"), draw("bernoulli"))
    yield Case("GPCA", "auto", GPCA(2, bound=4.0), draw("poisson"))


def gaussian_cases() -> Iterator[Case]:
    """PPCA, SPCA and GSPPCA, which are for real numbers."""
    full, complete = (draw("gaussian", full=full).with_companions() for full in (True, False))
    for estimator, n_components in {"PPCA": 2, "PPCA share": 0.8, "PPCA mle": "mle"}.items():
        yield Case(estimator, "gaussian", PPCA(n_components), complete)
        yield Case(estimator, "gaussian", PPCA(n_components), full, "full")
    weighted = Table(full.values, full.values, weight=full.weight)
    gram = Table(np.cov(complete.values[:N_FIT].T), np.cov(complete.values[:N_FIT].T), N_FEATURES)
    models = {
        "SPCA n_nonzero": SPCA(2, n_nonzero=[6, 4]),
        "SPCA penalty": SPCA(2, penalty=[60.0, 30.0]),
        "SPCA soft": SPCA(2, penalty=[60.0, 30.0], ridge=np.inf),
        "SPCA plain": SPCA(2),
    }
    for estimator, model in models.items():
        yield Case(estimator, "gaussian", model, complete)
        yield Case(estimator, "gaussian", model, weighted, "weighted")
    yield Case("SPCA gram", "gaussian", SPCA(2, penalty=[0.6, 0.3], input="gram"), gram)


def sparse_gaussian_cases() -> Iterator[Case]:
    """GSPPCA, whose variables are active or not."""
    models = {
        "GSPPCA": GSPPCA(),
        "GSPPCA ml": GSPPCA(2, noise="ml"),
        "GSPPCA jl": GSPPCA(2, noise="jl"),
        "GSPPCA sparse": GSPPCA(2, prior="sparse"),
        "GSPPCA scaled": GSPPCA(2, scale=True, n_features_to_select=6),
    }
    for estimator, model in models.items():
        table = draw("gaussian", p=15, sparse=True)
        weight = np.random.default_rng(1).integers(1, 5, size=N_FIT) / 2
        yield Case(estimator, "gaussian", model, table)
        yield Case(estimator, "gaussian", model, Table(table.X, table.X, weight=weight), "weighted")


def kernel_cases() -> Iterator[Case]:
    """KernelPCA with every method and kernel."""
    table = draw("gaussian")
    for kernel in ("rbf", "laplacian", "polynomial", "linear", "cosine"):
        for method in ("exact", "rff", "nystroem"):
            if method == "rff" and kernel not in ("rbf", "laplacian"):
                continue
            model = KernelPCA(
                2, kernel=kernel, method=method, n_basis=40, fit_inverse_transform=True, random_state=0
            )
            yield Case(f"KernelPCA {method}", kernel, model, table)
    rows = table.X / 3.0
    values = np.exp(-((rows[:, None] - rows[None, :N_FIT]) ** 2).sum(axis=2) / N_FEATURES)
    yield Case("KernelPCA exact", "precomputed", KernelPCA(2, kernel="precomputed"), Table(values, values))


def piecewise_cases() -> Iterator[Case]:
    """PiecewisePCA with every coupling, fitted breakpoints, and one piece."""
    for name in ("gaussian", "poisson"):
        # Smaller gradients hide behind the rounding of the objective, and waiting for those of counts takes minutes.
        limits = {"tightest": 1e-8 if name == "poisson" else 1e-10, "max_iter": 1000}
        for coupling, full in product(("continuous", "shared", "free"), (False, True)):
            model = PiecewisePCA(2, n_pieces=2, family=name, coupling=coupling, n_init=2)
            yield Case(f"PiecewisePCA {coupling}", name, model, bent(name, full=full), SHOWN[full], **limits)
        one = PiecewisePCA(2, n_pieces=1, family=name, n_init=2)
        yield Case("PiecewisePCA one piece", name, one, bent(name, full=True), SHOWN[True], **limits)
    fitted = PiecewisePCA(2, n_pieces=2, breakpoints="fit", n_init=2)
    yield Case("PiecewisePCA breakpoints", "gaussian", fitted, bent("gaussian"), tightest=1e-10)


def all_cases() -> Iterator[Case]:
    """Every case, in the order of the table that is printed."""
    yield from bilinear_cases()
    yield from option_cases()
    yield from count_cases()
    yield from gpca_cases()
    yield from gaussian_cases()
    yield from sparse_gaussian_cases()
    yield from kernel_cases()
    yield from piecewise_cases()
