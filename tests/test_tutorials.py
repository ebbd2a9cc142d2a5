"""The code of the tutorials prints the output that the pages show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs" / "tutorials").glob("*.md"))
CODE = {
    page.stem: re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), re.S) for page in PAGES
}


def test_there_is_one_for_each_field():
    assert {name for name, blocks in CODE.items() if blocks} == {
        "survey",
        "otu",
        "single_cells",
        "bibliometrics",
    }


@pytest.mark.filterwarnings("ignore:covariates separate")
@pytest.mark.parametrize("name", [name for name, blocks in CODE.items() if blocks])
def test_output(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pictures are saved there
    page = doctest.DocTestParser().get_doctest("\n\n".join(CODE[name]), {}, name, None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner().run(page, out=said.append)
    assert result.failed == 0, "".join(said)
    assert (tmp_path / f"tutorial_{name}.png").exists()
