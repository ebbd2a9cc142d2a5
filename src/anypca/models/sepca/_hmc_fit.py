"""What sampling leaves: the posterior of scores and loadings at the chosen dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.sepca._fit import VariationalFit
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._variational import VariationalProblem

# Chains disagree above this R-hat of the worst quantity.
MAX_R_HAT = 1.05


class Mixing(Enum):
    """How sampling ended; the value is the message."""

    CONVERGED = "converged: the chains agree (largest R-hat below 1.05)"
    DISAGREE = "the chains disagree: the largest R-hat is above 1.05; increase n_draws and n_tune"


@dataclass(frozen=True, eq=False)
class HMCResult:
    """How the fit ended, in the form of `anypca.solvers.Result`."""

    shared: Loadings
    trace: Floats
    """Mean log density of scores and loadings in each round and in the final run; it is not monotone."""
    status: Mixing
    criterion: float
    """Largest R-hat."""
    n_iter: int
    """Rounds, the final run included."""

    @property
    def converged(self) -> bool:
        return self.status is Mixing.CONVERGED


@dataclass(frozen=True, eq=False)
class HMCFit:
    """The posterior at the chosen dimension."""

    problem: VariationalProblem
    """Gives q(z) of rows under ``loadings``."""
    loadings: Loadings
    """Mean and precision of each column's aligned draws; ``alpha`` is ``D / E||w_k||^2``."""
    local: Sequence[Any]
    """q(z) of the training rows under ``loadings``, block by block."""
    result: HMCResult
    removals: tuple[Removal, ...]
    posterior: Any
    """ArviZ InferenceData: scores, loadings, intercept (and coef) over chains and draws, aligned."""
    r_hat: dict[str, Floats]
    """R-hat of each variable of the posterior, entry by entry."""
    ess: dict[str, Floats]
    """Effective sample size (bulk) of each variable, entry by entry."""
    start: VariationalFit
    """The variational fit that the chains started from."""
    features: Floats
    """Fixed features of the training rows (a one for the intercept, covariates), shape (n_samples, m - k)."""
    offset: Floats | None
    """Of the training rows, shape (n_samples, 1) or (n_samples, n_features)."""
    n_diverging: int
    """Draws of the final run whose trajectory could not be followed."""

    @property
    def alpha(self) -> Floats:
        return self.loadings.alpha

    @property
    def null(self) -> Coefficients:
        return self.start.null

    @property
    def evidence_by_rank(self) -> dict[int, float]:
        """Empty: draws give no evidence."""
        return {}

    def draw_eta(self, rows: Ints, columns: Ints) -> Floats:
        """Posterior draws of the predictor at chosen entries of the training table.

        Parameters
        ----------
        rows, columns : ndarray of shape (n_entries,)
            Indices of the entries, missing ones included.

        Returns
        -------
        ndarray of shape (n_chains * n_draws, n_entries)
            Chain after chain.
        """
        rows, columns = np.asarray(rows), np.asarray(columns)
        found = self.posterior.posterior
        scores, loadings = found["scores"].values[:, :, rows], found["loadings"].values[..., columns]
        eta: Floats = np.einsum("cdek,cdke->cde", scores, loadings)
        if "intercept" in found:
            eta += found["intercept"].values[..., columns]
        if "coef" in found:
            coef = found["coef"].values[..., columns]
            eta += np.einsum("ev,cdve->cde", self.features[rows, -coef.shape[2] :], coef)
        if self.offset is not None:
            eta += self.offset[rows, columns if self.offset.shape[1] > 1 else 0]
        return eta.reshape(-1, len(rows))
