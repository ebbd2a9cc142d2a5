"""A fitted globally sparse model as rows see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Table
from anypca.families import Family, Gaussian
from anypca.models._complete import check_complete
from anypca.models._gaussian.posterior import Parameters, Patterns, Posterior, find_patterns, find_posterior
from anypca.models._opened import OpenedBlock
from anypca.models._row_model import RowModel


class SolvedRows(NamedTuple):
    """Rows and the posterior of their latent points."""

    rows: OpenedBlock
    posterior: Posterior
    patterns: Patterns


@dataclass(frozen=True, eq=False)
class SparseRowModel(RowModel[SolvedRows]):
    """A Gaussian of standardised rows, with independent noise and a few wide directions."""

    centre: Floats
    """(n_features,)"""
    scale: Floats
    """(n_features,)"""
    components: Floats
    """Orthonormal (k, n_features)."""
    variances: Floats
    """(k,)"""
    noise: float

    @property
    def family(self) -> Family:  # type: ignore[override]
        return Gaussian()

    @property
    def dispersion(self) -> Floats:  # type: ignore[override]
        return np.asarray(self.noise * self.scale**2)

    @property
    def _signal(self) -> Floats:
        """Variances along the components beyond the noise, shape (k,)."""
        return np.asarray(np.maximum(self.variances - self.noise, 0.0))

    @property
    def _parameters(self) -> Parameters:
        """Of standardised rows, with latent points of unit variance."""
        return Parameters(np.zeros_like(self.centre), self.components.T * np.sqrt(self._signal), self.noise)

    def solve(self, rows: OpenedBlock) -> SolvedRows:
        standardised = (rows.x.astype(np.float64) - self.centre) / self.scale
        patterns = find_patterns(rows.observed, rows.n_rows)
        posterior = find_posterior(Table(standardised, rows.observed), self._parameters, patterns)
        return SolvedRows(rows, posterior, patterns)

    def scores(self, solved: SolvedRows) -> Floats:
        """Projections on the components, which need every entry."""
        check_complete(solved.rows, "GSPPCA", remedy="impute of the fitted model")
        return np.asarray(solved.posterior.centred @ self.components.T)

    def deviations(self, solved: SolvedRows) -> Floats:
        """Of the true coordinates around the projections: the noise along the components, the same for all rows."""
        return np.full((solved.rows.n_rows, len(self.components)), np.sqrt(self.noise))

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        check_complete(rows, "GSPPCA", remedy="impute of the fitted model")
        return np.asarray(self.solve(rows).posterior.log_likelihood - np.log(self.scale).sum())

    def predictor(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(scores @ self.components * self.scale + self.centre)

    def expected(self, block: Block, rows: OpenedBlock, solved: SolvedRows) -> Floats:
        """Conditional means given the observed entries."""
        return self.predictor(block, solved.posterior.mean * np.sqrt(self._signal))

    def entry_moments(
        self, rows: OpenedBlock, solved: SolvedRows, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        w = (self._parameters.loadings * self.scale[:, None])[columns]
        covariance = self.noise * solved.patterns.spread(solved.posterior.inverse)[index]
        mean = self.centre[columns] + np.einsum("ea,ea->e", solved.posterior.mean[index], w)
        return mean, np.einsum("ea,eab,eb->e", w, covariance, w)

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, len(self._signal))) * np.sqrt(self._signal)
