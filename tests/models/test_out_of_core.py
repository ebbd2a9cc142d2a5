"""Tables ten times larger than the memory that fits may take, which the operating system enforces."""

from __future__ import annotations

import sys

import pytest
from benchmarks import out_of_core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")


def test_a_table_ten_times_larger_than_memory() -> None:
    found = out_of_core.run(["PPCA"], 6.0, 120)
    assert isinstance(found["PPCA"], float), found


@pytest.mark.conformance
def test_every_model_on_a_table_ten_times_larger_than_memory() -> None:
    found = out_of_core.run(list(out_of_core.MODELS), 24.0, 200)
    assert not [name for name, told in found.items() if isinstance(told, str)], found
