"""The documents speak of everything that is public, and the examples of the gallery are in order.

Building the pages and running the examples takes minutes and is done by ``make docs``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import anypca
from anypca.datasets import make_low_rank
from anypca.families import column_forms, families
from anypca.families.auto import RULES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ESTIMATORS = [
    name
    for name in anypca.__all__
    if isinstance(getattr(anypca, name), type) and issubclass(getattr(anypca, name), BaseEstimator)
]
MODULES = [
    "",
    ".datasets",
    ".families",
    ".interpretation",
    ".io",
    ".plotting",
    ".priors",
    ".report",
    ".scverse",
    ".selection",
]
#: Public names that are no part of the reference: modules, the registries, and what has its page under another module.
UNLISTED = {"offsets", "selection", "families", "column_forms", "priors", "criteria", "rank_methods"}


def listed() -> dict[str, set[str]]:
    """Names in the reference, by module."""
    names: dict[str, set[str]] = {}
    module = ""
    families = runpy.run_path(str(DOCS / "_scripts" / "families_page.py"))["draw"]()
    text = (DOCS / "api" / "index.rst").read_text().replace(".. include:: families.rst", families)
    for line in text.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found.group(1)
        elif found := re.fullmatch(r"   ([A-Za-z]\w*)", line):
            names.setdefault(module, set()).add(found.group(1))
    return names


@pytest.mark.parametrize("module", MODULES, ids=lambda name: name or "anypca")
def test_the_reference_lists_every_public_name(module: str) -> None:
    public = set(importlib.import_module(f"anypca{module}").__all__) - UNLISTED
    elsewhere = {"load", "save"} if module == ".io" else set()
    assert public - elsewhere == listed()[f"anypca{module}"]


@pytest.mark.parametrize("name", [*families, *column_forms])
def test_the_docstring_of_a_family_has_what_its_page_is_for(name: str) -> None:
    text = (families if name in families else column_forms)[name].__doc__ or ""
    # Two values, labels without an order and labels of rows are told before distributions are compared.
    is_chosen = name in {*RULES, "bernoulli", "nominal", "excluded"}
    assert re.findall(r"(Not chosen|Chosen) by ``family=\"auto\"``", text) == [
        "Chosen" if is_chosen else "Not chosen"
    ]
    assert "See Also" in text
    assert "Examples" in text


@pytest.mark.parametrize("name", [*families, *column_forms])
def test_the_example_on_the_page_of_a_family_runs(name: str) -> None:
    cls: Any = (families if name in families else column_forms)[name]
    page = runpy.run_path(str(DOCS / "_scripts" / "families_page.py"))
    opening = page["draw_openings"]()[f"anypca.families.{cls.__name__}"]
    code = inspect.cleandoc(opening.partition("code-block:: python")[2].partition("\n\nOther columns")[0])
    column = page["_COLUMNS"].get(name, "column")
    rng = np.random.default_rng(0)
    table = make_low_rank(60, 5, 1, family="gaussian", random_state=0).X
    values = 1.0 + rng.poisson(2.0, 60) % 3
    table[:, 0] = {"bernoulli": values > 1, "logit_normal": values / 4}.get(name, values)
    table[0, 1] = np.nan
    space = {"table": pd.DataFrame(table, columns=[column, *"abcd"])}
    exec(code, space)
    assert np.isfinite(space["filled"]).all()
    (record,) = [each for each in space["model"].family_report_ if each.column == column]
    assert record.family == name


def test_the_reference_lists_the_offsets() -> None:
    functions = {name for name in vars(anypca.offsets) if name in listed()["anypca.offsets"]}
    assert functions == listed()["anypca.offsets"] == {"total_counts", "tss", "rle", "tmm"}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_page_with_the_same_parts(name: str) -> None:
    pages = [path.read_text() for path in (DOCS / "models").glob("*.md")]
    (page,) = [text for text in pages if f"{{py:obj}}`anypca.{name}`" in text]
    for part in ("Model", "Use it when", "Cost", "When it fails", "Experiments and examples"):
        assert f"\n## {part}\n" in page


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_in_the_gallery(name: str) -> None:
    # SPPCA is SSPPCA without the price of a loading, and has no example of its own.
    wanted = {"SPPCA": "SSPPCA"}.get(name, name)
    assert any(re.search(rf"\b{wanted}\(", path.read_text()) for path in EXAMPLES)


def test_the_gallery_is_ordered_and_large_enough() -> None:
    tree = ast.parse((DOCS / "conf.py").read_text())
    (order,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLES"
    ]
    assert sorted(f"plot_{name}.py" for name in order) == [path.name for path in EXAMPLES]
    assert len(order) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_compiles_and_opens_with_a_title_and_a_finding(path: Path) -> None:
    tree = ast.parse(path.read_text(), filename=str(path))
    compile(tree, str(path), "exec")
    title, rule, blank, *text = (ast.get_docstring(tree) or "").splitlines()
    assert set(rule) == {"="}
    assert len(rule) >= len(title)
    assert not blank
    assert len(text) >= 2
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {alias.name for node in imports if node.module == "anypca.datasets" for alias in node.names}
    # Others need files that are not part of the package.
    assert not {name for name in ours - {"load_digits_counts"} if name.startswith(("load_", "fetch_"))}


def test_the_page_on_models_names_every_family_that_auto_chooses() -> None:
    """And leads to the list of all, which is made from the registry."""
    page = (DOCS / "which_model.md").read_text()
    chosen = [*set(RULES).intersection(families), *column_forms]
    assert len(chosen) > 10
    assert not [name for name in chosen if not re.search(rf'[`"(=]{name}\b', page)]
    assert "(families.rst)" in page


def test_the_decision_diagram_leads_from_kinds_of_cells_to_pages() -> None:
    script = runpy.run_path(str(DOCS / "_scripts" / "decision_diagram.py"))
    picture = ET.fromstring(script["draw"]())
    links = [link.get("href", "") for link in picture.iter("{http://www.w3.org/2000/svg}a")]
    assert len(links) == sum(len(kind.leaves) for kind in script["KINDS"]) >= 10
    assert all((DOCS / link.replace(".html", ".md")).is_file() for link in links)
    reached = {Path(link).stem for link in links}
    assert reached == {path.stem for path in (DOCS / "models").glob("*.md")} - {"index"}
