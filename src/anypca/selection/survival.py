r"""Survival of the components of a joint mode, and the critical weight of the data at which each is pruned.

A component j of size :math:`g = \|w_j\| \|z_j\|` and direction :math:`\theta` (unit scores times unit loadings) is
pulled by the data with

.. math:: L_j(g) = \sum_{ij} \ell'(x_{ij} | \eta_{ij}^{(-j)} + g \theta_{ij})\, \theta_{ij},

which decreases with g. At the optimal ARD precision the prior counteracts with :math:`D / (\nu g)`. A component is
stationary if both are equal, :math:`g L_j(g) = D / \nu`. The curves intersect twice (the larger g is stable), or not at
all, and then the component is pruned. This gives a critical weight, :math:`\nu_j = D / \max_g g L_j(g)`: below it the
component is pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats
from anypca.columns.reading import read_table
from anypca.models import SePCA
from anypca.models._bilinear.row_model import ModeRowModel
from anypca.models._description import numbers_for
from anypca.models._row_methods import linear_predictor
from anypca.priors import Ridge

# Sizes at which curves are known: thirty to a decade draw a smooth curve. They reach from a hundredth of what could
# live to ten times the largest component, where every curve is below its hyperbola.
_SIZES_PER_DECADE = 30
_BELOW, _ABOVE = 100.0, 10.0
# Sizes between the two neighbours of the largest ``g L(g)``, which is flat there: it is found to five digits.
_ZOOM = 21


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """The pull of the data on each component, and on the best candidate for one more, against its size.

    See Also
    --------
    survival_curve : computes it.
    """

    sizes: Floats
    """g, shape (n_sizes,)."""
    pulls: Floats
    """L_j(g), shape (n_components + 1, n_sizes); the last row is the candidate's."""
    fitted_sizes: Floats
    """g of the components as they were fitted, shape (n_components,)."""
    fitted_pulls: Floats
    """L_j there, shape (n_components,)."""
    critical_nu: Floats
    """Weight of the data below which a component is pruned if the others do not change, shape (n_components + 1,).
    Refits often prune it at a somewhat larger weight, since the other components change too."""
    needs: Floats
    """What ``nu g L_j(g)`` is where a component rests: D, and more where loadings have a price or a penalty; of the
    candidate without the penalty; shape (n_components + 1,)."""
    nu: float
    """The weight of the fit."""


def survival_curve(
    model: SePCA, X: Any, *, sample_weight: Any = None, offset: Any = None, covariates: Any = None
) -> SurvivalCurve:
    """Measure how well the data support each component of ``SePCA(inference="map")``.

    Parameters
    ----------
    model : fitted SePCA
        With ``inference="map"``.
    X : table of shape (n_samples, n_features)
        The training table; models do not store it.
    sample_weight, offset, covariates : as in ``fit``
        As in ``fit``.

    Returns
    -------
    SurvivalCurve
        The candidate is the leading singular pair of the derivatives of the log-likelihood at the fit. Draw it with
        `anypca.plotting.plot_survival`.

    Raises
    ------
    TypeError, ValueError
        If the model is not a joint mode.

    See Also
    --------
    anypca.plotting.plot_survival : draws it.

    References
    ----------
    J. Li, D. Tao (2013). Simple exponential family PCA. IEEE Transactions on Neural Networks and Learning Systems,
    eqs. 24-25 and figure 2, here with nu and with the relevance updated.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import SePCA
    >>> from anypca.datasets import make_prototype_bits
    >>> from anypca.selection import survival_curve
    >>> bits = make_prototype_bits(2, random_state=0).X
    >>> model = SePCA(4, family="bernoulli", inference="map", fit_intercept=False).fit(bits)
    >>> curve = survival_curve(model, bits)
    >>> bool((curve.critical_nu[:-1] < model.nu_).all()), bool(curve.critical_nu[-1] > model.nu_)
    (True, True)
    """
    _check_mode(model)
    weights, fit = _open(model, X, sample_weight, {"offset": offset, "covariates": covariates})
    needs = _needs(model, float(weights.sum()))
    # At D / (nu L(0)) the hyperbola of the candidate meets the tangent that its curve stays below.
    candidate = needs[-1] / (model.nu_ * max(fit.candidate_pull, np.finfo(float).tiny))
    reference = np.append(fit.sizes, candidate)
    ends = reference.min() / _BELOW, reference.max() * _ABOVE
    sizes = np.geomspace(*ends, int(_SIZES_PER_DECADE * np.log10(ends[1] / ends[0])) + 2)
    pulls = fit.pulls(np.tile(sizes, (len(needs), 1)))
    best = np.clip((sizes * pulls).argmax(axis=1), 1, len(sizes) - 2)
    near = np.geomspace(sizes[best - 1], sizes[best + 1], _ZOOM, axis=1)
    strongest = np.maximum((near * fit.pulls(near)).max(axis=1), np.finfo(float).tiny)
    at_fit = fit.pulls(np.append(fit.sizes, 0.0)[:, None])[:-1, 0]
    return SurvivalCurve(sizes, pulls, fit.sizes, at_fit, needs / strongest, needs, float(model.nu_))


def _check_mode(model: Any) -> None:
    if not isinstance(model, SePCA):
        raise TypeError(f"survival_curve needs SePCA(inference='map'); got {type(model).__name__}.")
    check_is_fitted(model)
    if model.mode_options is None:
        raise ValueError(
            f"survival_curve is about joint modes; this SePCA has inference={model.inference!r}, whose components are "
            "compared by evidence_by_rank_. Fit inference='map'."
        )


def _needs(model: SePCA, weight: float) -> Floats:
    """``nu ||z||^2``, which is D and the prices of loadings, of the components and of a candidate; shape (k + 1,)."""
    # The score prior of the reported coordinates has the mean squares of the scores as its precisions.
    rows = model._row_model()
    assert isinstance(rows, ModeRowModel)
    assert isinstance(rows.problem.score_prior, Ridge)
    found = model.nu_ * weight * np.asarray(rows.problem.score_prior.precision)
    # The candidate has all of its loadings; a penalty that is not a count would ask for more.
    return np.append(found, model.layout_.n_columns * (1.0 + 2.0 * model.sparsity_))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The log-likelihood of a table near a joint mode, as a function of the sizes of its components."""

    gradient: Callable[[Floats], Floats]
    """Weighted derivatives of the log-likelihood at a predictor, 0 where missing, (n_samples, n_columns)."""
    eta: Floats
    """The predictor at the fit, same shape."""
    directions: list[Floats]
    """Unit scores times unit loadings of the components and of the candidate, each of that shape."""
    sizes: Floats
    """Of the components, (n_components,)."""
    candidate_pull: float
    """L(0) of the candidate: the largest singular value of the derivatives."""

    def pulls(self, sizes: Floats) -> Floats:
        """L_j at the sizes in row j, the last row for the candidate; shape of ``sizes``."""
        found = np.empty_like(sizes)
        for j, (direction, fitted) in enumerate(zip(self.directions, [*self.sizes, 0.0], strict=True)):
            for i, size in enumerate(sizes[j]):
                found[j, i] = (self.gradient(self.eta + (size - fitted) * direction) * direction).sum()
        return found


def _open(model: SePCA, X: Any, sample_weight: Any, companions: dict[str, Any]) -> tuple[Floats, _Fit]:
    """Weights of the rows, and the fit."""
    values = model.layout_.split(read_table(numbers_for(model, X)).astype(float))
    seen, x = ~np.isnan(values), np.where(np.isnan(values), 1.0, values)
    scores = np.asarray(model.transform(X, **companions), dtype=float)
    weights = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    rows = model._row_model()

    def gradient(eta: Floats) -> Floats:
        with np.errstate(over="ignore"):
            slope = rows.family.evaluate(x, eta, rows.dispersion, order=1).gradient
        return np.where(seen, weights[:, None] * slope, 0.0)

    eta = linear_predictor(model, scores, **companions)
    loadings = model.layout_.pick(model.components_, 1)
    sizes = np.sqrt((weights[:, None] * scores**2).sum(axis=0)) * np.linalg.norm(model.components_, axis=1)
    directions = [np.outer(z, w) / size for z, w, size in zip(scores.T, loadings, sizes, strict=True)]
    # The leading singular pair of the derivatives, for rows of weight w in units of the root of w.
    root = np.sqrt(weights)[:, None]
    scaled = np.divide(gradient(eta), root, out=np.zeros_like(eta), where=root > 0)
    left, pull, right = np.linalg.svd(scaled, full_matrices=False)
    unit = np.divide(left[:, :1], root, out=np.zeros_like(root), where=root > 0)
    return weights, _Fit(gradient, eta, [*directions, unit * right[:1]], sizes, float(pull[0]))
