"""The step with which columns are recorded: the lattice that their values lie on, from facts of blocks that merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, Ints

#: Maximum number of decimals tried. Numbers with more decimals count as not rounded.
MOST_DECIMALS = 4
#: Code of columns that lie on no lattice.
_NONE = MOST_DECIMALS + 1
#: Values are whole up to this many units in the last place of their type: reading and scaling cost one each.
_ROUNDING = 8.0
#: Largest rounding error at which a value can be recognised as whole.
_UNCERTAIN = 0.05
#: Largest multiple of the last decimal that is checked; all larger floating-point numbers are whole.
_LARGEST = 2.0**52
#: Rows that usually suffice to show that columns lie on a lattice of step 1 ...
_FIRST_ROWS = 64
#: ... and rows among which usually one shows that a column lies on no lattice.
_FEW_ROWS = 4
#: Step of columns on no lattice, as a share of their standard deviation. It adds the same to the log-probability of all
#: continuous families; a noise of less than it is below what any fit resolves.
UNROUNDED = 1e-3


@dataclass(frozen=True)
class Lattice:
    """``10**-decimals (anchor + gcd Z)`` holds all values of a column; arrays (n_features,)."""

    decimals: Ints
    """Of the values, `_NONE` where there are too many; 0 where there is no value."""
    anchor: Floats
    """A value in units of the last decimal, whole; NaN where there is none."""
    gcd: Ints
    """Greatest common divisor of the differences, in the same units; 0 of a single value."""

    def __add__(self, other: Lattice) -> Lattice:
        """The lattice of two sets of rows."""
        decimals = np.maximum(self.decimals, other.decimals)
        if decimals.min() == _NONE:
            return Lattice(decimals, self.anchor, self.gcd)
        first, second = self._scaled(decimals), other._scaled(decimals)
        gap = np.fmin(np.nan_to_num(np.abs(first.anchor - second.anchor)), _LARGEST).astype(np.int64)
        gcd = np.gcd(np.gcd(first.gcd, second.gcd), gap)
        fits = np.fmax(np.fmax(np.abs(first.anchor), np.abs(second.anchor)), 0.0) < _LARGEST
        anchor = np.where(np.isnan(first.anchor), second.anchor, first.anchor)
        return Lattice(np.where(fits, decimals, _NONE), anchor, gcd)

    def _scaled(self, decimals: Ints) -> Lattice:
        """The same in units of more decimals."""
        factor = 10.0 ** (decimals - self.decimals)
        gcd = np.minimum(self.gcd * factor, _LARGEST).astype(np.int64)
        return Lattice(decimals, self.anchor * factor, gcd)

    def steps(self, deviation: Floats) -> Floats:
        """The step of each column, > 0; ``deviation`` are their standard deviations."""
        lattice = np.maximum(self.gcd, 1) / 10.0**self.decimals
        spread = np.where(deviation > 0, UNROUNDED * deviation, 1.0)
        return np.where(self.is_found, lattice, spread)

    @property
    def is_found(self) -> Bools:
        """Which columns lie on a lattice."""
        return self.decimals <= MOST_DECIMALS


def find_lattice(x: Floats, observed: Bools | None, is_whole: Bools, largest: Floats, eps: float) -> Lattice:
    """The lattices of the columns of some rows.

    Parameters
    ----------
    x : ndarray of shape (rows, n_features)
        Finite, float64.
    observed : ndarray of bool of the same shape or None
    is_whole : ndarray of bool of shape (n_features,)
        Columns that hold whole numbers only.
    largest : ndarray of shape (n_features,)
        No observed value is larger in size.
    eps : float
        Relative rounding of the values.
    """
    anchor = x[0]
    if observed is not None:
        first = np.argmax(observed, axis=0)
        anchor = x[first, np.arange(x.shape[1])]
        x = np.where(observed, x, anchor)
    lattice = Lattice(np.full(len(anchor), _NONE), np.zeros(len(anchor)), np.zeros(len(anchor), np.int64))
    for decimals, chosen in _whole_columns(x, is_whole, largest, eps):
        if not chosen.size:
            continue
        lattice.decimals[chosen] = decimals
        lattice.anchor[chosen] = np.rint(anchor[chosen] * 10.0**decimals)
        lattice.gcd[chosen] = _divisors(x, chosen, decimals)
    if observed is not None:
        nothing = ~observed.any(axis=0)
        lattice.decimals[nothing], lattice.anchor[nothing] = 0, np.nan
    return lattice


def _whole_columns(x: Floats, is_whole: Bools, largest: Floats, eps: float) -> Iterator[tuple[int, Ints]]:
    """For each number of decimals the columns that are whole in its units, up to rounding, and in none before."""
    yield 0, np.flatnonzero(is_whole & (largest < _LARGEST))
    # Most columns that are on no lattice show it at once: what is not whole in the last decimal is so in none
    # before it. Twice the usual rounding is allowed since a multiple of ten has rounding of its own.
    left = np.flatnonzero(~is_whole)
    few = x[:_FEW_ROWS] if len(left) == x.shape[1] else x[:_FEW_ROWS, left]
    left = left[_are_whole(few, MOST_DECIMALS, 2.0 * eps, if_untold=True)]
    for decimals in range(1, _NONE):
        if not left.size:
            return
        found = _are_whole(x[:_FIRST_ROWS, left], decimals, eps)
        found[found] = _are_whole(x[:, left[found]], decimals, eps)
        yield decimals, left[found]
        left = left[~found]


def _are_whole(x: Floats, decimals: int, eps: float, *, if_untold: bool = False) -> Bools:
    """Which columns are whole in units of a decimal; ``if_untold`` where values are too large to tell."""
    scaled = x * 10.0**decimals
    largest = np.abs(scaled).max(axis=0, initial=0.0)
    scaled -= np.rint(scaled)
    slack = _ROUNDING * eps * largest
    is_told = (slack < _UNCERTAIN) & (largest < _LARGEST)
    return np.where(is_told, np.abs(scaled).max(axis=0, initial=0.0) <= slack, if_untold)


def _divisors(x: Floats, columns: Ints, decimals: int) -> Ints:
    """Greatest common divisors of the differences of whole columns, shape (len(columns),)."""
    found = _gcd(x[:_FIRST_ROWS, columns], decimals)
    more = found != 1
    if more.any() and len(x) > _FIRST_ROWS:
        found[more] = _gcd(x[:, columns[more]], decimals)
    return found


def _gcd(x: Floats, decimals: int) -> Ints:
    whole = np.rint(x * 10.0**decimals)
    return np.asarray(np.gcd.reduce(np.abs(whole - whole[0]).astype(np.int64), axis=0))
