"""Categories without an order, as one yes/no column for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from anypca._typing import Floats
from anypca._words import listed
from anypca.families._base import Family, column_forms
from anypca.families.bernoulli import Bernoulli
from anypca.families.forms import Form, code

#: Most categories of a column: more are names or numbers of rows rather than kinds of them.
MOST_CATEGORIES = 30


@column_forms.register
@dataclass(frozen=True)
class Nominal(Form):
    """Categories without an order, given by numbers: the column enters as one yes/no column for each of them.

    The parts are Bernoulli columns with loadings of their own. At the same predictors their log-likelihood is a lower
    bound of that of a softmax over the categories, so that evidences may be compared, to the disadvantage of this form.
    The most probable category comes back in place of a mean; `probabilities` are scaled to sum to one.

    Parameters
    ----------
    levels : tuple of float
        The categories in increasing order; found in the table when left out.

    Examples
    --------
    >>> import numpy as np
    >>> form = Nominal((1.0, 4.0, 7.0))
    >>> form.split(np.array([4.0, np.nan]), "colour").tolist()
    [[0.0, 1.0, 0.0], [nan, nan, nan]]
    >>> form.mean(np.array([[0.1, 0.2, 0.5]])).tolist()
    [7.0]
    """

    name = "nominal"
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
        return (Bernoulli(),) * max(len(self.levels), 1)

    def with_levels(self, levels: tuple[float, ...], column: str) -> Nominal:
        if self.levels:
            return self
        if len(levels) > MOST_CATEGORIES:
            some = listed([f"{level:.6g}" for level in levels])
            raise ValueError(
                f"column {column!r} has {len(levels)} categories ({some}); family 'nominal' takes at most "
                f"{MOST_CATEGORIES}. Join rare ones, or leave the column out: family={{{column!r}: 'excluded', ...}}."
            )
        return replace(self, levels=levels)

    def labels(self, column: str) -> tuple[str, ...]:
        return tuple(f"{column}={level:g}" for level in self.levels)

    def split(self, x: Floats, column: str) -> Floats:
        numbers = code(x, self.levels, column)[:, None]
        chosen = (numbers == np.arange(len(self.levels))).astype(x.dtype)
        return np.where(np.isnan(numbers), np.asarray(np.nan, x.dtype), chosen)

    def probabilities(self, means: Floats) -> Floats:
        """Of the categories from the means of their yes/no columns, which need not sum to one, (rows, n_levels)."""
        total = np.maximum(means.sum(axis=1, keepdims=True), np.finfo(means.dtype).tiny)
        found: Floats = means / total
        return found

    def mean(self, means: Floats) -> Floats:
        return np.asarray(np.take(self.levels, means.argmax(axis=1)), dtype=means.dtype)

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        """That of the indicator of the most probable category: 0 where it is certain, 1/2 at most."""
        best = self.probabilities(means).max(axis=1)
        found: Floats = np.sqrt(best * (1.0 - best))
        return found

    def draw(self, draws: Floats, means: Floats, rng: np.random.Generator) -> Floats:
        below = np.cumsum(self.probabilities(means), axis=1)[:, :-1] < rng.random((len(means), 1))
        return np.asarray(np.take(self.levels, below.sum(axis=1)), dtype=float)
