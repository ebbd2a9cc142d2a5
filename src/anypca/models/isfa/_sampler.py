r"""Gibbs sampling of masks, values and loadings under an Indian buffet process.

With :math:`\eta = (Z \circ V) T`, :math:`v_{nk} \sim N(0, 1)`, :math:`t_{kd} \sim N(0, 1 / \tau)`. Given a likelihood
that is quadratic in the predictor, mask and value of a row are drawn together, the value integrated out of the odds of
the mask. Where the family has no augmentation the quadratic is an expansion of the likelihood at the predictor without
the factor, and the draw is a proposal that is accepted or not (Metropolis and Hastings).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from anypca._typing import Bools, Floats, Ints
from anypca.families import Evaluation, Family
from anypca.models._bayes.augment import Augmentation, augment, draw_normal, weighted_products
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import mask_missing
from anypca.models._block_view import BlockView


class Quadratic(NamedTuple):
    """A log-likelihood as ``linear eta - weight eta^2 / 2`` in each entry; (rows, columns) of the sampler."""

    weight: Floats
    linear: Floats


@dataclass(frozen=True, eq=False)
class MaskedTable:
    """A table whose rows, or with ``is_turned`` columns, have masks. Arrays in and out are the sampler's."""

    family: Family
    rows: BlockView
    """The whole table, dense."""
    dispersion: Floats
    offset: Floats
    """Known part of the predictor of each column, shape (n_features,)."""
    is_turned: bool
    augmentation: Augmentation | None

    @classmethod
    def of(
        cls, family: Family, rows: BlockView, dispersion: Floats, offset: Floats, *, is_turned: bool
    ) -> MaskedTable:
        """A table with the augmentation of its family, if that has one."""
        found = augment(family, rows.x, dispersion, rows.observed)
        if found is not None:
            found = replace(found, shift=found.shift + offset)
        return cls(family, rows, dispersion, offset, is_turned, found)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the sampler."""
        n, p = self.rows.x.shape
        return (p, n) if self.is_turned else (n, p)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """Squared units of values, one for each row, and of loadings, one for each column."""
        units, ones = noise_units(self.family, self.dispersion), np.ones(self.rows.n_rows)
        return (units, ones) if self.is_turned else (ones, units)

    def turn(self, array: Floats) -> Floats:
        """From the sampler's side to the table's, and back."""
        return array.T if self.is_turned else array

    def evaluate(self, eta: Floats, order: int) -> Evaluation:
        """Terms of the log-likelihood, zero where entries are missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            at = self.turn(eta) + self.offset
            found = self.family.evaluate(self.rows.x, at, self.dispersion, order=order)
        if self.rows.observed is not None:
            found = mask_missing(found, self.rows.observed)
        return found.apply(self.turn)

    def row_value(self, row: int, eta: Floats) -> float:
        """Log-likelihood of one row of the sampler at its predictors."""
        if self.is_turned:
            family, phi = self.family.take(slice(row, row + 1)), self.dispersion[row : row + 1]
            part, at = (slice(None), slice(row, row + 1)), eta[:, None] + self.offset[row]
        else:
            family, phi = self.family, self.dispersion
            part, at = (slice(row, row + 1), slice(None)), eta[None] + self.offset
        with np.errstate(over="ignore", invalid="ignore"):
            terms = family.evaluate(self.rows.x[part], at, phi, order=0).value
        observed = self.rows.observed
        return float(terms.sum() if observed is None else terms[observed[part]].sum())

    def draw_quadratic(self, eta: Floats, rng: np.random.Generator) -> Quadratic | None:
        """The likelihood given newly drawn weights; None if the family has none."""
        terms = self.augmentation
        if terms is None:
            return None
        weight = terms.draw_weights(self.turn(eta), rng)
        return Quadratic(self.turn(weight), self.turn(terms.kappa - weight * terms.shift))

    def expand(self, eta: Floats) -> Quadratic:
        """The likelihood near a predictor, to second order with the expected curvature."""
        _, gradient, curvature = self.evaluate(eta, 2)
        return Quadratic(curvature, gradient + curvature * eta)


@dataclass(frozen=True)
class Settings:
    """Parameters given by the user."""

    mask: str = "scores"
    sampler: str = "infinite"
    max_factors: int = 10
    """Of the finite sampler."""
    concentration: float | None = None
    """alpha where it is fixed; ``None``: drawn."""
    fit_intercept: bool = True
    n_draws: int = 150
    n_tune: int = 150
    n_chains: int = 2


@dataclass(frozen=True, eq=False)
class State:
    """Factors of a table; rows and columns are the sampler's."""

    mask: Bools
    """Z: which rows use which factor, shape (rows, k)."""
    values: Floats
    """V: how much of it; where the mask is off, draws from the prior, shape (rows, k)."""
    loadings: Floats
    """T, shape (k, columns)."""
    precision: float
    """tau of the loadings."""
    concentration: float
    """alpha of the Indian buffet process."""

    @property
    def active(self) -> Floats:
        """Values where the mask is on, 0 elsewhere, shape (rows, k)."""
        return self.values * self.mask

    @property
    def counts(self) -> Ints:
        """Number of rows that use each factor, shape (k,)."""
        return np.asarray(self.mask.sum(axis=0))

    def take(self, keep: Bools | Ints) -> State:
        """Some of the factors."""
        return replace(
            self, mask=self.mask[:, keep], values=self.values[:, keep], loadings=self.loadings[keep]
        )

    def append(self, mask: Bools, values: Floats, loadings: Floats) -> State:
        """Further factors."""
        return replace(
            self,
            mask=np.hstack([self.mask, mask]),
            values=np.hstack([self.values, values]),
            loadings=np.vstack([self.loadings, loadings]),
        )


# Priors: alpha ~ Gamma(1, 1), and tau ~ Gamma(1, 4), which has loadings of size 2 or so, as logits of prototypes with
# one bit in ten flipped are; chains start at its mean.
_ALPHA_SHAPE, _ALPHA_RATE = 1.0, 1.0
_TAU_SHAPE, _TAU_RATE = 1.0, 4.0
_FIRST_TAU = 0.25
# Share of the proposals of new factors that are one factor: the prior alone proposes one in alpha / n rows only.
_BOOST = 0.1
# Newton steps to where loadings are proposed about; where they end changes the rate of acceptance, not the posterior.
_NEWTON_STEPS = 8
# Largest change of a predictor in one of them: from small means a full step on a logarithmic scale may overflow.
_LARGEST_STEP = 2.0


class _Proposal(NamedTuple):
    """What one factor may become in each row."""

    log_odds: Floats
    """Log Bayes factor of the mask being on, shape (rows,)."""
    value: Floats
    """New values where it is on, shape (rows,)."""
    gain: Floats
    """Log ratio of target to proposal at the new values, relative to the mask being off, shape (rows,)."""
    present: Floats
    """The same at the present state."""


@dataclass(frozen=True, eq=False)
class BuffetSampler:
    """Sweeps over the factors of a table."""

    table: MaskedTable
    settings: Settings

    @property
    def is_finite(self) -> bool:
        return self.settings.sampler == "finite"

    def start(self, rng: np.random.Generator) -> State:
        """One factor, or as many as the finite sampler has, used by half of the rows."""
        n, d = self.table.shape
        k = self.settings.max_factors if self.is_finite else 1
        by_row, by_column = self.table.variances
        values = rng.standard_normal((n, k)) * np.sqrt(by_row)[:, None]
        loadings = rng.standard_normal((k, d)) * np.sqrt(by_column / _FIRST_TAU)
        return State(
            rng.random((n, k)) < 0.5, values, loadings, _FIRST_TAU, self.settings.concentration or 1.0
        )

    def sweep(self, state: State, rng: np.random.Generator) -> State:
        """One draw of everything given the rest."""
        odds = None
        if self.is_finite:
            state, odds = self._draw_shares(state, rng)
        state = self._draw_masks(state, odds, rng)
        if not self.is_finite:
            state = self._draw_new(state.take(state.counts > 0), rng)
        state = self._draw_loadings(state, rng)
        return self._draw_hyper(state, rng)

    def _draw_shares(self, state: State, rng: np.random.Generator) -> tuple[State, Floats]:
        """Log odds of each factor's use and, given them, the concentration; finite sampler only."""
        n, k = state.mask.shape
        shape = state.concentration / k + state.counts
        # A gamma variable is G(a) = G(a + 1) U^(1 / a): finite on the scale of logarithms where it underflows.
        on = np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(k)) / shape
        off = np.log(rng.standard_gamma(1.0 + n - state.counts))
        log_share = on - np.logaddexp(on, off)
        if self.settings.concentration is None:
            rate = _ALPHA_RATE - float(log_share.mean())
            state = replace(state, concentration=float(rng.gamma(_ALPHA_SHAPE + k, 1.0 / rate)))
        return state, on - off

    def _draw_masks(self, state: State, odds: Floats | None, rng: np.random.Generator) -> State:
        """Masks and values of all factors, one after the other."""
        mask, values = state.mask.copy(), state.values.copy()
        eta = state.active @ state.loadings
        quadratic = self.table.draw_quadratic(eta, rng)
        spread = np.sqrt(self.table.variances[0])
        for k, loading in enumerate(state.loadings):
            now = values[:, k] * mask[:, k]
            rest = eta - now[:, None] * loading
            proposal = self._propose(rest, loading, now, mask[:, k], quadratic, rng)
            if odds is None:
                accepted, new = _draw_in_turn(mask[:, k], proposal, rng)
            else:
                accepted, new = _draw_at_once(mask[:, k], odds[k], proposal, rng)
            mask[:, k] = new
            drawn = np.where(accepted, proposal.value, values[:, k])
            values[:, k] = np.where(new, drawn, spread * rng.standard_normal(len(now)))
            eta = rest + (values[:, k] * new)[:, None] * loading
        return replace(state, mask=mask, values=values)

    def _propose(
        self,
        rest: Floats,
        loading: Floats,
        now: Floats,
        mask: Bools,
        quadratic: Quadratic | None,
        rng: np.random.Generator,
    ) -> _Proposal:
        """New values of a factor, and the odds of its mask with the value integrated out."""
        variance = self.table.variances[0]
        weight, linear = self.table.expand(rest) if quadratic is None else quadratic
        precision = 1.0 / variance + weight @ loading**2
        slope = (linear - weight * rest) @ loading
        log_odds = 0.5 * slope**2 / precision - 0.5 * np.log(precision * variance)
        value = slope / precision + rng.standard_normal(len(now)) / np.sqrt(precision)
        if quadratic is not None:
            nothing = np.zeros(len(now))
            return _Proposal(log_odds, value, nothing, nothing)
        off = self.table.evaluate(rest, 0).value.sum(axis=1)

        def gain(at: Floats) -> Floats:
            likelihood = self.table.evaluate(rest + at[:, None] * loading, 0).value.sum(axis=1)
            # Of the exact log-likelihood ratio, what its expansion does not tell.
            found: Floats = likelihood - off - at * slope + 0.5 * at**2 * (precision - 1.0 / variance)
            return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)

        return _Proposal(log_odds, value, gain(value), np.where(mask, gain(now), 0.0))

    def _draw_new(self, state: State, rng: np.random.Generator) -> State:
        """Replace the factors that one row has for itself by new ones from the prior, row by row."""
        n = len(state.mask)
        rate = state.concentration / n
        numbers = np.where(rng.random(n) < _BOOST, 1, rng.poisson(rate, n))
        has_own = state.mask[:, state.counts == 1].any(axis=1)
        # What a row has for itself does not change by what others get.
        for row in np.flatnonzero(has_own | (numbers > 0)):
            own = state.mask[row] & (state.counts == 1)
            state = self._replace_own(state, int(row), own, int(numbers[row]), rng)
        return state

    def _replace_own(
        self, state: State, row: int, own: Bools, number: int, rng: np.random.Generator
    ) -> State:
        """Propose ``number`` new factors of a row in place of its own."""
        n, d = self.table.shape
        by_row, by_column = self.table.variances
        loadings = rng.standard_normal((number, d)) * np.sqrt(by_column / state.precision)
        values = rng.standard_normal((n, number)) * np.sqrt(by_row)[:, None]
        active = state.values[row] * state.mask[row]
        before = active @ state.loadings
        after = before - active[own] @ state.loadings[own] + values[row] @ loadings
        gain = self.table.row_value(row, after) - self.table.row_value(row, before)
        gain += _new_weight(number, state.concentration / n) - _new_weight(
            int(own.sum()), state.concentration / n
        )
        if not np.log(rng.random()) < gain:
            return state
        mask = np.zeros((n, number), dtype=bool)
        mask[row] = True
        return state.take(~own).append(mask, values, loadings)

    def _draw_loadings(self, state: State, rng: np.random.Generator) -> State:
        """Loadings of all columns."""
        k = len(state.loadings)
        if k == 0:
            return state
        design = state.active
        prior = state.precision / self.table.variances[1]
        quadratic = self.table.draw_quadratic(design @ state.loadings, rng)
        if quadratic is not None:
            precision, linear = _normal_terms(quadratic, design, prior)
            return replace(state, loadings=draw_normal(precision, linear, rng).T)
        return replace(state, loadings=self._propose_loadings(state, design, prior, rng))

    def _propose_loadings(
        self, state: State, design: Floats, prior: Floats, rng: np.random.Generator
    ) -> Floats:
        """Loadings proposed from the normal distribution near their mode, accepted column by column."""
        centre = np.zeros_like(state.loadings.T)
        for _ in range(_NEWTON_STEPS):
            precision, linear = _normal_terms(self.table.expand(design @ centre.T), design, prior)
            step = np.linalg.solve(precision, linear[..., None])[..., 0] - centre
            change = np.abs(design @ step.T).max(axis=0)
            centre = centre + step * (_LARGEST_STEP / np.maximum(change, _LARGEST_STEP))[:, None]
        new = draw_normal(precision, np.einsum("dab,db->da", precision, centre), rng)

        def weight(at: Floats) -> Floats:
            moved = at - centre
            fit = self.table.evaluate(design @ at.T, 0).value.sum(axis=0)
            found: Floats = fit - 0.5 * prior * (at**2).sum(axis=1)
            found += 0.5 * np.einsum("da,dab,db->d", moved, precision, moved)
            return found

        gain = weight(new) - weight(state.loadings.T)
        accepted = np.log(rng.random(len(gain))) < gain
        return np.asarray(np.where(accepted[:, None], new, state.loadings.T).T)

    def _draw_hyper(self, state: State, rng: np.random.Generator) -> State:
        """Precision of the loadings and, in the infinite sampler, the concentration."""
        squares = float((state.loadings**2 / self.table.variances[1]).sum())
        tau = rng.gamma(_TAU_SHAPE + 0.5 * state.loadings.size, 1.0 / (_TAU_RATE + 0.5 * squares))
        alpha = state.concentration
        if not self.is_finite and self.settings.concentration is None:
            harmonic = float((1.0 / np.arange(1, len(state.mask) + 1)).sum())
            alpha = float(rng.gamma(_ALPHA_SHAPE + len(state.loadings), 1.0 / (_ALPHA_RATE + harmonic)))
        return replace(state, precision=float(tau), concentration=alpha)


def _normal_terms(quadratic: Quadratic, design: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Precisions (columns, k, k) and linear terms (columns, k) of the loadings."""
    precision = weighted_products(quadratic.weight.T, design)
    precision += np.eye(design.shape[1]) * prior[:, None, None]
    return precision, quadratic.linear.T @ design


def _new_weight(number: int, rate: float) -> float:
    """Log ratio of the prior probability of a number of own factors to its probability in the proposal."""
    log_prior = -rate + number * np.log(rate) - gammaln(number + 1.0)
    proposed = (1.0 - _BOOST) * np.exp(log_prior) + _BOOST * (number == 1)
    return float(log_prior - np.log(proposed))


def _draw_at_once(
    mask: Bools, odds: float, proposal: _Proposal, rng: np.random.Generator
) -> tuple[Bools, Bools]:
    """Which rows take their proposal, and the new mask, given the log odds of the factor's use."""
    on = rng.random(len(mask)) < expit(odds + proposal.log_odds)
    gain = np.where(on, proposal.gain, 0.0) - proposal.present
    accepted = np.log(rng.random(len(mask))) < gain
    return accepted, np.where(accepted, on, mask)


def _draw_in_turn(mask: Bools, proposal: _Proposal, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """The same where the odds of a row are the number of the others that use the factor, which changes on the way."""
    n = len(mask)
    uniform = rng.random(n)
    # A row is proposed to use the factor if the log odds of the others' use exceed its threshold.
    threshold = (np.log(uniform) - np.log1p(-uniform) - proposal.log_odds).tolist()
    others = np.arange(n)
    with np.errstate(divide="ignore"):
        odds = (np.log(others) - np.log(n - others)).tolist()
    allowed = (np.log(rng.random(n)) + proposal.present).tolist()
    gain, new = proposal.gain.tolist(), mask.tolist()
    accepted = [False] * n
    count = sum(new)
    for row in range(n):
        rest = count - new[row]
        # The mask of a row that is alone stays: it is the business of the step for new factors.
        on = odds[rest] > threshold[row] if rest else new[row]
        if allowed[row] < (gain[row] if on else 0.0):
            accepted[row], new[row] = True, on
        count = rest + new[row]
    return np.array(accepted), np.array(new, dtype=bool)
