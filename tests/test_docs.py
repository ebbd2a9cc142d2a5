"""The documents name everything that is public, and what they show runs.

Building the pages and running the gallery takes minutes and is done by ``make docs``.
"""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import anypca
from anypca.columns import column_forms
from anypca.families import families
from tests.draws import generator

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ESTIMATORS = [
    name
    for name in anypca.__all__
    if isinstance(getattr(anypca, name), type) and issubclass(getattr(anypca, name), BaseEstimator)
]
SUBMODULES = ["datasets", "families", "interpretation", "io", "plotting", "priors", "report", "scverse"]
#: Public names that are no part of the reference: modules, the registries, and what has its page under another module.
UNLISTED = {"offsets", "selection", "families", "column_forms", "priors", "criteria", "rank_methods"}
ELSEWHERE = {"anypca.io": {"load", "save"}}


@pytest.fixture(scope="module")
def families_page():
    return runpy.run_path(str(DOCS / "_scripts" / "families_page.py"))


def test_the_reference_lists_every_public_name(families_page):
    names, module = {}, ""
    text = (
        (DOCS / "api" / "index.rst").read_text().replace(".. include:: families.rst", families_page["draw"]())
    )
    for line in text.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found.group(1)
        elif found := re.fullmatch(r"   ([A-Za-z]\w*)", line):
            names.setdefault(module, set()).add(found.group(1))
    for module in ("anypca", "anypca.selection", *(f"anypca.{name}" for name in SUBMODULES)):
        public = set(importlib.import_module(module).__all__) - UNLISTED
        assert public - ELSEWHERE.get(module, set()) == names[module], module
    assert names["anypca.offsets"] <= vars(anypca.offsets).keys()


@pytest.mark.parametrize("name", [*families, *column_forms])
def test_the_example_on_the_page_of_a_family_runs(name, families_page):
    cls = (families if name in families else column_forms)[name]
    opening = families_page["draw_openings"]()[f"{cls.__module__.rpartition('.')[0]}.{cls.__name__}"]
    code = inspect.cleandoc(opening.partition("code-block:: python")[2].partition("\n\nOther columns")[0])
    (column,) = set(re.findall(r'family=\{"([^"]+)"', code)) or {"column"}
    rng = generator("page", name)
    values = 1.0 + rng.permutation(np.arange(60)) % 3
    table = np.column_stack([values, rng.normal(size=(60, 4)) + rng.normal(size=(60, 1))])
    table[:, 0] = {"bernoulli": values > 1, "logit_normal": values / 4}.get(name, values)
    table[0, 1] = np.nan
    space = {"table": pd.DataFrame(table, columns=[column, *"abcd"])}
    exec(code, space)
    assert np.isfinite(space["filled"]).all()
    (record,) = [each for each in space["model"].family_report_ if each.column == column]
    assert record.family == name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_page_and_an_example(name):
    pages = [path.read_text() for path in (DOCS / "models").glob("*.md")]
    assert len([text for text in pages if f"{{py:obj}}`anypca.{name}`" in text]) == 1
    # SPPCA is SSPPCA without the price of a loading, and has no example of its own.
    wanted = {"SPPCA": "SSPPCA"}.get(name, name)
    assert any(re.search(rf"\b{wanted}\(", path.read_text()) for path in EXAMPLES)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    text = README.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, str(README), "exec"), names)
    assert names["filled"].notna().all(axis=None)
    assert [link for link in re.findall(r"\]\((?!http)([^)]+)\)", text) if not (ROOT / link).is_file()] == []
