"""Fits over ranks, and cross-validation by entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from anypca._typing import Floats
from anypca.columns import choose_families
from anypca.models._arguments import check_ranks
from anypca.models._context import lay_out, open_context
from anypca.models._cross_validation import HeldOut, cross_validate, entry_log_likelihood
from anypca.models._description import describe, find_attribute
from anypca.models._posterior_model import PosteriorModel
from anypca.selection._numbers import as_numbers, check_numbers
from anypca.selection.facts import Companions
from anypca.selection.splits import check_splitter

#: Parameters that set a rank, in order of preference.
_RANK_PARAMETERS = ("n_components", "max_components")
# Default of the largest rank: each costs a fit, and few tables have more components.
_DEFAULT_LARGEST = 10


def rank_path(
    estimator: Any,
    X: Any,
    ranks: Any = None,
    *,
    offset: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
) -> tuple[Any, ...]:
    """Fit copies of an estimator with several numbers of components.

    Estimators with a method ``path`` (`PLNPCA`) fit all ranks in one go, each started from the rank below or afresh,
    whichever is better. All others are fitted rank by rank, each from its own start: `EPCA` and `SePCA` start at
    the leading directions of the residuals, which include the start of lower ranks.

    Parameters
    ----------
    estimator : estimator with a parameter ``n_components`` or ``max_components``
        Left as it is.
    X : table of shape (n_samples, n_features)
        The table.
    ranks : int or sequence of int, optional
        Numbers of components; 1, 2, ... up to 10 or less than the table's sides by default. 0 is allowed where the
        estimator allows it (`EPCA`, `SePCA`): no components at all.
    offset, covariates, sample_weight : as in ``fit``
        For estimators that take them.

    Returns
    -------
    tuple of fitted estimators
        By increasing rank.

    See Also
    --------
    select_rank : chooses among the ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import PPCA
    >>> from anypca.selection import rank_path
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> [model.n_components_ for model in rank_path(PPCA(), X, [1, 3])]
    [1, 3]
    """
    name = rank_parameter(estimator)
    companions = Companions.of(offset, covariates, sample_weight)
    return fit_ranks(estimator, name, X, choose_ranks(ranks, X), companions)


def fit_ranks(
    estimator: Any, name: str, X: Any, ranks: Sequence[int], companions: Companions
) -> tuple[Any, ...]:
    """Fitted copies of an estimator for checked ranks."""
    if describe(estimator).has_path:
        return tuple(estimator.path(X, ranks, **companions.for_fit()).models)
    return tuple(clone(estimator).set_params(**{name: rank}).fit(X, **companions.for_fit()) for rank in ranks)


def weakly_penalised(estimator: Any) -> Any:
    """The estimator, or one with the ridge of 1, which changes likelihoods little, in place of one that it finds."""
    if estimator.get_params(deep=False).get("ridge") != "auto":
        return estimator
    return clone(estimator).set_params(ridge=1.0)


def rank_parameter(estimator: Any) -> str:
    """The name of the parameter that sets the rank of an estimator.

    Raises
    ------
    TypeError
        If it is no estimator, or has no such parameter.
    """
    if isinstance(estimator, type) or find_attribute(estimator, "get_params") is None:
        call = f" Write {estimator.__name__}()." if isinstance(estimator, type) else ""
        raise TypeError(f"estimator must be an estimator such as EPCA(); got {estimator!r}.{call}")
    parameters = estimator.get_params(deep=False)
    for name in _RANK_PARAMETERS:
        if name in parameters:
            return name
    raise TypeError(
        f"{type(estimator).__name__} has no parameter that sets a rank (n_components or max_components), so there is "
        "nothing to choose. Pass an estimator such as EPCA()."
    )


def choose_ranks(ranks: Any, X: Any) -> list[int]:
    """Ranks that fit a table, in increasing order without repetitions; the default ones for None.

    Raises
    ------
    TypeError, ValueError
        If they are not integers from 0 to the smaller side of the table.
    """
    data = check_numbers(X)
    largest = min(data.n_samples, data.n_features)
    if ranks is None:
        return list(range(1, max(min(_DEFAULT_LARGEST, largest - 1), 1) + 1))
    return check_ranks(ranks, largest)


def settle_family(estimator: Any, X: Any) -> Any:
    """A copy of an estimator in which ``family="auto"`` is replaced by what it means for the whole table.

    Fits to parts of the table must not disagree about it: a column of small counts with only zeros and
    ones only would become binary, and its other counts impossible.
    """
    copy = clone(estimator)
    family = getattr(copy, "family", None) if isinstance(copy, PosteriorModel) else None
    if not (isinstance(family, str) and family.strip().lower() == "auto"):
        return copy
    with open_context(check_numbers(X), copy.n_jobs) as session:
        chosen = lay_out(session, choose_families(family, session), {})
        assert chosen.choice is not None
    layout = chosen.layout
    return copy.set_params(family=layout.settled(layout.family(chosen.choice.family)))


@dataclass(frozen=True, eq=False)
class EntryScores:
    """Log-likelihoods of held-out entries.

    See Also
    --------
    entry_cross_validate : computes it.
    """

    log_likelihood: Floats
    """Sum over the held-out entries of each split, with sample weights, shape (n_splits,)."""
    n_entries: Floats
    """Number of these entries, with sample weights, shape (n_splits,)."""

    @property
    def fold_means(self) -> Floats:
        """Mean log-likelihood per held-out entry of each split, shape (n_splits,)."""
        return self.log_likelihood / self.n_entries

    @property
    def l_miss(self) -> float:
        """L_miss, the mean log-likelihood per held-out entry over all splits; higher is better."""
        return float(self.log_likelihood.sum() / self.n_entries.sum())

    @property
    def standard_error(self) -> float:
        """Standard error of L_miss, from the spread of the splits; NaN for a single one.

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

    with all constants of the family, at the predictor and the dispersion of a fit that takes H as missing. The scores
    of every row come from its remaining entries. Models with a posterior average over it, and p is the probability of
    the entry as it is recorded, in steps (``resolution_``): scores of all models and families on the same splits are
    comparable, whatever the units if steps scale with them; see ``entry_log_likelihood``.

    Parameters
    ----------
    estimator : estimator with a method ``entry_log_likelihood``
        `EPCA`, `SePCA`, `PPCA`, `PLNPCA`, `PiecewisePCA`. It is left as it is. ``family="auto"`` is decided once, from
        the whole table.
    X : table of shape (n_samples, n_features)
        Any kind but a Dask array. NaN is missing and never scored; zeros of a sparse table are observed entries, held
        out like others. A split copies the table; a sparse one stays sparse and stores its hidden entries as NaN, so
        that with k folds the copy holds one entry in k of the full table and the non-zeros. Fits read it, and
        hidden values are looked up, one dense block of rows at a time.
    cv : EntryKFold, EntryShuffleSplit or int, default=10
        Which entries to hold out; a number is a number of folds. Splitters of rows are refused.
    offset, covariates, sample_weight : as in ``fit``
        Weights count in the scores too: an entry of a row of weight 2 counts twice.
    n_jobs : int or None, default=None
        Number of splits worked on at a time, in threads of joblib; the estimators then use one thread each. None means
        1, unless a joblib context says otherwise.

    Returns
    -------
    EntryScores
        The scores of all folds.

    Raises
    ------
    TypeError
        If ``cv`` splits rows, or the estimator cannot score entries.

    See Also
    --------
    select_rank : the number of components by it.

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
    companions = Companions.of(offset, covariates, sample_weight)
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
    settled, X = settle_family(estimator, X), as_numbers(X)
    if joblib.effective_n_jobs(n_jobs) > 1 and "n_jobs" in settled.get_params(deep=False):
        settled.set_params(n_jobs=1)
    if name is None:
        estimators: Any = [settled]
    else:

        def estimators(table: Any, **fit_params: Any) -> tuple[Any, ...]:
            return fit_ranks(settled, name, table, ranks, companions)

    found = cross_validate(
        estimators, X, splitter.split(X), score=_total, n_jobs=n_jobs, **companions.for_fit()
    )
    values, counts = np.moveaxis(np.array(found), 2, 0)
    return values, counts[:, 0]


def _total(model: Any, held_out: HeldOut) -> tuple[float, float]:
    """Weighted sum of the log-likelihoods of hidden entries, and their weighted number."""
    terms = entry_log_likelihood(model, held_out)
    return float(held_out.weight @ terms), float(held_out.weight.sum())


def check_scorable(estimator: Any) -> None:
    """Raise a TypeError unless an estimator can score single entries."""
    rank_parameter(estimator)
    if not describe(estimator).has_entries:
        raise TypeError(
            f"{type(estimator).__name__} cannot score held-out entries: it has no method entry_log_likelihood. Use "
            "EPCA, SePCA, PPCA, PLNPCA or PiecewisePCA."
        )
