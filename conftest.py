"""Examples in docstrings: which of them can run, and what is to be cleaned up after them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

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
def _close_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what an example has drawn: many open figures are a warning, and warnings are errors."""
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
