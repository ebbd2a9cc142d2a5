"""From a table to a sparsity pattern: the path of penalties, and how one of them is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, check_data
from anypca.linalg import fix_signs
from anypca.models._context import FitContext, open_context
from anypca.models._gaussian.gram import Gram, StreamedGram, sum_gram
from anypca.models._gaussian.regression import regress_on_scores
from anypca.models.sspca._cross_validation import (
    CrossValidation,
    draw_folds,
    press_error,
    row_error,
)
from anypca.models.sspca._descent import Descent, Design, Limits, State, descend, largest_penalty
from anypca.solvers import Progress, Result, Status
from anypca.solvers.closed_form import Centring

# Columns up to which the p x p matrix of inner products is held (32 MB) whatever the number of rows.
_SMALL_GRAM = 2_000
# Smallest penalty of a path as a share of the largest: on tables of 100 columns and 10 components it selects nothing
# yet, as do shares up to 0.02.
_SMALLEST_SHARE = 0.005
# Supports along a path do not change below this relative change of the loadings. The descent at the chosen penalty
# converges to the tolerance of the user.
_PATH_TOL = 1e-4
# Sweeps along a path are limited: with several patterns the smallest penalties, which select nothing, would take a
# thousand, where the others take some 50.
_PATH_ITER = 100
# Bisection steps in log penalty if a number of variables is requested; the remaining interval is below 1e-7.
_MAX_BISECTIONS = 25


@dataclass(frozen=True)
class Settings:
    """What is fitted; see `anypca.SSPCA`."""

    n_components: int
    n_patterns: int
    penalty: float | str
    n_features_to_select: int | None
    constraint: str
    exponent: float
    criterion: str
    n_folds: int
    n_penalties: int

    def shares(self, n_features: int) -> Floats:
        """The path as shares of the largest penalty, increasing (n_penalties,)."""
        # Rows of equal length have a quasi-norm of p^(1/a - 1) times the norm with a = 1.
        least = _SMALLEST_SHARE * float(n_features) ** (1.0 - 1.0 / self.exponent)
        return np.geomspace(least, 1.0, self.n_penalties)


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """The selected variables and their components."""

    supports: Bools
    """Of each pattern, shape (n_patterns, n_features)."""
    penalty: float
    largest_penalty: float
    loadings: Floats
    """Penalised loadings V, rotated within each group to principal axes, shape (n_features, n_components)."""
    components: Floats
    """Unit rows, fitted without penalty on the supports; zeros beyond the rank (n_components, n_features)."""
    back: Floats
    """Coefficients of the columns on the scores (n_components, n_features)."""
    variances: Floats
    """Of each score beyond the scores before it (n_components,)."""
    shares: Floats
    """The same as shares of the variance of all columns; 0 for a constant table."""
    cross_validation: CrossValidation | None
    result: Result[State]


def fit_patterns(session: FitContext, settings: Settings) -> SparsePattern:
    """Choose the penalty, follow the path to it, and refit the selected loadings.

    Parameters
    ----------
    session : FitContext
        Of a complete table.
    settings : Settings

    Returns
    -------
    SparsePattern
    """
    fitter = _open_table(session, settings)
    validation, wanted = None, settings.n_features_to_select
    if wanted is not None:
        denser, penalty = fitter.search(wanted)
        descent = fitter.descend(denser, penalty)
        supports = _longest_rows(fitter.design, descent.state, denser, wanted)
    else:
        if isinstance(settings.penalty, str) and fitter.largest == 0.0:
            penalty = 0.0  # a constant table has nothing to choose
        elif isinstance(settings.penalty, str):
            validation = _cross_validate(session, settings, fitter.scale)
            penalty = validation.best * fitter.largest
        else:
            penalty = float(settings.penalty) / fitter.scale
        descent = fitter.follow(penalty)
        supports = _supports(fitter.design, descent.state)
    return fitter.finish(descent, penalty, supports, validation)


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits one table, divided by a number so that its squares sum to 1: units do not matter, and nothing overflows."""

    session: FitContext
    settings: Settings
    scale: float
    """The number: penalties and loadings are in its units, the objective in its square's."""
    design: Design
    start: State
    """Principal components."""
    largest: float
    """The penalty at which nothing is left."""

    def follow(self, penalty: float) -> Descent:
        """The end of the path, coming from small penalties."""
        shares = self.settings.shares(len(self.start.loadings))
        states = follow(
            self.design,
            self.start,
            shares[shares * self.largest < penalty] * self.largest,
            path_limits(self.session),
        )
        return self.descend(states[-1] if states else self.start, penalty)

    def descend(self, state: State, penalty: float) -> Descent:
        """Descend to the tolerance of the user and report progress."""
        session = self.session

        def report(iteration: int, value: float, change: float) -> None:
            session.callback(Progress(iteration, session.max_iter, -value * self.scale**2, change))

        return descend(self.design, state, penalty, Limits(session.max_iter, session.tol), report=report)

    def search(self, wanted: int) -> tuple[State, float]:
        """The sparsest point with at least ``wanted`` variables, by bisection of the log penalty, and its penalty."""
        low, high = self.settings.shares(len(self.start.loadings))[0] * self.largest, self.largest
        limits = path_limits(self.session)
        state = descend(self.design, self.start, low, limits).state
        if np.count_nonzero(state.support) < wanted:
            return self.start, 0.0
        for _ in range(_MAX_BISECTIONS):
            if np.count_nonzero(state.support) == wanted:
                break
            middle = float(np.sqrt(low * high))
            trial = descend(self.design, state, middle, limits).state
            if np.count_nonzero(trial.support) >= wanted:
                low, state = middle, trial
            else:
                high = middle
        return state, low

    def finish(
        self, descent: Descent, penalty: float, supports: Bools, validation: CrossValidation | None
    ) -> SparsePattern:
        """Components on the supports, their variances, and how the descent ended."""
        components = self._refit(descent.state, supports)
        back, squares = regress_on_scores(components, self.design.times(components.T))
        total, square = self.design.trace, self.scale**2
        status = Status.CONVERGED if descent.change <= self.session.tol else Status.MAX_ITER
        return SparsePattern(
            supports,
            penalty * self.scale,
            self.largest * self.scale,
            _principal_loadings(self.design, descent.state) * self.scale,
            components,
            back,
            squares * (square / (self.design.n_rows - 1.0)),
            squares / total if total > 0 else np.zeros_like(squares),
            validation,
            Result(descent.state, -descent.trace * square, status, descent.change, len(descent.trace)),
        )

    def _refit(self, state: State, supports: Bools) -> Floats:
        """Components without penalty on the supports, as unit rows (n_components, n_features)."""
        if len(supports) == 1:
            loadings = self._principal_axes(supports[0])
        else:
            # Patterns may overlap: the groups take turns at what the others leave.
            free = replace(self.design, constraint="orthogonal", exponent=1.0)
            loadings = _principal_loadings(
                free, descend(free, state, 0.0, path_limits(self.session), supports=list(supports)).state
            )
        lengths = np.linalg.norm(loadings, axis=0)
        components = (loadings / np.where(lengths > 0, lengths, 1.0)).T
        return np.asarray(components * fix_signs(components)[:, None] + 0.0)  # no negative zeros

    def _principal_axes(self, support: Bools) -> Floats:
        """Principal axes of some columns (n_features, n_components), zeros beyond their number."""
        k = min(self.settings.n_components, int(np.count_nonzero(support)))
        axes = np.zeros_like(self.start.loadings)
        if k > 0:
            centring = Centring(self.session.summary.mean, support.astype(float))
            found = self.session.spectrum(centring, divisor=1.0, n_components=k)
            axes[:, :k] = np.where(support[:, None], found.vectors[:, :k], 0.0) * (found.values[:k] > 0)
        return axes


def _open_table(session: FitContext, settings: Settings) -> Fitter:
    """The inner products of a table and its principal components."""
    n_rows = float(session.summary.weight[0])
    norms = np.sqrt(session.summary.variance * n_rows)
    scale = float(np.linalg.norm(norms)) or 1.0
    centring = Centring(session.summary.mean, 1.0 / scale)
    spectrum = session.spectrum(centring, divisor=1.0, n_components=settings.n_components)
    is_small = session.data.n_features <= max(_SMALL_GRAM, session.data.n_samples)
    gram: Gram = sum_gram(session, centring) if is_small else StreamedGram(session, centring, spectrum.trace)
    groups = np.array_split(np.arange(settings.n_components), settings.n_patterns)
    design = Design(gram.times, spectrum.trace, n_rows, groups, settings.constraint, settings.exponent)
    start = _principal_start(design, spectrum.values, spectrum.vectors, settings.n_components)
    return Fitter(session, settings, scale, design, start, largest_penalty(design, norms / scale))


def path_limits(session: FitContext) -> Limits:
    """Limits of the descents along a path, whose points are starts and supports."""
    return Limits(min(session.max_iter, _PATH_ITER), max(session.tol, _PATH_TOL))


def follow(design: Design, start: State, penalties: Floats, limits: Limits) -> list[State]:
    """Compute states at increasing penalties with warm starts.

    From below: descents that start dense end lower than those that start from nothing.
    """
    states = [start]
    for penalty in penalties:
        # What is zero stays so.
        is_over = not states[-1].loadings.any()
        states.append(states[-1] if is_over else descend(design, states[-1], float(penalty), limits).state)
    return states[1:]


def _cross_validate(context: FitContext, settings: Settings, scale: float) -> CrossValidation:
    """Compare the penalties of the path on rows that are left out, of the table divided by ``scale``."""

    def read(block: Block) -> tuple[Floats, Floats]:
        return block.read().x.astype(np.float64) / scale, block.weights

    values, weights = (np.concatenate(parts) for parts in zip(*context.gather(read), strict=True))
    values, weights = values[weights > 0], weights[weights > 0]
    folds = draw_folds(values, settings.n_folds, context.rng)
    shares = settings.shares(values.shape[1])
    errors = np.array(
        [_fold_errors(context, settings, shares, values, weights, folds == fold) for fold in np.unique(folds)]
    )
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    if settings.criterion == "row":
        # A cell helps to predict itself, so the smallest error keeps too much: the largest penalty within a standard
        # error of it is taken.
        margin = errors[:, best].std(ddof=1) / np.sqrt(len(errors))
        best = int(np.flatnonzero(mean <= mean[best] + margin)[-1])
    return CrossValidation(shares, errors * scale**2, float(shares[best]))


def _fold_errors(
    context: FitContext, settings: Settings, shares: Floats, values: Floats, weights: Floats, is_out: Bools
) -> Floats:
    """Mean squared errors of the cells of rows that are left out, along the path (n_penalties,)."""
    data = check_data(values[~is_out], sample_weight=weights[~is_out])
    with open_context(data, n_jobs=1, max_iter=context.max_iter, tol=context.tol) as fold:
        fitter = _open_table(fold, settings)
        states = follow(fitter.design, fitter.start, shares * fitter.largest, path_limits(fold))
    centred = (values - fold.summary.mean) * np.sqrt(weights)[:, None]
    known, left_out = centred[~is_out], centred[is_out]
    n_cells = float(weights[is_out].sum()) * values.shape[1]
    k, is_row = settings.n_components, settings.criterion == "row"
    errors = [
        row_error(left_out, at.loadings) if is_row else press_error(known, left_out, at.support, k)
        for at in states
    ]
    return np.asarray(np.array(errors) / n_cells)


def _principal_start(design: Design, values: Floats, vectors: Floats, k: int) -> State:
    """Left singular vectors as scores, U = X A with A = vectors / singular values; zeros beyond the rank."""
    weights = np.zeros((len(vectors), k))
    usable = np.flatnonzero(values[:k] > len(vectors) * np.finfo(float).eps * values[0])
    weights[:, usable] = vectors[:, usable] / np.sqrt(values[usable])
    image = design.times(weights)
    return State(weights, image, image)


def _supports(design: Design, state: State) -> Bools:
    """Support of each group, shape (n_groups, n_features)."""
    return np.array([state.loadings[:, group].any(axis=1) for group in design.groups])


def _longest_rows(design: Design, state: State, denser: State, wanted: int) -> Bools:
    """Supports of the ``wanted`` longest rows of a state, completed from its starting state.

    The count may jump over it from one penalty to the next, and fall in the last sweeps.
    """
    lengths = [np.linalg.norm(at.loadings, axis=1) for at in (denser, state)]
    kept = np.zeros(len(state.loadings), dtype=bool)
    kept[np.lexsort(lengths)[::-1][:wanted]] = True
    return (_supports(design, state) | (_supports(design, denser) & ~state.support)) & kept


def _principal_loadings(design: Design, state: State) -> Floats:
    """V of the same U V' with orthonormal U and orthogonal columns of V within each group, the longest first."""
    loadings, gram = state.loadings.copy(), state.gram
    for group in design.groups:
        values, basis = np.linalg.eigh(gram[np.ix_(group, group)])
        root = basis * np.sqrt(np.maximum(values, 0.0))
        # U = P root' with orthonormal P, hence U V' = P (V root)': its right singular vectors times its values.
        own = state.loadings[:, group]
        left, sizes, _ = np.linalg.svd(own @ root, full_matrices=False)
        loadings[:, group] = left * sizes * own.any(axis=1, keepdims=True)  # zeros stay exact
    return loadings
