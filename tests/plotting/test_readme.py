"""The README's Python example runs and makes its picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_example(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(example.splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, str(README), "exec"), names)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert names["mean"].shape == names["std"].shape == (5, 2)


@pytest.mark.parametrize(
    "target", re.findall(r"\]\((?!http)([^)]+)\)", README.read_text(encoding="utf-8")), ids=str
)
def test_links_point_to_files(target):
    assert (README.parent / target).is_file()
