"""Draws from a log density with the No-U-Turn sampler of nutpie."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from anypca._arviz import import_arviz
from anypca._optional import optional
from anypca._typing import Bools, Floats, Ints
from anypca.exceptions import NonFiniteError

_NAME = "position"
# Correlations are learned in directions whose variance is off by more than this factor.
_EIGENVALUE_CUTOFF = 3.0


class LogDensity(Protocol):
    """Interface of a model to the sampler."""

    def __call__(self, position: Floats) -> tuple[float, Floats]:
        """Log density without its constant, and its gradient, at a position (dim,)."""


@dataclass(frozen=True)
class NutsOptions:
    """Length of a run."""

    n_draws: int
    """Draws that each chain keeps."""
    n_tune: int
    """Draws before, which set the step size and the scales."""
    n_chains: int
    cores: int = 1
    """Chains that run at once."""
    target_accept: float = 0.9
    low_rank: bool = False
    """Learn the strongest correlations too, not scales alone: dearer steps that mix better on long ridges."""
    thin: int = 1
    """Run this many times as long and keep one draw in so many."""


class Draws(NamedTuple):
    """Draws of the chains."""

    position: Floats
    """(chains, draws, dim)."""
    log_density: Floats
    """(chains, draws)."""
    diverging: Bools
    """Steps that the integrator could not follow, (chains, draws)."""
    n_steps: Ints
    """Gradients per draw, (chains, draws)."""

    @property
    def stats(self) -> dict[str, Any]:
        """Statistics of each draw, under the names that ArviZ uses."""
        return {"lp": self.log_density, "diverging": self.diverging, "n_steps": self.n_steps}


def import_sampler() -> Any:
    """The module nutpie, with ArviZ, in whose containers it gives its draws.

    Raises
    ------
    ImportError
        If one of them is missing; the message says how to get it.
    """
    import_arviz()
    with optional("sampling", "nutpie", "mcmc"):
        import nutpie
        import nutpie.compiled_pyfunc
    return nutpie


def sample_nuts(
    density: LogDensity, starts: Floats, options: NutsOptions, *, seed: int, progress: bool = False
) -> Draws:
    """Run chains from random choices among ``starts``.

    Parameters
    ----------
    density : LogDensity
        Called from several threads if ``options.cores > 1``. Where it is not finite the step is rejected.
    starts : ndarray of shape (n_starts, dim)
    options : NutsOptions
    seed : int
        The same seed gives the same draws, for any number of cores.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Draws

    Raises
    ------
    ImportError
        If nutpie or arviz is missing.
    NonFiniteError
        If the sampler cannot start.
    """
    chains, draws, dim = options.n_chains, options.n_draws, starts.shape[1]
    if dim == 0:  # nothing to draw, and the sampler does not accept it
        nothing = np.zeros((chains, draws))
        return Draws(nothing[:, :, None][:, :, :0], nothing, nothing.astype(bool), nothing.astype(int))
    nutpie = import_sampler()
    try:
        found = nutpie.sample(
            _compile(nutpie, density, starts),
            draws=draws * options.thin,
            tune=options.n_tune,
            chains=chains,
            cores=min(options.cores, chains),
            seed=seed,
            target_accept=options.target_accept,
            progress_bar=progress,
            save_warmup=False,
            **(_learn_correlations(nutpie) if options.low_rank else {}),
        )
    except RuntimeError as error:
        raise NonFiniteError(
            "the sampler found no start at which the log density and its gradient are finite. "
            "Look for extreme values in X."
        ) from error
    kept, stats = slice(options.thin - 1, None, options.thin), found.sample_stats
    return Draws(
        found.posterior[_NAME].values[:, kept],
        stats["logp"].values[:, kept],
        stats["diverging"].values[:, kept].astype(bool),
        stats["n_steps"].values[:, kept].astype(int),
    )


def _learn_correlations(nutpie: Any) -> dict[str, Any]:
    """Options for more than scales, which nutpie has renamed."""
    is_renamed = "adaptation" in inspect.signature(nutpie.sample).parameters
    chosen = {"adaptation": "low_rank"} if is_renamed else {"low_rank_modified_mass_matrix": True}
    return {**chosen, "mass_matrix_eigval_cutoff": _EIGENVALUE_CUTOFF}


def _compile(nutpie: Any, density: LogDensity, starts: Floats) -> Any:
    """The density in the form of nutpie."""
    dim = starts.shape[1]

    def make_density() -> LogDensity:
        return density

    def make_expand(seed1: int, seed2: int, chain: int) -> Any:
        return lambda position: {_NAME: position}

    def choose_start(seed: int) -> Floats:
        return np.asarray(starts[np.random.default_rng(seed).integers(len(starts))])

    return nutpie.compiled_pyfunc.from_pyfunc(
        dim,
        make_density,
        make_expand,
        [np.dtype(float)],
        [(dim,)],
        [_NAME],
        make_initial_point_fn=choose_start,
    )
