"""Rotation of a fitted model's components to a simple structure.

Let F be the scores scaled to unit variance and A = W' S (p, k) their loadings. A rotation has the scores F T and the
loadings A T^-T, so that fitted predictors do not change. T is orthogonal (varimax, quartimax), or has columns of unit
length, and the scores have the correlations T'T (promax, oblimin).

References
----------
Bernaards and Jennrich (2005), Gradient projection algorithms and software for arbitrary rotation criteria in factor
analysis, Educational and Psychological Measurement 65, 676-696. Hendrickson and White (1964) for promax.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.linalg import fix_signs, nearest_orthonormal
from anypca.models._correlations import find_dependence, tabulate_loadings
from anypca.models._description import Description, describe

#: Value and gradient of what is minimised, at loadings (p, k).
Criterion = Callable[[Floats], tuple[float, Floats]]
#: The power of promax that Hendrickson and White found to be the best for most tables.
_POWER = 4
#: Sufficient descent and halvings of a step, as Bernaards and Jennrich have them.
_DESCENT = 0.5
_HALVINGS = 10
#: Projected gradients below this leave loadings right to five digits; steps until then are some dozens.
_TOLERANCE = 1e-6
_MOST_STEPS = 1000


@dataclass(frozen=True, eq=False)
class Rotation:
    """A fitted model with rotated components; all other attributes come from the model.

    Plotting, reports and saving work as for the model.
    """

    model: Any
    """The fitted model."""
    method: str
    matrix_: Floats
    """T (n_components, n_components); scores of unit variance are multiplied by it."""
    scale_of_scores_: Floats
    """Standard deviations of the model's scores, (n_components,)."""
    components_: Floats
    """Rotated loadings of scores of unit variance, (n_components, n_features), by decreasing share."""
    components_std_: Floats | None
    """Posterior standard deviations of the loadings, if the model has them; assumes that the model's loadings are
    independent between components."""
    score_correlations_: Floats
    """Of the rotated scores, (n_components, n_components); the identity for varimax and quartimax."""
    explained_deviance_ratio_: Floats
    """The model's explained share, divided in proportion to what each component adds to the variance of the columns'
    predictors, each as a share of its column's variance where noises have units and differ, (n_components,)."""

    @property
    def correlations_(self) -> Floats:
        """Correlations of rotated components with columns (n_components, n_columns), as in the model."""
        return find_dependence(self).correlations

    @property
    def communalities_(self) -> Floats:
        """Share of each column's variance that the components explain (n_columns,), as in the model."""
        return find_dependence(self).communalities

    def loadings_table(self, *, cutoff: float = 0.3) -> Any:
        """Return correlations and communalities as a data frame; see the method of the model."""
        return tabulate_loadings(self, cutoff)

    def __getattr__(self, name: str) -> Any:
        # Reading a file makes the object before its attributes.
        if "model" not in vars(self) or (name.startswith("__") and name != "__sklearn_tags__"):
            raise AttributeError(name)
        return getattr(vars(self)["model"], name)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def _description(self) -> dict[str, Any]:
        kept = describe(self.model)
        return {
            **{part.name: getattr(kept, part.name) for part in fields(kept)},
            "rotation": self.method,
            "loadings": self.components_,
            "loading_deviations": self.components_std_,
            "explained": self.explained_deviance_ratio_,
            "has_sparse_loadings": False,
            "has_entries": False,
        }

    def describe(self) -> Description:
        """Describe the model's capabilities and results."""
        return describe(self)

    def transform(self, X: Any, *, return_std: bool = False, **companions: Any) -> Any:
        """Rotated scores of rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return standard deviations too; posteriors are taken as independent between components.
        **companions : dict
            ``offset`` and ``covariates`` as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components), and another one of deviations if asked for
        """
        if not return_std:
            return np.asarray(self.model.transform(X, **companions)) / self.scale_of_scores_ @ self.matrix_
        scores, std = self.model.transform(X, return_std=True, **companions)
        variances = (np.asarray(std) / self.scale_of_scores_) ** 2 @ self.matrix_**2
        return np.asarray(scores) / self.scale_of_scores_ @ self.matrix_, np.sqrt(variances)

    def inverse_transform(self, X: Any, **companions: Any) -> Floats:
        """Means of the entries given rotated scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        **companions : dict
            ``offset`` and ``covariates`` as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return np.asarray(
            self.model.inverse_transform(self.unrotated(np.asarray(X, dtype=float)), **companions)
        )

    def unrotated(self, scores: Floats) -> Floats:
        """Scores of the model that rotated scores (n_samples, n_components) came from."""
        return np.asarray(np.linalg.solve(self.matrix_.T, scores.T).T * self.scale_of_scores_)

    def report(self, path: str | os.PathLike[str], X: Any, **options: Any) -> Rotation:
        """Write one self-contained HTML file on the rotated model and a table.

        Parameters
        ----------
        path : path-like
        X : table of shape (n_samples, n_features)
        **options : dict
            As in the model's ``report``.

        Returns
        -------
        self
        """
        # By name, as the models do it: the report is built on them.
        importlib.import_module("anypca.report").write_report(self, path, X, **options)
        return self


def rotate(model: Any, method: str, *, normalize: bool = True) -> Rotation:
    """Rotate the components of a fitted model.

    Parameters
    ----------
    model : fitted estimator
        With linear components.
    method : {"varimax", "quartimax", "promax", "oblimin"}
    normalize : bool
        Whether every column counts the same, whatever its communality (Kaiser).

    Returns
    -------
    Rotation

    Raises
    ------
    ValueError
        If the method is unknown, or the model has no linear components.
    """
    if method not in METHODS:
        raise ValueError(f"unknown rotation {method!r}. Choose one of {', '.join(METHODS)}.")
    found = describe(model)
    if found.loadings is None or found.has_pieces:
        raise ValueError(
            f"{found.name} has no components that are directions of the columns; it cannot be rotated."
        )
    scale = _score_scale(model, found)
    loadings = found.loadings.T * scale
    # What is large in one column must not be so by its units alone.
    units = found.drawn_units
    free = loadings if units is None else loadings / units[:, None]
    turn = METHODS[method](_normalised(free) if normalize else free)
    turn, shares = _in_order(free, turn, in_noise=units is not None)
    rotated = _pattern(loadings, turn)
    deviations = found.loading_deviations
    if deviations is not None:
        change = np.linalg.inv(turn).T
        deviations = np.sqrt((deviations.T * scale) ** 2 @ change**2).T
    total = float(found.explained.sum())
    correlations = turn.T @ turn
    return Rotation(model, method, turn, scale, rotated.T, deviations, correlations, total * shares)


def _score_scale(model: Any, found: Description) -> Floats:
    """Standard deviations of the scores; 1 where a component explains nothing, and is nothing."""
    variance: Floats = np.asarray(
        vars(model).get("explained_variance_", np.ones(found.n_components)), dtype=float
    )
    return np.asarray(np.where(variance > 0, np.sqrt(np.maximum(variance, 0.0)), 1.0))


def _normalised(loadings: Floats) -> Floats:
    length = np.linalg.norm(loadings, axis=1, keepdims=True)
    return np.asarray(np.divide(loadings, length, out=np.zeros_like(loadings), where=length > 0))


def _pattern(loadings: Floats, turn: Floats) -> Floats:
    return np.asarray(np.linalg.solve(turn, loadings.T).T)


def _in_order(loadings: Floats, turn: Floats, *, in_noise: bool) -> tuple[Floats, Floats]:
    """The rotation with its components by decreasing share, their largest loadings positive; and the shares.

    With ``in_noise`` loadings are in units of noise that differ between the columns.
    """
    rotated = _pattern(loadings, turn)
    # What each component adds to the variance of a column's predictor, correlations divided evenly.
    parts = rotated * (rotated @ (turn.T @ turn))
    if in_noise:  # as shares of the column's variance, or the column with the least noise would count alone
        parts /= 1.0 + parts.sum(axis=1, keepdims=True)
    parts = parts.sum(axis=0)
    order = np.argsort(-parts, kind="stable")
    total = parts.sum()
    shares = parts[order] / total if total > 0 else np.zeros(len(parts))
    return turn[:, order] * fix_signs(rotated.T[order]), shares


def _varimax(loadings: Floats) -> tuple[float, Floats]:
    squares = loadings**2
    apart = squares - squares.mean(axis=0)
    return -float((apart**2).sum()) / 4, -loadings * apart


def _quartimax(loadings: Floats) -> tuple[float, Floats]:
    return -float((loadings**4).sum()) / 4, -(loadings**3)


def _quartimin(loadings: Floats) -> tuple[float, Floats]:
    squares = loadings**2
    others = squares.sum(axis=1, keepdims=True) - squares
    return float((squares * others).sum()) / 4, loadings * others


def _orthogonal(criterion: Criterion) -> Callable[[Floats], Floats]:
    def minimise(loadings: Floats) -> Floats:
        def evaluate(turn: Floats) -> tuple[float, Floats]:
            value, gradient = criterion(loadings @ turn)
            gradient = loadings.T @ gradient
            inner = turn.T @ gradient
            return value, gradient - turn @ (inner + inner.T) / 2

        return _descend(evaluate, nearest_orthonormal, loadings.shape[1])

    return minimise


def _oblique(criterion: Criterion) -> Callable[[Floats], Floats]:
    def minimise(loadings: Floats) -> Floats:
        def evaluate(turn: Floats) -> tuple[float, Floats]:
            back = np.linalg.inv(turn)
            rotated = loadings @ back.T
            value, gradient = criterion(rotated)
            gradient = -(rotated.T @ gradient @ back).T
            return value, gradient - turn * (turn * gradient).sum(axis=0)

        return _descend(evaluate, _unit_columns, loadings.shape[1])

    return minimise


def _descend(evaluate: Criterion, project: Callable[[Floats], Floats], size: int) -> Floats:
    """Minimise by steps along the projected gradient, each of them downhill."""
    turn: Floats = np.eye(size)
    value, gradient = evaluate(turn)
    step = 1.0
    for _ in range(_MOST_STEPS if size > 1 else 0):
        slope = float((gradient**2).sum())
        if np.sqrt(slope) < _TOLERANCE:
            break
        step *= 2
        for _ in range(_HALVINGS + 1):
            candidate = project(turn - step * gradient)
            new_value, new_gradient = evaluate(candidate)
            if new_value < value - _DESCENT * slope * step:
                break
            step /= 2
        else:
            break  # rounding hides the gain
        turn, value, gradient = candidate, new_value, new_gradient
    return turn


def _unit_columns(matrix: Floats) -> Floats:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=0))


def _promax(loadings: Floats) -> Floats:
    """Least squares from varimax loadings to their fourth powers, which are simpler than they are."""
    turn = _orthogonal(_varimax)(loadings)
    simple = loadings @ turn
    change, *_ = np.linalg.lstsq(simple, simple * np.abs(simple) ** (_POWER - 1), rcond=None)
    # Loadings are multiplied by the change, scores by the transpose of its inverse; these have unit variance.
    if simple.shape[1] == 0 or np.linalg.matrix_rank(change) < len(change):
        return turn
    return _unit_columns(turn @ np.linalg.inv(change).T)


METHODS: dict[str, Callable[[Floats], Floats]] = {
    "varimax": _orthogonal(_varimax),
    "quartimax": _orthogonal(_quartimax),
    "promax": _promax,
    "oblimin": _oblique(_quartimin),
}
