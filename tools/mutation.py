"""Mutation testing: change one operator or number of the source at a time and check that a test fails.

    make mutation MODULE=src/anypca/families/gamma.py TESTS=tests/mathematics

Draws mutants at random with cosmic-ray, runs the tests on each in a copy of the project, and prints the survivors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkItem, WorkResult

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "tests", "tools", "experiments", "benchmarks", "docs", "examples")
#: Annotations are not evaluated, so a mutated `X | None` changes nothing.
EQUIVALENT = "ReplaceBinaryOperator_BitOr"


def copy_project(to: Path) -> None:
    """Copy sources and tests, so that a mutant never touches the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "_build", "_generated", "results")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, to)


def write_config(folder: Path, module: Path, tests: list[str], timeout: float) -> None:
    """Write cosmic-ray's configuration for one module or package."""
    command = f"{sys.executable} -m pytest -x -q -n 2 --dist worksteal -p no:cacheprovider {' '.join(tests)}"
    config = {
        "module-path": str(module),
        "timeout": timeout,
        "excluded-modules": [],
        "test-command": command,
        "distributor": {"name": "local"},
    }
    lines = ["[cosmic-ray]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in config.items() if key != "distributor"]
    lines += ["[cosmic-ray.distributor]", 'name = "local"']
    (folder / "mutation.toml").write_text("\n".join(lines), encoding="utf8")


def keep_random_mutants(database: WorkDB, number: int, seed: int) -> None:
    """Keep ``number`` mutants."""
    items = [item for item in database.work_items if EQUIVALENT not in item.mutations[0].operator_name]
    # Not by their names, which are random: the same seed must keep the same mutants.
    items.sort(key=_place)
    database.clear()
    database.add_work_items(random.Random(seed).sample(items, min(number, len(items))))


def _place(item: WorkItem) -> tuple[str, tuple[int, int], str, int]:
    """Return where a mutant is, and which of the mutants there."""
    mutation = item.mutations[0]
    return str(mutation.module_path), mutation.start_pos, mutation.operator_name, mutation.occurrence


def survivors(results: Iterable[tuple[str, WorkResult]]) -> tuple[int, list[WorkResult]]:
    """Return how many mutants ran and the mutants that no test noticed."""
    ran = [result for _, result in results]
    return len(ran), [result for result in ran if not result.is_killed]


def main() -> int:
    """Run mutation tests on the modules of the command line; exit 1 if a mutant survives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("module", type=Path, help="a file or folder below src/anypca")
    parser.add_argument(
        "tests", nargs="*", default=["tests"], help="files and folders of tests; default: all"
    )
    parser.add_argument("--number", type=int, default=10, help="how many mutants are drawn; default: 10")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw; default: 0")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for the tests of one mutant")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anypca-mutation-") as name:
        folder = Path(name)
        copy_project(folder)
        write_config(folder, options.module, options.tests, options.timeout)
        environment = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

        def cosmic_ray(*arguments: str) -> None:
            command = [sys.executable, "-m", "cosmic_ray.cli", *arguments]
            subprocess.run(command, cwd=folder, env=environment, check=True)

        cosmic_ray("init", "mutation.toml", "mutants.sqlite")
        with use_db(folder / "mutants.sqlite", WorkDB.Mode.open) as database:
            keep_random_mutants(database, options.number, options.seed)
        cosmic_ray("exec", "mutation.toml", "mutants.sqlite")
        with use_db(folder / "mutants.sqlite", WorkDB.Mode.open) as database:
            ran, alive = survivors(database.results)
    for result in alive:
        print(result.diff, end="\n\n")
    print(f"{options.module}: {ran - len(alive)} of {ran} mutants killed")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
