"""What a report is about: a fitted model with its table, the same whatever the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import numbered
from anypca.linalg import largest
from anypca.models._description import Description, describe
from anypca.models._row_methods import GenerativeModel, linear_predictor
from anypca.plotting._reading import correlate
from anypca.report._table_facts import Sample, TableFacts


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model with its table, as far as the report tells of them."""

    model: Any
    title: str
    notes: tuple[str, ...]
    code: str | None
    facts: TableFacts
    sample: Sample
    scores: Floats
    """(n_shown, n_components)."""
    std: Floats | None
    """Posterior standard deviations of the scores, same shape."""

    @cached_property
    def description(self) -> Description:
        """What the model says of itself."""
        return describe(self.model)

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return self.description.name

    @property
    def n_components(self) -> int:
        return int(self.scores.shape[1])

    @property
    def component_names(self) -> tuple[str, ...]:
        """``component 1``, ``component 2``, ..."""
        return numbered("component ", self.n_components)

    @cached_property
    def weights(self) -> Floats:
        """Loadings, or correlations of columns and scores in place of them (n_components, n_columns)."""
        found = self.description.loadings
        return correlate(self.sample.values, self.scores)[0] if found is None else found

    def strongest(self, component: int, most: int) -> Ints:
        """The columns with the largest weights that are not 0, by decreasing size."""
        return largest(self.weights[component], most)

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters."""
        return dict(self.model.get_params(deep=False))

    def predict(self, scores: Floats) -> Floats | None:
        """Linear predictor (n_rows, n_columns) of the first shown rows if they had these scores (n_rows, k).

        It is ``None`` for models that cannot go back from scores to rows.
        """
        companions = {name: values[: len(scores)] for name, values in self.sample.companions.items()}
        if isinstance(self.model, GenerativeModel):
            return linear_predictor(self.model, scores, **companions)
        if not self.description.has_way_back:
            return None
        # Models without a distribution go back by least squares: means are predictors.
        return np.asarray(self.model.inverse_transform(scores, **companions), dtype=float)


def check_companions(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The companions that were given, if the model knows them.

    Raises
    ------
    TypeError
        If the model takes no such argument.
    """
    found = describe(model)
    known = {"offset": found.takes_offset, "covariates": found.takes_covariates}
    wanted = {name: value for name, value in given.items() if value is not None}
    for name in wanted:
        if not known[name]:
            raise TypeError(f"{found.name} has no {name}. Leave out {name}= in report.")
    return wanted


def column_names(
    model: Any, given: Sequence[Any] | None, from_table: Sequence[str] | None
) -> tuple[str, ...]:
    """Names of the columns: given, of the table, of the fit, or x1, x2, ...

    Raises
    ------
    ValueError
        If there are not as many as columns.
    """
    n = int(model.n_features_in_)
    sources = (given, from_table, describe(model).feature_names)
    names = next((names for names in sources if names is not None), numbered("x", n))
    if len(names) != n:
        raise ValueError(f"there are {len(names)} column names; the model was fitted to {n} columns.")
    return tuple(map(str, names))
