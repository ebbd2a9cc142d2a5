"""`select_rank`: choose the number of components, and for `PiecewisePCA` the number of pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from anypca._typing import Floats
from anypca.columns import find_labels
from anypca.models._criteria import Criterion, FitFacts, evaluate_all, resolve_criterion
from anypca.models._description import describe
from anypca.selection.entry_cv import (
    EntryScores,
    check_scorable,
    choose_ranks,
    cross_validate_ranks,
    fit_ranks,
    rank_parameter,
    settle_family,
    weakly_penalised,
)
from anypca.selection.facts import Companions, describe_fit
from anypca.selection.splits import EntrySplitter, check_splitter


@dataclass(frozen=True, eq=False)
class RankSelection:
    """Result of `select_rank`.

    See Also
    --------
    select_rank : computes it.
    """

    criterion: str
    """Name of the criterion that decided."""
    label: str
    """The same in words, for plots."""
    rows: tuple[dict[str, Any], ...]
    """The table: one dict per rank, by increasing rank. ``rank`` is the requested number, ``n_components`` the
    fitted number (smaller if a model prunes). The criteria are under their names, lower is better."""
    best_rank: int
    """The chosen rank."""
    best_estimator_: Any = field(repr=False)
    """The estimator of that rank, fitted to the whole table."""
    fold_losses: Floats | None = field(default=None, repr=False)
    """Minus L_miss of each split and rank, shape (n_splits, n_ranks); None unless entries were held out."""
    one_standard_error: bool = False
    """Whether the choice is the smallest rank within one standard error of the lowest value."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were compared."""
        return tuple(row["rank"] for row in self.rows)

    @property
    def values(self) -> Floats:
        """The criterion of each rank, shape (n_ranks,)."""
        return np.array([row[self.criterion] for row in self.rows])

    @property
    def standard_errors(self) -> Floats | None:
        """Standard errors of ``values``, (n_ranks,); None unless there are at least two splits of held-out entries."""
        if self.fold_losses is None or len(self.fold_losses) < 2:
            return None
        return np.array([row["standard_error"] for row in self.rows])

    def best_rank_by(self, criterion: str) -> int:
        """The rank with the lowest value of another criterion of the table, the smallest in a tie.

        Parameters
        ----------
        criterion : str
            A criterion that the rows have.

        Returns
        -------
        int
        """
        known = [name for name in self.rows[0] if name not in _PLAIN]
        if criterion not in known:
            raise ValueError(f"the table has no criterion {criterion!r}; it has {', '.join(known)}.")
        return self.ranks[int(np.argmin([row[criterion] for row in self.rows]))]

    def to_frame(self) -> Any:
        """The table as a data frame with one row per rank.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas  # optional

        return pandas.DataFrame(list(self.rows)).set_index("rank")

    def plot(self, ax: Any = None) -> Any:
        """Draw the criterion over the ranks; see `anypca.plotting.plot_rank_selection`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        ax : matplotlib.axes.Axes
        """
        from anypca.plotting import plot_rank_selection  # matplotlib is optional

        return plot_rank_selection(self, ax)


#: Columns of the table that are no criteria.
_PLAIN = frozenset(
    {"rank", "n_components", "log_likelihood", "n_parameters", "converged", "l_miss", "standard_error"}
)


def select_rank(
    estimator: Any,
    X: Any,
    *,
    ranks: Any = None,
    criterion: Any = "marginal_bic",
    cv: Any = 10,
    one_standard_error: bool = False,
    offset: Any = None,
    covariates: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> RankSelection:
    r"""Choose the number of components of an estimator.

    Parameters
    ----------
    estimator : estimator with a parameter ``n_components`` or ``max_components``
        Not modified; copies are fitted.
    X : table of shape (n_samples, n_features)
        The table.
    ranks : int or sequence of int, optional
        Numbers of components to compare; 1, 2, ... up to 10 or less than the table's sides by default. 0, no
        components at all, can be among them for `EPCA` and `SePCA`.
    criterion : str or Criterion, default="marginal_bic"
        Criterion to minimise: ``"marginal_bic"``, ``"bic"``, ``"aic"``, ``"mdl"``, ``"icl"``, ``"evidence"`` or
        ``"held_out"``; see Notes.
    cv : EntryKFold, EntryShuffleSplit or int, default=10
        Splitter of the held-out entries, for ``"held_out"`` only. Splitters of rows raise an error, since rows of a
        PCA cannot be held out.
    one_standard_error : bool, default=False
        For ``"held_out"``: take the smallest rank whose loss is at most one standard error above the lowest one, the
        standard error being the one of the lowest.
    offset, covariates, sample_weight : as in ``fit``
        Passed to ``fit``.
    n_jobs : int or None, default=None
        Number of splits to run in parallel, for ``"held_out"``.

    Returns
    -------
    RankSelection
        ``best_rank``, ``best_estimator_``, the table (``rows``, ``to_frame()``) and ``plot()``. The table has all
        criteria that the fits provide.

    See Also
    --------
    compare_ranks : the answers of several methods.

    Notes
    -----
    Lower is better, the smallest rank wins a tie. With the log-likelihood L, d free parameters and p columns:

    ================  =================================================================================
    ``aic``           :math:`-2L + 2d`
    ``bic``           :math:`-2L + d \log n`
    ``mdl``           :math:`-L + \tfrac12\sum_a \log m_a` over parameters estimated from :math:`m_a` entries
    ``marginal_bic``  BIC with the scores integrated out
    ``icl``           ``marginal_bic`` plus twice the entropy of the scores' posteriors
    ``evidence``      :math:`-2 \log` evidence, ``evidence_`` of the fit
    ``held_out``      :math:`-L_{miss}`, see `entry_cross_validate`
    ================  =================================================================================

    *Scores integrated out* (`PPCA` exactly; `PLNPCA` and `PiecewisePCA` for counts by their bounds): n is the number of
    rows, and d counts loadings up to rotation, :math:`pk - k(k-1)/2`, intercepts, coefficients and noise.

    *Scores plugged in* (`EPCA`): L is the log-likelihood of the entries at the fitted scores. Scores are parameters,
    and d counts them: a predictor of rank k with f fixed features (intercept and covariates) has
    :math:`k(n - f + p - k) + pf` parameters, plus the estimated dispersions. The n in BIC is the number of observed
    entries. A ridge does not change these numbers: with ``ridge="auto"`` the compared fits use a ridge of 1, and
    ``best_estimator_`` estimates its own. A component of noise gains at most about
    :math:`(\sqrt n + \sqrt p)^2` in 2L but costs :math:`(n + p)\log(np)` in BIC, so that ``bic`` misses weak ones.
    ``marginal_bic`` and ``icl`` use Laplace's approximation with normal scores, which avoids this.

    *SePCA* supports ``evidence`` and ``held_out``; a rank is an upper limit, ``n_components`` the number kept.

    *Comparisons*: compare values of one criterion, for fits to the same rows, columns and missing cells.
    ``held_out`` compares all models, families and units, since it is the log-probability of entries as they are
    recorded (``resolution_``, the same in all fits). ``evidence`` of `SePCA` and the criteria of `EPCA` are
    log-probabilities too, and compare ranks and families within their model. Criteria of `PPCA` and `PiecewisePCA` are
    log-densities of continuous columns and compare ranks, or models of the same kind and units. Do not compare
    different criteria, or bounds with likelihoods. A row of weight 2 counts as two rows, also in n.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca import EPCA
    >>> from anypca.selection import select_rank
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(np.exp(rng.normal(size=(100, 2)) @ rng.normal(size=(2, 15)) / 2 + 1))
    >>> select_rank(EPCA(family="poisson"), counts, ranks=range(1, 5)).best_rank
    2
    """
    chosen, name = resolve_criterion(criterion), rank_parameter(estimator)
    candidates, companions = choose_ranks(ranks, X), Companions.of(offset, covariates, sample_weight)
    if one_standard_error and not chosen.is_held_out:
        raise ValueError(
            f"one_standard_error=True needs criterion='held_out'; {chosen.name!r} has no standard error. Leave it out."
        )
    splitter = check_splitter(cv)
    if chosen.is_held_out:
        settled = settle_family(estimator, X)
        rows, folds = _rows_by_entries(
            settled, name, X, candidates, splitter, companions, one_standard_error, n_jobs
        )
    else:
        settled = weakly_penalised(estimator)
        models = fit_ranks(settled, name, X, candidates, companions)
        facts = [describe_fit(model, X, companions) for model in models]
        rows, folds = [_row(chosen, *each) for each in zip(candidates, models, facts, strict=True)], None
    values = np.array([row[chosen.name] for row in rows])
    best = int(np.argmin(values))
    if one_standard_error:
        best = int(np.flatnonzero(values <= values[best] + rows[best]["standard_error"])[0])
    if folds is None and settled is estimator:
        model = models[best]
    else:
        # `fit` chooses the families of tables with labels again: labels define more levels than their numbers.
        final = settled if folds is not None and not find_labels(X) else estimator
        (model,) = fit_ranks(final, name, X, [candidates[best]], companions)
    return RankSelection(
        chosen.name, chosen.label, tuple(rows), candidates[best], model, folds, one_standard_error
    )


def _row(criterion: Criterion, rank: int, model: Any, facts: FitFacts) -> dict[str, Any]:
    """A row of the table for a fit to the whole table."""
    value = criterion.evaluate(facts)
    if value is None:
        known = [*evaluate_all(facts), *(["held_out"] if describe(model).has_entries else [])]
        remedy = (
            f"It has {', '.join(map(repr, known))}." if known else "It has none; choose another estimator."
        )
        raise ValueError(
            f"criterion {criterion.name!r} is not defined for a fit of {type(model).__name__}. {remedy}"
        )
    row: dict[str, Any] = {
        "rank": rank,
        "n_components": int(model.n_components_),
        "converged": bool(model.converged_),
    }
    if facts.likelihood is not None:
        row |= {"log_likelihood": facts.likelihood.value, "n_parameters": facts.likelihood.n_parameters}
    return {**row, **evaluate_all(facts), criterion.name: value}


def _rows_by_entries(
    estimator: Any,
    name: str,
    X: Any,
    ranks: Sequence[int],
    splitter: EntrySplitter,
    companions: Companions,
    one_standard_error: bool,
    n_jobs: int | None,
) -> tuple[list[dict[str, Any]], Floats]:
    """Rows of the table from predictions of hidden entries, and the losses of the splits (n_splits, n_ranks)."""
    check_scorable(estimator)
    if one_standard_error and splitter.get_n_splits() < 2:
        raise ValueError(
            f"one_standard_error=True needs at least two splits to tell a standard error; got {splitter!r}. Use "
            "EntryKFold(n_splits=10)."
        )
    sums, counts = cross_validate_ranks(estimator, name, X, ranks, splitter, companions, n_jobs)
    scores = [EntryScores(column, counts) for column in sums.T]
    rows = [
        {"rank": rank, "held_out": -each.l_miss, "standard_error": each.standard_error, "l_miss": each.l_miss}
        for rank, each in zip(ranks, scores, strict=True)
    ]
    return rows, -np.column_stack([each.fold_means for each in scores])


class Trial(NamedTuple):
    """Criteria of one fit."""

    n_pieces: int
    n_components: int
    log_likelihood: float
    n_parameters: int
    bic: float
    aic: float


@dataclass(frozen=True)
class Selection:
    """Fits over a grid of sizes."""

    trials: tuple[Trial, ...]
    best: Any
    """The fitted model with the lowest criterion."""
    criterion: str

    @property
    def n_pieces(self) -> int:
        """Number of pieces of the best model."""
        return int(self.best.n_pieces)

    @property
    def n_components(self) -> int:
        """Number of components of the best model."""
        return int(self.best.n_components)


def select_pieces(
    model: Any,
    X: Any,
    *,
    n_pieces: Iterable[int],
    n_components: Iterable[int],
    criterion: str,
    **fit_params: Any,
) -> Selection:
    """`select_rank` for each number of pieces; the lowest criterion wins, the smaller model in a tie.

    Parameters
    ----------
    model : PiecewisePCA
        Not modified; copies are fitted.
    X : table of shape (n_samples, n_features)
    n_pieces, n_components : iterables of int
    criterion : {"bic", "aic"}
    **fit_params : dict
        Further arguments of ``fit``.

    Returns
    -------
    Selection
    """
    if criterion not in ("bic", "aic"):
        raise ValueError(f"criterion must be 'bic' or 'aic'; got {criterion!r}.")
    if not isinstance(model.breakpoints, str):
        raise ValueError(
            "select compares numbers of pieces, so breakpoints cannot be given as numbers. "
            "Use breakpoints='quantile' or 'fit'."
        )
    pieces, ranks = sorted(n_pieces), list(n_components)
    if not pieces or not ranks:
        raise ValueError(
            "select needs at least one number of pieces and one of components; got an empty grid."
        )
    sized = (clone(model).set_params(n_pieces=k) for k in pieces)
    found = [select_rank(each, X, ranks=ranks, criterion=criterion, **fit_params) for each in sized]
    trials = [trial for k, ranked in zip(pieces, found, strict=True) for trial in _trials(k, ranked)]
    best = min(found, key=lambda ranked: float(ranked.values.min()))
    return Selection(tuple(trials), best.best_estimator_, criterion)


def _trials(n_pieces: int, ranked: RankSelection) -> list[Trial]:
    names = ("rank", "log_likelihood", "n_parameters", "bic", "aic")
    return [Trial(n_pieces, *(row[name] for name in names)) for row in ranked.rows]
