"""Categories without an order, as a sequence of yes/no columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from anypca._typing import Floats
from anypca._words import listed
from anypca.columns.forms import Constant, Form, code, column_forms, number_text
from anypca.columns.labels import MOST_CATEGORIES
from anypca.families._base import Family
from anypca.families.bernoulli import Bernoulli


@column_forms.register
@dataclass(frozen=True)
class Nominal(Form):
    """Categories without an order: the column enters as a yes/no column for each of them but the last.

    Each asks for one category where none before it was chosen, and is missing elsewhere. Given the predictors the
    answers are then independent, so that the log-likelihood of the column is the sum of theirs without approximation,
    and categories that know nothing of each other make no component, as plain indicators would by excluding each other.
    A loading speaks of its category against those that come later: the first ones should be common. The most probable
    category comes back in place of a mean; `probabilities` sum to one. With ``eta_c`` the predictor of category c,
    ``log P(c) = -log(1 + exp(-eta_c)) - sum_{b < c} log(1 + exp(eta_b))``, without the first term for the last one. The
    link of the parts is the logit, and there is no dispersion.

    Chosen by ``family="auto"`` for columns of text and of unordered categoricals with 3 to 30 labels, unless they are
    names or free text. Name it for categories that are coded by numbers.

    Parameters
    ----------
    levels : tuple of float
        The categories in increasing order; found in the table when left out.

    See Also
    --------
    Ordinal : categories with an order.

    Examples
    --------
    >>> import numpy as np
    >>> form = Nominal((1.0, 4.0, 7.0))
    >>> form.split(np.array([1.0, 4.0, 7.0, np.nan]), "colour").tolist()
    [[1.0, nan], [0.0, 1.0], [0.0, 0.0], [nan, nan]]
    >>> form.probabilities(np.array([[0.5, 0.2]])).tolist()
    [[0.5, 0.1, 0.4]]
    """

    name = "nominal"
    makes_missing = True
    needs_levels: ClassVar[bool] = True

    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        if np.any(np.diff(self.levels) <= 0):
            raise ValueError(f"levels must be increasing numbers; got {self.levels}.")

    @classmethod
    def examples(cls) -> tuple[Form, ...]:
        return (cls((0.0, 1.0, 2.0)),)

    @property
    def parts(self) -> tuple[Family, ...]:
        return (Bernoulli(),) * max(len(self.levels) - 1, 1)

    def with_levels(self, levels: tuple[float, ...], column: str) -> Form:
        if self.levels:
            return self
        if len(levels) == 1:
            return Constant(levels[0], reason="one category only")
        if len(levels) > MOST_CATEGORIES:
            some = listed([f"{level:.6g}" for level in levels])
            raise ValueError(
                f"column {column!r} has {len(levels)} categories ({some}); family 'nominal' takes at most "
                f"{MOST_CATEGORIES}. Join rare ones, or leave the column out: family={{{column!r}: 'excluded', ...}}."
            )
        return replace(self, levels=levels)

    def labels(self, column: str, text: Callable[[float], str] = number_text) -> tuple[str, ...]:
        first, *later = (f"{column}={text(level)}" for level in self.levels[:-1])
        return first, *(f"{label}|rest" for label in later)

    def split(self, x: Floats, column: str) -> Floats:
        numbers, places = code(x, self.levels, column)[:, None], np.arange(len(self.levels) - 1)
        chosen = (numbers == places).astype(x.dtype)
        # A category that came before, and a missing entry, leave the later questions open.
        return np.where(numbers >= places, chosen, np.asarray(np.nan, x.dtype))

    def probabilities(self, means: Floats) -> Floats:
        """Probabilities of the categories from the means of their questions, (rows, n_levels)."""
        rest = np.cumprod(1.0 - means, axis=1)
        before = np.hstack([np.ones((len(means), 1), means.dtype), rest[:, :-1]])
        return np.hstack([means * before, rest[:, -1:]])

    def mean(self, means: Floats) -> Floats:
        return np.asarray(np.take(self.levels, self.probabilities(means).argmax(axis=1)), dtype=means.dtype)

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        """Standard deviation of the indicator of the most probable category: 0 if it is certain, at most 1/2."""
        best = self.probabilities(means).max(axis=1)
        return np.asarray(np.sqrt(best * (1.0 - best)))

    def draw(self, draws: Floats, means: Floats, rng: np.random.Generator) -> Floats:
        below = np.cumsum(self.probabilities(means), axis=1)[:, :-1] < rng.random((len(means), 1))
        return np.asarray(np.take(self.levels, below.sum(axis=1)), dtype=float)
