"""Models of the columns' noise: which families they have, and which columns share a dispersion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns import FamilyReport
from anypca.columns.report import GIVEN
from anypca.families import Family, Gaussian, NegativeBinomial, Poisson, ScaledPoisson, StudentT, combine
from anypca.families.mixed import count_estimated
from anypca.models._bilinear.dispersion import DISPERSION_GRID, start_dispersion
from anypca.models._bilinear.start import BilinearFitter
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.models._context import FitContext
from anypca.priors import AdaptiveL0

# Nats of strong evidence, a Bayes factor of 20. The search stops at dimensions further behind the best, and skips noise
# models with a smaller expected gain.
STRONG_EVIDENCE = 3.0
# Maximum rounds of an alternating fixed-point iteration; two to five are usual.
MAX_ROUNDS = 25
# Largest dispersion of the grid relative to the null model's dispersion, whose moments may miss a long tail.
_LARGEST_SHARE = 10.0


@dataclass(frozen=True)
class Settings:
    """Settings of a fit; see `anypca.SePCA` for their meaning."""

    max_components: int
    fit_intercept: bool = True
    dispersion: float | None = None
    """A fixed dispersion for families that leave it open; ``None`` estimates it."""
    sparsity: float = 0.0
    delta: float = AdaptiveL0.delta
    sharing: Literal["auto", "shared", "feature"] = "auto"
    """One dispersion for the columns of a family, one for each column, or the one with the larger evidence."""
    is_rank_fixed: bool = False
    """Fit ``max_components`` components and compare no other number of them."""
    share: float | None = None
    """Keep the leading components with this share of the deviance that all chosen ones explain."""
    is_family_given: bool = False
    """Keep log-normal amounts even if their logarithms are skewed."""


def is_normal(member: Family) -> bool:
    """Whether the dispersion with the largest bound is an expected squared residual."""
    return isinstance(member, Gaussian | StudentT)


def is_gridded(member: Family) -> bool:
    """Whether the dispersion is found on a grid; a quasi-likelihood has no density to compare on it."""
    return not is_normal(member) and not isinstance(member, ScaledPoisson)


def determined_rank(p: int) -> int:
    """Largest k with ``(p - k)^2 >= p + k``: p columns have noise of their own (Ledermann 1937, Psychometrika 2)."""
    return int(p + 0.5 - np.sqrt(2.0 * p + 0.25))


@dataclass(frozen=True, eq=False)
class NoiseModel(BilinearFitter[Settings]):
    """The families and dispersions under which a table is fitted."""

    by_column: bool
    """Each column has a dispersion of its own; otherwise the ratios of ``start`` are kept."""
    start: Floats
    """Dispersions up to a common factor, shape (n_features,)."""
    seed: int
    """Of the random start of leading directions."""

    @property
    def is_raw(self) -> bool:
        """Columns with units have one noise variance, which makes sense in one unit; else one share of theirs."""
        return self.settings.sharing == "shared"

    @property
    def name(self) -> str:
        """How dispersions are shared; see `DispersionReport`."""
        if not self.is_open:
            return "fixed"
        if self.by_column:
            return "feature"
        return "shares" if self.family.has_units and not self.is_raw else "shared"

    @cached_property
    def members(self) -> list[tuple[Family, Ints]]:
        """The families and their columns."""
        return self.family.member_columns(self.session.data.n_features)

    @property
    def open_members(self) -> list[tuple[Family, Ints]]:
        """Families that leave the dispersion to be estimated, and their columns."""
        return [(member, columns) for member, columns in self.members if member.fixed_dispersion is None]

    def columns_of(self, kind: type[Family]) -> Bools:
        """Columns of a family, shape (n_features,)."""
        found = np.zeros(self.session.data.n_features, dtype=bool)
        for member, columns in self.members:
            found[columns] = isinstance(member, kind)
        return found

    @property
    def is_quadratic(self) -> bool:
        """Whether all log-likelihoods are quadratic in the predictor with a constant curvature."""
        return all(isinstance(member, Gaussian) for member, _ in self.members)

    @property
    def is_open(self) -> bool:
        """Whether there is a dispersion to estimate."""
        return self.settings.dispersion is None and bool(self.open_members)

    @property
    def is_sharing_open(self) -> bool:
        """Whether the evidence decides which columns share a dispersion."""
        return self.settings.dispersion is None and self.settings.sharing == "auto"

    @property
    def max_rank(self) -> int:
        """Most components; with more than this, noise of the columns' own is not determined."""
        most, p = self.settings.max_components, self.session.data.n_features
        is_limited = (
            self.by_column and self.is_open and is_normal(self.family) and not self.settings.is_rank_fixed
        )
        return min(most, max(determined_rank(p), 1)) if is_limited else most

    @cached_property
    def null_dispersion(self) -> Floats:
        """Dispersions of the model without components, with those that the settings fix, shape (n_features,)."""
        by_column = self.by_column or (self.family.has_units and not self.is_raw)
        return null_dispersion(self, by_column=by_column)

    def has_own(self, member: Family) -> bool:
        """Whether the columns of a family have scales of their own: in a mixed table they need not have one unit."""
        return self.by_column or (len(self.members) > 1 and member.dispersion_kind == "scale")

    def constant(self, dispersion: Floats) -> float:
        """Terms of the evidence without the predictor.

        Estimated parameters of columns, such as cut points, cost half the logarithm of the number of rows each (BIC).
        """
        n_rows, count = count_rows(self.session), count_estimated(self.family, self.session.data.n_features)
        penalty = 0.5 * count * float(np.log(max(n_rows, 1.0)))
        return self.visit.log_base_measure(self.family, dispersion) + self.log_fixed_prior - penalty

    @cached_property
    def grid_units(self) -> Floats:
        """Units of the dispersions on the grid, shape (n_features,).

        Shapes have neither units nor a typical size. Scales have: they are searched from a hundred thousandth to ten
        times the typical one without components.
        """
        units = np.ones(self.session.data.n_features)
        for member, columns in self.open_members:
            if member.dispersion_kind == "scale":
                typical = float(np.exp(np.median(np.log(self.null_dispersion[columns]))))
                units[columns] = _LARGEST_SHARE * typical / DISPERSION_GRID[-1]
        return units

    @cached_property
    def grid_constants(self) -> Floats:
        """Sums over rows of the likelihood's terms without eta at each dispersion of the grid, (n_grid, n_features)."""
        family, units = self.family, self.grid_units

        def function(rows: BlockView, _: Floats) -> Floats:
            terms = (family.log_base_measure(rows.x, phi * units) for phi in DISPERSION_GRID)
            return np.stack([rows.weights @ apply_entry_weights(rows, slice(None), term) for term in terms])

        return self.visit.sum(function)

    def with_family(self, columns: Bools, other: Family) -> NoiseModel:
        """The model with another family in some columns."""
        return replace(self, family=_replaced(self.family, columns, other))


def first_noise_model(session: FitContext, family: Family, settings: Settings, seed: int) -> NoiseModel:
    """One dispersion for the columns of a family, or one for each column if the settings say so.

    Real columns of wide tables begin with noise of their own, which their number determines for any rank.
    """
    ones, by_column = np.ones(session.data.n_features), settings.sharing == "feature"
    if by_column:  # Poisson counts have no dispersion that a column could have of its own
        family = _replaced(family, poisson_columns(family, ones), ScaledPoisson())
    noise = NoiseModel(session, family, settings, by_column, ones, seed)
    noise = replace(noise, start=noise.null_dispersion)
    is_determined = settings.max_components <= determined_rank(session.data.n_features)
    return replace(
        noise, by_column=by_column or (noise.is_sharing_open and is_normal(family) and is_determined)
    )


def null_dispersion(fitter: BilinearFitter, *, by_column: bool = False) -> Floats:  # type: ignore[type-arg]
    """Dispersions of the model without components, with those that the settings fix, shape (n_features,)."""
    summary = fitter.session.summary
    start = start_dispersion(fitter.family, summary.mean, summary.variance, by_column=by_column)
    if fitter.settings.dispersion is not None:
        for columns in fitter.open_columns():
            start[columns] = fitter.settings.dispersion
    return start


def count_rows(session: FitContext) -> float:
    """Number of rows, one of weight 2 being two."""
    if not session.data.has_weights:
        return float(session.data.n_samples)
    return float(session.sum(lambda block, _: block.weights.sum()))


def poisson_columns(family: Family, dispersion: Floats) -> Bools:
    """Columns whose family is Poisson, or the negative binomial in that limit, shape (n_features,)."""
    found = np.zeros(len(dispersion), dtype=bool)
    for member, columns in family.member_columns(len(dispersion)):
        if isinstance(member, Poisson):
            found[columns] = True
        elif isinstance(member, NegativeBinomial) and member.size is None:
            found[columns] = dispersion[columns] == 0.0
    return found


def _replaced(family: Family, columns: Bools, other: Family) -> Family:
    members = [other] * len(columns)
    for member, index in family.member_columns(len(columns)):
        for column in index[~columns[index]]:
            members[column] = member
    return combine(members)


_WORDS = {
    "fixed": "no dispersion was estimated",
    "shared": "one dispersion for all columns of a family",
    "shares": "noise in equal shares of the columns' variances",
    "feature": "a dispersion of its own for each column",
}


@dataclass(frozen=True)
class DispersionReport:
    """The model of the columns' noise that a fit used.

    Parameters
    ----------
    used : {"fixed", "shared", "shares", "feature"}
        No dispersion was estimated; one dispersion for all columns of a family; equal shares of the columns'
        variances; a dispersion for each column.
    evidence : mapping
        Log evidence of the models that were compared, less the penalty of their dispersions; empty if there was no
        choice.
    replaced : str or None
        Which family replaced which, as ``"scaled_poisson in place of poisson"``: the residuals contradicted the
        other one, or it has no dispersion that columns could have of their own.
    """

    used: str
    evidence: Mapping[str, float]
    replaced: str | None = None

    @property
    def gain(self) -> float:
        """Lead over the next model in nats; 0.0 if nothing was compared."""
        others = [value for name, value in self.evidence.items() if name != self.used]
        return self.evidence[self.used] - max(others) if others else 0.0

    def __str__(self) -> str:
        ahead = f" ({self.gain:.1f} nats ahead of the next)" if len(self.evidence) > 1 else ""
        return f"{_WORDS[self.used]}{ahead}{f'; {self.replaced}' if self.replaced else ''}"

    def warn_if_replaced(self, report: FamilyReport | None) -> None:
        """Warn if residuals replaced a family that the user named."""
        if self.replaced and is_given(report):
            warnings.warn(
                f"family: {self.replaced}, since the residuals contradict the given family. dispersion='shared' keeps "
                "it; family='auto' chooses one without this warning.",
                UserWarning,
                stacklevel=3,
            )


def is_given(report: FamilyReport | None) -> bool:
    """Whether the user named the family of some column."""
    return report is None or any(record.rule == GIVEN for record in report)


def name_replaced(before: Family, after: Family, n_columns: int) -> str | None:
    """Which families replaced which; ``None`` if all columns kept theirs."""
    names = np.empty((2, n_columns), dtype=object)
    for row, family in enumerate((before, after)):
        for member, columns in family.member_columns(n_columns):
            names[row, columns] = member.name
    pairs = sorted({(old, new) for old, new in names.T if old != new})
    return ", ".join(f"{new} in place of {old}" for old, new in pairs) or None
