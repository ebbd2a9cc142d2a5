"""What a fitted model says of itself and of the rows, in one object whatever the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family, Gaussian, families
from anypca.models._description import describe, project_rows
from anypca.report._table_facts import Sample, TableFacts


class ColumnFamily(NamedTuple):
    """What a column was taken for."""

    family: str
    reason: str
    """With the numbers of the column."""
    rule: str
    """The same for all columns it was applied to."""


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

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return type(self.model).__name__

    @property
    def n_components(self) -> int:
        return int(self.scores.shape[1])

    @property
    def explained(self) -> Floats:
        """Share of deviance of each component (n_components,)."""
        return np.asarray(self.model.explained_deviance_ratio_, dtype=float)

    @property
    def is_piecewise(self) -> bool:
        """Whether the map from scores to rows bends: shares and loadings are then averages."""
        return hasattr(self.model, "piece_loadings_")

    @property
    def component_names(self) -> list[str]:
        """``component 1``, ``component 2``, ..."""
        return [f"component {k}" for k in range(1, self.n_components + 1)]

    @property
    def loadings(self) -> Floats | None:
        """(n_components, n_columns); ``None`` for models whose components are no directions of the columns."""
        found = getattr(self.model, "components_", None)
        return None if found is None else np.asarray(found, dtype=float)

    @property
    def weights(self) -> Floats:
        """Loadings, or correlations of columns and scores in place of them (n_components, n_columns)."""
        return self.loadings if self.loadings is not None else self.correlations()

    def correlations(self) -> Floats:
        """Correlations of the columns with the scores over the shown rows (n_components, n_columns)."""
        x, z = _standardised(self.sample.values), _standardised(self.scores)
        return np.asarray(z.T @ x / max(1, len(x)))

    def strongest(self, component: int, most: int) -> np.ndarray[Any, Any]:
        """The columns with the largest loadings that are not 0, by decreasing size."""
        weights = self.weights[component]
        order = np.argsort(-np.abs(weights), kind="stable")[:most]
        return np.asarray(order[np.abs(weights[order]) > 0])

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters."""
        return dict(self.model.get_params(deep=False))


def _standardised(values: Floats) -> Floats:
    """Columns with mean 0 and variance 1; missing entries and constant columns become 0."""
    seen = ~np.isnan(values)
    count = np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, values, 0.0) - np.where(seen, values, 0.0).sum(axis=0) / count
    centred = np.where(seen, centred, 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    return centred / np.where(spread > 0, spread, 1.0)


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
            raise TypeError(f"{type(model).__name__} has no {name}. Leave out {name}= in report.")
    return wanted


def project(model: Any, sample: Sample) -> tuple[Floats, Floats | None]:
    """Scores of the shown rows and, where the model has a posterior, their standard deviations.

    Returns
    -------
    scores : ndarray of shape (n_shown, n_components)
    std : ndarray of the same shape or None
    """
    scores, std = project_rows(model, sample.table, **sample.companions)
    return scores.astype(float), None if std is None else std.astype(float)


def family_of(model: Any) -> Family | None:
    """The family of a fitted model; gaussian for linear models without one, ``None`` for others."""
    family = getattr(model, "family_", None) or getattr(model, "family", None)
    if isinstance(family, str):
        return families.create(family)
    if isinstance(family, Family):
        return family
    return Gaussian() if hasattr(model, "components_") else None


def column_families(model: Any, n_columns: int) -> list[ColumnFamily]:
    """Family and reason of each column; empty for models without a distribution."""
    report = getattr(model, "family_report_", None)
    if report is not None:
        return [ColumnFamily(record.family, record.reason, record.rule) for record in report]
    family = family_of(model)
    if family is None:
        return []
    chosen = "family" in model.get_params(deep=False)
    why = "given" if chosen else f"the distribution that {type(model).__name__} assumes"
    names = [""] * n_columns
    for member, index in family.member_columns(n_columns):
        for j in index:
            names[int(j)] = member.name
    return [ColumnFamily(name, why, why) for name in names]


def predict(model: Any, scores: Floats, companions: Mapping[str, Floats]) -> Floats | None:
    """Linear predictor of rows with given scores; ``None`` for models that cannot go back.

    Parameters
    ----------
    model : fitted estimator
    scores : ndarray of shape (n_rows, n_components)
    companions : mapping
        ``offset`` and ``covariates`` of the rows.

    Returns
    -------
    ndarray of shape (n_rows, n_columns) or None
    """
    if hasattr(model, "coef_"):  # means may round to the edge of their range, where the link is infinite
        eta = scores @ model.components_ + model.intercept_
        if "covariates" in companions:
            eta = eta + companions["covariates"] @ model.coef_.T
        return np.asarray(eta + companions["offset"] if "offset" in companions else eta, dtype=float)
    if not hasattr(model, "inverse_transform") or not model.get_params().get("fit_inverse_transform", True):
        return None
    means = np.asarray(model.inverse_transform(scores, **companions), dtype=float)
    family = family_of(model)
    return means if family is None else family.link(means)


def column_names(model: Any, given: Sequence[Any] | None, from_table: Sequence[str] | None) -> list[str]:
    """Names of the columns: given, of the table, of the fit, or x1, x2, ...

    Raises
    ------
    ValueError
        If there are not as many as columns.
    """
    n = int(model.n_features_in_)
    for names in (given, from_table, getattr(model, "feature_names_in_", None)):
        if names is not None:
            if len(names) != n:
                raise ValueError(f"there are {len(names)} column names; the model was fitted to {n} columns.")
            return [str(name) for name in names]
    return [f"x{j}" for j in range(1, n + 1)]
