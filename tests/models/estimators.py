"""Every estimator with settings that fit a small table fast, for laws that hold for all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
from tests.draws import generator
from tests.models.tables import draw_counts, draw_real, punch

import anypca

_HAS_SAMPLERS = all(find_spec(name) is not None for name in ("nutpie", "polyagamma"))
_SETTINGS: dict[str, dict[str, Any]] = {
    "PPCA": {"n_components": 2},
    "EPCA": {"n_components": 2, "family": "poisson"},
    "SePCA": {"max_components": 3, "family": "poisson"},
    "SPPCA": {"max_components": 2},
    "SSPPCA": {"max_components": 2, "sparsity": 1.0, "tol": 1e-3},
    "PLNPCA": {"n_components": 2},
    "GPCA": {"n_components": 2, "family": "poisson"},
    "GSPPCA": {"n_components": 2, "n_features_to_select": 4},
    "SPCA": {"n_components": 2, "penalty": 0.1},
    "SSPCA": {"n_components": 2, "n_features_to_select": 5},
    "KernelPCA": {"n_components": 2},
    "PiecewisePCA": {"n_components": 1, "n_init": 1},
    "Autoencoder": {"n_components": 2, "max_iter": 20},
    "VAE": {"n_components": 2, "family": "poisson", "max_iter": 10},
    "BEPCA": {"n_components": 2, "family": "gaussian", "n_draws": 30, "n_tune": 30, "n_chains": 2},
    "ISFA": {"family": "gaussian", "n_draws": 30, "n_tune": 30, "n_chains": 1},
}
#: All estimators that can be fitted here; two of them need the extra ``mcmc``.
NAMES = [name for name in _SETTINGS if _HAS_SAMPLERS or name not in ("BEPCA", "ISFA")]
#: Estimators whose scores or parameters are draws of chains, and estimators that are trained by batches.
SAMPLED, NETS = ("BEPCA", "ISFA"), ("Autoencoder", "VAE")

COUNTS = draw_counts(generator("counts of all estimators"))
COUNTS = COUNTS[:, np.argsort(COUNTS.sum(axis=0))]
REALS = draw_real(generator("numbers of all estimators"), 80, 8)
GAPS = punch(COUNTS, 0.1, generator("gaps of all estimators"))


def make(name: str, **settings: Any) -> Any:
    """Return an estimator that is not fitted."""
    kind = getattr(anypca, name)
    seeded = {"random_state": 0} if "random_state" in kind().get_params() else {}
    return kind(**{**_SETTINGS[name], "n_jobs": 1, **seeded, **settings})


class _Watcher(logging.Handler):
    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__()
        self.act, self.count = act, 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        self.act(self.count)


@contextmanager
def each_iteration(act: Callable[[int], None]) -> Iterator[None]:
    """Inside, fits with ``verbose=1`` call a function with 1, 2, ... whenever they report an iteration."""
    logger, handler = logging.getLogger("anypca"), _Watcher(act)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class Interrupted(BaseException):
    """Ends a fit from outside, as Ctrl-C does."""


@contextmanager
def interrupted(iteration: int) -> Iterator[None]:
    """Inside, fits with ``verbose=1`` raise `Interrupted` when they report so many iterations."""

    def act(count: int) -> None:
        if count == iteration:
            raise Interrupted

    with each_iteration(act):
        yield
