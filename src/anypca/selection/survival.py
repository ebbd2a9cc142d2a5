r"""Which components of a joint mode survive, by how much, and which weight of the data would lose them.

A component j of size :math:`g = \|w_j\| \|z_j\|` and direction :math:`\theta` (unit scores times unit loadings) is
pulled by the data with

.. math:: L_j(g) = \sum_{ij} \ell'(x_{ij} | \eta_{ij}^{(-j)} + g \theta_{ij})\, \theta_{ij},

which falls with g. With the relevance at its best, the prior holds against it with :math:`D / (\nu g)`: a component can
rest where the two meet, :math:`g L_j(g) = D / \nu`. The curves meet twice (the larger g is stable) or not at all, and
then the component dies. Hence a critical weight, :math:`\nu_j = D / \max_g g L_j(g)`, below which it cannot live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models import SePCA
from anypca.models._bilinear.row_model import ModeRowModel
from anypca.models._block_view import BlockView, observed_only
from anypca.models._row_model import RowModel
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
    """Weight of the data below which a component cannot live while the others stay as they are, shape
    (n_components + 1,). Refits often lose it at a somewhat larger one, since the others change too."""
    needs: Floats
    """What ``nu g L_j(g)`` is where a component rests: D, and more where loadings have a price or a penalty; of the
    candidate without the penalty; shape (n_components + 1,)."""
    nu: float
    """The weight of the fit."""


def survival_curve(
    model: SePCA, X: Any, *, sample_weight: Any = None, offset: Any = None, covariates: Any = None
) -> SurvivalCurve:
    """How firmly the components of ``SePCA(inference="map")`` stand.

    Parameters
    ----------
    model : fitted SePCA
        With ``inference="map"``.
    X : table of shape (n_samples, n_features)
        The one that the model was fitted to; models do not keep it.
    sample_weight, offset, covariates : as in ``fit``
        What comes along with the table; as in ``fit``.

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
    visitor = _Visitor.of(model, X, sample_weight, {"offset": offset, "covariates": covariates})
    largest = visitor.candidate_pull
    needs = _needs(model, float(visitor.weights.sum()))
    # At D / (nu L(0)) the hyperbola of the candidate meets the tangent that its curve stays below.
    reference = np.append(visitor.fitted_sizes, needs[-1] / (model.nu_ * max(largest, np.finfo(float).tiny)))
    ends = reference.min() / _BELOW, reference.max() * _ABOVE
    sizes = np.geomspace(*ends, int(_SIZES_PER_DECADE * np.log10(ends[1] / ends[0])) + 2)
    pulls = visitor.pulls(np.tile(sizes, (len(needs), 1)))
    best = np.clip((sizes * pulls).argmax(axis=1), 1, len(sizes) - 2)
    near = np.geomspace(sizes[best - 1], sizes[best + 1], _ZOOM, axis=1)
    strongest = np.maximum((near * visitor.pulls(near)).max(axis=1), np.finfo(float).tiny)
    at_fit = np.append(visitor.fitted_sizes, 0.0)[:, None]
    return SurvivalCurve(
        sizes,
        pulls,
        visitor.fitted_sizes,
        visitor.pulls(at_fit)[:-1, 0],
        needs / strongest,
        needs,
        float(model.nu_),
    )


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
class _Visitor:
    """Visits the table under a model; the unit scores of the components are known, the candidate's loadings too."""

    model: SePCA
    X: Any
    weights: Floats
    """(n_samples,)."""
    companions: dict[str, Any]
    scores: Floats
    """(n_samples, n_components)."""
    fitted_sizes: Floats
    candidate: Floats
    """Unit loadings of the candidate, shape (n_features,)."""
    candidate_pull: float
    """Its L(0): the largest singular value."""

    @staticmethod
    def of(model: SePCA, X: Any, sample_weight: Any, companions: dict[str, Any]) -> _Visitor:
        scores = np.asarray(model.transform(X, **companions), dtype=float)
        weights = np.ones(len(scores)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        lengths = np.sqrt((weights[:, None] * scores**2).sum(axis=0))
        sizes = lengths * np.linalg.norm(model.components_, axis=1)
        start = _Visitor(model, X, weights, companions, scores, sizes, np.zeros(model.layout_.n_columns), 0.0)
        values, vectors = np.linalg.eigh(start._gram())
        largest = float(np.sqrt(max(values[-1], 0.0)))
        return _Visitor(model, X, weights, companions, scores, sizes, vectors[:, -1], largest)

    def _gram(self) -> Floats:
        """Weighted products of the derivatives of the log-likelihood at the fit, (n_features, n_features)."""

        def visit(rows_model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            slope = self._slope(rows_model, rows, self._predictor(rows_model, block))
            return (slope * self._weights_of(block)[:, None]).T @ slope

        return np.asarray(sum(self.model._visit_rows(visit, self.X, *self.companions.values())))

    def pulls(self, sizes: Floats) -> Floats:
        """L_j at the sizes in row j, the candidate's row being the last; shape of ``sizes``."""

        def visit(rows_model: RowModel[Any], block: Block, rows: BlockView) -> Floats:
            return self._block_pulls(rows_model, block, rows, sizes)

        return np.asarray(sum(self.model._visit_rows(visit, self.X, *self.companions.values())))

    def _block_pulls(self, rows_model: RowModel[Any], block: Block, rows: BlockView, sizes: Floats) -> Floats:
        """The block's part of `pulls`."""
        eta, weights = self._predictor(rows_model, block), self._weights_of(block)[:, None]
        found = np.empty_like(sizes)
        for j, row in enumerate(sizes):
            own = np.zeros_like(eta)
            if j < len(self.fitted_sizes):
                loadings = self.model.layout_.pick(self.model.components_[j])
                own = np.outer(self.scores[block.start : block.stop, j], loadings)
                direction = own / self.fitted_sizes[j]
            else:
                slope = self._slope(rows_model, rows, eta)
                left = slope @ self.candidate / max(self.candidate_pull, np.finfo(float).tiny)
                direction = np.outer(left, self.candidate)
            for i, size in enumerate(row):
                slope = self._slope(rows_model, rows, eta - own + size * direction)
                found[j, i] = float((weights * slope * direction).sum())
        return found

    def _weights_of(self, block: Block) -> Floats:
        return self.weights[block.start : block.stop]

    def _predictor(self, rows_model: RowModel[Any], block: Block) -> Floats:
        return rows_model.predictor(block, self.scores[block.start : block.stop])

    def _slope(self, rows_model: RowModel[Any], rows: BlockView, eta: Floats) -> Floats:
        """Derivative of the log-likelihood in eta, 0 where entries are missing."""
        with np.errstate(over="ignore"):
            found = rows_model.family.evaluate(rows.x, eta, rows_model.dispersion, order=1).gradient
        return observed_only(rows, slice(None), np.asarray(found))
