"""Choosing the number of components, for any estimator that has one."""

from anypca._lazy import public as _public
from anypca.models._criteria import Criterion as Criterion
from anypca.models._criteria import FitFacts as FitFacts
from anypca.models._criteria import Likelihood as Likelihood
from anypca.models._criteria import criteria as criteria
from anypca.models._cross_validation import HeldOut as HeldOut
from anypca.models._cross_validation import cross_validate as cross_validate
from anypca.selection.adequacy import Adequacy as Adequacy
from anypca.selection.adequacy import adequacy as adequacy
from anypca.selection.compare import RankComparison as RankComparison
from anypca.selection.compare import compare_ranks as compare_ranks
from anypca.selection.diagnostics import Diagnostic as Diagnostic
from anypca.selection.diagnostics import diagnose as diagnose
from anypca.selection.entry_cv import EntryScores as EntryScores
from anypca.selection.entry_cv import entry_cross_validate as entry_cross_validate
from anypca.selection.entry_cv import rank_path as rank_path
from anypca.selection.facts import describe_fit as describe_fit
from anypca.selection.rank_methods import BICMethod as BICMethod
from anypca.selection.rank_methods import Finding as Finding
from anypca.selection.rank_methods import HiddenEntries as HiddenEntries
from anypca.selection.rank_methods import ICLMethod as ICLMethod
from anypca.selection.rank_methods import Minka as Minka
from anypca.selection.rank_methods import ParallelAnalysis as ParallelAnalysis
from anypca.selection.rank_methods import ParametricParallelAnalysis as ParametricParallelAnalysis
from anypca.selection.rank_methods import RankAnswer as RankAnswer
from anypca.selection.rank_methods import RankMethod as RankMethod
from anypca.selection.rank_methods import SePCAMethod as SePCAMethod
from anypca.selection.rank_methods import rank_methods as rank_methods
from anypca.selection.select import RankSelection as RankSelection
from anypca.selection.select import select_rank as select_rank
from anypca.selection.splits import EntryKFold as EntryKFold
from anypca.selection.splits import EntryShuffleSplit as EntryShuffleSplit
from anypca.selection.survival import SurvivalCurve as SurvivalCurve
from anypca.selection.survival import survival_curve as survival_curve

__all__ = _public(globals())
