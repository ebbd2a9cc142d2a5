"""Ordered answers, such as ratings, with the cumulative logit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from anypca._typing import Bools, Floats, Ints, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, Total, families
from anypca.families._columns import ColumnFamily
from anypca.families._cuts import SETTLED, best_cuts, counted, margin_cuts
from anypca.families._logistic import expected_softplus
from anypca.special import log1pexp

#: Most levels of an ordered answer: beyond, cut points are as many as the numbers they are to order.
MOST_LEVELS = 30
#: In place of infinite bounds where a normal predictor is averaged over: the logistic function is 0 there in any case.
_FAR = 1e3
#: Predictors are counted in bins of this width, which changes the log-likelihood of the cut points by about width^2 /
#: 24 of an observation's information, up to this size, beyond which a logistic probability is 0 or 1 to 5 digits.
_BIN, _REACH = 0.1, 12.0
#: Predictor beyond which no mean is looked for, and the halvings that find one below it to rounding.
_WIDEST, _HALVINGS = 60.0, 70


@families.register
@dataclass(frozen=True)
class Ordinal(ColumnFamily):
    r"""Ordered levels, such as answers from 1 to 5: ``P(x <= level c) = expit(cut_c - eta)``.

    With a and b the distances from eta to the cut points above and below the level x,
    ``log p(x) = -log(1 + exp(-a)) - log(1 + exp(b)) + log(1 - exp(b - a))``. The domain is the levels of each column,
    whole numbers; nothing is assumed of the distances between them. There is no dispersion. ``evaluate`` drops the last
    term. Cut points belong to columns: they start at the logits of the shares of answers, and fits estimate them as
    they estimate dispersions, with two pseudo-observations for each column.

    Chosen by ``family="auto"`` for ordered labels, and for numbers of three to twelve values, each repeated, where no
    distribution of counts or measurements has the larger log-mass; levels that are not whole, or far apart, are
    numbered.

    Parameters
    ----------
    cuts : tuple of float, or tuple of such tuples, optional
        Increasing cut points, one tuple for all columns or one for each column; estimated if left out.
    levels : tuple of float, or tuple of such tuples, optional
        The levels, one more than cut points; 0, 1, 2, ... by default.

    See Also
    --------
    Nominal : categories without an order.

    Examples
    --------
    >>> import numpy as np
    >>> family = Ordinal(cuts=(-1.0, 1.0), levels=(1, 2, 3))
    >>> np.exp(family.log_likelihood(np.array([1.0, 2.0, 3.0]), np.zeros(3))).round(4).tolist()
    [0.2689, 0.4621, 0.2689]
    """

    name = "ordinal"
    link_kind = "logit"
    is_discrete = True
    expectation = "bound"
    support = "whole numbers"
    remedy = "Number the levels in their order (1, 2, 3, ...), or use family='gaussian' for measurements."

    per_column = ("cuts", "levels")

    cuts: Any = None
    levels: Any = None
    is_tight: bool = field(default=False, repr=False, kw_only=True)
    """`expected_log_likelihood` is close to the expectation; otherwise a bound, which takes half of the time."""

    def __post_init__(self) -> None:
        cuts = self.cuts if self.cuts is None else _rows(self.cuts)
        if cuts is None and self.levels is not None:
            raise ValueError(
                "Ordinal takes levels together with cuts; leave both out to have them taken from the table."
            )
        levels = cuts if self.levels is None else _rows(self.levels)
        if self.levels is None and cuts is not None:
            levels = tuple(tuple(float(c) for c in range(len(row) + 1)) for row in cuts)
        for row, values in zip(cuts or (), levels or (), strict=True):
            if len(values) != len(row) + 1 or any(np.diff(row) <= 0) or any(np.diff(values) <= 0):
                raise ValueError(
                    "Ordinal needs increasing cuts and one more increasing level for each column; "
                    f"got cuts={row!r}, levels={values!r}."
                )
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "levels", levels)

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(cuts=(-1.0, 0.5, 2.0)),)

    # ------------------------------------------------------------------------------ columns of their own

    @cached_property
    def _edges(self) -> Floats:
        """Cut points between minus and plus infinity, one row for each, shape (n_levels + 1, n_columns)."""
        return _stacked([(-np.inf, *row) for row in self._known_cuts], longer=1)

    @cached_property
    def _values(self) -> Floats:
        """Levels, the last one repeated where there are fewer, shape (n_levels, n_columns)."""
        values = _stacked(self.levels, longer=0)
        last = np.array([row[-1] for row in self.levels])
        return np.where(np.isinf(values), last, values)

    @property
    def _known_cuts(self) -> tuple[tuple[float, ...], ...]:
        if self.cuts is None:
            raise ValueError("the cut points of Ordinal() are not known yet; fit a table, or give cuts.")
        cuts: tuple[tuple[float, ...], ...] = self.cuts
        return cuts

    def _level(self, x: Floats) -> Ints:
        """The number of the level of each entry; between two levels the upper one."""
        values = self._values
        number = np.zeros(x.shape, dtype=np.intp)
        for low, high in pairwise(values):
            number += (x > 0.5 * (low + high)) & (high > low)
        return number

    def _bounds(self, x: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """Distances from eta to the cut points above and below the level of x."""
        number, edges = self._level(x), self._edges.astype(eta.dtype)
        column = np.arange(edges.shape[1]) if edges.shape[1] > 1 else 0
        return edges[number + 1, column] - eta, edges[number, column] - eta

    # ------------------------------------------------------------------------------------- likelihood

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        above, below = self._bounds(x, eta)
        value = -log1pexp(-above) - log1pexp(below)
        gradient = expit(below) - expit(-above) if order >= 1 else NOT_ASKED
        return Evaluation(value, gradient, self._information(eta) if order >= 2 else NOT_ASKED)

    def _information(self, eta: Floats) -> Floats:
        """Squared scores of the levels on the average, a sum without cancellation."""
        total = np.zeros_like(eta)
        for chance, _, score in self._each_level(eta):
            total += chance * score * score
        return total

    def _each_level(self, eta: Floats) -> list[tuple[Floats, Floats, Floats]]:
        """Probability, value and score of each level; the first and the last as the others."""
        edges, values = self._edges.astype(eta.dtype), self._values.astype(eta.dtype)
        with np.errstate(invalid="ignore"):  # behind the last level of a column
            gaps = edges[1:] - edges[:-1]
        found = []
        for number, gap in enumerate(gaps):
            # Behind the last level of a column both cut points are infinite.
            exists = np.isfinite(edges[number]) | (number == 0)
            above = np.where(np.isfinite(edges[number + 1]), edges[number + 1], np.inf) - eta
            below = np.where(exists, edges[number], -np.inf) - eta
            width = -np.expm1(-np.where(exists, np.maximum(gap, 0.0), 0.0))
            chance = expit(above) * expit(-below) * width
            found.append((chance, values[number] + np.zeros_like(eta), expit(below) - expit(-above)))
        return found

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        above, below = self._bounds(x, eta)
        return np.asarray(expit(above) * expit(-above) + expit(below) * expit(-below))

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """Two Bernoulli terms, each as that family has it."""
        above, below = self._bounds(x, mean)
        upper = expected_softplus(np.maximum(-above, -_FAR), variance, is_tight=self.is_tight)
        lower = expected_softplus(np.maximum(below, -_FAR), variance, is_tight=self.is_tight)
        has_upper, has_lower = ~np.isposinf(above), ~np.isneginf(below)
        return Evaluation(
            -np.where(has_upper, upper.value, 0.0) - np.where(has_lower, lower.value, 0.0),
            np.where(has_lower, lower.gradient, 0.0) - np.where(has_upper, upper.gradient, 0.0),
            np.where(has_upper, upper.curvature, 0.0) + np.where(has_lower, lower.curvature, 0.0),
        )

    def _gap(self, x: Floats) -> Floats:
        """Distance between the cut points next to x, infinite at the ends."""
        above, below = self._bounds(x, np.zeros_like(x))
        return above - below

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.log(-np.expm1(-self._gap(x)))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return -2.0 * log1pexp(-0.5 * self._gap(x))

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        """Mean of the levels as numbers."""
        edges, values = self._edges.astype(eta.dtype), self._values.astype(eta.dtype)
        total: Floats = np.zeros_like(eta) + values[0]
        for cut, step in zip(edges[1:-1], np.diff(values, axis=0), strict=True):
            total += step * expit(eta - cut)
        return total

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        low, high = np.full_like(mu, -_WIDEST), np.full_like(mu, _WIDEST)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            is_above = self.mean(middle) < mu
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        return 0.5 * (low + high)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        total = np.zeros_like(mu)
        for chance, value, _ in self._each_level(self.link(mu)):
            total += chance * (value - mu) ** 2
        return total

    def in_support(self, x: Floats) -> Bools:
        if self.cuts is None:
            return np.asarray(np.isfinite(x) & (x == np.floor(x)))
        return np.asarray(np.any([x == value for value in self._values], axis=0))

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        latent = eta + rng.logistic(size=eta.shape)
        number = np.zeros(eta.shape, dtype=np.intp)
        for cut in self._edges[1:-1]:
            number += latent > cut
        values = self._values
        return np.asarray(values[number, np.arange(values.shape[1]) if values.shape[1] > 1 else 0])

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        # One answer in the middle added: the mean of a column of one level is then inside.
        middle = 0.5 * (self._values[0] + self._values[-1])
        return np.asarray((total + middle) / (count + 1.0))

    # ------------------------------------------------------------------------------------ cut points

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        """Levels that occur, and cut points at the logits of the shares of answers up to each."""
        if self.cuts is not None:
            return self
        widest = int(np.max(high - low, initial=0.0)) + 1
        if widest > MOST_LEVELS:
            column = int(np.argmax(high - low))
            raise ValueError(
                f"family 'ordinal' takes at most {MOST_LEVELS} levels; one of its columns has values from "
                f"{low[column]:g} to {high[column]:g}. Use family='negative_binomial' for counts, 'gaussian' or "
                "'log_normal' for measurements, or join levels."
            )
        counts = total(lambda x, weights: counted((x - low).astype(np.intp), weights, widest))
        seen = [np.flatnonzero(row) for row in counts]
        levels = tuple(tuple((start + some).tolist()) for start, some in zip(low, seen, strict=True))
        cuts = tuple(margin_cuts(row[some]) for row, some in zip(counts, seen, strict=True))
        return replace(self, cuts=cuts, levels=levels, is_estimated=True)

    def _count_free(self, entry: tuple[float, ...]) -> int:
        # An intercept moves all cut points together.
        return max(len(entry) - 1, 0)

    def updated_from_fit(self, total: Total) -> Family:
        """The cut points that fit best at given predictors."""
        n_levels, n_bins = len(self._values), int(2 * _REACH / _BIN)

        def count(x: Floats, weights: Floats, eta: Floats, _: Floats) -> Floats:
            place = np.clip((eta + _REACH) / _BIN, 0, n_bins - 1).astype(np.intp)
            return counted(self._level(x) * n_bins + place, weights, n_levels * n_bins)

        counts = total(count).reshape(-1, n_levels, n_bins)
        centres = _BIN * (np.arange(n_bins) + 0.5) - _REACH
        cuts = self._known_cuts if len(self._known_cuts) == len(counts) else self._known_cuts * len(counts)
        found = [
            best_cuts(np.array(row), table[: len(row) + 1], centres)
            for row, table in zip(cuts, counts, strict=True)
        ]
        change = max(
            (float(np.abs(new - row).max(initial=0.0)) for new, row in zip(found, cuts, strict=True)),
            default=0.0,
        )
        if change <= SETTLED:
            return self
        levels = self.levels if len(self.levels) == len(counts) else self.levels * len(counts)
        return replace(self, cuts=tuple(tuple(row.tolist()) for row in found), levels=levels)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    """One tuple of numbers for each column, or a single one for all."""
    listed = list(values)
    rows = [listed] if not listed or np.ndim(listed[0]) == 0 else listed
    return tuple(tuple(float(value) for value in row) for row in rows)


def _stacked(rows: Any, *, longer: int) -> Floats:
    """Rows of different lengths as columns, infinite below their ends, shape (longest + longer, n_rows)."""
    longest = max((len(row) for row in rows), default=0) + longer
    result = np.full((longest, len(rows)), np.inf)
    for j, row in enumerate(rows):
        result[: len(row), j] = row
    return result
