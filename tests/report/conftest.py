"""Tables, models and a reader of pages that the tests of the report share."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.draws import generator

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
    rng = generator("gaussian")
    scores = rng.normal(size=(60, 2)) * [3.0, 1.5]
    scores[:20, 0] += 8.0
    return scores @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(60, 6)) + 5.0


@pytest.fixture(scope="session")
def count_table():
    """(60, 6) counts of rank one."""
    rng = generator("counts")
    z = rng.normal(size=(60, 1))
    return rng.poisson(np.exp(z @ [[0.8, -0.6, 0.5, 0.7, -0.9, 0.4]] + 1.0)).astype(float)


@pytest.fixture(scope="session")
def ppca(gaussian_table):
    return PPCA(2).fit(gaussian_table)


@dataclass(frozen=True)
class Page:
    """A page as tests look at it: this is the one place that knows how the data of its script are stored."""

    text: str
    data: dict[str, Any]
    html: str
    """Without scripts and style."""

    @property
    def rows(self) -> dict[str, Any]:
        """What the scatter of the rows shows."""
        return self.data["rows"]

    @property
    def scores(self) -> np.ndarray:
        """(n_rows, n_components)."""
        columns = []
        for each in self.rows["scores"]:
            codes = np.frombuffer(base64.b64decode(each["codes"]), dtype="<u2")
            columns.append(each["low"] + each["step"] * codes)
        return np.column_stack(columns)

    def bars(self, figure: str) -> dict[str, float]:
        """The lengths of the bars of a figure by their labels."""
        found = self.data["figures"][figure]
        (bars,) = found["marks"]
        if bars.get("across"):
            return dict(zip(found["y"]["labels"], bars["x"], strict=True))
        return dict(zip(map(str, bars["x"]), bars["y"], strict=True))

    def colours(self, group: str) -> dict[str, list[Any]]:
        """The values that rows can be coloured by, by column; None where missing."""
        found = {}
        for column in self.rows["columns"]:
            if column["group"] == group:
                codes = np.frombuffer(base64.b64decode(column["codes"]), dtype=np.uint8)
                found[column["name"]] = [None if code == 255 else column["levels"][code] for code in codes]
        return found


@pytest.fixture(scope="session")
def read():
    def parts(path):
        text = path.read_text(encoding="utf-8")
        (data,) = re.findall(r'<script type="application/json" id="report-data">(.*?)</script>', text)
        html = text.partition("<body>")[2].partition('<script type="application/json"')[0]
        return Page(text, json.loads(data, parse_constant=pytest.fail), html)

    return parts
