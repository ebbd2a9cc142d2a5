"""Cross-validation by entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from anypca._typing import Floats
from anypca.engine import hide_entries, take_entries
from anypca.models._description import describe
from anypca.selection.facts import Companions
from anypca.selection.path import fit_ranks, rank_parameter, settle_family
from anypca.selection.splits import Entries, check_splitter


@dataclass(frozen=True, eq=False)
class EntryScores:
    """Log-likelihoods of held-out entries."""

    log_likelihood: Floats
    """Sum over the held-out entries of each split, with sample weights, shape (n_splits,)."""
    n_entries: Floats
    """Number of these entries, with sample weights, shape (n_splits,)."""

    @property
    def fold_means(self) -> Floats:
        """Mean log-likelihood per held-out entry of each split, shape (n_splits,)."""
        means: Floats = self.log_likelihood / self.n_entries
        return means

    @property
    def l_miss(self) -> float:
        """L_miss, the mean log-likelihood per held-out entry over all splits; higher is better."""
        return float(self.log_likelihood.sum() / self.n_entries.sum())

    @property
    def standard_error(self) -> float:
        """Of L_miss, from the spread of the splits; NaN for a single one.

        It takes the splits as independent. They share most of the entries that they are fitted to, so it is rather
        too small.
        """
        n = len(self.n_entries)
        return float(self.fold_means.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def entry_cross_validate(
    estimator: Any,
    X: Any,
    *,
    cv: Any = 10,
    offset: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> EntryScores:
    r"""Hide entries, fit to the others, and score the hidden ones.

    For the entries H that a split holds out,

    .. math:: L_{miss} = \frac1{|H|} \sum_{(i, j) \in H} \log p(x_{ij} \mid \hat\eta_{ij})

    with all constants of the family, at the predictor and the dispersion of a fit that takes H as missing. The
    scores of every row come from its remaining entries.

    Parameters
    ----------
    estimator : estimator with a method ``entry_log_likelihood``
        `EPCA`, `SePCA`, `PPCA`, `PLNPCA`, `PiecewisePCA`. It is left as it is. ``family="auto"`` is decided once, from
        the whole table.
    X : table of shape (n_samples, n_features)
        Any kind but a Dask array. NaN is missing and never scored; zeros of a sparse table are observed entries, held
        out like others. A split copies the table; a sparse one stays sparse and stores its hidden entries as NaN, so
        that with k folds the copy holds one entry in k of the full table beside the non-zeros. Fits read it, and
        hidden values are looked up, one dense block of rows at a time.
    cv : EntryKFold, EntryShuffleSplit or int, default=10
        Which entries to hold out; a number stands for that many folds. Splitters of rows are refused.
    offset, covariates, sample_weight : as in ``fit``
        Weights count in the scores too: an entry of a row of weight 2 counts twice.
    n_jobs : int or None, default=None
        Number of splits worked on at a time, in threads of joblib; the estimators then use one thread each. None means
        1, unless a joblib context says otherwise.

    Returns
    -------
    EntryScores

    Raises
    ------
    TypeError
        If ``cv`` splits rows, or the estimator cannot score entries.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> from anypca.selection import EntryKFold, entry_cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 10)) + 0.5 * rng.normal(size=(80, 10))
    >>> scores = [entry_cross_validate(PPCA(k), X, cv=EntryKFold(5)).l_miss for k in (1, 2, 3)]
    >>> int(np.argmax(scores)) + 1
    2
    """
    companions = Companions(offset, covariates, sample_weight)
    values, counts = cross_validate_ranks(estimator, None, X, [0], cv, companions, n_jobs)
    return EntryScores(values[:, 0], counts)


def cross_validate_ranks(
    estimator: Any,
    name: str | None,
    X: Any,
    ranks: Sequence[int],
    cv: Any,
    companions: Companions,
    n_jobs: int | None,
) -> tuple[Floats, Floats]:
    """Summed log-likelihoods (n_splits, n_ranks) and numbers (n_splits,) of held-out entries.

    All ranks see the same splits, and a split is hidden once for all ranks. With ``name=None`` the estimator is
    fitted as it is instead of at the ranks.
    """
    splitter = check_splitter(cv)
    check_scorable(estimator)
    settled = settle_family(estimator, X)
    # Threads: the table need not be copied, and the time goes into array operations that release the lock.
    parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
    if joblib.effective_n_jobs(n_jobs) > 1 and "n_jobs" in settled.get_params(deep=False):
        settled.set_params(n_jobs=1)
    found = parallel(
        joblib.delayed(_score_split)(settled, name, X, ranks, entries, companions)
        for entries in splitter.split(X)
    )
    values, counts = zip(*found, strict=True)
    return np.array(values), np.array(counts)


def check_scorable(estimator: Any) -> None:
    """Raise a TypeError unless an estimator can score single entries."""
    rank_parameter(estimator)
    if not describe(estimator).has_entries:
        raise TypeError(
            f"{type(estimator).__name__} cannot score held-out entries: it has no method entry_log_likelihood. Use "
            "EPCA, SePCA, PPCA, PLNPCA or PiecewisePCA."
        )


def _score_split(
    estimator: Any, name: str | None, X: Any, ranks: Sequence[int], entries: Entries, companions: Companions
) -> tuple[list[float], float]:
    """Summed log-likelihoods of one split's entries at each rank, and their number."""
    hidden = hide_entries(X, *entries)
    values = take_entries(X, *entries)
    weight = np.ones(len(values))
    if companions.sample_weight is not None:
        weight = np.asarray(companions.sample_weight, dtype=float)[entries.rows]
    if name is None:
        models: tuple[Any, ...] = (clone(estimator).fit(hidden, **companions.for_fit()),)
    else:
        models = fit_ranks(estimator, name, hidden, ranks, companions)
    totals = []
    for model in models:
        terms = model.entry_log_likelihood(hidden, *entries, values, **companions.for_rows())
        _check_terms(model, terms, entries, values)
        totals.append(float(weight @ terms))
    return totals, float(weight.sum())


def _check_terms(model: Any, terms: Floats, entries: Entries, values: Floats) -> None:
    """Raise on an entry that the fit holds impossible: the mean would say nothing of the others."""
    bad = np.flatnonzero(~np.isfinite(terms))
    if len(bad):
        where = int(bad[0])
        row, column = int(entries.rows[where]), int(entries.columns[where])
        raise ValueError(
            f"the log-likelihood of the held-out X[{row}, {column}] = {values[where]:.6g} is {terms[where]} under "
            f"{model!r}: the other entries made it impossible. Increase the ridge, or choose a family whose support "
            "holds all values of the column."
        )
