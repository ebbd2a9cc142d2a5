"""Whether columns need a dispersion of their own.

One size for all counts, or one variance for all real columns, is the start. Three findings at a fit call for more:
counts that vary less than Poisson counts do, amounts that vary less than exponential ones, and scales that differ from
column to column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Summary, Table
from anypca.families import Exponential, Family, Gamma, NegativeBinomial, Poisson, ScaledPoisson, combine
from anypca.models._bilinear.dispersion import column_scales
from anypca.models._bilinear.kernel import Coefficients, Kernel
from anypca.models._bilinear.passes import Pass
from anypca.models._opened import observed_only, open_block
from anypca.models._session import Session
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._variational import VariationalProblem

# Means from which on Pearson's statistic tells the dispersion of counts: below, rare large values carry it.
_RICH_MEAN = 5.0
# Under-dispersion below this is not worth a parameter in each column.
_LEAST_DEFICIT = 0.1
# Standard errors that a finding must lie away from what chance gives.
_SIGNIFICANT = 5.0
# The same for amounts: the gamma family holds the exponential one, and a false finding costs little.
_SIGNIFICANT_AMOUNTS = 2.5
_SIMULATED_SWEEPS = 20
_SIMULATED_ROWS = 200


@dataclass(frozen=True, eq=False)
class DispersionModel:
    """Families of the columns and how their dispersions relate."""

    family: Family
    start: Floats
    """Dispersions up to a common factor, shape (n_features,)."""
    by_column: bool
    """Each column has a scale of its own; otherwise the ratios of ``start`` are kept."""

    @property
    def n_dispersions(self) -> int:
        """How many scales are free."""
        return len(self.start) if self.by_column else 1


def scaled_models(family: Family, columns: Bools, mean: Floats, dispersion: Floats) -> list[DispersionModel]:
    """Models of counts that vary less than Poisson counts do.

    Their variance is the same at every mean (an error that adds to the counts), or a factor of its own times the
    mean in each column.
    """
    scaled = with_scales(family, columns)
    proportional = np.where(columns, 1.0, dispersion)
    if len(scaled.member_columns(len(columns))) > 1:
        return [DispersionModel(scaled, proportional, by_column=True)]
    constant = np.where(columns, 1.0 / mean, dispersion)
    return [
        DispersionModel(scaled, constant, by_column=False),
        DispersionModel(scaled, proportional, by_column=True),
    ]


def under_dispersed(
    problem: VariationalProblem,
    loadings: Loadings,
    means: Coefficients,
    visit: Pass,
    local: Sequence[Any],
    summary: Summary,
    seed: int,
) -> Bools:
    """Which columns hold counts that vary less than Poisson counts would, shape (n_features,).

    The squared residuals are compared with those of one table drawn from the fitted model, whose scores are found
    in the same way: what scores take from the residuals, and what the means of small counts do to them, is then in
    both.
    """
    chosen = np.zeros(len(loadings.mean), dtype=bool)
    rich = poisson_columns(problem.family, loadings.dispersion) & (summary.mean >= _RICH_MEAN)
    if not rich.any():
        return chosen
    residual, simulated, count = _pearson_pair(problem, loadings, means, visit.session, local, rich, seed)[
        :, rich
    ].sum(axis=1)
    free = max(float(count) - float(rich.sum() * means.joint.shape[1]), 1.0)
    ratio = float(residual) / max(float(simulated), np.finfo(float).tiny)
    if ratio < 1.0 - _LEAST_DEFICIT - _SIGNIFICANT * np.sqrt(4.0 / free):
        chosen = rich
    return chosen


def with_scales(family: Family, columns: Bools) -> Family:
    """The family with scaled Poisson counts in some columns."""
    return _with_family(family, columns, ScaledPoisson())


def _with_family(family: Family, columns: Bools, other: Family) -> Family:
    members = [other] * len(columns)
    for member, index in family.member_columns(len(columns)):
        for column in index[~columns[index]]:
            members[column] = member
    return combine(members)


def steady_columns(family: Family, means: Coefficients, visit: Pass, local: Sequence[Any]) -> Bools:
    """Which exponential columns vary less than exponential amounts would, shape (n_features,)."""
    chosen = np.zeros(len(means.dispersion), dtype=bool)
    for member, columns in family.member_columns(len(means.dispersion)):
        chosen[columns] = isinstance(member, Exponential)
    if not chosen.any():
        return chosen
    scale, free = column_scales(family, means, visit, local)
    # Squared Pearson residuals of exponential amounts have variance 8.
    limit = 1.0 - _LEAST_DEFICIT - _SIGNIFICANT_AMOUNTS * np.sqrt(8.0 / free[chosen].sum())
    is_steady = bool(np.average(scale[chosen], weights=free[chosen]) < limit)
    return chosen & is_steady


def gamma_models(family: Family, columns: Bools, dispersion: Floats) -> list[DispersionModel]:
    """Models of amounts that vary less than exponential ones: gamma, with one shape or one for each column."""
    shaped = _with_family(family, columns, Gamma())
    by_column = [True] if len(shaped.member_columns(len(columns))) > 1 else [False, True]
    return [DispersionModel(shaped, dispersion, by_column=by) for by in by_column]


def scales_differ(family: Family, means: Coefficients, visit: Pass, local: Sequence[Any]) -> bool:
    """Whether the columns' residual scales differ by more than chance: their logarithms have variance 2 / df."""
    groups = family.member_columns(len(means.dispersion))
    if len(groups) > 1 or family.dispersion_kind != "scale" or len(means.dispersion) < 3:
        return False
    scale, free = column_scales(family, means, visit, local)
    varies = scale > 0
    if varies.sum() < 3:
        return False
    logs, weights = np.log(scale[varies]), free[varies] / 2.0
    spread = float(weights @ (logs - np.average(logs, weights=weights)) ** 2)
    df = int(varies.sum()) - 1
    return bool(spread > df + _SIGNIFICANT * np.sqrt(2.0 * df))


def poisson_columns(family: Family, dispersion: Floats) -> Bools:
    """Columns whose family is Poisson, or the negative binomial in that limit."""
    found = np.zeros(len(dispersion), dtype=bool)
    for member, columns in family.member_columns(len(dispersion)):
        if isinstance(member, Poisson):
            found[columns] = True
        elif isinstance(member, NegativeBinomial) and member.size is None:
            found[columns] = dispersion[columns] == 0.0
    return found


def _pearson_pair(
    problem: VariationalProblem,
    loadings: Loadings,
    means: Coefficients,
    session: Session,
    local: Sequence[Any],
    columns: Bools,
    seed: int,
) -> Floats:
    """Squared Pearson residuals of the table and of one drawn from the fit, and entries, by column: (3, n_features).

    The first rows of each block are enough.
    """
    family = problem.family

    def visit(block: Block, scores: Floats) -> Floats:
        first = np.arange(min(block.n_rows, _SIMULATED_ROWS))
        rows = open_block(block, fit_intercept=problem.fit_intercept).take(first)
        eta = Kernel(family, means, rows).predictor(scores[first], slice(0, rows.n_features))
        rng = np.random.default_rng([seed, block.start])
        x = rows.x.copy()
        # A mean beyond a long integer is no count that was seen.
        x[:, columns] = rng.poisson(np.minimum(np.exp(eta[:, columns]), 1e15))
        drawn = replace(rows, table=Table(x, rows.observed))
        found, _ = problem.solve_rows(drawn, loadings, max_iter=_SIMULATED_SWEEPS)
        eta_drawn = Kernel(family, means, drawn).predictor(found.mean, slice(0, rows.n_features))
        terms = [
            family.pearson(rows.x, observed_only(rows, slice(None), eta), means.dispersion.astype(eta.dtype)),
            family.pearson(
                x, observed_only(rows, slice(None), eta_drawn), means.dispersion.astype(eta.dtype)
            ),
            np.ones_like(eta),
        ]
        return np.stack([rows.weights @ observed_only(rows, slice(None), t) for t in terms])

    found: Floats = session.sum(visit, local)
    return found
