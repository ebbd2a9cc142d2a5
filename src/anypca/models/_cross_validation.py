"""Cross-validation over entries: hide some, fit estimators to the others, and score the hidden ones.

Every parameter whose value is chosen by prediction (``ridge="cv"``, ``nu_path``, ``sparsity="auto"``, ...) and every
comparison in `anypca.selection` calls `cross_validate`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import clone

from anypca._typing import Floats, Ints
from anypca.engine import check_data, hide_entries, take_entries
from anypca.engine.entries import mix
from anypca.exceptions import ConvergenceWarning


class Entries(NamedTuple):
    """Positions in a table, in row order."""

    rows: Ints
    """Shape (n_entries,)."""
    columns: Ints
    """Shape (n_entries,)."""


class HeldOut(NamedTuple):
    """The entries that a split hides, and the table without them.

    See Also
    --------
    cross_validate : passes it to a score.
    """

    table: Any
    """Of the kind of the original table, NaN at hidden entries."""
    entries: Entries
    values: Floats
    """The hidden values, shape (n_entries,)."""
    weight: Floats
    """Sample weights of their rows, shape (n_entries,)."""
    row_params: dict[str, Any]
    """Offsets and covariates for the methods of fitted models, by name."""


def entry_log_likelihood(model: Any, held_out: HeldOut) -> Floats:
    """Log-likelihood of each hidden entry under a model fitted to the others, shape (n_entries,).

    Raises
    ------
    ValueError
        If the model considers an entry impossible.
    """
    entries, values = held_out.entries, held_out.values
    terms = np.asarray(model.entry_log_likelihood(held_out.table, *entries, values, **held_out.row_params))
    impossible = np.flatnonzero(~np.isfinite(terms))
    if len(impossible):
        where = int(impossible[0])
        raise ValueError(
            f"the log-likelihood of the held-out X[{entries.rows[where]}, {entries.columns[where]}] = "
            f"{values[where]:.6g} is {terms[where]} under {model!r}: the other entries made it impossible. Increase "
            "the ridge, or choose a family whose support holds all values of the column."
        )
    return terms


def cross_validate(
    estimators: Sequence[Any] | Callable[..., Sequence[Any]],
    X: Any,
    splits: Iterable[tuple[Ints, Ints]],
    *,
    score: Callable[[Any, HeldOut], Any] = entry_log_likelihood,
    offset: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> list[list[Any]]:
    """Fit estimators to the training entries of each split, and score the hidden entries.

    Parameters
    ----------
    estimators : sequence of estimators, or callable
        They are cloned. A callable takes a table and the keyword arguments of ``fit``, and returns fitted models: for
        fits that start from each other, such as paths over ranks.
    X : table of shape (n_samples, n_features)
        Any kind except a Dask array.
    splits : iterable of (rows, columns)
        Positions of the entries to hide, rows in increasing order; see `anypca.selection.EntryKFold` and `hash_folds`.
    score : callable, default=entry_log_likelihood
        Takes a fitted model and a `HeldOut`; what it returns is collected.
    offset, covariates, sample_weight : as in ``fit``
        Passed to every fit.
    n_jobs : int or None, default=None
        Number of splits worked on at a time, in threads.

    Returns
    -------
    list of list
        ``result[split][estimator]`` is the score.

    See Also
    --------
    anypca.selection.select_rank : compares numbers of components.

    Notes
    -----
    Convergence warnings are silenced: a fit that stopped early predicts as well as it can.
    """
    given = {"offset": offset, "covariates": covariates, "sample_weight": sample_weight}
    fit_params = {name: value for name, value in given.items() if value is not None}

    def score_split(entries: Entries) -> list[Any]:
        held_out = hold_out(X, entries, fit_params)
        if callable(estimators):
            models = estimators(held_out.table, **fit_params)
        else:
            models = [clone(estimator).fit(held_out.table, **fit_params) for estimator in estimators]
        return [score(model, held_out) for model in models]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Threads: the table need not be copied, and the time goes into array operations that release the lock.
        parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
        return list(parallel(joblib.delayed(score_split)(Entries(*entries)) for entries in splits))


def hold_out(X: Any, entries: Entries, fit_params: Mapping[str, Any]) -> HeldOut:
    """A table without some of its entries."""
    weight = np.ones(len(entries.rows))
    if "sample_weight" in fit_params:
        weight = np.asarray(fit_params["sample_weight"], dtype=float)[entries.rows]
    row_params = {name: value for name, value in fit_params.items() if name != "sample_weight"}
    return HeldOut(hide_entries(X, *entries), entries, take_entries(X, *entries), weight, row_params)


def hash_folds(X: Any, n_folds: int, sample_weight: Any = None) -> list[Entries]:
    """Folds of the observed entries that depend neither on the order of rows and columns nor on units.

    An entry belongs to a fold by a hash of the ranks of the values of its row and column: equal rows have equal folds,
    and a row of weight 2 counts as two rows. Every row and column keeps an observed entry in every fit.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        In this process; it is made dense.
    n_folds : int
        At least 2.
    sample_weight : array-like of shape (n_samples,) or None

    Returns
    -------
    list of Entries
        One for each fold.
    """
    values = np.concatenate([block.values() for block in check_data(X).blocks]).astype(float)
    weight = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    observed = ~np.isnan(values)
    fold_of = _hash_entries(values, weight) % np.uint64(n_folds)
    folds = []
    for fold in range(n_folds):
        hidden = (fold_of == fold) & observed
        hidden[:, ~(observed & ~hidden).any(axis=0)] = False
        hidden[~(observed & ~hidden).any(axis=1)] = False
        folds.append(Entries(*np.nonzero(hidden)))
    return folds


def _hash_entries(x: Floats, weight: Floats) -> Any:
    """A number for each entry (n, p), from sums over rows and columns of functions of the ranks within columns."""
    observed, share = ~np.isnan(x), np.zeros(x.shape)
    for j in range(x.shape[1]):
        values, place = np.unique(x[observed[:, j], j], return_inverse=True)
        totals = np.cumsum(np.bincount(place, weight[observed[:, j]], minlength=len(values)))
        share[observed[:, j], j] = (totals / totals[-1] if len(totals) else totals)[place]
    total = weight.sum()
    columns = weight @ np.sin(5.0 * share) / total
    rows = np.sin(7.0 * share + 11.0 * columns).mean(axis=1)
    columns = weight @ np.cos(3.0 * share + 13.0 * rows[:, None]) / total
    # Rounded, because sums depend on the order of their terms in the last digits.
    row_hash, column_hash = (
        mix(np.round(1e7 * sums).astype(np.int64).astype(np.uint64)) for sums in (rows, columns)
    )
    return mix(np.add.outer(row_hash, column_hash))
