"""Data thinning: every entry is split into two independent ones, of which one is fitted and one predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import (
    Binomial,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    combine,
)
from anypca.models import EPCA
from anypca.models._row_methods import linear_predictor
from anypca.selection.entry_cv import fit_ranks
from anypca.selection.rank_methods import Finding, RankMethod, RankTask, rank_methods

#: Least over-dispersion with which counts are divided: below, shares are those of Poisson counts to four digits, and
#: at 0 they have no beta distribution.
_LEAST = 1e-8


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


@rank_methods.register
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
        if np.isnan(task.family.known_dispersion(len(dispersion))).any():
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
