"""Numbers of components from fits of models to the table itself: criteria, hidden entries, SePCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from anypca.models import EPCA, SePCA
from anypca.selection.rank_methods import Finding, RankMethod, RankTask, rank_methods
from anypca.selection.select import select_rank
from anypca.selection.splits import EntryShuffleSplit


@dataclass(frozen=True)
class CriterionMethod(RankMethod):
    """`select_rank` over fits of `EPCA` with the columns' families."""

    criterion: ClassVar[str]

    def find(self, task: RankTask) -> Finding:
        return Finding(self._select(task))

    def _select(self, task: RankTask, **options: Any) -> int:
        estimator = EPCA(family=task.family, ridge=1.0, n_jobs=1, random_state=task.random_state)
        ranks = range(task.max_rank + 1)
        given = task.companions.for_fit()
        return select_rank(
            estimator, task.X, ranks=ranks, criterion=self.criterion, **options, **given
        ).best_rank


@rank_methods.register
@dataclass(frozen=True)
class BICMethod(CriterionMethod):
    """BIC of `EPCA` with the scores integrated out; ``"marginal_bic"`` of `select_rank`.

    See Also
    --------
    ICLMethod : counts also how sure scores are.
    """

    name = "bic"
    label = "BIC, scores integrated out"
    criterion = "marginal_bic"


@rank_methods.register
@dataclass(frozen=True)
class ICLMethod(CriterionMethod):
    """Integrated completed likelihood of `EPCA`; ``"icl"`` of `select_rank`.

    See Also
    --------
    BICMethod : without that.
    """

    name = "icl"
    label = "integrated completed likelihood"
    criterion = "icl"


@rank_methods.register
@dataclass(frozen=True)
class HiddenEntries(CriterionMethod):
    """The rank that predicts hidden entries best; ``"held_out"`` of `select_rank`.

    Parameters
    ----------
    cv : EntryKFold, EntryShuffleSplit or int, optional
        Which entries are hidden; by default a tenth, three times.

    See Also
    --------
    EntryKFold : hides them.
    """

    name = "held_out"
    label = "hidden entries"
    criterion = "held_out"

    cv: Any = None

    def find(self, task: RankTask) -> Finding:
        cv = EntryShuffleSplit(3, random_state=task.random_state) if self.cv is None else self.cv
        return Finding(self._select(task, cv=cv))


@rank_methods.register
@dataclass(frozen=True)
class SePCAMethod(RankMethod):
    """The dimension that `anypca.SePCA` chooses while it fits.

    See Also
    --------
    Minka : real numbers, in closed form.
    """

    name = "sepca"
    label = "SePCA"

    def find(self, task: RankTask) -> Finding:
        model = SePCA(task.max_rank, family=task.family, n_jobs=1, random_state=task.random_state)
        return Finding(int(model.fit(task.X, **task.companions.for_fit()).n_components_))
