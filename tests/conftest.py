"""Fixtures for all folders: random numbers, the skip of tests that need larger data, a browser."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from tests.draws import generator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of larger data sets if their folder is absent."""
    if os.path.isdir(os.environ.get("ANYPCA_DATA", "")):
        return
    skip = pytest.mark.skip(reason="needs larger data sets: set ANYPCA_DATA to their folder")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator for this test, which differs between tests and between values of ANYPCA_TEST_SEED."""
    return generator(request.node.nodeid)


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window; tests skip where it is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # No sandbox: it does not work for root, which is who runs in containers. No GPU, no shared memory: the same.
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()
