"""The strength of the ridge: from the size of noise, or chosen by entries that are hidden from trial fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.start import BilinearFitter
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.models._context import FitContext
from anypca.models._cross_validation import HeldOut, cross_validate, entry_log_likelihood, hash_folds
from anypca.models._imputation import has_bounds
from anypca.models._warm import cold_clone

# Entries and columns that trials are fitted to: a trial takes some hundredths of a second, however large the table.
_MOST_ENTRIES = 30_000
_MOST_COLUMNS = 500
# Rows below which a table of few entries is not cut.
_FEWEST_ROWS = 100
# The ridge in units of the largest singular value of noise, sqrt(n) + sqrt(p) in units of information. On hidden cells
# of seven tables of counts a half was within 0.1 nats of the best of 0.1 to 1, or above all of them; a fifth was worse
# than no components by 3 to 6 nats on four of them.
_OF_NOISE = 0.5
# Below this the ridge of rare or widely scattered counts is not lowered: with so little information predictors are far
# from where noise is normal. On tables of 49 x 17 to 126 x 32 counts a ridge of 2 had hidden entries 2 to 8 nats worse
# than means with six components, one of 5 to 8 had them better or alike.
_LEAST_OF_RARE = 8.0
# Folds of the hidden entries. With two folds a fit sees half of the table.
_N_FOLDS = 3
# Tolerance of trials: predictions of hidden entries differ by far more than more exact fits would change them.
_TOL, _MAX_ITER = 1e-2, 100
# Maximum information of an entry with a bounded expectation, for example a yes/no answer.
_OF_ANSWER = 0.25
# Trials begin there and decrease the ridge by this factor while the prediction of hidden entries improves, down to 1,
# which only removes infinite estimates.
_FACTOR = 2.0
LEAST_RIDGE = 1.0
# Parts of a ridge that are tried where it leaves nothing of a component: most are back with the first.
_PARTS = (0.75, *(0.5**power for power in range(1, 64)))
# Where even the first predicts worse than means do (counts that vary far more than their family says have noise that is
# larger by the square root of that), they go up by this factor, in so many steps to 4096 times the first.
_FACTOR_UP = 8.0
_STEPS_UP = 4
# Nats per entry below which the predictions of two fits count as equal.
_SLACK = 1e-3
# Maximum ratio of a trial's squared errors to the errors of column means. It excludes absurd single predictions, which
# multiply the errors; a tenth more is within the sampling error of the hidden entries.
_LARGEST_ERROR = 1.1


class Trial(NamedTuple):
    """How well hidden entries are predicted."""

    log_likelihood: float
    """Mean over the hidden entries."""
    errors: Floats
    """Summed squared errors of the means, for each family of the table."""

    def is_worse_than_means(self, means: Trial) -> bool:
        return bool(
            self.log_likelihood < means.log_likelihood - _SLACK
            or (self.errors > _LARGEST_ERROR * means.errors).any()
        )


@dataclass(frozen=True, eq=False)
class TrialTable:
    """Some rows and columns of a table, in this process."""

    values: Floats
    """NaN where missing (n, p)."""
    given: dict[str, Any]
    """Weights, offsets and covariates of the rows, by their names in ``fit``."""
    family: Family

    @property
    def noise(self) -> float:
        """The largest singular value of unit noise."""
        return float(np.sqrt(self.given["sample_weight"].sum()) + np.sqrt(self.values.shape[1]))

    def evaluate(self, model: Any) -> Trial:
        """Cross-validate a model over entries."""
        folds = hash_folds(self.values, _N_FOLDS, self.given["sample_weight"])
        found = cross_validate([model], self.values, folds, score=self._score, **self.given)
        totals = np.sum([fold[0] for fold in found], axis=0)
        return Trial(float(totals[0] / max(totals[1], 1.0)), totals[2:])

    def _score(self, fitted: Any, held_out: HeldOut) -> Floats:
        """Log-likelihood, number and, for each family, squared errors of the hidden entries of a fold."""
        weight, entries = held_out.weight, held_out.entries
        terms = entry_log_likelihood(fitted, held_out)
        squares = (fitted.impute(held_out.table, **held_out.row_params)[entries] - held_out.values) ** 2
        groups = self.family.member_columns(self.values.shape[1])
        errors = [weight @ (squares * np.isin(entries.columns, columns)) for _, columns in groups]
        return np.array([weight @ terms, weight.sum(), *errors])


def lower_ridges(ridge: float) -> Iterator[float]:
    """A ridge and smaller ones, each to be tried where the one before left nothing of a component."""
    yield ridge
    for part in _PARTS:
        if part * ridge <= LEAST_RIDGE:
            break
        yield part * ridge
    if ridge > LEAST_RIDGE:
        yield LEAST_RIDGE


def noise_ridge(fitter: BilinearFitter[Any], null: Coefficients) -> float:
    """The ridge that takes most of what is noise: a part of its largest singular value.

    Noise of entries that tell little of their eta, such as rare counts, is smaller by the root of their information.

    Parameters
    ----------
    fitter : BilinearFitter
    null : Coefficients
        The model without components.
    """
    most = _OF_NOISE * _largest_noise(fitter.session)
    is_bounded = has_bounds(fitter.family, null.dispersion)
    least = min(_LEAST_OF_RARE, most * np.sqrt(np.where(is_bounded, _OF_ANSWER, 1.0).mean()))
    return float(max(most * np.sqrt(_mean_information(fitter, null)), least, LEAST_RIDGE))


def _mean_information(fitter: BilinearFitter[Any], null: Coefficients) -> float:
    """Mean information of an entry about its eta over columns, without components, in units of noise, at most 1."""

    def curvatures(rows: BlockView, scores: Floats) -> Floats:
        evaluator, found = BlockEvaluator(fitter.family, null, rows), np.zeros((2, rows.n_features))
        for tile, terms in evaluator.tiles(evaluator.design(scores), order=2):
            found[0, tile] = rows.weights @ terms.curvature
            found[1, tile] = rows.weights @ apply_entry_weights(rows, tile, np.ones_like(terms.curvature))
        return found

    total, count = fitter.visit.sum(curvatures)
    information = total / np.maximum(count, 1.0) * noise_units(fitter.family, null.dispersion)
    return float(np.minimum(information, 1.0).mean())


def _largest_noise(session: FitContext) -> float:
    """The largest singular value of unit noise in the observed entries."""
    weight = session.summary.weight
    in_rows = float(weight.sum() / max(weight.max(initial=0.0), 1.0))
    return float(np.sqrt(weight.mean()) + np.sqrt(in_rows))


def choose_ridge(model: Any, session: FitContext, family: Family) -> tuple[float, dict[float, float]]:
    """The ridge whose fits predict hidden entries best, of those that predict no family's worse than means do.

    Parameters
    ----------
    model : EPCA
        Whose other settings the trials have.
    session : FitContext
    family : Family
        Of the columns.

    Returns
    -------
    ridge : float
        In the units of the whole table.
    trials : dict
        From ridge to the mean log-likelihood of hidden entries.
    """
    table = _draw(session, family)
    settings = {
        "family": table.family,
        "resolution": None,
        "tol": max(_TOL, session.tol),
        "max_iter": _MAX_ITER,
        "n_jobs": 1,
        "verbose": 0,
    }
    first = cold_clone(model).set_params(**settings)
    n_components = min(model.n_components_, *table.values.shape)
    whole = float(np.sqrt(session.summary.weight.max(initial=1.0)) + np.sqrt(session.data.n_features))
    unit = whole / table.noise
    means = table.evaluate(clone(first).set_params(n_components=0, ridge=LEAST_RIDGE))
    trials = _search(
        lambda ridge: table.evaluate(clone(first).set_params(n_components=n_components, ridge=ridge)),
        means,
        max(_OF_NOISE * table.noise, LEAST_RIDGE),
    )
    good = {r: t.log_likelihood for r, t in trials.items() if not t.is_worse_than_means(means)}
    best = max(good, key=lambda ridge: good[ridge]) if good else max(trials)
    return unit * best, {unit * ridge: trial.log_likelihood for ridge, trial in sorted(trials.items())}


def _search(judge: Callable[[float], Trial], means: Trial, begin: float) -> dict[float, Trial]:
    """Trials up from ``begin`` until one is no worse than means, and down from it while they get better."""
    trials = {begin: judge(begin)}
    for _ in range(_STEPS_UP):
        if not trials[max(trials)].is_worse_than_means(means):
            break
        trials[max(trials) * _FACTOR_UP] = judge(max(trials) * _FACTOR_UP)
    ridge = begin
    while ridge > LEAST_RIDGE:
        # The last step goes to the smallest itself.
        ridge = max(ridge / _FACTOR, LEAST_RIDGE)
        trials[ridge] = judge(ridge)
        if trials[ridge].log_likelihood < max(trial.log_likelihood for trial in trials.values()):
            break
    return trials


def _draw(session: FitContext, family: Family) -> TrialTable:
    """Rows and columns that trials are fitted to: all of a small table."""
    n, p = session.data.n_samples, session.data.n_features
    columns = np.arange(p)
    if p > _MOST_COLUMNS:
        columns = np.sort(session.rng.choice(p, _MOST_COLUMNS, replace=False))
    n_rows = min(n, max(_MOST_ENTRIES // len(columns), _FEWEST_ROWS))
    chosen = np.ones(n, dtype=bool)
    if n_rows < n:
        chosen[:] = False
        chosen[session.rng.choice(n, n_rows, replace=False)] = True

    def read(block: Block) -> tuple[Floats, Floats, Floats | None, Floats]:
        keep = chosen[block.start : block.stop] & (block.weights > 0)
        offset = block.offset()
        wide = None if offset is None else np.broadcast_to(offset, (block.n_rows, p))[keep][:, columns]
        return (
            block.values()[keep][:, columns].astype(float),
            block.weights[keep],
            wide,
            block.covariates[keep],
        )

    values, weight, offsets, covariates = zip(*session.gather(read), strict=True)
    given = {"sample_weight": np.concatenate(weight)}
    if offsets[0] is not None:
        given["offset"] = np.concatenate(offsets).astype(float)
    if session.data.n_covariates:
        given["covariates"] = np.concatenate(covariates)
    return TrialTable(np.concatenate(values), given, family if len(columns) == p else family.take(columns))
