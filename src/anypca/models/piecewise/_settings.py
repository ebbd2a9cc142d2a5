"""What is to be fitted, from the parameters of the estimator, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.families import Family, Gaussian
from anypca.models._session import Session
from anypca.models.piecewise._pieces import COUPLINGS, is_symmetric, quantile_breakpoints


@dataclass(frozen=True)
class Settings:
    """What to fit."""

    n_components: int
    coupling: str
    breakpoints: Floats
    """(K - 1,): fixed, or where the fit starts."""
    fit_breakpoints: bool
    n_init: int
    family: Family = field(default_factory=Gaussian)

    @property
    def n_pieces(self) -> int:
        """Number of pieces, K."""
        return len(self.breakpoints) + 1

    @property
    def may_mirror(self) -> bool:
        """Whether t may change its sign: not if that would move breakpoints that were given."""
        return self.fit_breakpoints or is_symmetric(self.breakpoints)


def count_parameters(settings: Settings, n_features: int) -> int:
    """Number of free parameters of the maps and of the breakpoints; dispersions and covariates come on top.

    Rotations that leave the density as it is are taken off: of the first q - 1 latent coordinates (of each piece by
    itself if they are free), and of all q when there is one piece.
    """
    q, n = settings.n_components, settings.n_pieces
    size = int(COUPLINGS[settings.coupling](q, settings.breakpoints).shape[1])
    turned = q if n == 1 else q - 1
    rotations = turned * (turned - 1) // 2 * (n if settings.coupling == "free" else 1)
    return n_features * size - rotations + (n - 1 if settings.fit_breakpoints else 0)


def make_settings(model: Any, family: Family, session: Session, *, can_fit_breakpoints: bool) -> Settings:
    """What the parameters of an estimator ask for.

    Raises
    ------
    ValueError
        If they contradict each other, or the table is too small for them.
    """
    breakpoints = check_breakpoints(model.breakpoints, model.n_pieces)
    is_fitted = isinstance(model.breakpoints, str) and model.breakpoints == "fit"
    if is_fitted and not can_fit_breakpoints:
        raise ValueError(
            f"breakpoints='fit' needs family='gaussian' without offset and covariates; the bound for "
            f"family={model.family!r} is fitted at fixed ones. Use breakpoints='quantile', or give numbers and compare "
            "log_likelihood_."
        )
    check_sizes(model.n_components, model.n_pieces, session.data.n_samples, session.data.n_features)
    is_fitted = is_fitted and model.n_pieces > 1
    return Settings(
        int(model.n_components), model.coupling, breakpoints, is_fitted, int(model.n_init), family
    )


def check_breakpoints(breakpoints: Any, n_pieces: int) -> Floats:
    """Breakpoints as an increasing array (n_pieces - 1,): those given, or the normal quantiles for a string.

    Raises
    ------
    ValueError
        If there are not n_pieces - 1 finite numbers in increasing order.
    """
    if isinstance(breakpoints, str):
        return quantile_breakpoints(n_pieces)
    try:
        values = np.asarray(breakpoints, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"breakpoints must be numbers; got {breakpoints!r}.") from error
    if values.shape != (n_pieces - 1,):
        raise ValueError(
            f"n_pieces={n_pieces} needs {n_pieces - 1} breakpoint(s); got {values.shape} of them. "
            "Give one number less than there are pieces."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"breakpoints must be finite; got {values.tolist()}.")
    if np.any(np.diff(values) <= 0):
        raise ValueError(f"breakpoints must be in increasing order; got {values.tolist()}. Sort them.")
    return values


def check_sizes(n_components: int, n_pieces: int, n_samples: int, n_features: int) -> None:
    """Raise if the table is too small for the model."""
    if n_components >= n_features:
        raise ValueError(
            f"n_components={n_components} must be less than the number of columns; X has {n_features} feature(s) "
            f"(n_features={n_features}), and some dimension must be left for the noise. Ask for fewer components."
        )
    # A variance besides the q + 1 numbers of a column for one piece; those numbers for each of several pieces.
    least = n_components + 2 if n_pieces == 1 else n_pieces * (n_components + 1)
    if n_samples < least:
        raise ValueError(
            f"PiecewisePCA with n_components={n_components} and n_pieces={n_pieces} needs at least {least} rows; X has "
            f"{n_samples} sample(s). Add rows, or ask for fewer components or pieces."
        )
