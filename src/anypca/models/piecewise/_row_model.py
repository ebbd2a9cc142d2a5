"""A fitted piecewise model as rows see it: exactly for real numbers, by the variational bound for all else."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._gaussian.posterior import find_patterns
from anypca.models._opened import OpenedBlock
from anypca.models._row_model import RowModel, Solved
from anypca.models.piecewise._bound import Entries, Scores, read_entries, solve_scores
from anypca.models.piecewise._gaussian_posterior import Mixture, draw_points, find_mixture
from anypca.models.piecewise._pieces import Pieces
from anypca.models.piecewise._rules import slab_rule


@dataclass(frozen=True, eq=False)
class PieceRowModel(RowModel[Solved]):
    """Rows whose predictor is affine in each piece of the latent space; scores are posterior means."""

    pieces: Pieces
    family: Family
    dispersion: Floats

    def predictor(self, block: Block, scores: Floats) -> Floats:
        predictor, offset = (
            self.pieces.predict(scores) + block.covariates @ self.pieces.coef.T,
            block.offset(),
        )
        return predictor if offset is None else predictor + offset

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, self.pieces.n_components))

    @abstractmethod
    def probabilities(self, solved: Solved) -> Floats:
        """Posterior probabilities of the pieces, shape (rows, K)."""

    @abstractmethod
    def draw_latent(self, solved: Solved, n_draws: int, rng: np.random.Generator) -> Floats:
        """Latent points given the rows, shape (n_draws, rows, q)."""


class GaussianRowModel(PieceRowModel[Mixture]):
    """Real numbers: the posterior of the latent points is a mixture of truncated normals, known exactly."""

    def solve(self, rows: OpenedBlock) -> Mixture:
        assert rows.table is not None
        return find_mixture(rows.table, self.pieces, find_patterns(rows.observed, rows.n_rows))

    def scores(self, solved: Mixture) -> Floats:
        return solved.mean

    def deviations(self, solved: Mixture) -> Floats:
        mean = solved.mean
        variance = np.zeros_like(mean)
        for k, part in enumerate(solved.parts):
            diagonal = solved.patterns.spread(self.pieces.noise * np.einsum("iaa->ia", part.whole.inverse))
            along = solved.patterns.spread(part.direction)
            within = diagonal - part.lost[:, None] * along**2
            variance += solved.probability[:, k, None] * (within + (part.mean - mean) ** 2)
        # Truncation to a thin slab leaves a variance of 0 along t, which rounding may make negative.
        return np.sqrt(np.maximum(variance, 0.0))

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        return self.solve(rows).log_density

    def expected(self, block: Block, rows: OpenedBlock, solved: Mixture) -> Floats:
        """``E[mu_k + B_k w]`` over the posterior of w, its pieces included."""
        value = np.zeros((rows.n_rows, rows.n_features))
        for k, matrix in enumerate(self.pieces.maps):
            predictor = solved.parts[k].mean @ matrix[:, :-1].T + matrix[:, -1]
            value += solved.probability[:, k, None] * predictor
        return value

    def entry_moments(
        self, rows: OpenedBlock, solved: Mixture, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        pattern = index if solved.patterns.index is None else solved.patterns.index[index]
        means, variances = np.empty((2, len(self.pieces.maps), len(index)))
        for k, (part, matrix) in enumerate(zip(solved.parts, self.pieces.maps, strict=True)):
            B = matrix[columns, :-1]
            means[k] = np.einsum("ea,ea->e", part.mean[index], B) + matrix[columns, -1]
            whole = np.einsum("ea,eab,eb->e", B, part.whole.inverse[pattern], B, optimize=True)
            along = np.einsum("ea,ea->e", part.direction[pattern], B)
            variances[k] = self.pieces.noise * whole - part.lost[index] * along**2
        probability = solved.probability[index].T
        mean = (probability * means).sum(axis=0)
        return mean, (probability * (variances + (means - mean) ** 2)).sum(axis=0)

    def probabilities(self, solved: Mixture) -> Floats:
        return solved.probability

    def draw_latent(self, solved: Mixture, n_draws: int, rng: np.random.Generator) -> Floats:
        return np.stack([draw_points(solved, self.pieces, rng) for _ in range(n_draws)])


class BoundRowModel(PieceRowModel[Scores]):
    """Entries of any family: the posterior of the latent points is the normal that maximises the bound."""

    likelihood = "bound"

    def _read(self, rows: OpenedBlock) -> Entries:
        return read_entries(rows, self.family, self.dispersion, self.pieces)

    def solve(self, rows: OpenedBlock) -> Scores:
        return solve_scores(self._read(rows), self.pieces)[0]

    def scores(self, solved: Scores) -> Floats:
        return solved.m

    def deviations(self, solved: Scores) -> Floats:
        return solved.s

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        return solve_scores(self._read(rows), self.pieces)[1].value

    def expected(self, block: Block, rows: OpenedBlock, solved: Scores) -> Floats:
        """Expected entries under the variational posterior."""
        entries = self._read(rows)
        return entries.expect(self.family.mean, self.pieces, solved)

    def entry_moments(
        self, rows: OpenedBlock, solved: Scores, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        used, place = np.unique(index, return_inverse=True)
        some, at = rows.take(used), Scores(solved.m[used], solved.s[used])
        offset = some.features @ self.pieces.coef.T if self.pieces.coef.size else np.zeros((len(used), 1))
        entries = replace(self._read(some), offset=offset)
        mean = entries.expect(lambda eta: eta, self.pieces, at)
        around = replace(entries, offset=offset - mean)
        variance = around.expect(np.square, self.pieces, at)
        return mean[place, columns], variance[place, columns]

    def entry_deviations(self, rows: OpenedBlock, solved: Scores, index: Ints, columns: Ints) -> Floats:
        """Standard deviations under the variational posterior: noise on the average, and how the mean varies."""

        def second(eta: Floats) -> Floats:
            mean = self.family.mean(eta)
            return mean**2 + self.family.variance(mean, self.dispersion)

        used, place = np.unique(index, return_inverse=True)
        entries, at = self._read(rows.take(used)), (self.pieces, Scores(solved.m[used], solved.s[used]))
        mean = entries.expect(self.family.mean, *at)
        return np.sqrt(np.maximum(entries.expect(second, *at) - mean**2, 0.0))[place, columns]

    def probabilities(self, solved: Scores) -> Floats:
        found = np.zeros((len(solved.m), len(self.pieces.maps)))
        for k, (_, low, high) in enumerate(self.pieces.slabs):
            rows, _, weight = slab_rule(solved.m[:, -1], solved.s[:, -1], low, high)
            found[rows, k] = weight.sum(axis=1)
        return found

    def draw_latent(self, solved: Scores, n_draws: int, rng: np.random.Generator) -> Floats:
        return solved.m + solved.s * rng.standard_normal((n_draws, *solved.m.shape))
