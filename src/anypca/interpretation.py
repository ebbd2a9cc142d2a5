"""Contributions and squared cosines of rows and columns, and supplementary columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.columns import Layout
from anypca.columns.groups import Groups, is_scale, split_groups
from anypca.columns.reading import (
    check_scores,
    choose_rows,
    correlate,
    count_rows,
    map_blocks,
    name_columns,
    read_table,
    take_rows,
)
from anypca.engine import Block, check_data
from anypca.families import Family, Gaussian
from anypca.models._bilinear.passes import explained_shares
from anypca.models._covariates import covariates_for
from anypca.models._description import describe, numbers_for, project_rows
from anypca.models._row_methods import model_predictor

__all__ = ["Groups", "Parts", "SupplementaryColumn", "contributions", "cos2", "supplementary_columns"]

#: Entries from which the model without components is fitted, some 100 MB of intermediate arrays.
_MOST_ENTRIES = 2_000_000
#: Smallest number of rows, also for wide tables: intercepts of fewer rows are too inaccurate.
_LEAST_ROWS = 100
#: Newton steps for one intercept per column. Each is bounded, since a column of zeros has its optimum at infinity; 15
#: steps of 3 reach a factor of exp(45), beyond all means that occur, and Newton's method needs few near the optimum.
_STEPS, _LONGEST_STEP = 15, 3.0


class Parts(NamedTuple):
    """Shares of rows and of columns, a column for each component.

    See Also
    --------
    contributions : shares of a component.
    cos2 : shares of a row or column.
    """

    rows: Floats
    """(n_samples, n_components)."""
    columns: Floats | None
    """(n_features, n_components); None where components are no directions of the columns."""


@dataclass(frozen=True, eq=False)
class SupplementaryColumn:
    """A supplementary column (not used in the fit) and its association with the components.

    See Also
    --------
    supplementary_columns : finds it.
    """

    name: str
    strength: Floats
    """Share of each score's variance that the column explains: squared correlations of numbers, ratios of the variance
    between groups to the whole one (eta squared) for groups, (n_components,)."""
    correlations: Floats | None
    """Of a column of numbers with the scores, (n_components,)."""
    groups: Groups | None
    """Means of the scores in the groups of any other column."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Observed entries of some rows with their predictor, the missing ones replaced by 1, which every family has."""

    family: Family
    x: Floats
    seen: Bools
    eta: Floats
    base: Floats
    """The predictor without components, up to one constant per column."""
    dispersion: Floats
    has_noise: bool
    """Whether the dispersion comes from the model; otherwise it is 1."""

    def deviance(self, eta: Floats) -> Floats:
        """Deviance of each entry, 0 where missing."""
        return np.where(self.seen, self.family.deviance(self.x, eta, self.dispersion), 0.0)

    @cached_property
    def intercept(self) -> Floats:
        """The constant of each column that fits best without components (n_columns,), by Newton steps."""
        shift = np.zeros(self.x.shape[1])
        longest = np.full(len(shift), _LONGEST_STEP)
        for member, index in self.family.member_columns(len(shift)):
            if isinstance(member, Gaussian):  # steps are exact whatever their length
                longest[index] = np.inf
        for _ in range(_STEPS):
            found = self.family.evaluate(self.x, self.base + shift, self.dispersion, order=2)
            slope = np.where(self.seen, found.gradient, 0.0).sum(axis=0)
            curvature = np.where(self.seen, found.curvature, 0.0).sum(axis=0)
            step = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
            shift = shift + np.minimum(np.maximum(step, -longest), longest)
        return shift


def open_entries(model: Any, values: Floats, scores: Floats, **companions: Any) -> Entries | None:
    """Observed entries of rows together with the predictor of a fitted model.

    Parameters
    ----------
    model : fitted estimator
    values : ndarray of shape (n_samples, n_features)
        NaN where missing.
    scores : ndarray of shape (n_samples, n_components)
    **companions : dict
        ``offset`` and ``covariates`` of these rows, where the fit had them.

    Returns
    -------
    Entries or None
        None for models without a map from scores to rows.
    """
    eta = model_predictor(model, scores, **companions)
    base = model_predictor(model, np.zeros_like(scores), **companions)
    if eta is None or base is None:
        return None
    found = describe(model)
    values = (found.layout or Layout(values.shape[1])).split(values)
    seen, family = ~np.isnan(values), found.family or Gaussian()
    # Without noise (an exact reconstruction) deviances cannot be measured in units of the dispersion: use 1.
    has_noise = found.dispersion is not None and bool((found.dispersion > 0).all())
    dispersion = np.asarray(found.dispersion) if has_noise else np.ones(eta.shape[1])
    return Entries(family, np.where(seen, values, 1.0), seen, eta, base, dispersion, has_noise)


def contributions(model: Any, scores: Any) -> Parts:
    """Compute the contributions of rows and columns to each component; they sum to 1 for each component.

    Parameters
    ----------
    model : fitted estimator
        The fitted model.
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform`` for the rows of the fit.

    Returns
    -------
    Parts
        Of rows ``z**2 / sum z**2`` over the rows, of columns ``w**2 / sum w**2`` over the columns, where loadings of
        columns with units are divided by the standard deviation of their noise.

    See Also
    --------
    cos2 : How much of a row or a column the components explain.
    anypca.plotting.plot_loadings : The loadings themselves.

    Examples
    --------
    >>> from anypca import PPCA
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.interpretation import contributions
    >>> X = make_low_rank(50, 6, 2, random_state=0).X
    >>> model = PPCA(2).fit(X)
    >>> parts = contributions(model, model.transform(X))
    >>> parts.columns.sum(axis=0).round(12).tolist()
    [1.0, 1.0]
    """
    found = describe(model)
    z = check_scores("scores", scores, found.n_components)
    strengths = None if found.has_pieces else found.strengths
    return Parts(_shares(z), None if strengths is None else _shares(strengths.T))


def _shares(values: Floats) -> Floats:
    squares = values**2
    total = squares.sum(axis=0)
    return np.asarray(np.divide(squares, total, out=np.zeros_like(squares), where=total > 0))


def cos2(model: Any, X: Any, *, scores: Any = None, offset: Any = None, covariates: Any = None) -> Parts:
    """Compute the share of the deviance of each row and each column that the components explain.

    For normal entries and unpenalised scores these are the squared cosines of the angles between a row (a column) and
    the components. In general a component's part is the deviance lost without it, scaled so that the parts of a row
    (a column) sum to the share of the whole model, as in ``explained_deviance_ratio_``.

    Parameters
    ----------
    model : fitted estimator
        A model with a map from scores to rows.
    X : table of shape (n_samples, n_features)
        Rows of the fit, or supplementary ones.
    scores : array-like of shape (n_samples, n_components) or None
        Scores of these rows, if ``transform`` has computed them already.
    offset, covariates : array-like or None
        Of these rows, as in ``fit``.

    Returns
    -------
    Parts
        Numbers in [0, 1] whose sum over the components is at most 1.

    Raises
    ------
    ValueError
        If the model cannot turn scores into rows.

    See Also
    --------
    contributions : Which rows and columns make a component.
    supplementary_columns : Columns that were not used in the fit.

    Examples
    --------
    >>> from anypca import EPCA
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.interpretation import cos2
    >>> X = make_low_rank(50, 6, 2, family="poisson", random_state=0).X
    >>> parts = cos2(EPCA(2, family="poisson").fit(X), X)
    >>> parts.rows.shape, parts.columns.shape, bool(parts.rows.sum(axis=1).max() <= 1)
    ((50, 2), (6, 2), True)
    """
    given = {"offset": offset, "covariates": covariates_for(model, covariates)}
    companions = {name: np.asarray(values) for name, values in given.items() if values is not None}
    X = numbers_for(model, X)
    scores = project_rows(model, X, **companions)[0] if scores is None else np.asarray(scores)
    shift = _null_shift(model, X, scores, companions)

    def visit(block: Block) -> tuple[Floats, Floats]:
        rows = slice(block.start, block.stop)
        some = {name: values[rows] for name, values in companions.items()}
        return _deviances(model, block.values(), scores[rows], some, shift)

    found = map_blocks(visit, check_data(X))
    of_rows = np.concatenate([rows for rows, _ in found], axis=1)
    of_columns = np.sum([columns for _, columns in found], axis=0)
    layout = describe(model).layout
    columns = explained_shares(of_columns)
    return Parts(explained_shares(of_rows), columns if layout is None else layout.pad(columns, axis=0))


def _null_shift(model: Any, X: Any, scores: Floats, companions: Mapping[str, Floats]) -> Floats:
    """Intercepts of the model without components, relative to the model's intercepts, from a sample of rows."""
    n = count_rows(X)
    index = choose_rows(n, max(_LEAST_ROWS, _MOST_ENTRIES // max(int(check_data(X).n_features), 1)))
    some = {name: values[index] for name, values in companions.items()}
    rows = X if len(index) == n else take_rows(X, index)
    entries = open_entries(model, read_table(rows).astype(float), scores[index], **some)
    if entries is None:
        raise ValueError(
            f"{describe(model).name} cannot turn scores into rows, so no part of a row is explained. Use a model with "
            "inverse_transform (KernelPCA: fit_inverse_transform=True)."
        )
    return entries.intercept


def _deviances(
    model: Any, values: Floats, scores: Floats, companions: Mapping[str, Floats], shift: Floats
) -> tuple[Floats, Floats]:
    """Deviances of rows (n_components + 2, rows) and of the model's columns (n_components + 2, n_columns).

    The order is: the model without components, the full model, then the model without each single component.
    """
    entries = open_entries(model, values.astype(float), scores, **companions)
    assert entries is not None
    found = [entries.deviance(entries.base + shift), entries.deviance(entries.eta)]
    for k in range(scores.shape[1]):
        eta = model_predictor(model, np.where(np.arange(scores.shape[1]) == k, 0.0, scores), **companions)
        assert eta is not None
        # Predictors without one component may overflow: keep the sums finite.
        with np.errstate(over="ignore"):
            found.append(np.minimum(entries.deviance(eta), np.sqrt(np.finfo(float).max)))
    return np.array([part.sum(axis=1) for part in found]), np.array([part.sum(axis=0) for part in found])


def supplementary_columns(scores: Any, columns: Any) -> list[SupplementaryColumn]:
    """Relate supplementary columns (not used in the fit) to the components: correlations or group means.

    For supplementary rows use ``model.transform`` (scores) and `cos2` (explained shares).

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform``.
    columns : table of shape (n_samples, n_more), or mapping of names to columns
        Text, categories, truth values and whole numbers with at most 20 different values are groups; other columns are
        numbers. Missing values are left out.

    Returns
    -------
    list of SupplementaryColumn
        One for each column, or for each group of a column of labels.

    See Also
    --------
    cos2 : For supplementary rows.
    anypca.plotting.plot_correlation_circle : Draws them as dashed arrows.
    anypca.plotting.plot_scores : Draws groups and supplementary rows.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.interpretation import supplementary_columns
    >>> scores = np.array([[-1.0, 0.5], [-1.0, -0.5], [1.0, 0.5], [1.0, -0.5]])
    >>> age, sex = supplementary_columns(scores, {"age": [20.5, 21, 40, 41], "sex": ["f", "m", "f", "m"]})
    >>> age.correlations.round(2).tolist(), sex.strength.tolist()
    ([1.0, -0.04], [0.0, 1.0])
    """
    z: Floats = np.asarray(scores, dtype=float)
    found = []
    named = columns if isinstance(columns, Mapping) else name_columns(columns)
    for name, values in named.items():
        given = np.asarray(values)
        if len(given) != len(z):
            raise ValueError(
                f"column {name!r} must have {len(z)} values, one for each row of scores; got {len(given)}."
            )
        found.append(_supplementary(str(name), given, z))
    return found


def _supplementary(name: str, values: Any, scores: Floats) -> SupplementaryColumn:
    if is_scale(values):
        correlations = correlate(values.astype(float)[:, None], scores)[0][:, 0]
        return SupplementaryColumn(name, correlations**2, correlations, None)
    groups = split_groups(values, scores)
    return SupplementaryColumn(name, groups.strength(scores), None, groups)
