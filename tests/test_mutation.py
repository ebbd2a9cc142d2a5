"""The catalogue of mutations belongs to the code as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutation.catalogue import MUTATIONS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.file}: {mutation.name}")
def test_mutation_changes_one_place_and_names_tests_that_exist(mutation):
    text = (ROOT / "src" / "anypca" / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.old != mutation.new
    for test in mutation.tests.split():
        # A folder, a file, or a function in it.
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_part_is_covered():
    """At least four mutations in each folder of a model, the families, the engine, the solvers, selection."""
    models = (
        folder
        for folder in (ROOT / "src" / "anypca" / "models").iterdir()
        if (folder / "__init__.py").exists()
    )
    parts = ["families", "engine", "solvers", "selection", *(f"models/{folder.name}" for folder in models)]
    assert len(parts) > 18
    files = [mutation.file for mutation in MUTATIONS]
    scarce = [part for part in parts if sum(file.startswith(f"{part}/") for file in files) < 4]
    assert not scarce
    assert len(MUTATIONS) >= 60
