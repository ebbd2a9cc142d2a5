"""What is asked of the parameters and the table before a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._session import Session
from anypca.models.piecewise._families import FAMILIES
from anypca.models.piecewise._pieces import quantile_breakpoints


def check_breakpoints(breakpoints: Any, n_pieces: int, family: str) -> Floats:
    """Breakpoints as an increasing array (n_pieces - 1,): those given, or the normal quantiles.

    Raises
    ------
    ValueError
        If there are not n_pieces - 1 finite numbers in increasing order, or they are to be fitted to counts.
    """
    if isinstance(breakpoints, str):
        if breakpoints == "fit" and not FAMILIES[family].can_fit_breakpoints:
            raise ValueError(
                f"breakpoints='fit' needs family='gaussian'; the bound for family={family!r} is fitted at fixed ones. "
                "Use breakpoints='quantile', or give numbers and compare log_likelihood_."
            )
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
    least = n_components + 2 if n_pieces == 1 else n_pieces * (n_components + 1)
    if n_samples < least:
        raise ValueError(
            f"PiecewisePCA with n_components={n_components} and n_pieces={n_pieces} needs at least {least} rows; X has "
            f"{n_samples} sample(s). Add rows, or ask for fewer components or pieces."
        )


def check_counts(family: str, offset: Any, session: Session) -> None:
    """Raise on values or offsets that the family does not have."""
    FAMILIES[family].check_table(offset, session)
