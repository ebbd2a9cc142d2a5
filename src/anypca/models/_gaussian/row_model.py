"""A fitted probabilistic PCA as rows see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Gaussian
from anypca.models._block_view import BlockView
from anypca.models._gaussian.posterior import Patterns, Posterior, find_patterns, find_posterior
from anypca.models._gaussian.principal import Principal
from anypca.models._row_model import RowModel, draw_normal


class SolvedRows(NamedTuple):
    """Rows and the posteriors of their scores, whose covariances are shared by rows that miss the same entries."""

    rows: BlockView
    posterior: Posterior
    patterns: Patterns


@dataclass(frozen=True, eq=False)
class PrincipalRowModel(RowModel[SolvedRows]):
    """Rows of ``x = mean + U' t + e``; t has the variances of the signal, e the same variance everywhere."""

    family = Gaussian()
    principal: Principal

    @property
    def dispersion(self) -> Floats:  # type: ignore[override]
        return np.full(len(self.principal.mean), self.principal.noise)

    @property
    def _scale(self) -> Floats:
        """From standard scores to those in the units of the table, shape (k,)."""
        return np.asarray(np.sqrt(self.principal.signal))

    def solve(self, rows: BlockView) -> SolvedRows:
        patterns = find_patterns(rows.observed, rows.n_rows, is_weighted=rows.entry is not None)
        assert rows.table is not None
        found = find_posterior(rows.table, self.principal.parameters, patterns, rows.entry)
        return SolvedRows(rows, found, patterns)

    def scores(self, solved: SolvedRows) -> Floats:
        return self.posterior_means(solved)

    def posterior_means(self, solved: SolvedRows) -> Floats:
        """Posterior means of the scores, shape (rows, k)."""
        return np.asarray(solved.posterior.mean * self._scale)

    def covariances(self, solved: SolvedRows) -> Floats:
        """Posterior covariances of the scores, one for each pattern of missing entries, shape (patterns, k, k)."""
        scale = self._scale
        return np.asarray(self.principal.noise * solved.posterior.inverse * scale[:, None] * scale)

    def deviations(self, solved: SolvedRows) -> Floats:
        return solved.patterns.spread(np.sqrt(np.einsum("iaa->ia", self.covariances(solved))))

    def log_likelihood(self, rows: BlockView) -> Floats:
        return self.solve(rows).posterior.log_likelihood

    def integrate(self, rows: BlockView) -> tuple[Floats, Floats]:
        solved = self.solve(rows)
        covariance = self.principal.noise * solved.posterior.inverse
        unit = len(self._scale) * float(np.log(2.0 * np.pi * np.e))
        entropy = 0.5 * (unit + np.linalg.slogdet(covariance)[1])
        return solved.posterior.log_likelihood, solved.patterns.spread(entropy)

    def predictor(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(scores @ self.principal.components + self.principal.mean)

    def entry_moments(
        self, rows: BlockView, solved: SolvedRows, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        u = self.principal.components.T[columns]
        mean = self.principal.mean[columns] + np.einsum("ea,ea->e", self.posterior_means(solved)[index], u)
        pattern = index if solved.patterns.index is None else solved.patterns.index[index]
        return mean, np.einsum("ea,eab,eb->e", u, self.covariances(solved)[pattern], u)

    def draw_posterior(
        self,
        block: Block,
        rows: BlockView,
        solved: SolvedRows,
        rng: np.random.Generator,
        shared: np.random.Generator,
    ) -> Floats:
        covariance = solved.patterns.spread(self.covariances(solved))
        return self.predictor(block, draw_normal(self.posterior_means(solved), covariance, rng))

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, len(self._scale))) * self._scale
