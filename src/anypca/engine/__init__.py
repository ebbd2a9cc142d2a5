"""Checked tables as row blocks, and the executors that visit them."""

from anypca._lazy import public as _public
from anypca.engine._interface import Block as Block
from anypca.engine._interface import Data as Data
from anypca.engine._interface import Executor as Executor
from anypca.engine._interface import Statistics as Statistics
from anypca.engine._interface import Table as Table
from anypca.engine._interface import alone as alone
from anypca.engine._interface import is_finite as is_finite
from anypca.engine.data import check_data as check_data
from anypca.engine.data import check_matrix as check_matrix
from anypca.engine.entries import hide_entries as hide_entries
from anypca.engine.entries import take_entries as take_entries
from anypca.engine.executors import executor_for as executor_for
from anypca.engine.summary import Summary as Summary
from anypca.engine.summary import check_finite as check_finite
from anypca.engine.summary import check_values as check_values
from anypca.engine.summary import first_outside as first_outside
from anypca.engine.summary import mark_missing as mark_missing
from anypca.engine.summary import summarise as summarise

__all__ = _public(globals())
