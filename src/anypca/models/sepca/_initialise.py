"""Where sweeps start: leading directions of residuals, with one shared ARD precision until components separate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import leading_directions, pack_symmetric
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.start import Directions, residual_directions
from anypca.models._block_view import BlockView, observed_only
from anypca.models.sepca._dispersion import estimate
from anypca.models.sepca._noise import MAX_ROUNDS, NoiseModel, count_rows
from anypca.models.sepca._posterior import Loadings, start_precision
from anypca.models.sepca._state import SWEEPS_PER_LOOK, State, sweep, unswept

# Variance of the loadings before the first sweep, in units of the noise: a predictor at a score of 1 is then uncertain
# by 3 % of the noise's standard deviation, too little to shrink scores.
_START_VARIANCE = 1e-3
# Precision of the normal prior on the intercept of a column that does not vary: its standard deviation is 10, and
# exp(10) or a probability of 1 - exp(-10) is beyond what such a column can show.
_INTERCEPT_PRECISION = 0.01
# Components beyond those that stand out of the noise: the sweeps prune those that are too many.
_MARGIN = 4
# Strength, n + p + 1.75 sqrt(n p), from which on a direction of the residuals is tried. Squared singular values of n x
# p unit noise end at n + p + 2 sqrt(n p), and components that variational PCA keeps begin at n + p + 2.91 sqrt(n p)
# (Nakajima et al. 2013). The dispersion includes the missing component, so that its direction may lie below the edge.
_EDGE = 1.75
# Rounds with a shared ARD precision.
_TIED_ROUNDS = 4
# The 99 % quantile of the Tracy-Widom law of real noise (Johnstone 2001).
_TRACY_WIDOM = 2.024
# Standardised residuals beyond 8 come from rare events, which a chi-square limit law does not have.
_CLIP = 8.0
# Columns up to which all singular values are found at once, from a matrix of 8 MB; beyond, the leading ones by so many
# products.
_MOST_COLUMNS, _PRODUCTS = 1000, 8


def initialise(noise: NoiseModel) -> State:
    """Start from the directions above the noise and a few more, with the dispersion that they leave."""
    rank, fixed = noise.max_rank, noise.mean_fixed()
    if rank and not noise.settings.is_rank_fixed:
        rank = min(rank, max(1, count_above_noise(noise, noise.null(noise.start, fixed))) + _MARGIN)
    return warm_up_with_tied_ard(_start(noise, rank, noise.start, fixed))


def warm_state(noise: NoiseModel, known: Loadings) -> State | None:
    """Start from the posterior of another fit; ``None`` if it had other columns.

    Its dispersions may belong to another noise model, so they are estimated again.
    """
    k = known.n_components
    if len(known.mean) != noise.session.data.n_features or k > noise.settings.max_components:
        return None
    dispersion = known.dispersion if noise.is_open else noise.start
    state = _start(noise, k, dispersion, noise.mean_fixed())
    if state.loadings.mean.shape != known.mean.shape:
        return None
    start = replace(state.loadings, ard_precision=known.ard_precision)
    return warm_up_with_tied_ard(
        state.with_posterior(start.with_posterior(known.mean, known.precision), None)
    )


def continued_state(noise: NoiseModel, sample: State) -> State:
    """Continue with the whole table from a fit to a sample of its rows."""
    known = sample.loadings
    noise = replace(
        noise, family=sample.noise.family, by_column=sample.noise.by_column, start=sample.noise.start
    )
    start = _start(noise, 0, known.dispersion, noise.mean_fixed())
    # More rows determine the loadings better; with the precision of the sample scores would be shrunken.
    precision = known.precision * (count_rows(noise.session) / sample.weight)
    loadings = replace(known, fixed_precision=start.loadings.fixed_precision, change=None)
    state = start.with_posterior(loadings.with_posterior(known.mean, precision), None)
    for _ in range(SWEEPS_PER_LOOK):  # solve the rows, nearly, before the loadings move
        state = sweep(state, 1)
        state = state.with_posterior(loadings.with_posterior(known.mean, precision), state.local)
    return replace(state, removals=sample.removals, n_sweeps=sample.n_sweeps)


def with_leading_direction(state: State) -> State | None:
    """The state with one more component, the strongest direction in its residuals; ``None`` if that is noise."""
    noise, rng = state.noise, np.random.default_rng(state.noise.seed)
    found = residual_directions(noise.family, state.coefficients, noise.visit, 1, rng, state.score_means)
    # Noise has as many dimensions less, of rows and of columns, as components have taken.
    n, p = (max(size - state.n_components, 1.0) for size in (state.weight, float(len(state.loadings.mean))))
    if found.strength < n + p + _EDGE * np.sqrt(n * p):
        return None
    return state.with_component(found.loadings[:, 0], _start_variance(state.loadings.units, found))


def warm_up_with_tied_ard(state: State) -> State:
    """Bring an open dispersion and the posterior into agreement while all components share one ARD precision.

    A dispersion that was found without a component includes its signal, and would make the component vanish.
    """
    k = state.n_components
    if k == 0 or not state.noise.is_open:
        return state
    tied = np.full(k, state.loadings.ard_precision.min())
    state = state.with_posterior(replace(state.loadings, ard_precision=tied), state.local)
    for _ in range(_TIED_ROUNDS):
        state = sweep(state, SWEEPS_PER_LOOK, holds_ard=True)
        state = state.with_noise(state.noise, estimate(state))
    return state


def _start(noise: NoiseModel, rank: int, dispersion: Floats, fixed: Floats) -> State:
    """A state before its first sweep; intercepts and covariates are fitted from ``fixed``."""
    null = noise.null(dispersion, fixed)
    found = residual_directions(noise.family, null, noise.visit, rank, np.random.default_rng(noise.seed))
    mean, units = np.hstack([found.loadings, null.fixed]), noise_units(noise.family, dispersion)
    variance = _start_variance(units, found)
    precision = np.outer(1.0 / variance, pack_symmetric(np.eye(mean.shape[1])))
    ard_precision = start_precision(found.loadings, variance, units)
    loadings = Loadings.starting(
        mean, precision, ard_precision, dispersion, prior_precision_of_fixed(noise), units
    )
    return unswept(noise, null, loadings)


def _start_variance(units: Floats, directions: Directions) -> Floats:
    """Variance of the loadings, shape (n_features,); large counts determine their predictor closely."""
    return _START_VARIANCE * np.minimum(units, directions.noise)


def prior_precision_of_fixed(noise: NoiseModel) -> Floats:
    """Prior precisions of intercepts and covariates' coefficients, 0 where flat, shape (n_features, n_fixed).

    The likelihood of a column of zeros, or of ones, grows without bound with its intercept, which has a wide prior. A
    constant in a column with units is a value like any other.
    """
    summary, fit_intercept = noise.session.summary, noise.settings.fit_intercept
    precision = noise.fixed_precision.copy()
    if fit_intercept:
        for member, columns in noise.members:
            is_constant = summary.minimum[columns] == summary.maximum[columns]
            precision[columns, 0] = np.where(is_constant & (not member.has_units), _INTERCEPT_PRECISION, 0.0)
    return precision


def noise_edge(n: float, p: float) -> float:
    """The value that the largest squared singular value of n x p unit noise exceeds once in a hundred tables."""
    root = np.sqrt(n) + np.sqrt(p)
    return float(root**2 + _TRACY_WIDOM * root * (1.0 / np.sqrt(n) + 1.0 / np.sqrt(p)) ** (1.0 / 3.0))


def count_above_noise(noise: NoiseModel, null: Coefficients) -> int:
    """Directions of the residuals of a model without components above the noise (Kritchman and Nadler 2009)."""
    found, most = ResidualSpectrum(noise, null), noise.settings.max_components
    squares, n = found.squares, count_rows(noise.session)
    p, total = int((squares > 0).sum()), float(squares.sum())
    squared = found.leading(most + 1)
    most = min(most, int(n) - 1, p - 1, len(squared))
    for k in range(most):
        if squared[k] < _noise_variance(squared, total, n, p, k) * noise_edge(n - k, p - k):
            return k
    return max(most, 0)


def _noise_variance(squared: Floats, total: float, n: float, p: int, k: int) -> float:
    """Noise variance given k components, which also take a share of it.

    With signal s the squared singular value of a component is near ``n s + noise (n + p) + noise^2 p / s``.
    """
    lead = squared[:k]
    noise = (total - float(lead.sum())) / ((n - k) * (p - k))
    for _ in range(MAX_ROUNDS):
        above = lead - noise * (n + p)
        root = np.sqrt(np.maximum(above**2 - 4.0 * noise**2 * n * p, 0.0))
        signal = float(np.where(above > 0, 0.5 * (above + root), 0.0).sum())
        noise = max((total - signal) / (n * p), np.finfo(float).tiny)
    return noise


@dataclass(frozen=True, eq=False)
class ResidualSpectrum:
    """Singular values of the residuals of a model without components.

    Residuals of columns with units are divided by the root of the model's dispersion. Other columns are standardised,
    because signal also increases the variance of residuals of counts and answers.
    """

    noise: NoiseModel
    null: Coefficients

    @cached_property
    def _has_units(self) -> Bools:
        found = np.zeros(len(self.null.fixed), dtype=bool)
        for member, columns in self.noise.members:
            found[columns] = member.has_units
        return found

    @cached_property
    def _squares(self) -> Floats:
        return self.noise.visit.sum(lambda rows, _: rows.weights @ self._residuals(rows) ** 2)

    @cached_property
    def _size(self) -> Floats:
        """Units of the columns, shape (n_features,)."""
        free = (self._squares > 0) & ~self._has_units
        return np.where(free, np.sqrt(self._squares / count_rows(self.noise.session)), 1.0)

    @property
    def squares(self) -> Floats:
        """Sums of squared residuals of the columns, in units, shape (n_features,)."""
        return self._squares / self._size**2

    def leading(self, most: int) -> Floats:
        """The largest squared singular values, in decreasing order."""
        p = len(self._size)
        if p <= _MOST_COLUMNS:
            product = self._product(None) / np.outer(self._size, self._size)
            return np.asarray(np.linalg.eigvalsh(product)[::-1][:most])
        unit, rng = self._size[:, None], np.random.default_rng(0)
        values = leading_directions(
            lambda basis: self._product(basis / unit) / unit, p, min(most, p), rng, n_products=_PRODUCTS
        )[1]
        return np.sort(values)[::-1]

    def _residuals(self, rows: BlockView) -> Floats:
        limit, nothing = np.where(self._has_units, np.inf, _CLIP), np.zeros((rows.n_rows, 0))
        evaluator = BlockEvaluator(self.noise.family, self.null, rows)
        found = np.zeros((rows.n_rows, rows.n_features), rows.dtype)
        for tile, terms in evaluator.tiles(evaluator.design(nothing), order=2):
            scale = np.sqrt(np.where(terms.curvature > 0, terms.curvature, 1.0))
            found[:, tile] = np.clip(terms.gradient / scale, -limit[tile], limit[tile])
        return observed_only(rows, slice(None), found)

    def _product(self, basis: Floats | None) -> Floats:
        """``R' W R basis``, or the matrix itself without a basis."""

        def of_block(rows: BlockView, _: Floats) -> Floats:
            seen = self._residuals(rows) * np.sqrt(rows.weights)[:, None]
            return np.asarray(seen.T @ (seen if basis is None else seen @ basis), dtype=float)

        return self.noise.visit.sum(of_block)
