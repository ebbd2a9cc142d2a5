"""Fixtures of all tests: random numbers, and examples in docstrings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest
from tests.draws import generator

#: Modules whose examples need an optional package.
_NEEDS = {
    "src/anypca/plotting": "matplotlib",
    "src/anypca/scverse": "anndata",
    "src/anypca/io/model_files.py": "skops",
    "src/anypca/engine/dask.py": "dask",
    "src/anypca/cli": "typer",
}
collect_ignore = [path for path, package in _NEEDS.items() if find_spec(package) is None]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return the generator of a test: its own numbers, the same in every order, shifted by ``ANYPCA_TEST_SEED``."""
    return generator(request.node.name)


@pytest.fixture(autouse=True)
def _reset_module_generator(request: pytest.FixtureRequest) -> None:
    """Reset the ``RNG`` of a test's module to the state of the fixture ``rng``."""
    module_generator = getattr(getattr(request.node, "module", None), "RNG", None)
    if isinstance(module_generator, np.random.Generator):
        module_generator.bit_generator.state = generator(request.node.name).bit_generator.state


@pytest.fixture(autouse=True)
def _close_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what an example has drawn: many open figures are a warning, and warnings are errors."""
    yield
    if isinstance(request.node, pytest.DoctestItem) and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
