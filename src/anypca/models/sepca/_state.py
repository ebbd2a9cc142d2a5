"""The posterior of a candidate at one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from anypca.models._bilinear.evaluator import Coefficients
from anypca.models.sepca._candidate import Candidate
from anypca.models.sepca._leaps import Memory
from anypca.models.sepca._noise import log_prior
from anypca.models.sepca._posterior import Loadings, VariationalStats
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._removal import Removal
from anypca.models.sepca._strides import Stride
from anypca.solvers import Result


@dataclass(frozen=True, eq=False)
class State:
    """The posterior of a candidate at one dimension, and the way that led there."""

    candidate: Candidate
    problem: VariationalProblem
    """What the sweeps that led here, or those to come from here, solve."""
    null: Coefficients
    """The model without components from which the fit was started."""
    result: Result[Loadings]
    local: Sequence[Any] | None
    """q(z), block by block; ``None`` before the first sweep."""
    weight: float = 0.0
    """Sum of the sample weights, 0 before the first sweep."""
    removals: tuple[Removal, ...] = ()
    n_sweeps: int = 0
    """All sweeps on the way; those of rivals and neighbours that were given up do not count."""
    stats: VariationalStats | None = None
    """Of the last sweep, from which the next ones go on; ``None`` where the posterior or its model changed since."""
    memory: Memory = field(default_factory=Memory)
    """Of the last updates; see `look`."""
    stride: Stride | None = None
    """How far the next sweep goes in single precision; ``None`` while leaps gain."""
    coupling: float = 0.0
    """What the coupling of scores and loadings adds to the bound once it is judged; see `coupling_gain`."""

    @property
    def loadings(self) -> Loadings:
        return self.result.shared

    @property
    def n_components(self) -> int:
        return self.loadings.n_components

    @property
    def means(self) -> Coefficients:
        """Posterior means of all coefficients."""
        return self.loadings.coefficients

    @property
    def score_means(self) -> Sequence[Any]:
        """Posterior means of the scores, block by block."""
        return self.candidate.each(self.local, lambda scores: scores.mean)

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence."""
        return float(self.result.trace[-1])

    @property
    def evidence(self) -> float:
        """The bound, what the coupling adds to it, and the prior of the columns' own noise."""
        return self.bound + self.coupling + self.log_prior

    @cached_property
    def log_prior(self) -> float:
        """Log prior of the columns' own noise."""
        return log_prior(self.candidate, self.loadings.dispersion)

    def moved(self, loadings: Loadings, local: Sequence[Any] | None) -> State:
        """Another posterior, from which sweeps are to go on."""
        return replace(
            self,
            result=replace(self.result, shared=loadings),
            local=local,
            stats=None,
            memory=Memory(),
            stride=None,
            coupling=0.0,
        )
