"""What all tests share: the same random numbers in every order, and examples in docstrings."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

#: Modules whose examples need an optional package.
_NEEDS = {
    "src/anypca/plotting": "matplotlib",
    "src/anypca/scverse": "anndata",
    "src/anypca/io/model_files.py": "skops",
    "src/anypca/engine/dask.py": "dask",
    "src/anypca/cli": "typer",
}
collect_ignore = [path for path, package in _NEEDS.items() if find_spec(package) is None]


@pytest.fixture(autouse=True)
def _fresh_numbers(request: pytest.FixtureRequest) -> None:
    """Give every test the numbers of its own name from its module's ``RNG``, whichever tests ran before it."""
    module = getattr(request.node, "module", None)
    rng = getattr(module, "RNG", None)
    if isinstance(rng, np.random.Generator):
        rng.bit_generator.state = type(rng.bit_generator)(zlib.crc32(request.node.name.encode())).state


@pytest.fixture(autouse=True)
def _close_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what an example has drawn: many open figures are a warning, and warnings are errors."""
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
