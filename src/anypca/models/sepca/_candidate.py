"""Models of the columns' noise: which families they have, and whether each has a dispersion of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family, Gamma, NegativeBinomial, Poisson, ScaledPoisson, combine
from anypca.models._bilinear.dispersion import DISPERSION_GRID, start_dispersion
from anypca.models._bilinear.start import BilinearFitter
from anypca.models._opened import OpenedBlock, weigh
from anypca.models._session import Session
from anypca.models.sepca._settings import Settings
from anypca.models.sepca._weight import count_rows

# Largest dispersion of the grid over that of the model without components, whose moments may have missed a long tail.
_LARGEST_SHARE = 10.0
# Entries above which rough sweeps are in single precision, those of a table of 2 MB: below, a sweep takes milliseconds.
_MANY_ENTRIES = 2**18
# Tolerance of a rough fit, ten times the default one: what it is for, the next dispersion, needs no more.
_ROUGH_TOLERANCE = 1e-3
# The same in single precision where the fit goes on from there; set by hand, the default of ``tol``. A sweep in double
# precision takes twice as long, and words of 3730 posts took 110 of them from three times this on. Where rounding
# hides what sweeps gain, those in double precision take over sooner.
_SINGLE_TOLERANCE = 1e-4
# Variance of yes/no answers below which they are rare: one in twenty.
_RARE = 0.05
# Largest count, and largest number in standard deviations of its column, that single precision knows to some thousandth
# of their noise.
_LARGEST_COUNT, _LARGEST_NUMBER = 1e4, 100.0


@dataclass(frozen=True, eq=False)
class Candidate(BilinearFitter[Settings]):
    """A model of the noise that is tried on a table; the candidate with the largest evidence is kept."""

    by_column: bool
    """Each column has a dispersion of its own; otherwise the ratios of ``start`` are kept."""
    start: Floats
    """Dispersions up to a common factor, shape (n_features,)."""
    is_raw: bool = False
    """Columns with units have one noise variance, which makes sense where the unit is one; else one share of theirs."""

    @property
    def key(self) -> tuple[Family, bool, bool]:
        """What tells it from other models of the noise, also of other rows of the same columns."""
        return self.family, self.by_column, self.is_raw

    @cached_property
    def has_bounds(self) -> bool:
        """Whether some family only bounds its expectations."""
        members = self.family.member_columns(self.session.data.n_features)
        return any(member.expectation == "bound" for member, _ in members)

    @property
    def is_sharpened(self) -> bool:
        """Whether close expectations take over from bounds before sweeps with these have converged."""
        return self.is_large and self.has_bounds

    @property
    def has_rare_answers(self) -> bool:
        """Whether sweeps of a large table use close expectations from the start.

        Bounds of rare answers are several times too curved: sweeps are slow, and give components up that last.
        """
        if not self.is_sharpened:
            return False
        variance = self.session.summary.variance
        members = self.family.member_columns(len(variance))
        bound = [columns for member, columns in members if member.expectation == "bound"]
        return float(np.mean(variance[np.concatenate(bound)])) < _RARE

    @property
    def n_entries(self) -> int:
        """Of the table, with those that are missing."""
        return self.session.data.n_samples * self.session.data.n_features

    @cached_property
    def is_large(self) -> bool:
        """Whether rough sweeps are worth single precision, and single precision can tell the entries."""
        data, summary = self.session.data, self.session.summary
        if self.n_entries <= _MANY_ENTRIES:
            return False
        largest = np.maximum(np.abs(summary.minimum), np.abs(summary.maximum))
        limit = np.full(data.n_features, _LARGEST_COUNT)
        for member, columns in self.family.member_columns(data.n_features):
            if member.has_units:
                limit[columns] = _LARGEST_NUMBER * np.sqrt(summary.variance[columns])
        return bool((largest <= limit).all())

    @property
    def rough_tolerance(self) -> float:
        """Of rough sweeps; closer where they are in single precision and no other dispersion follows."""
        is_followed = self.has_open_dispersion or not self.is_large
        return max(self.session.tol, _ROUGH_TOLERANCE if is_followed else _SINGLE_TOLERANCE)

    @property
    def has_open_dispersion(self) -> bool:
        """Whether there is a dispersion to estimate."""
        return self.settings.dispersion is None and bool(self.open_columns())

    @property
    def may_have_own(self) -> bool:
        """Whether the settings leave it open which columns share a dispersion."""
        return self.settings.dispersion is None and self.settings.noise == "auto"

    @cached_property
    def null_dispersion(self) -> Floats:
        """Dispersion of the model without components, shape (n_features,)."""
        return null_dispersion(self, by_column=self.by_column or (self.family.has_units and not self.is_raw))

    def open_members(self) -> list[tuple[Family, Ints]]:
        """Families that leave the dispersion to be estimated, and their columns."""
        groups = self.family.member_columns(self.session.data.n_features)
        return [(member, columns) for member, columns in groups if member.fixed_dispersion is None]

    def constant(self, dispersion: Floats) -> float:
        """Terms of the evidence without the predictor."""
        return self.visit.log_base(self.family, dispersion) + self.log_fixed_prior - self.parameter_cost

    @property
    def parameter_cost(self) -> float:
        """What cut points and other parameters of the columns' own that the table told cost in evidence, as in BIC."""
        count = self.family.count_estimated(self.session.data.n_features)
        return 0.5 * count * float(np.log(max(count_rows(self.session), 1.0)))

    def has_own(self, member: Family) -> bool:
        """Whether the columns of a family have scales of their own: in a mixed table they need not have one unit."""
        is_mixed = len(self.family.member_columns(self.session.data.n_features)) > 1
        return self.by_column or (is_mixed and member.dispersion_kind == "scale")

    @cached_property
    def grid_units(self) -> Floats:
        """What the dispersions of the grid are multiples of, shape (n_features,).

        Shapes have neither units nor a typical size. Scales have: they are looked for from a hundred thousandth to ten
        times what columns of the family typically have without components.
        """
        units = np.ones(self.session.data.n_features)
        for member, columns in self.open_members():
            if member.dispersion_kind == "scale":
                typical = float(np.exp(np.median(np.log(self.null_dispersion[columns]))))
                units[columns] = _LARGEST_SHARE * typical / DISPERSION_GRID[-1]
        return units

    @cached_property
    def bases(self) -> Floats:
        """Sums over rows of the likelihood's terms without eta at each dispersion of the grid, (n_grid, n_features)."""
        family, units = self.family, self.grid_units

        def function(rows: OpenedBlock, _: Floats) -> Floats:
            terms = (family.log_base(rows.x, phi * units) for phi in DISPERSION_GRID)
            return np.stack([rows.weights @ weigh(rows, slice(None), term) for term in terms])

        return self.visit.sum(function)


def first_candidate(session: Session, family: Family, settings: Settings) -> Candidate:
    """One dispersion for the columns of a family, or one for each column if the settings ask for that."""
    n_features = session.data.n_features
    by_column = settings.noise == "feature"
    if by_column:
        # Poisson counts have no dispersion that a column could have of its own.
        family = with_scales(family, poisson_columns(family, np.ones(n_features)))
    is_raw = settings.noise == "shared"
    candidate = Candidate(session, family, settings, by_column, np.ones(n_features), is_raw)
    return replace(candidate, start=candidate.null_dispersion)


def scaled_candidates(first: Candidate, columns: Bools, dispersion: Floats) -> list[Candidate]:
    """Models of counts that vary less than Poisson counts do, in some columns.

    Their variance is the same at every mean (an error that adds to the counts), or a factor of its own times the
    mean in each column.
    """
    scaled = replace(first, family=with_scales(first.family, columns))
    own = replace(scaled, by_column=True, start=np.where(columns, 1.0, dispersion))
    if len(scaled.family.member_columns(len(columns))) > 1:
        return [own]
    constant = np.where(columns, 1.0 / first.session.summary.mean, dispersion)
    return [replace(scaled, by_column=False, start=constant), own]


def gamma_candidates(first: Candidate, columns: Bools, dispersion: Floats) -> list[Candidate]:
    """Models of amounts that vary less than exponential ones: gamma, with one shape or one for each column."""
    shaped = replace(first, family=_with_family(first.family, columns, Gamma()), start=dispersion)
    by_column = [True] if len(shaped.family.member_columns(len(columns))) > 1 else [False, True]
    return [replace(shaped, by_column=by) for by in by_column]


def null_dispersion(fitter: BilinearFitter[Any], *, by_column: bool = False) -> Floats:
    """Dispersions of the model without components, with those that the settings fix, shape (n_features,)."""
    summary = fitter.session.summary
    start = start_dispersion(fitter.family, summary.mean, summary.variance, by_column=by_column)
    if fitter.settings.dispersion is not None:
        for columns in fitter.open_columns():
            start[columns] = fitter.settings.dispersion
    return start


def poisson_columns(family: Family, dispersion: Floats) -> Bools:
    """Columns whose family is Poisson, or the negative binomial in that limit, shape (n_features,)."""
    found = np.zeros(len(dispersion), dtype=bool)
    for member, columns in family.member_columns(len(dispersion)):
        if isinstance(member, Poisson):
            found[columns] = True
        elif isinstance(member, NegativeBinomial) and member.size is None:
            found[columns] = dispersion[columns] == 0.0
    return found


def with_scales(family: Family, columns: Bools) -> Family:
    """The family with scaled Poisson counts in some columns."""
    return _with_family(family, columns, ScaledPoisson())


def _with_family(family: Family, columns: Bools, other: Family) -> Family:
    """The family with another one in some columns."""
    members = [other] * len(columns)
    for member, index in family.member_columns(len(columns)):
        for column in index[~columns[index]]:
            members[column] = member
    return combine(members)
