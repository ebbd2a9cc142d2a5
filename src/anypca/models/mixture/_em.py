"""EM for a mixture of models that can be fitted to weighted rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from anypca._typing import Floats
from anypca.exceptions import ConvergenceWarning

# Steps in a row that gain next to nothing, after which EM ends.
_SMALL_STEPS = 2


class State(NamedTuple):
    """A mixture at some parameters."""

    estimators: Sequence[Any]
    """Fitted, one for each group."""
    weights: Floats
    """Shares of the groups (n_groups,)."""
    log_joint: Floats
    """Log density of each row and each group (n_samples, n_groups)."""
    value: float
    """Log-likelihood of the table."""

    @property
    def responsibilities(self) -> Floats:
        """Probabilities of the groups given the rows (n_samples, n_groups)."""
        return np.asarray(softmax(self.log_joint, axis=1))


class Run(NamedTuple):
    """Where EM ended."""

    state: State
    trace: list[float]
    """Log-likelihood after each step that raised it."""
    converged: bool
    n_lost: int
    """Groups that were removed because too few rows were left."""


@dataclass(frozen=True)
class MixtureProblem:
    """A table and the model of its groups."""

    X: Any
    model: Any
    """Not fitted, its families settled."""
    weight: Floats | None
    """Of the rows (n_samples,)."""
    row_params: Mapping[str, Any]
    """``offset`` and ``covariates``, if the fit has them."""
    least_rows: float
    """Groups with less weight are removed."""

    def step(self, estimators: Sequence[Any], responsibilities: Floats) -> State:
        """Fit each group to its share of each row, and compute the densities of the rows."""
        weight = np.ones(len(responsibilities)) if self.weight is None else self.weight
        fitted, columns = [], []
        for estimator, share in zip(estimators, responsibilities.T, strict=True):
            # One group of unweighted rows is the plain model.
            is_plain = self.weight is None and len(estimators) == 1
            # A fit replaces the attributes of an estimator: a shallow copy keeps the last state.
            model = copy.copy(estimator)
            # Predictors of rows outside of a group may overflow; these rows have no weight.
            with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(self.X, sample_weight=None if is_plain else weight * share, **self.row_params)
                density = model.score_samples(self.X, **self.row_params)
            columns.append(np.where(np.isnan(density), -np.inf, density))
            fitted.append(model)
        weights = weight @ responsibilities / weight.sum()
        log_joint = np.column_stack(columns) + np.log(weights)
        return State(fitted, weights, log_joint, float(weight @ logsumexp(log_joint, axis=1)))

    def without_lost(
        self, estimators: Sequence[Any], responsibilities: Floats
    ) -> tuple[Sequence[Any], Floats]:
        """The groups with enough rows, or the largest one if none has."""
        weight = np.ones(len(responsibilities)) if self.weight is None else self.weight
        sizes = weight @ responsibilities
        kept = np.flatnonzero((sizes >= self.least_rows) | (sizes == sizes.max()))
        if len(kept) == len(sizes):
            return estimators, responsibilities
        left = responsibilities[:, kept]
        total = left.sum(axis=1, keepdims=True)
        left = np.divide(left, total, out=np.full_like(left, 1.0 / len(kept)), where=total > 0)
        return [estimators[int(k)] for k in kept], left

    def start(self, responsibilities: Floats) -> Run:
        """The first step, from given responsibilities."""
        n_groups = responsibilities.shape[1]
        state = self.step(*self.without_lost([self.model] * n_groups, responsibilities))
        return Run(state, [state.value], n_groups == 1, n_groups - len(state.weights))

    def run(self, before: Run, max_iter: int, tol: float) -> Run:
        """Further steps, until some in a row gain less than ``tol`` for each row on average; the best state is kept."""
        best, trace, converged, n_lost = before
        state, n_small = best, 0
        for _ in range(max_iter):
            if converged:
                break
            new = self.step(*self.without_lost(state.estimators, state.responsibilities))
            n_removed = len(state.weights) - len(new.weights)
            gain = np.inf if n_removed else new.value - best.value
            if gain > 0:
                # A mixture of fewer groups starts a trace of its own.
                best, trace = new, [new.value] if n_removed else [*trace, new.value]
            n_lost += n_removed
            n_small = n_small + 1 if gain < tol * len(new.log_joint) else 0
            # Approximate likelihoods may fall in a step and rise in the next.
            state, converged = new, n_small >= _SMALL_STEPS
        return Run(best, trace, converged, n_lost)
