"""Choosing the number of components, for any estimator that has one."""

from __future__ import annotations

from anypca.models._criteria import Criterion, FitFacts, Likelihood, criteria
from anypca.selection.entry_cv import EntryScores, entry_cross_validate, rank_path
from anypca.selection.facts import describe_fit
from anypca.selection.select import RankSelection, select_rank
from anypca.selection.splits import EntryKFold, EntryShuffleSplit
from anypca.selection.survival import SurvivalCurve, survival_curve

__all__ = [
    "Criterion",
    "EntryKFold",
    "EntryScores",
    "EntryShuffleSplit",
    "FitFacts",
    "Likelihood",
    "RankSelection",
    "SurvivalCurve",
    "criteria",
    "describe_fit",
    "entry_cross_validate",
    "rank_path",
    "select_rank",
    "survival_curve",
]
