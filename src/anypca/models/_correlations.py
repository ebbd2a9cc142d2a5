"""Loadings as correlations: how strongly each column depends on each component, whatever its family and units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._optional import optional
from anypca._typing import Bools, Floats
from anypca.families import Family
from anypca.families._transformed import TransformedNormal
from anypca.models._description import describe

#: Variance of the standard logistic distribution: the noise of a yes/no answer or a rating on the predictor's scale.
LOGISTIC_VARIANCE = np.pi**2 / 3.0
# Half-width of the central difference that gives the slope of a mean; its relative error is of order 1e-8.
_DIFFERENCE = 1e-4


class Dependence(NamedTuple):
    """Standardised loadings of the columns of ``components_``."""

    correlations: Floats
    """Correlations of components with columns on the predictor's scale, (n_components, n_columns)."""
    communalities: Floats
    """Share of each column's variance on that scale that the components explain, (n_columns,)."""


def latent_noise(family: Family, mean: Floats, dispersion: Floats) -> Floats:
    """Compute the noise variance of columns on the scale of the predictor.

    Nakagawa and Schielzeth (2013) and Nakagawa, Johnson and Schielzeth (2017): the dispersion under the identity link,
    ``log(1 + Var(x) / mean^2)`` under the log link (``log(1 + 1 / mean + dispersion)`` for negative binomial counts),
    pi^2 / 3 under the logit link. Several trials have the smaller variance of the delta method.

    Parameters
    ----------
    family : Family
        Of all columns.
    mean : ndarray of shape (n_columns,)
        Means of the columns.
    dispersion : ndarray of shape (n_columns,)

    Returns
    -------
    ndarray of shape (n_columns,)
    """
    noise = np.empty(len(mean))
    for member, columns in family.member_columns(len(mean)):
        phi = dispersion[columns]
        if isinstance(member, TransformedNormal):
            noise[columns] = phi
            continue
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            eta = member.link(mean[columns], phi)
            rise = member.mean(eta + _DIFFERENCE, phi) - member.mean(eta - _DIFFERENCE, phi)
            delta = member.variance(member.mean(eta, phi), phi) / (rise / (2.0 * _DIFFERENCE)) ** 2
        if member.link_kind == "log":
            delta = np.log1p(delta)
        elif member.link_kind == "logit":
            delta = np.fmin(delta, LOGISTIC_VARIANCE)
        noise[columns] = delta
    return noise


def find_dependence(model: Any) -> Dependence:
    """Standardise the loadings of a fitted model.

    Parameters
    ----------
    model : fitted estimator or Rotation
        With loadings and a family.

    Returns
    -------
    Dependence
        NaN in columns that the model leaves out.
    """
    check_is_fitted(model)
    found = describe(model)
    if found.loadings is None or found.family is None or found.dispersion is None:
        raise AttributeError(f"{found.name} has no loadings with a family. Use SePCA, EPCA, PPCA or PLNPCA.")
    columns = found.model_columns(
        found.loadings.shape[1] if found.layout is None else found.layout.n_features
    )
    sizes, angles = _score_moments(model, found.n_components)
    loadings = np.where(columns >= 0, found.loadings * sizes[:, None], np.nan)
    explained = np.einsum("aj,ab,bj->j", loadings, angles, loadings)
    mean, variance = (np.asarray(moment) for moment in model._moments[:2])
    noise = latent_noise(found.family, mean, np.asarray(found.dispersion))
    total = explained + np.where(columns >= 0, noise[columns], np.nan)
    if not found.uses_offset and not getattr(model, "covariate_names_", None):
        # Real columns have a standard deviation of their own: complete tables give the correlations with the scores.
        is_real = _identity_columns(found.family, len(mean))
        total = np.where(is_real[columns], np.fmax(variance[columns], explained), total)
    return Dependence(angles @ loadings / np.sqrt(total), explained / total)


def _identity_columns(family: Family, n_columns: int) -> Bools:
    """Columns whose mean is the predictor, (n_columns,)."""
    found = np.zeros(n_columns, dtype=bool)
    for member, columns in family.member_columns(n_columns):
        found[columns] = member.link_kind == "identity"
    return found


def _score_moments(model: Any, n_components: int) -> tuple[Floats, Floats]:
    """Standard deviations (k,) and correlations (k, k) of the scores."""
    angles = getattr(model, "score_correlations_", None)
    if angles is not None:  # scores of rotations have unit variance
        return np.ones(n_components), angles
    variance = np.asarray(getattr(model, "explained_variance_", np.ones(n_components)), dtype=float)
    return np.sqrt(variance), np.eye(n_components)


def tabulate_loadings(model: Any, cutoff: float = 0.3) -> Any:
    """Return correlations and communalities as a data frame of pandas, columns sorted by their strongest component.

    Parameters
    ----------
    model : fitted estimator or Rotation
    cutoff : float, default=0.3
        Correlations that are smaller in absolute value are left blank.

    Returns
    -------
    DataFrame
        A row for each column of the table, or for each category of a nominal one.
    """
    with optional("loadings_table", "pandas", "io"):
        import pandas
    found, (correlations, communalities) = describe(model), find_dependence(model)
    names = getattr(model, "feature_names_in_", None)
    names = [f"x{j}" for j in range(model.n_features_in_)] if names is None else list(map(str, names))
    table = pandas.DataFrame(
        correlations.T.round(2),
        found.loading_names(names),
        [f"component {k + 1}" for k in range(len(correlations))],
    )
    if len(correlations):
        strongest = np.abs(correlations)
        main = np.where(np.isnan(communalities), len(strongest), np.argmax(strongest, axis=0))
        order = np.lexsort((-strongest.max(axis=0), main))
        table, communalities = table.iloc[order], communalities[order]
    shown = table.where(table.abs() >= cutoff, "") if cutoff > 0 else table
    return shown.assign(communality=communalities.round(2))
