"""Checked tables as row blocks, and the executors that visit them."""

from __future__ import annotations

from anypca.engine._interface import Block, Data, Executor, Statistics, Table
from anypca.engine.data import check_data, check_matrix
from anypca.engine.entries import hide_entries, take_entries
from anypca.engine.executors import executor_for
from anypca.engine.labels import decode, encode, find_labels
from anypca.engine.layout import Layout
from anypca.engine.summary import Summary, check_finite, check_values, first_outside, mark_missing, summarise
from anypca.engine.values import collect_columns

__all__ = [
    "Block",
    "Data",
    "Executor",
    "Layout",
    "Statistics",
    "Summary",
    "Table",
    "check_data",
    "check_finite",
    "check_matrix",
    "check_values",
    "collect_columns",
    "decode",
    "encode",
    "executor_for",
    "find_labels",
    "first_outside",
    "hide_entries",
    "mark_missing",
    "summarise",
    "take_entries",
]
