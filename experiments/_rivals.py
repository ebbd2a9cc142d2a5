"""Published methods for the number of components that only the truth table compares.

They complete the methods of `anypca.selection.compare_ranks` in the truth table; `RIVALS` has them by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from anypca._typing import Floats, Ints
from anypca.families import Binomial, Exponential, Family, Gamma, Gaussian, NegativeBinomial, Poisson, combine
from anypca.families._columns import ColumnFamily
from anypca.families.mixed import known_dispersion
from anypca.models import EPCA
from anypca.models._row_methods import linear_predictor
from anypca.selection import RankMethod
from anypca.selection.entry_cv import fit_ranks
from anypca.selection.rank_methods import Finding, RankTask, SpectralMethod, eigenvalues, leading

#: Points of the quadrature of the Marchenko-Pastur law: its median is then right to six digits.
_N_POINTS = 4096
#: Rounds of scaling rows and columns, and the largest relative error at which they end: singular values are then
#: right to three digits, and tables of counts need some ten rounds.
_MOST_ROUNDS, _SCALED = 1000, 1e-4
#: Least over-dispersion with which counts are divided: below, shares are those of Poisson counts to four digits, and
#: at 0 they have no beta distribution.
_LEAST = 1e-8


@dataclass(frozen=True)
class GavishDonoho(SpectralMethod):
    r"""Singular values above the optimal hard threshold for white noise of unknown level.

    The threshold is :math:`\lambda_*(\beta) / \sqrt{\mu_\beta}` times the median singular value, with :math:`\beta` the
    ratio of the sides and :math:`\mu_\beta` the median of the Marchenko-Pastur law. It makes the denoised table
    best in mean square, and is above the threshold of detectability: components between the two are left out.

    See Also
    --------
    ScreeNot : for correlated noise.

    References
    ----------
    M. Gavish, D. Donoho (2014). The optimal hard threshold for singular values is 4/sqrt(3). IEEE Transactions on
    Information Theory.
    """

    name = "gavish_donoho"
    label = "Gavish and Donoho's threshold"

    def count(self, values: Floats, task: RankTask) -> Finding:
        size = np.sqrt(eigenvalues(values))
        beta = min(values.shape) / max(values.shape)
        # The optimal threshold where the noise level is not known (Gavish and Donoho 2014).
        root = np.sqrt(beta * beta + 14.0 * beta + 1.0)
        best = np.sqrt(2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + root))
        return Finding(leading(size > best / np.sqrt(_median_marchenko_pastur(beta)) * np.median(size)))


@dataclass(frozen=True)
class ScreeNot(SpectralMethod):
    """Singular values above the best hard threshold for noise of any spectrum (ScreeNOT).

    The noise's spectrum is that of the table with its ``max_rank`` largest singular values replaced by what the
    following ones suggest; columns may correlate in the noise.

    See Also
    --------
    GavishDonoho : for white noise.

    References
    ----------
    D. Donoho, M. Gavish, E. Romanov (2023). ScreeNOT: exact MSE-optimal singular value thresholding in correlated
    noise. Annals of Statistics.
    """

    name = "screenot"
    label = "ScreeNOT"
    needs_equal_noise = False

    def count(self, values: Floats, task: RankTask) -> Finding:
        size = np.sqrt(eigenvalues(values))
        most = min(task.max_rank, (len(size) - 2) // 2)
        if most < 1:
            raise ValueError(
                f"method 'screenot' needs at least 4 rows and columns that vary; got {len(size)}. Use 'parallel'."
            )
        noise = _without_largest(size, most)
        threshold = _best_threshold(noise, min(values.shape) / max(values.shape))
        remark = "" if most == task.max_rank else f"looks for at most {most} in a table of this size"
        return Finding(leading(size > threshold), remark)


@dataclass(frozen=True)
class BiCrossValidation(SpectralMethod):
    """Rows and columns held out at once: a corner of the table is predicted from the other three.

    With the table cut into [A, B; C, D], A is predicted by ``B D_k^+ C``, D_k being D at rank k. Rows and columns are
    cut into halves at random, which retains the quarter of the entries that is best for square tables.

    Parameters
    ----------
    n_repeats : int, default=10
        Random cuts, each of which gives four corners.

    See Also
    --------
    EntryKFold : hides single entries.

    References
    ----------
    A. Owen, P. Perry (2009). Bi-cross-validation of the SVD and the nonnegative matrix factorization. Annals of
    Applied Statistics.
    A. Owen, J. Wang (2016). Bi-cross-validation for factor analysis. Statistical Science.
    """

    name = "bicv"
    label = "bi-cross-validation"

    n_repeats: int = 10

    def count(self, values: Floats, task: RankTask) -> Finding:
        rng, (n, p) = task.rng, values.shape
        most = min(task.max_rank, n // 2, p // 2)
        loss: Floats = np.zeros(most + 1)
        for _ in range(self.n_repeats):
            rows, columns = (np.array_split(rng.permutation(size), 2) for size in (n, p))
            for held, kept in ((0, 1), (1, 0)):
                for out, rest in ((0, 1), (1, 0)):
                    loss = loss + _corner_losses(
                        values, rows[held], rows[kept], columns[out], columns[rest], most
                    )
        return Finding(int(np.argmin(loss)))


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
        given = " and ".join(task.companions.for_fit())
        if given:
            raise ValueError(
                f"method {self.name!r} takes no {given}: it counts the rank of the mean itself. Use 'parallel', "
                "'thinning', 'bic' or 'sepca'."
            )
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
        bend = None if known is None or isinstance(member, ColumnFamily) else _quadratic_term(member, known)
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


class Parts(NamedTuple):
    """Columns of one family split in two."""

    fitted: Floats
    """What a model is fitted to (n_samples, n_columns)."""
    fitted_family: Family
    kept: Floats
    """What it predicts, independent of it, same shape."""
    kept_family: Family
    kept_dispersion: Floats
    shift: float = 0.0
    """What the predictor of the kept part has more."""


@dataclass(frozen=True)
class DataThinning(RankMethod):
    """Split each entry into two independent parts, fit `EPCA` to one, and take the rank that predicts the other best.

    Counts are divided at random (binomial thinning), amounts by beta shares, and noise is added to and taken from
    normal entries, so that the parts are independent and have the same predictor up to a known shift. Where there is a
    dispersion to estimate, the parts are independent as far as the estimate, that of a fit with ``max_rank``
    components, is right.

    Parameters
    ----------
    share : float, default=0.8
        Share of the information that is fitted.

    See Also
    --------
    BiCrossValidation : for numbers that are no counts.

    Notes
    -----
    For poisson, negative_binomial, binomial of two or more trials, gamma, exponential and gaussian columns, and
    mixtures of them.

    References
    ----------
    A. Neufeld, A. Dharamshi, L. Gao, D. Witten (2024). Data thinning for convolution-closed distributions. Journal
    of Machine Learning Research.
    """

    name = "thinning"
    label = "data thinning"

    share: float = 0.8

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must be between 0 and 1; got {self.share!r}.")

    def find(self, task: RankTask) -> Finding:
        parts = self._split(task)
        family = [family for part, index in parts for family in [part.fitted_family] * len(index)]
        order = np.argsort(np.concatenate([index for _, index in parts]))
        fitted = np.hstack([part.fitted for part, _ in parts])[:, order]
        fitted[~task.null.observed] = np.nan
        taken = combine([family[j] for j in order])
        model = EPCA(family=taken, ridge=1.0, n_jobs=1, random_state=task.random_state)
        models = fit_ranks(model, "n_components", fitted, range(task.max_rank + 1), task.companions)
        losses = [_loss(task, each, fitted, parts) for each in models]
        return Finding(int(np.argmin(losses)))

    def _split(self, task: RankTask) -> list[tuple[Parts, Ints]]:
        """The columns of each family split, with their numbers."""
        null, rng = task.null, task.rng
        dispersion = null.dispersion
        if np.isnan(known_dispersion(task.family, len(dispersion))).any():
            full = EPCA(
                task.max_rank, family=task.family, ridge=1.0, n_jobs=1, random_state=task.random_state
            )
            dispersion = full.fit(task.X, **task.companions.for_fit()).dispersion_
        return [
            (split_columns(member, null.x[:, index], dispersion[index], self.share, rng), index)
            for member, index in null.family.member_columns(len(dispersion))
        ]


def _loss(task: RankTask, model: EPCA, fitted: Floats, parts: list[tuple[Parts, Ints]]) -> float:
    """Minus the log-likelihood of the kept parts of all observed entries."""
    companions = task.companions.for_rows()
    eta = linear_predictor(model, model.transform(fitted, **companions), **companions)
    total = 0.0
    for part, index in parts:
        terms = part.kept_family.log_likelihood(part.kept, eta[:, index] + part.shift, part.kept_dispersion)
        total -= float(terms[task.null.observed[:, index]].sum())
    return total


@singledispatch
def split_columns(
    family: Family, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator
) -> Parts:
    """Split the entries of one family's columns; the first part has a share of the information.

    Raises
    ------
    ValueError
        If entries of this family do not split.
    """
    raise ValueError(
        f"method 'thinning' splits poisson, negative_binomial, binomial (2 trials or more), gamma, exponential and "
        f"gaussian entries; {family.name!r} does not. Use 'parallel', 'held_out' or 'sepca'."
    )


def _whole(x: Floats, family: Family) -> Floats:
    if (x != np.floor(x)).any():
        raise ValueError(
            f"method 'thinning' divides counts, and a {family.name} column holds fractions. Use family='gamma' or "
            "'gaussian', or another method."
        )
    return x


@split_columns.register
def _(family: Poisson, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator) -> Parts:
    fitted = rng.binomial(_whole(x, family).astype(int), share).astype(float)
    return Parts(fitted, family, x - fitted, family, dispersion, np.log((1.0 - share) / share))


@split_columns.register
def _(
    family: NegativeBinomial, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator
) -> Parts:
    # The gamma rates behind the counts are divided by beta shares; sizes add up.
    size = 1.0 / np.maximum(dispersion, _LEAST)
    odds = rng.beta(share * size, (1.0 - share) * size, size=x.shape)
    fitted = rng.binomial(_whole(x, family).astype(int), odds).astype(float)
    smaller = family if family.size is None else replace(family, size=family.size * share)
    shift = float(np.log((1.0 - share) / share))
    return Parts(fitted, smaller, x - fitted, family, dispersion / (1.0 - share), shift)


@split_columns.register
def _(family: Binomial, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator) -> Parts:
    n = family.trials
    if n < 2:
        raise ValueError("method 'thinning' cannot split one trial. Use 'parallel', 'held_out' or 'sepca'.")
    taken = min(max(round(share * n), 1), n - 1)
    count = _whole(x, family).astype(int)
    fitted = rng.hypergeometric(count, n - count, taken).astype(float)
    return Parts(fitted, Binomial(taken), x - fitted, Binomial(n - taken), dispersion)


@split_columns.register(Gamma)
@split_columns.register(Exponential)
def _(
    family: Gamma | Exponential, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator
) -> Parts:
    odds = rng.beta(share / dispersion, (1.0 - share) / dispersion, size=x.shape)
    odds = np.clip(odds, np.finfo(float).tiny, 1.0 - np.finfo(float).eps)
    known = family.fixed_dispersion
    smaller = Gamma() if known is None else Gamma(share / known)
    # Over its share each part has the mean of the whole.
    parts = (x * odds / share, x * (1.0 - odds) / (1.0 - share))
    return Parts(parts[0], smaller, parts[1], Gamma(), dispersion / (1.0 - share))


@split_columns.register
def _(family: Gaussian, x: Floats, dispersion: Floats, share: float, rng: np.random.Generator) -> Parts:
    if not family.has_units:
        # Normal after a transformation: thinning belongs to the transformed entries.
        return split_columns.dispatch(Family)(family, x, dispersion, share, rng)
    noise = rng.standard_normal(x.shape) * np.sqrt(share * (1.0 - share) * dispersion)
    known = family.fixed_dispersion
    smaller = Gaussian() if known is None else Gaussian(known / share)
    return Parts(
        x + noise / share, smaller, x - noise / (1.0 - share), Gaussian(), dispersion / (1.0 - share)
    )


def _corner_losses(values: Floats, held: Ints, kept: Ints, out: Ints, rest: Ints, most: int) -> Floats:
    """Squared errors of a corner predicted from the others at ranks 0, 1, ..., shape (most + 1,)."""
    goal = values[np.ix_(held, out)]
    left, sizes, right = np.linalg.svd(values[np.ix_(kept, rest)], full_matrices=False)
    along = values[np.ix_(held, rest)] @ right[:most].T
    across = left[:, :most].T @ values[np.ix_(kept, out)]
    found = np.empty(most + 1)
    found[0] = (goal**2).sum()
    for k in range(most):
        if sizes[k] > np.finfo(float).eps * sizes[0]:
            goal = goal - np.outer(along[:, k], across[k]) / sizes[k]
        found[k + 1] = (goal**2).sum()
    return found


def _median_marchenko_pastur(beta: float) -> float:
    """Median of the eigenvalues of white noise at unit variance and ratio beta of the sides."""
    # With x = 1 + beta + 2 sqrt(beta) cos(angle) the density is smooth in the angle.
    angle = (np.arange(_N_POINTS) + 0.5) * np.pi / _N_POINTS
    x = 1.0 + beta + 2.0 * np.sqrt(beta) * np.cos(angle)
    mass = np.cumsum(np.sin(angle) ** 2 / x)
    return float(np.interp(0.5, mass / mass[-1], x))


def _without_largest(size: Floats, most: int) -> Floats:
    """Singular values with the ``most`` largest replaced as at the edge of a bulk, where gaps grow as the power 2/3."""
    step = (1.0 - (np.arange(most) / most) ** (2.0 / 3.0)) / (2.0 ** (2.0 / 3.0) - 1.0)
    noise = size.copy()
    noise[:most] = size[most] + step * (size[most] - size[2 * most])
    return noise


def _best_threshold(noise: Floats, beta: float) -> float:
    """Where the elasticity of the D-transform of the noise is -4: the optimal threshold."""
    top = float(noise.max())

    def gap(y: float) -> float:
        inverse = 1.0 / (y * y - noise**2)
        first, slope = float(np.mean(y * inverse)), -float(np.mean((y * y + noise**2) * inverse**2))
        second = beta * first + (1.0 - beta) / y
        return y * (slope / first + (beta * slope - (1.0 - beta) / (y * y)) / second) + 4.0

    # It rises from minus infinity at the edge to -2 far away.
    return float(brentq(gap, top * (1.0 + 1e-9), 100.0 * top))


#: By name, as in the tables of results.
RIVALS: dict[str, RankMethod] = {
    method.name: method
    for method in (GavishDonoho(), ScreeNot(), BiCrossValidation(), Biwhitening(), DataThinning())
}
