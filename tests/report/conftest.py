"""Tables and models that the tests of the report share."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from anypca import PPCA

#: Names that would run code, close an element or be taken for markup if they were not escaped.
HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    '"><svg onload=window.hacked=1>',
    "<!-- <script> %{x} {title} &lt;b&gt;",
    '<a href="javascript:window.hacked=1">x</a>',
    "plain",
)


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


@pytest.fixture(scope="session")
def gaussian_table():
    """(60, 6): two groups of rows apart along the first component."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2)) * [3.0, 1.5]
    scores[:20, 0] += 8.0
    return scores @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(60, 6)) + 5.0


@pytest.fixture(scope="session")
def count_table():
    """(60, 6) counts of rank one."""
    rng = np.random.default_rng(1)
    return rng.poisson(np.exp(rng.normal(size=(60, 1)) @ rng.normal(size=(1, 6)) * 0.8 + 1.0)).astype(float)


@pytest.fixture(scope="session")
def ppca(gaussian_table):
    return PPCA(2).fit(gaussian_table)


@pytest.fixture(scope="session")
def read():
    """The page, its data for the script, and its HTML without scripts and style."""

    def parts(path):
        page = path.read_text(encoding="utf-8")
        (data,) = re.findall(r'<script type="application/json" id="report-data">(.*?)</script>', page)
        # The first two of these elements are plotly and the page's script.
        html = page.partition("<body>")[2].partition('<script type="application/json"')[0]
        return page, json.loads(data), html

    return parts
