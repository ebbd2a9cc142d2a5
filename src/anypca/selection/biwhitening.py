"""Biwhitening: the rank of the mean of a table whose noise depends on the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.selection.rank_methods import Finding, RankMethod, RankTask, leading, rank_methods
from anypca.selection.spectra import eigenvalues

#: Rounds of scaling rows and columns, and the largest relative error at which they end: singular values are then
#: right to three digits, and tables of counts need some ten rounds.
_MOST_ROUNDS, _SCALED = 1000, 1e-4


@rank_methods.register
@dataclass(frozen=True)
class Biwhitening(RankMethod):
    r"""Singular values above those of noise after rows and columns are scaled to unit noise.

    Rows and columns are multiplied so that the noise variances, which the entries tell without bias if the variance is
    a quadratic function of the mean, average to 1 in each. Noise then has singular values up to
    :math:`\sqrt n + \sqrt p`, and what is above is the rank of the *mean*. The answer is that rank less 1, which
    intercepts alone have. Under a log link, k components can give the mean rank
    :math:`1 + k + k(k + 1)/2` to second order: the answer is the number of components only where these are weak.

    The variance function must be known: poisson, binomial of two or more trials, negative_binomial and gamma with a
    given size or shape. Offsets and covariates would change the mean's rank and are refused.

    See Also
    --------
    ParallelAnalysis : by permutation.

    References
    ----------
    B. Landa, T. Zhang, Y. Kluger (2022). Biwhitening reveals the rank of a count matrix. SIAM Journal on Mathematics
    of Data Science.
    """

    name = "biwhitening"
    label = "biwhitening (rank of the mean less 1)"

    def find(self, task: RankTask) -> Finding:
        task.refuse_missing(self.name)
        task.refuse_companions(self.name, "it counts the rank of the mean itself")
        variance = noise_variances(task.family, task.null.x, self.name)
        rows, columns = variance.any(axis=1), variance.any(axis=0)
        scale = scaled_to_ones(variance[np.ix_(rows, columns)])
        values = task.null.x[np.ix_(rows, columns)] * np.sqrt(scale)
        edge = (np.sqrt(rows.sum()) + np.sqrt(columns.sum())) ** 2
        rank = max(leading(eigenvalues(values) > edge) - 1, 0)
        remark = f"the mean has rank {rank + 1}; under a log link k components can make it 1 + k + k(k+1)/2"
        return Finding(min(rank, task.max_rank), remark)


def noise_variances(family: Family, x: Floats, name: str) -> Floats:
    """Unbiased estimates of the entries' variances where these are known quadratic functions of the mean.

    Raises
    ------
    ValueError
        If a column's family is of another kind.
    """
    found = np.empty_like(x)
    for member, index in family.member_columns(x.shape[1]):
        known = member.fixed_dispersion
        # A bit says nothing of its variance: x (1 - x) is 0; levels of the columns' own make no common function.
        bend = None if known is None or member.has_parameters else _quadratic_term(member, known)
        if known is None or bend is None or bend <= -1.0 + 1e-9:
            raise ValueError(
                f"method {name!r} needs a variance that is a known quadratic function of the mean, as of poisson, "
                f"binomial(16), negative_binomial(3) or gamma(2); {member.name!r} has none. Give its size or shape, or "
                "use 'parallel'."
            )
        # With V(mu) = a + b mu + c mu^2 the mean of V(x) is (1 + c) V(mu).
        found[:, index] = member.variance(x[:, index], known) / (1.0 + bend)
    return found


def _quadratic_term(member: Family, dispersion: float) -> float | None:
    """c of ``V(mu) = a + b mu + c mu^2``, ``None`` if it is another function."""
    # Means that all families have; a third difference of 0 is a quadratic function.
    values = member.variance(np.array([0.2, 0.4, 0.6, 0.8]), dispersion)
    if abs(np.diff(values, n=3)[0]) > 1e-9 * np.abs(values).max():
        return None
    return float(np.diff(values, n=2)[0]) / (2.0 * 0.2**2)


def scaled_to_ones(variance: Floats) -> Floats:
    """Factors u_i v_j, shape (n, p), by which rows and columns of ``variance`` average to 1 (Sinkhorn's algorithm)."""
    n, p = variance.shape
    rows, columns = np.ones(n), np.ones(p)
    for _ in range(_MOST_ROUNDS):
        rows = p / (variance @ columns)
        columns = n / (rows @ variance)
        if np.abs(rows * (variance @ columns) / p - 1.0).max() < _SCALED:
            break
    return np.outer(rows, columns)
