"""From the columns of a user's table to the columns of a model."""

from anypca.columns.redundant import find_redundant as find_redundant
from anypca.columns.redundant import report_left_out as report_left_out
