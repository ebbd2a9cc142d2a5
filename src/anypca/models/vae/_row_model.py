"""Inference for rows under a trained variational autoencoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._block_view import BlockView
from anypca.models._network import Network
from anypca.models._row_model import RowModel
from anypca.models.vae._model import Inputs
from anypca.models.vae._posterior import Likelihood, Modes, marginal

# Number of modes to search in addition to the mode at the encoder's mean: more than a few modes are rare.
_N_FURTHER = 4


@dataclass(frozen=True, eq=False)
class DecodedRowModel(RowModel[Modes]):
    """Rows and the normal approximation of their posteriors, at the mode that is reached from the encoder's guess."""

    family: Family
    dispersion: Floats
    inputs: Inputs
    encoder: Network
    """From inputs to means of latents."""
    decoder: Network
    noise: Floats
    """Standard normals (draws, k) for importance sampling."""
    starts: Floats
    """Further latents (m, k); the search for modes starts at the most probable of them."""

    @property
    def likelihood_of_rows(self) -> Likelihood:
        """The joint density of rows and latents."""
        return Likelihood(self.family, self.dispersion, self.decoder)

    def solve(self, rows: BlockView) -> Modes:
        known = rows.astype(np.dtype(float))
        return self.likelihood_of_rows.modes(known, self.encoder(self.inputs.of(known)))

    def scores(self, solved: Modes) -> Floats:
        return solved.points

    def deviations(self, solved: Modes) -> Floats:
        return np.asarray(np.sqrt(np.einsum("naa->na", np.linalg.inv(solved.precision))))

    def log_likelihood(self, rows: BlockView) -> Floats:
        known = rows.astype(np.dtype(float))
        guess = self.encoder(self.inputs.of(known))
        likelihood = self.likelihood_of_rows
        others = [likelihood.best_of(known, part) for part in np.array_split(self.starts, _N_FURTHER)]
        return marginal(likelihood, known, [guess, *others], self.noise)

    def predictor(self, block: Block, scores: Floats) -> Floats:
        eta, offset = self.decoder(scores.astype(np.float64, copy=False)), block.offset()
        return eta if offset is None else eta + offset

    def entry_moments(
        self, rows: BlockView, solved: Modes, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        mean, slopes = self.decoder.at(solved.points, index, columns)
        covariance = np.linalg.inv(solved.precision)[index]
        return mean, np.einsum("ea,eab,eb->e", slopes, covariance, slopes)

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, self.decoder.n_inputs))
