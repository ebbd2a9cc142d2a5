"""From a user's table to the columns of a model: labels, encodings, families by values, redundant columns."""

from anypca._lazy import public as _public
from anypca.columns.choice import FamilyChoice as FamilyChoice
from anypca.columns.choice import ModelColumns as ModelColumns
from anypca.columns.choice import check_support as check_support
from anypca.columns.choice import choose_families as choose_families
from anypca.columns.choice import encode_columns as encode_columns
from anypca.columns.choice import raise_outside as raise_outside
from anypca.columns.choice import settle_family as settle_family
from anypca.columns.choice import warn_fractions as warn_fractions
from anypca.columns.encoding import categories_of as categories_of
from anypca.columns.encoding import cells_of as cells_of
from anypca.columns.encoding import decode as decode
from anypca.columns.encoding import encode as encode
from anypca.columns.encoding import find_labels as find_labels
from anypca.columns.encoding import labels_of as labels_of
from anypca.columns.encoding import named_columns as named_columns
from anypca.columns.forms import Excluded as Excluded
from anypca.columns.forms import Form as Form
from anypca.columns.forms import column_forms as column_forms
from anypca.columns.given import is_auto as is_auto
from anypca.columns.given import is_nonnegative as is_nonnegative
from anypca.columns.given import resolve_columns as resolve_columns
from anypca.columns.given import resolve_family as resolve_family
from anypca.columns.given import resolve_resolution as resolve_resolution
from anypca.columns.labels import are_names as are_names
from anypca.columns.layout import Layout as Layout
from anypca.columns.nominal import Nominal as Nominal
from anypca.columns.redundant import find_redundant as find_redundant
from anypca.columns.redundant import report_dropped as report_dropped
from anypca.columns.report import FamilyRecord as FamilyRecord
from anypca.columns.report import FamilyReport as FamilyReport
from anypca.columns.two_part import HurdleNegativeBinomial as HurdleNegativeBinomial
from anypca.columns.two_part import HurdlePoisson as HurdlePoisson
from anypca.columns.two_part import ZeroInflatedGamma as ZeroInflatedGamma
from anypca.columns.two_part import ZeroInflatedLogNormal as ZeroInflatedLogNormal
from anypca.columns.values import collect_columns as collect_columns

__all__ = _public(globals())
