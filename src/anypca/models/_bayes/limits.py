"""Numbers of draws and sizes of tables for which sampling is made."""

from __future__ import annotations

import warnings

from anypca.engine import Data

# Fewer draws than this have no R-hat, which needs four in each half of a chain, nor a covariance of a column's
# coefficients.
_MIN_DRAWS = 10
# Entries of a table from which on a fit is a matter of hours: a gradient of so many takes ten milliseconds, and a fit
# some hundred thousand of them.
_LARGE_TABLE = 1_000_000
# Memory that the draws may take: half of that of a small machine.
_MAX_BYTES = 4 * 2**30


def check_draws(n_draws: int, default: int, who: str) -> None:
    """Refuse fewer draws than can be summarised.

    Parameters
    ----------
    n_draws, default : int
        Of each chain.
    who : str
        What samples, for the message.
    """
    if n_draws < _MIN_DRAWS:
        raise ValueError(
            f"{who} needs n_draws of at least {_MIN_DRAWS}, to compare chains and to summarise them; "
            f"got n_draws={n_draws}. The default is {default}."
        )


def check_size(data: Data, who: str, remedy: str) -> None:
    """Warn of a table that takes hours."""
    entries = data.n_samples * data.n_features
    if entries > _LARGE_TABLE:
        warnings.warn(
            f"{who} is made for tables of up to about {_LARGE_TABLE:.0e} entries; this one has {entries:.1e}. "
            f"It may take hours; {remedy}.",
            UserWarning,
            stacklevel=5,
        )


def check_memory(n_numbers: int, who: str, remedy: str) -> None:
    """Refuse more draws than memory can hold."""
    needed = 8 * n_numbers
    if needed > _MAX_BYTES:
        raise ValueError(
            f"{who} keeps all draws in memory; those asked for take {needed / 2**30:.1f} GiB, more than "
            f"{_MAX_BYTES / 2**30:.0f}. Ask for fewer draws, or {remedy}."
        )
