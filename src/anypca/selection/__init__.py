"""Choosing the number of components, for any estimator that has one."""

from __future__ import annotations

from anypca.models._criteria import Criterion, FitFacts, Likelihood, criteria
from anypca.selection.biwhitening import Biwhitening
from anypca.selection.compare import RankComparison, compare_ranks
from anypca.selection.diagnostics import Diagnostic, diagnose
from anypca.selection.entry_cv import EntryScores, entry_cross_validate, rank_path
from anypca.selection.facts import describe_fit
from anypca.selection.fitted_ranks import BICMethod, HiddenEntries, ICLMethod, SePCAMethod
from anypca.selection.rank_methods import RankAnswer, RankMethod, rank_methods
from anypca.selection.select import RankSelection, select_rank
from anypca.selection.spectra import (
    BiCrossValidation,
    GavishDonoho,
    Minka,
    ParallelAnalysis,
    ParametricParallelAnalysis,
    ScreeNot,
)
from anypca.selection.splits import EntryKFold, EntryShuffleSplit
from anypca.selection.survival import SurvivalCurve, survival_curve
from anypca.selection.thinning import DataThinning

__all__ = [
    "BICMethod",
    "BiCrossValidation",
    "Biwhitening",
    "Criterion",
    "DataThinning",
    "Diagnostic",
    "EntryKFold",
    "EntryScores",
    "EntryShuffleSplit",
    "FitFacts",
    "GavishDonoho",
    "HiddenEntries",
    "ICLMethod",
    "Likelihood",
    "Minka",
    "ParallelAnalysis",
    "ParametricParallelAnalysis",
    "RankAnswer",
    "RankComparison",
    "RankMethod",
    "RankSelection",
    "ScreeNot",
    "SePCAMethod",
    "SurvivalCurve",
    "compare_ranks",
    "criteria",
    "describe_fit",
    "diagnose",
    "entry_cross_validate",
    "rank_methods",
    "rank_path",
    "select_rank",
    "survival_curve",
]
